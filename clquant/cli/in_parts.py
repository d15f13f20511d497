"""Pictures that `clquant halftone` and `clquant vq` read in parts: here, or by the workers of ``--cluster``."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.cli import cluster
from clquant.cli.inputs import Source
from clquant.images import geo, lazy, tiff_head
from clquant.images.decode import narrowed

ZARR = ".zarr"
# TIFFs of more pixels are worked on in parts.
MOST_PIXELS_AT_ONCE = 1 << 27


@dataclass(frozen=True)
class Parts:
    """An input that is not read at once.

    Attributes
    ----------
    path : str
    """

    path: str


def is_zarr(path: str) -> bool:
    """Whether a path is that of a zarr, by its name."""
    return path.rstrip("/" + os.sep).lower().endswith(ZARR)


def suffix_of(source: Source) -> str | None:
    """The suffix that the result of an input which is read in parts gets by default; None of others."""
    if source.piped:
        return None
    if lazy.is_store(source.path):
        return ZARR
    return ".tif" if _is_large_tiff(source.path) else None


def _is_large_tiff(path: str) -> bool:
    if geo.is_geotiff(path):
        return geo.is_installed()
    if os.path.splitext(path)[1].lower() not in geo.SUFFIXES:
        return False
    found = tiff_head.first_directory(path)
    pixels = found.get(tiff_head.WIDTH, 0) * found.get(tiff_head.HEIGHT, 0)
    return pixels > MOST_PIXELS_AT_ONCE and lazy.opened(path) is not None


def is_read(source: Source) -> bool:
    """Whether an input is a zarr or a TIFF so large that it is read in parts."""
    return suffix_of(source) is not None


def is_written(source: Source, target: str | None) -> bool:
    """Whether an input goes to its result in parts: into a zarr, or from one that is read in parts into a TIFF."""
    if source.piped or target is None:
        return False
    is_tiff = os.path.splitext(target)[1].lower() in geo.SUFFIXES
    return is_zarr(target) or (is_tiff and is_read(source))


def picture(args: argparse.Namespace, source: Source) -> Any:
    """A picture of which rows are read when they are needed, gray if that is asked for."""
    if args.cluster is not None:
        spread = cluster.picture(source.path)
        if spread.ndim == 3 and spread.shape[2] == 1:
            return spread[:, :, 0]
        if not args.gray or spread.ndim == 2:
            return spread
        return spread.map_blocks(luma, drop_axis=2, dtype=np.uint8, meta=np.empty((0, 0), np.uint8))
    opened: Any = lazy.opened(source.path)
    is_gray = opened is None or len(opened.shape) == 2 or opened.shape[2] == 1
    return Gray(opened) if args.gray and not is_gray else source.path


class Gray:
    """A lazy picture in gray."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.shape = tuple(source.shape[:2])
        self.dtype, self.ndim = np.dtype(np.uint8), 2
        self.chunks = tuple(getattr(source, "chunks", None) or ())[:2] or None

    def __getitem__(self, where: Any) -> npt.NDArray[np.uint8]:
        return luma(np.asarray(self._source[where]))


def luma(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Rec. 601 luma of pixels, as Pillow has it."""
    return np.asarray(PIL.Image.fromarray(narrowed(pixels)).convert("L"))
