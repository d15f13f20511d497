"""The engines' verbs on Dask arrays: lazy arrays out, with the chunks of the image."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.dask.chunks import checked, mapped, on_grid, tiling_of
from clquant.dask.codebooks import fit as fit_codec
from clquant.dask.learning import histogram
from clquant.palette import engine

__all__ = ["encode", "fit_codec", "histogram", "predict", "transform"]


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


def _predicted(part: npt.NDArray[Any], palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return np.asarray(engine.predict(part, palette, dither=dither, **options))


def _transformed(part: npt.NDArray[Any], palette: Palette, dither: Any, options: dict[str, Any]) -> npt.NDArray[Any]:
    return np.asarray(engine.transform(part, palette, dither=dither, **options))


def _encoded(part: npt.NDArray[Any], codec: Any) -> npt.NDArray[Any]:
    return np.asarray(codec.encode(np.asarray(part)))
