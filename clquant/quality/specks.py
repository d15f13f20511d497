"""How far the worst pixels are off: what means over a picture do not show."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant.quality import definitions
from clquant.quality.pair import Pair, Samples, as_pair, pieces
from clquant.runtime import CommandQueue


def speck_error(original: Samples, result: Samples, *, queue: CommandQueue | None = None, memory: Any = None) -> float:
    """The difference that one pixel of a thousand exceeds, for dithers whose single pixels stand out.

    The differences of all samples are blurred by 1 2 1 along rows and columns (over 16), edges repeated; of a pixel the
    largest of its samples counts, and of all pixels the 99.9th percentile.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        As `mse` takes them. Lazy pictures of 8-bit levels are read in parts. Computed on the host, which holds the
        differences.
    queue : pyopencl.CommandQueue, optional
        Of pictures on a device.
    memory : int or str, optional
        Host memory for parts of lazy pictures (see `clquant.images.lazy`), such as ``"1 GiB"``; default 512 MiB.

    Returns
    -------
    float
        In units of the samples; lower is better. Of 8-bit levels exact sixteenths, the same on every machine.

    Raises
    ------
    InvalidType
        If one is no array of numbers.
    InvalidArgument
        If the shapes differ.
    FileError
        If a picture cannot be read.

    Notes
    -----
    Percentile pooling: A. K. Moorthy, A. C. Bovik, "Visual importance pooling for image quality assessment", IEEE
    Journal of Selected Topics in Signal Processing 3 (2009).
    """
    pair = as_pair(original, result, memory)
    definitions.picture_shape(pair.shape if isinstance(pair, Pair) else pair[0].shape)
    if isinstance(pair, Pair):
        hosts = (piece.on_host(queue) for piece in pieces(pair))
        differences = np.concatenate([np.subtract(second, first, dtype=np.int16) for first, second in hosts])
    else:
        differences = pair[1].astype(np.float64) - pair[0].astype(np.float64)
    return definitions.speck_error(differences)
