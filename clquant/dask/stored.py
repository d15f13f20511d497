"""The picture in a .clvq file as one that is read in parts: only the bands that rows lie in are decoded."""

from __future__ import annotations

import copy
import os
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.dask import codec as chunked
from clquant.dask.parts import read_later
from clquant.images import files
from clquant.runtime import ClquantError, FormatError, InvalidType
from clquant.vq.codec import VQCodec
from clquant.vq.coding.bands import BandLayout
from clquant.vq.container import clvq_format
from clquant.vq.container.pipes import opened
from clquant.vq.container.reading import codebook_of


def decompressed(
    path: str | os.PathLike[str], codec: VQCodec | None = None, *, max_pixels: int = clvq_format.MAX_PIXELS
) -> Any:
    """The picture in a .clvq file as a Dask array of rows that workers decode.

    Parameters
    ----------
    path : path-like
        Which every worker finds.
    codec : VQCodec, optional
        With the codebook that the file names, if it does not hold it.
    max_pixels : int
        Files that claim more are refused; default 2^29.

    Returns
    -------
    dask.array.Array
        (H, W) or (H, W, C) uint8; chunks of about 16 Mpx, whole bands of the file.

    Raises
    ------
    FileError
        If the file cannot be read.
    FormatError, NotFittedError, InvalidArgument, InvalidType
        As `VQCodec.decompress_from`, or if an argument is not allowed; damage after the file's head is found
        when chunks are computed.
    """
    name, most = os.path.abspath(files.path_of(path)), params.integer("max_pixels", max_pixels, 1)
    if codec is not None and not isinstance(codec, VQCodec):
        raise InvalidType(f"codec is {params.shown(codec)}; allowed: VQCodec or None")
    own = VQCodec() if codec is None else copy.copy(codec).set_params(queue=None)
    with opened(name) as file:
        reader = clvq_format.Reader(file, most)
        header = reader.header
        if header.kind == clvq_format.CODEBOOK:
            raise FormatError("this .clvq file holds a codebook and no picture; allowed: files of pictures")
        codebook_of(reader, getattr(own, "codebook_", None), own.queue)
    shape = header.shape if header.channels == 1 else (*header.shape, header.channels)
    high = BandLayout(*header.table_shape).rows * header.block.rows
    rows = high * max(chunked.PIXELS_AT_ONCE // (high * shape[1]), 1)
    return read_later(partial(_decoded_rows, name, own, most), shape, np.uint8, [rows, shape[1]])


def _decoded_rows(path: str, codec: VQCodec, max_pixels: int, place: tuple[slice, ...]) -> npt.NDArray[np.uint8]:
    """Decode whole rows, given by slices of all axes."""
    rows = place[0].start, place[0].stop
    try:
        with opened(path) as file:
            return codec.decompress_from(file, max_pixels=max_pixels, rows=rows)
    except ClquantError as error:
        error.args = (f"rows {rows[0]} to {rows[1] - 1}: {error}", *error.args[1:])
        raise
