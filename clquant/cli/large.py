"""Pictures that are read and written by bands, here or by the workers of ``--cluster``: zarr, GeoTIFF, large TIFFs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.cli import common
from clquant.cli.common import STDOUT
from clquant.cli.inputs import Pair, Source
from clquant.images import lazy
from clquant.images.decode import narrowed
from clquant.images.tiff import directories, geo
from clquant.runtime import InvalidArgument

ZARR = ".zarr"
# Larger TIFFs are read by bands.
MOST_PIXELS_AT_ONCE = 1 << 27


def is_zarr(path: str) -> bool:
    """Whether a path is that of a zarr, by its name."""
    return path.rstrip("/" + os.sep).lower().endswith(ZARR)


def is_tiff(path: str) -> bool:
    """Whether a path is that of a TIFF, by its name."""
    return os.path.splitext(path)[1].lower() in geo.SUFFIXES


def suffix_of(source: Source) -> str | None:
    """Return the default suffix of the result of a zarr, GeoTIFF or large TIFF; None for other inputs."""
    if source.piped:
        return None
    if lazy.is_store(source.path):
        return ZARR
    return ".tif" if _is_large_tiff(source.path) else None


def _is_large_tiff(path: str) -> bool:
    if geo.is_geotiff(path):
        return geo.is_installed()
    if not is_tiff(path):
        return False
    found = directories.first_directory(path)
    pixels = found.get(directories.WIDTH, 0) * found.get(directories.HEIGHT, 0)
    return pixels > MOST_PIXELS_AT_ONCE and lazy.opened(path) is not None


def is_banded(args: argparse.Namespace, pair: Pair) -> bool:
    """Whether an input goes to its result by bands: into a zarr, or into a TIFF if it is large or options say so."""
    source, target = pair
    if source.piped or target is None or target == STDOUT:
        return False
    return is_zarr(target) or (is_tiff(target) and (bool(common.given(args, "bands")) or suffix_of(source) is not None))


def split(args: argparse.Namespace, pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split inputs into those that go by bands, after refusing options that need whole pictures, and the others."""
    banded = [pair for pair in pairs if is_banded(args, pair)]
    for name in common.given(args, "whole") if banded else ():
        raise InvalidArgument(f"--{name} needs the whole picture, but {banded[0][1]!r} is written in parts")
    return banded, [pair for pair in pairs if pair not in banded]


def picture(args: argparse.Namespace, source: Source) -> Any:
    """Open a picture whose rows are read when they are needed, gray with ``--gray``."""
    is_gray = getattr(args, "gray", False)
    if args.cluster is not None:
        from clquant.dask.parts import opened as opened_by_workers  # an extra

        spread = opened_by_workers(source.path)
        spread = spread[:, :, None] if spread.ndim == 2 else spread
        if not is_gray or spread.shape[2] == 1:
            return spread
        return spread.map_blocks(luma, chunks=(*spread.chunks[:2], (1,)), meta=np.empty((0, 0, 0), np.uint8))
    opened: Any = lazy.opened(source.path) if is_gray else None
    return source.path if opened is None or len(opened.shape) == 2 or opened.shape[2] == 1 else Gray(opened)


class Gray:
    """A lazy picture in gray."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.shape = (*source.shape[:2], 1)
        self.dtype, self.ndim = np.dtype(np.uint8), 3
        self.chunks = (*source.chunks[:2], 1) if getattr(source, "chunks", None) else None

    def __getitem__(self, where: Any) -> npt.NDArray[np.uint8]:
        return luma(np.asarray(self._source[where]))


def luma(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Rec. 601 luma (H, W, 1) of colours, as Pillow has it."""
    return np.asarray(PIL.Image.fromarray(narrowed(pixels)).convert("L"))[:, :, None]
