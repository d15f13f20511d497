"""The engines' verbs on Dask arrays: lazy arrays out, with the chunks of the image."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.dask import chains
from clquant.dask.chains import serial_scan
from clquant.dask.chunks import Inner, cropped, mapped, tiling_of
from clquant.dask.codebooks import fit as fit_codec
from clquant.dask.coding import compress_to, decode, encode
from clquant.dask.executor import run
from clquant.dask.figures import index_counts, mse, palette_error, psnr, ssim
from clquant.dask.files import fit_many, stream
from clquant.dask.learning import histogram, learned
from clquant.dask.parts import here, store
from clquant.dask.quadtrees import leaves
from clquant.images import Picture
from clquant.palette import engine

__all__ = [
    "compress_to",
    "decode",
    "encode",
    "fit_codec",
    "fit_many",
    "here",
    "histogram",
    "index_counts",
    "learned",
    "leaves",
    "mse",
    "palette_error",
    "predict",
    "psnr",
    "run",
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


def _colored(indices: npt.NDArray[Any], colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.take(colors, indices, axis=0)


def _predicted(part: Picture, inner: Inner, palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return cropped(engine.predict(part, palette, dither=dither, **options), inner)


def _transformed(
    part: Picture, inner: Inner, palette: Palette, dither: Any, options: dict[str, Any]
) -> npt.NDArray[Any]:
    return cropped(engine.transform(part, palette, dither=dither, **options), inner)
