"""The error that is left behind a model of the eye."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clquant import params
from clquant.quality import definitions
from clquant.quality.pair import Samples, as_pair
from clquant.runtime import CommandQueue

CONTRAST = 0.525 * math.log(11.0) + 3.91  # cycles per degree at which the eye's gain is 1/e, at 11 cd/m^2


def visual_error(
    original: Samples,
    result: Samples,
    dpi: float = 300.0,
    inches: float = 9.5,
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Mean squared error after both pictures pass a model of the eye, for halftones and dithers.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        Colour is reduced to Rec. 601 luma first. Lazy pictures of 8-bit levels are read in parts. Computed on the host,
        which holds a spectrum of 8 bytes per pixel.
    dpi, inches : float
        Pixels per inch, and the distance it is seen from.
    queue : pyopencl.CommandQueue, optional
        Of pictures on a device.
    memory : int or str, optional
        Host memory for parts of lazy pictures (see `clquant.images.lazy`), such as ``"1 GiB"``; default 512 MiB.

    Returns
    -------
    float
        Squared gray levels; lower is better. In double precision, rounded to ten digits.

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
    The low-pass form of R. Nasanen, "Visibility of halftone dot textures", IEEE Transactions on Systems, Man and
    Cybernetics 14 (1984), with luminance 11 cd/m^2 and unit gain at frequency 0; the picture's opposite edges meet.
    """
    per_degree = params.real("dpi", dpi, 1, 1e6) * params.real("inches", inches, 0.01, 1e6) * np.pi / 180.0
    pair = as_pair(original, result, memory)
    height, width = definitions.picture_shape(pair.shape)
    energy = definitions.visible_energy(height, width, pair.bands(queue), float(per_degree / CONTRAST))
    return definitions.rounded(energy)
