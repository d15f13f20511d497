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
from clquant.dask.chunks import Inner, blocks_tiling, checked, cropped, mapped, tiling_of
from clquant.dask.codebooks import fit as fit_codec
from clquant.dask.coding import compress_to, decode, encode
from clquant.dask.figures import index_counts, mse, palette_error, psnr, ssim
from clquant.dask.files import fit_many, stream
from clquant.dask.learning import histogram, learned
from clquant.dask.parts import here, store, written
from clquant.dask.quadtrees import leaves
from clquant.images import Picture
from clquant.images.file_sinks import About
from clquant.palette import engine
from clquant.runtime import InvalidArgument, Progress

__all__ = [
    "compress_to",
    "decode",
    "encode",
    "fit_codec",
    "fit_many",
    "halftone",
    "here",
    "histogram",
    "index_counts",
    "learned",
    "leaves",
    "mse",
    "palette_error",
    "predict",
    "psnr",
    "ssim",
    "store",
    "stream",
    "transform",
]


def predict(image: Any, palette: Palette, *, dither: Any, **options: Any) -> Any:
    """Build the lazy indices (H, W) of `clquant.palette.engine.predict`; serial scans go chunk by chunk."""
    scan = serial_scan(dither)
    if scan is not None:
        return chains.predict(image, palette, scan, options["color_space"])
    work = partial(_predicted, palette=palette, dither=dither, options=options)
    return mapped(image, work, tiling_of(dither), palette.index_dtype, None)


def transform(image: Any, palette: Palette, *, dither: Any, **options: Any) -> Any:
    """Build the lazy uint8 picture of `clquant.palette.engine.transform`; arguments as `predict`."""
    if serial_scan(dither) is not None:
        indices = predict(image, palette, dither=dither, **options)
        channels = (palette.colors.shape[1],)
        given = {"dtype": np.uint8, "meta": np.empty((0, 0, 0), np.uint8)}
        return indices.map_blocks(
            _colored, colors=palette.colors, new_axis=[2], chunks=(*indices.chunks, channels), **given
        )
    work = partial(_transformed, palette=palette, dither=dither, options=options)
    return mapped(image, work, tiling_of(dither), np.uint8, palette.colors.shape[1])


def halftone(image: Any, engine: Any, output: str, passes: int, out: Any, about: About, report: Progress) -> Any:
    """Halftone like `PinwheelHalftoner.transform`, lazily without `out`; bits take (H, ceil(W / 8))."""
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
    return written(lazy, out, about, report)


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


def _colored(indices: npt.NDArray[Any], colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.take(colors, indices, axis=0)


def _predicted(part: Picture, inner: Inner, palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return cropped(engine.predict(part, palette, dither=dither, **options), inner)


def _transformed(
    part: Picture, inner: Inner, palette: Palette, dither: Any, options: dict[str, Any]
) -> npt.NDArray[Any]:
    return cropped(engine.transform(part, palette, dither=dither, **options), inner)
