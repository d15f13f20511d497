"""Image quantization on any OpenCL device, with the same bits on every machine."""

from clquant import quality, runtime
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.dithering.error_diffusion import ErrorDiffusion
from clquant.dithering.ordered import OrderedDither
from clquant.dithering.search import SearchDither
from clquant.halftone import PinwheelHalftoner, WeightTables, floyd_steinberg
from clquant.kmeans import KMeansPalette
from clquant.neuquant import NeuQuantCL
from clquant.palette.animation import quantize_frames, save_gif
from clquant.palette.engine import PaletteEngine
from clquant.quadtree import Quadtree, QuadtreeBuilder
from clquant.quantize import quantize
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
from clquant.vq import ClvqInfo, VQCodec, clvq_info

__version__ = "0.1.0"

__all__ = [
    "BuildError",
    "ClquantError",
    "ClvqInfo",
    "DeviceError",
    "DeviceMemoryError",
    "ErrorDiffusion",
    "FileError",
    "FormatError",
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
    "Quadtree",
    "QuadtreeBuilder",
    "SearchDither",
    "StoppedError",
    "VQCodec",
    "WeightTables",
    "clvq_info",
    "empty_pinned",
    "floyd_steinberg",
    "quality",
    "quantize",
    "quantize_frames",
    "runtime",
    "save_gif",
]
