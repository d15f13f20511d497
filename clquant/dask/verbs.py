"""The engines' verbs on Dask arrays: lazy arrays out, with the chunks of the image."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.palette import Palette, as_palette
from clquant.dask.chunks import blocks_tiling, checked, mapped, on_grid, tiling_of
from clquant.dask.codebooks import fit as fit_codec
from clquant.dask.figures import mse, psnr, ssim
from clquant.dask.files import fit_many, stream
from clquant.dask.learning import histogram
from clquant.dask.parts import store
from clquant.dask.quadtrees import leaves
from clquant.dask.work import named
from clquant.images import Picture
from clquant.images.file_sinks import About
from clquant.images.result_files import writing
from clquant.palette import engine
from clquant.runtime import InvalidArgument, InvalidType, Progress
from clquant.vq.blocks import BlockShape
from clquant.vq.coder import check_size

__all__ = [
    "decode",
    "encode",
    "fit_codec",
    "fit_many",
    "halftone",
    "histogram",
    "leaves",
    "mse",
    "predict",
    "psnr",
    "ssim",
    "store",
    "stream",
    "transform",
]


def predict(image: Any, palette: Palette, *, dither: Any, **options: Any) -> Any:
    """As `clquant.palette.engine.predict`, lazily.

    Parameters
    ----------
    image : dask.array.Array
    palette : Palette
    dither : None, bool, str or object
        None, or a way to dither whose pixels do not wait for all those above them
        (see `clquant.dask.chunks.tiling_of`).
    **options
        ``color_space`` and ``metric``.

    Returns
    -------
    dask.array.Array
        (H, W) of the palette's index dtype.
    """
    work = partial(_predicted, palette=palette, dither=dither, options=options)
    return mapped(image, work, tiling_of(dither), palette.index_dtype, None)


def transform(image: Any, palette: Palette, *, dither: Any, **options: Any) -> Any:
    """As `clquant.palette.engine.transform`, lazily; arguments as `predict`.

    Returns
    -------
    dask.array.Array
        (H, W, 3 or 4) uint8.
    """
    work = partial(_transformed, palette=palette, dither=dither, options=options)
    return mapped(image, work, tiling_of(dither), np.uint8, palette.colors.shape[1])


def encode(image: Any, codec: Any) -> Any:
    """As `VQCodec.encode`, lazily; chunks are moved to whole blocks.

    Parameters
    ----------
    image : dask.array.Array
    codec : VQCodec
        Fitted.

    Returns
    -------
    dask.array.Array
        (ceil(H / p), ceil(W / q)) of the table's dtype.
    """
    p, q = codec.codebook_.shape[1:3]
    whole = checked(image)
    rows, columns = (on_grid(whole.chunks[axis], size) for axis, size in ((0, p), (1, q)))
    aligned = whole.rechunk({0: rows, 1: columns})
    chunks = tuple(-(-n // p) for n in rows), tuple(-(-n // q) for n in columns)
    dtype = np.uint8 if len(codec.codebook_) <= 256 else np.uint16
    work = partial(_encoded, codec=codec)
    dropped = [2] if aligned.ndim == 3 else None
    return aligned.map_blocks(work, dtype=dtype, chunks=chunks, drop_axis=dropped, meta=np.empty((0, 0), dtype))


def decode(indices: Any, codec: Any, shape: Any) -> Any:
    """As `VQCodec.decode`, lazily.

    Parameters
    ----------
    indices : dask.array.Array
        (rows, columns) of integers.
    codec : VQCodec
        Fitted.
    shape : sequence of int or None
        As `VQCodec.decode` takes it.

    Returns
    -------
    dask.array.Array
        (H, W) or (H, W, C) uint8; chunks of the table's blocks.

    Raises
    ------
    InvalidArgument, InvalidType
        If the table or `shape` is not allowed. Indices that name no codeword are found when chunks are computed.
    """
    rows = codec.codebook_.reshape(len(codec.codebook_), *codec.codebook_.shape[1:3], -1)
    block = BlockShape(*rows.shape[1:])
    if indices.ndim != 2 or any(np.isnan(side) or side == 0 for side in indices.shape):
        raise InvalidArgument(f"indices is a Dask array of shape {indices.shape}; allowed: known (rows, columns)")
    if indices.dtype.kind not in "iu":
        raise InvalidType(f"indices is a Dask array of {indices.dtype}; allowed: integers")
    height, width = check_size(shape, indices.shape, block)
    chunks: list[tuple[int, ...]] = [
        (*(n * side for n in lengths[:-1]), total - side * sum(lengths[:-1]))
        for lengths, side, total in zip(indices.chunks, (block.rows, block.columns), (height, width), strict=True)
    ]
    if block.channels > 1:
        chunks.append((block.channels,))
    return indices.map_blocks(
        _decoded,
        codec=codec,
        dtype=np.uint8,
        chunks=tuple(chunks),
        new_axis=[2] if block.channels > 1 else None,
        meta=np.empty((0,) * len(chunks), np.uint8),
    )


def halftone(image: Any, engine: Any, output: str, passes: int, out: Any, about: About, report: Progress) -> Any:
    """As `PinwheelHalftoner.transform`, lazily without `out`.

    Parameters
    ----------
    image : dask.array.Array
    engine : PinwheelHalftoner
    output : str
    passes : int
        Of refinement.
    out : object or None
        As that takes it.
    about : About
        What a file as `out` tells.
    report : Progress
        With `out`: told of rows.

    Returns
    -------
    dask.array.Array, or what was given as `out`
        uint8 of the image's shape and chunks; with a palette (H, W) of its index dtype.

    Raises
    ------
    InvalidArgument
        If bits or passes are asked for.
    """
    for name, value, allowed in (("output", output, output != "bits"), ("refine", passes, passes == 0)):
        if not allowed:
            raise InvalidArgument(f"{name} is {params.shown(value)} for a Dask array; allowed: for a picture in memory")
    block = params.integer("block_size", engine.block_size, 2, 64)
    work = partial(_halftoned, engine=engine, output=output)
    if engine.palette is not None:
        dtype, channels = as_palette(engine.palette).index_dtype, None
    else:
        dtype, channels = np.dtype(np.uint8), image.shape[2] if image.ndim == 3 else None
    lazy = mapped(image, work, blocks_tiling(block), dtype, channels)
    with writing(out, about) as sink:
        return lazy if sink is None else store(lazy, sink, report)


def _halftoned(part: Picture, engine: Any, output: str) -> npt.NDArray[Any]:
    return np.asarray(engine.transform(part, output=output))


def _decoded(part: npt.NDArray[Any], codec: Any, block_info: Any = None) -> npt.NDArray[Any]:
    table = np.asarray(part)
    if not block_info:  # Dask looks at what an empty one gives
        return np.empty((0,) * (codec.codebook_.ndim - 1), np.uint8)
    try:
        return np.asarray(named(codec.decode)(table, block_info[None]["chunk-shape"]))
    except Exception as error:
        row, column = (place[0] for place in block_info[0]["array-location"])
        error.args = (f"chunk at row {row}, column {column}: {error}", *error.args[1:])
        raise


def _predicted(part: Picture, palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return np.asarray(engine.predict(part, palette, dither=dither, **options))


def _transformed(part: Picture, palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return np.asarray(engine.transform(part, palette, dither=dither, **options))


def _encoded(part: npt.NDArray[Any], codec: Any) -> npt.NDArray[Any]:
    return np.asarray(codec.encode(np.asarray(part)))
