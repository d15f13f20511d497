"""Image quantization on any OpenCL device, with the same bits on every machine."""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, whose import is half of what the command takes until Ctrl-C ends it quietly
if TYPE_CHECKING:
    from typing import Any

    from clquant import pillow, quality, runtime, tiles, video
    from clquant.color.indexed import IndexedImage
    from clquant.color.palette import Palette
    from clquant.dithering.alpha_edges import alpha_edges
    from clquant.dithering.error_diffusion import ErrorDiffusion
    from clquant.dithering.ordered import OrderedDither
    from clquant.dithering.search import SearchDither
    from clquant.halftone import PinwheelHalftoner, WeightTables
    from clquant.halftone.floyd_steinberg import floyd_steinberg
    from clquant.histogram.color_histogram import ColorHistogram
    from clquant.images.tiff.geo_files import GeoTiff
    from clquant.kmeans import KMeansPalette
    from clquant.neuquant import NeuQuantCL
    from clquant.one_call import DominantColor, dominant_colors, quantize
    from clquant.palette.engine import PaletteEngine
    from clquant.quadtree import Quadtree, QuadtreeBuilder
    from clquant.runtime import (
        BuildError,
        ClquantError,
        DeviceError,
        DeviceMemoryError,
        FileError,
        FormatError,
        InvalidArgument,
        InvalidType,
        NoDeviceError,
        NotFittedError,
        StoppedError,
        empty_pinned,
    )
    from clquant.spatial import SpatialPalette
    from clquant.targets.tilesets import TilePalettes
    from clquant.vectors import ProductQuantizer, ResidualQuantizer, VectorQuantizer, scalar_codebook
    from clquant.video import animate
    from clquant.video.animation import Animation, quantize_frames, save_animation, save_gif
    from clquant.vq import ClvqInfo, VQCodec, clvq_info, register_codebook

from clquant.executors import LOADERS  # noqa: E402, after what only type checkers read

__version__ = "1.0.0"

# Public names by the module that has them. Each is imported when it is first asked for, so that the command, and a
# program that uses one engine, start without the others.
_HOMES = {
    "clquant.color.indexed": ("IndexedImage",),
    "clquant.color.palette": ("Palette",),
    "clquant.dithering.alpha_edges": ("alpha_edges",),
    "clquant.dithering.error_diffusion": ("ErrorDiffusion",),
    "clquant.dithering.ordered": ("OrderedDither",),
    "clquant.dithering.search": ("SearchDither",),
    "clquant.halftone": (
        "PinwheelHalftoner",
        "WeightTables",
        "floyd_steinberg",
    ),
    "clquant.histogram.color_histogram": ("ColorHistogram",),
    "clquant.images.tiff.geo_files": ("GeoTiff",),
    "clquant.kmeans": ("KMeansPalette",),
    "clquant.neuquant": ("NeuQuantCL",),
    "clquant.video.animation": ("Animation", "quantize_frames", "save_animation", "save_gif"),
    "clquant.palette.engine": ("PaletteEngine",),
    "clquant.quadtree": (
        "Quadtree",
        "QuadtreeBuilder",
    ),
    "clquant.one_call": ("DominantColor", "dominant_colors", "quantize"),
    "clquant.runtime": (
        "BuildError",
        "ClquantError",
        "DeviceError",
        "DeviceMemoryError",
        "FileError",
        "FormatError",
        "InvalidArgument",
        "InvalidType",
        "NoDeviceError",
        "NotFittedError",
        "StoppedError",
        "empty_pinned",
    ),
    "clquant.spatial": ("SpatialPalette",),
    "clquant.targets.tilesets": ("TilePalettes",),
    "clquant.vectors": ("ProductQuantizer", "ResidualQuantizer", "VectorQuantizer", "scalar_codebook"),
    "clquant.video": ("animate",),
    "clquant.vq": (
        "ClvqInfo",
        "VQCodec",
        "clvq_info",
        "register_codebook",
    ),
}
_MODULES = ("pillow", "quality", "runtime", "tiles", "video")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Animation",
    "BuildError",
    "ClquantError",
    "ClvqInfo",
    "ColorHistogram",
    "DeviceError",
    "DeviceMemoryError",
    "DominantColor",
    "ErrorDiffusion",
    "FileError",
    "FormatError",
    "GeoTiff",
    "IndexedImage",
    "InvalidArgument",
    "InvalidType",
    "KMeansPalette",
    "NeuQuantCL",
    "NoDeviceError",
    "NotFittedError",
    "OrderedDither",
    "Palette",
    "PaletteEngine",
    "PinwheelHalftoner",
    "ProductQuantizer",
    "Quadtree",
    "QuadtreeBuilder",
    "ResidualQuantizer",
    "SearchDither",
    "SpatialPalette",
    "StoppedError",
    "TilePalettes",
    "VQCodec",
    "VectorQuantizer",
    "WeightTables",
    "alpha_edges",
    "animate",
    "clvq_info",
    "dominant_colors",
    "empty_pinned",
    "floyd_steinberg",
    "pillow",
    "quality",
    "quantize",
    "quantize_frames",
    "register_codebook",
    "runtime",
    "save_animation",
    "save_gif",
    "scalar_codebook",
    "tiles",
    "video",
]


def _lies_on_workers(value: Any) -> bool:
    """Return whether workers of Dask have a value, or will read it."""
    graph = getattr(value, "__dask_graph__", None)  # an xarray.DataArray has one always; None if its values are here
    return (graph is not None and graph() is not None) or getattr(value, "spread_by_dask", False) is True


def _load_workers() -> Any:
    """Load the executor of Dask's collections."""
    from clquant.dask.executor import EXECUTOR

    return EXECUTOR


LOADERS.append((_lies_on_workers, _load_workers))


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"clquant.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'clquant' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
