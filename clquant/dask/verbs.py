"""The engines' verbs on Dask arrays: lazy arrays out, with the chunks of the image."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.palette import Palette, as_palette
from clquant.dask import chains
from clquant.dask.chains import serial_scan
from clquant.dask.chunks import Inner, Tiling, blocks_tiling, checked, cropped, mapped, on_grid, tiling_of
from clquant.dask.codebooks import fit as fit_codec
from clquant.dask.figures import mse, psnr, ssim
from clquant.dask.files import fit_many, stream
from clquant.dask.learning import histogram, learned
from clquant.dask.parts import store
from clquant.dask.quadtrees import leaves
from clquant.dask.work import named, told
from clquant.images import Picture
from clquant.images.file_sinks import About
from clquant.images.result_files import writing
from clquant.palette import engine
from clquant.runtime import InvalidArgument, InvalidType, Progress
from clquant.vq.blocks import BlockShape
from clquant.vq.clvq import Compressor
from clquant.vq.coder import check_size

__all__ = [
    "compress_to",
    "decode",
    "encode",
    "fit_codec",
    "fit_many",
    "halftone",
    "histogram",
    "learned",
    "leaves",
    "mse",
    "predict",
    "psnr",
    "ssim",
    "store",
    "stream",
    "transform",
]

# Chunks whose pixels stand alone.
PIXELS = Tiling(0, 1)


def predict(image: Any, palette: Palette, *, dither: Any, **options: Any) -> Any:
    """As `clquant.palette.engine.predict`, lazily.

    Parameters
    ----------
    image : dask.array.Array
    palette : Palette
    dither : None, bool, str or object
        Chunks of serial error diffusion are made one after the other (see `clquant.dask.chains`), all others alone.
    **options
        ``color_space`` and ``metric``.

    Returns
    -------
    dask.array.Array
        (H, W) of the palette's index dtype.
    """
    scan = serial_scan(dither)
    if scan is not None:
        return chains.predict(image, palette, scan, options["color_space"])
    work = partial(_predicted, palette=palette, dither=dither, options=options)
    return mapped(image, work, tiling_of(dither), palette.index_dtype, None)


def transform(image: Any, palette: Palette, *, dither: Any, **options: Any) -> Any:
    """As `clquant.palette.engine.transform`, lazily; arguments as `predict`.

    Returns
    -------
    dask.array.Array
        (H, W, 3 or 4) uint8.
    """
    if serial_scan(dither) is not None:
        indices = predict(image, palette, dither=dither, **options)
        channels = (palette.colors.shape[1],)
        given = {"dtype": np.uint8, "meta": np.empty((0, 0, 0), np.uint8)}
        return indices.map_blocks(
            _colored, colors=palette.colors, new_axis=[2], chunks=(*indices.chunks, channels), **given
        )
    work = partial(_transformed, palette=palette, dither=dither, options=options)
    return mapped(image, work, tiling_of(dither), np.uint8, palette.colors.shape[1])


def encode(image: Any, codec: Any, out: Any, about: About, report: Progress) -> Any:
    """As `VQCodec.encode`, lazily without `out`; chunks are moved to whole blocks.

    Parameters
    ----------
    image : dask.array.Array
    codec : VQCodec
        Fitted.
    out : object or None
        As that takes it.
    about : About
        What a file as `out` tells.
    report : Progress
        With `out`: told of blocks.

    Returns
    -------
    dask.array.Array, or what was given as `out`
        (ceil(H / p), ceil(W / q)) of the table's dtype.
    """
    p, q, *more = codec.codebook_.shape[1:]
    whole = checked(image)
    channels, own = (1 if whole.ndim == 2 else whole.shape[2]), (more or [1])[0]
    if channels != own:
        raise InvalidArgument(f"image has {channels} channels; this codebook is for {own}")
    rows, columns = (on_grid(whole.chunks[axis], size) for axis, size in ((0, p), (1, q)))
    chunks = tuple(-(-n // p) for n in rows), tuple(-(-n // q) for n in columns)
    dtype = np.uint8 if len(codec.codebook_) <= 256 else np.uint16
    lazy = mapped(whole.rechunk({0: rows, 1: columns}), partial(_encoded, codec=codec), PIXELS, dtype, None, chunks)
    return _written(lazy, out, about, _of_blocks(report, lazy))


def _written(lazy: Any, out: Any, about: About, report: Progress) -> Any:
    """A lazy result, or what it was written to."""
    with writing(out, about) as sink:
        return lazy if sink is None else store(lazy, sink, report)


def _of_blocks(report: Progress, table: Any, share: int = 1) -> Progress:
    """What is told of a table's rows, for one that is told of a share of its blocks."""
    if not report.wanted:
        return report
    return Progress(lambda row, rows: report.report(row * table.size // rows // share, table.size))


def compress_to(file: Any, image: Any, codec: Any, compressor: Compressor, embed: bool, report: Progress) -> None:
    """As `VQCodec.compress_to`: workers encode chunks, the table of all is coded here.

    Parameters
    ----------
    file : binary file
    image : dask.array.Array
    codec : VQCodec
        Fitted.
    compressor : Compressor
    embed : bool
    report : Progress
        Told of blocks.
    """
    shape = checked(image).shape[:2]
    table = encode(image, codec, None, About(), Progress(None))
    made = np.empty(table.shape, table.dtype)
    _written(table, made, About(), _of_blocks(report, table, 2))
    compressor.write_encoded(file, made, shape, embed, report)


def decode(indices: Any, codec: Any, shape: Any, out: Any, about: About, report: Progress) -> Any:
    """As `VQCodec.decode`, lazily without `out`.

    Parameters
    ----------
    indices : dask.array.Array
        (rows, columns) of integers.
    codec : VQCodec
        Fitted.
    shape : sequence of int or None
        As `VQCodec.decode` takes it.
    out, about, report
        As for `encode`.

    Returns
    -------
    dask.array.Array, or what was given as `out`
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
    lazy = indices.map_blocks(
        _decoded,
        codec=codec,
        dtype=np.uint8,
        chunks=tuple(chunks),
        new_axis=[2] if block.channels > 1 else None,
        meta=np.empty((0,) * len(chunks), np.uint8),
    )
    return _written(lazy, out, about, _of_blocks(report, indices))


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
        uint8 of the image's shape and chunks; of bits (H, ceil(W / 8)); with a palette (H, W) of its index dtype.

    Raises
    ------
    InvalidArgument
        If passes are asked for, or bits of a picture or of chunks that have none.
    """
    if passes:
        raise InvalidArgument(f"refine is {passes} for a Dask array; allowed: 0 (others need a picture in memory)")
    whole, chunks = checked(image), None
    block = params.integer("block_size", engine.block_size, 2, 64)
    work = partial(_halftoned, engine=engine, output=output)
    dtype, channels = np.dtype(np.uint8), whole.shape[2] if whole.ndim == 3 else None
    if engine.palette is not None:
        work = partial(_halftoned, engine=engine, output="levels")
        dtype, channels = as_palette(engine.palette).index_dtype, None
    elif output == "bits":
        chunks, channels = _bytes_of_bits(whole, engine, out), None
    lazy = mapped(whole, work, blocks_tiling(block), dtype, channels, chunks)
    return _written(lazy, out, about, report)


def _bytes_of_bits(image: Any, engine: Any, out: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Chunks of a picture's packed bits."""
    rows, columns = image.chunks[:2]
    if out is not None:
        raise InvalidArgument("out is given for output='bits'; allowed: 'values' and 'levels'")
    channels = 1 if image.ndim == 2 else image.shape[2]
    if channels != 1 or engine.levels != 2:
        raise InvalidArgument(
            f"output is 'bits' for {channels} channels at {engine.levels} levels; allowed: gray pictures at 2 levels"
        )
    if any(width % 8 for width in columns[:-1]):
        raise InvalidArgument(
            f"output is 'bits' for a Dask array of chunks of {columns[0]} columns; allowed: multiples of 8 but the last"
        )
    return rows, tuple(-(-width // 8) for width in columns)


def _halftoned(part: Picture, inner: Inner, engine: Any, output: str) -> npt.NDArray[Any]:
    """A chunk of a halftone; bits are those of its own pixels."""
    made = cropped(engine.transform(part, output="levels" if output == "bits" else output), inner)
    return np.packbits(made, axis=1) if output == "bits" else made


def _decoded(part: npt.NDArray[Any], codec: Any, block_info: Any = None) -> npt.NDArray[Any]:
    table = np.asarray(part)
    if not block_info:  # Dask looks at what an empty one gives
        return np.empty((0,) * (codec.codebook_.ndim - 1), np.uint8)
    row, column = (place[0] for place in block_info[0]["array-location"])
    with told(f"chunk at row {row}, column {column}"):
        return np.asarray(named(codec.decode)(table, block_info[None]["chunk-shape"]))


def _colored(indices: npt.NDArray[Any], colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.take(colors, indices, axis=0)


def _predicted(part: Picture, inner: Inner, palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return cropped(engine.predict(part, palette, dither=dither, **options), inner)


def _transformed(
    part: Picture, inner: Inner, palette: Palette, dither: Any, options: dict[str, Any]
) -> npt.NDArray[Any]:
    return cropped(engine.transform(part, palette, dither=dither, **options), inner)


def _encoded(part: Picture, inner: Inner, codec: Any) -> npt.NDArray[Any]:
    assert inner[0].start == inner[1].start == 0, "blocks are whole"
    return np.asarray(codec.encode(part))
