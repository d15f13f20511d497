"""What every benchmark shares: options, pictures, peers, and one way to print and keep the tables.

A member is a module of this package with `run(options)`, which gives tables (a list, or one by one), and ends in
`harness.main(run)`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

import clquant
from clquant import runtime
from clquant.cli.bench import rates_table
from clquant.cli.table import Table
from clquant.runtime import measure
from clquant.runtime.measure import Timing, kernel_ms, time_call

__all__ = [
    "Options",
    "Table",
    "Timing",
    "batch_of",
    "device_table",
    "kernel_ms",
    "main",
    "options_from",
    "peer",
    "pictures",
    "synthetic_photo",
    "time_call",
    "to_size",
]

Picture = npt.NDArray[np.uint8]
SAMPLE = pathlib.Path(__file__).parent.parent / "docs" / "images" / "red_eyed_tree_frog.png"
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asked for.

    Attributes
    ----------
    images : Path or None
        A folder of pictures, or one picture; None takes the sample and synthetic ones.
    device : str or None
        As `clquant --device`.
    repeat : int
        Timed calls each; the median is shown.
    largest : int
        Longest side of the largest picture.
    quick : bool
        Small sizes and few repeats, to see that all runs.
    """

    images: pathlib.Path | None = None
    device: str | None = None
    repeat: int = 5
    largest: int = 2048
    quick: bool = False

    def queue(self) -> runtime.CommandQueue:
        """A queue with profiling on the chosen device; kernel times come from its events."""
        return runtime.profiling_queue(runtime.find_device(self.device) if self.device else None)

    def sizes(self, *sides: int) -> list[int]:
        """Those of the sides that the options admit, at least the first."""
        limit = min(self.largest, 512) if self.quick else self.largest
        return [side for side in sides if side <= limit] or [sides[0]]


def peer(module: str) -> Any | None:
    """A peer's module, or None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def pictures(options: Options, limit: int | None = None) -> dict[str, Picture]:
    """RGB pictures by name: of `--images`, else the shipped sample and one synthetic photo.

    Parameters
    ----------
    options : Options
    limit : int, optional
        At most that many, in the order of their names.
    """
    if options.images is None:
        found = {"synthetic": synthetic_photo(512, 768)}
        if SAMPLE.exists():
            found["sample"] = _read(SAMPLE)
        return found
    if options.images.is_file():
        return {options.images.stem: _read(options.images)}
    paths = sorted(p for p in options.images.rglob("*") if p.suffix.lower() in SUFFIXES)
    if not paths:
        raise runtime.FileError(f"no pictures in {str(options.images)!r}")
    return {path.stem: _read(path) for path in paths[:limit]}


def _read(path: pathlib.Path) -> Picture:
    with PIL.Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def synthetic_photo(height: int, width: int, seed: int = 0) -> Picture:
    """A made picture with what photos have: soft gradients, textures of all scales, hard edges, grain.

    Parameters
    ----------
    height, width : int
    seed : int

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        With hundreds of thousands of distinct colours per megapixel.
    """
    rng = np.random.default_rng(seed)
    picture = np.zeros((height, width, 3), np.float32)
    for octave in range(1, 8):
        cells = 1 << octave
        grid = rng.normal(0, 90 / 1.7**octave, (cells + 1, cells + 1, 3)).astype(np.float32)
        for c in range(3):
            layer = PIL.Image.fromarray(grid[..., c]).resize((width, height), PIL.Image.Resampling.BICUBIC)
            picture[..., c] += np.asarray(layer)
    y, x = np.mgrid[0:height, 0:width]
    for _ in range(12):
        cy, cx, r = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(0.03, 0.2) * min(height, width)
        inside = (y - cy) ** 2 + (x - cx) ** 2 < r * r
        picture[inside] += rng.normal(0, 60, 3).astype(np.float32)
    picture += rng.normal(0, 3, picture.shape).astype(np.float32)
    return np.clip(picture + 128, 0, 255).astype(np.uint8)


def to_size(picture: Picture, height: int, width: int) -> Picture:
    """The picture at that size: reduced if larger, repeated in mirror images if smaller."""
    if picture.shape[0] >= height and picture.shape[1] >= width:
        resized = PIL.Image.fromarray(picture).resize((width, height), PIL.Image.Resampling.LANCZOS)
        return np.asarray(resized)
    tile = np.concatenate([picture, picture[::-1]], axis=0)
    tile = np.concatenate([tile, tile[:, ::-1]], axis=1)
    times = (-(-height // tile.shape[0]), -(-width // tile.shape[1]), *([1] * (tile.ndim - 2)))
    return np.ascontiguousarray(np.tile(tile, times)[:height, :width])


def batch_of(picture: Picture, count: int, side: int) -> list[Picture]:
    """`count` square cuts out of a picture, at seeded positions: icons, thumbnails."""
    source = to_size(picture, max(side, picture.shape[0]), max(side, picture.shape[1]))
    rng = np.random.default_rng(1)
    rows = rng.integers(0, source.shape[0] - side + 1, count)
    columns = rng.integers(0, source.shape[1] - side + 1, count)
    return [np.ascontiguousarray(source[r : r + side, c : c + side]) for r, c in zip(rows, columns, strict=True)]


def device_table(options: Options) -> Table:
    """The device's own limits, measured now."""
    return rates_table(measure.device_rates(options.queue(), megabytes=64 if options.quick else 256))


def environment() -> dict[str, Any]:
    """Where and when a run was made: versions, processor, time."""
    packages = ("numpy", "pillow", "pyopencl", "scikit-learn", "scipy", "numba", "faiss-cpu", "imagequant", "torch")
    versions = {}
    for name in (*packages, "opencv-python-headless"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return {
        "clquant": clquant.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "packages": versions,
    }


def options_from(arguments: list[str] | None = None) -> tuple[Options, pathlib.Path | None]:
    """Parse a benchmark's command line; the second value is where the JSON goes."""
    parser = argparse.ArgumentParser(description="Time clquant beside its peers and the device's limits.")
    parser.add_argument("--images", type=pathlib.Path, help="a folder of pictures, or one picture")
    parser.add_argument("--device", help="number, kind or part of the name, as for the clquant command")
    parser.add_argument("--repeat", type=int, default=5, help="timed calls each (default 5)")
    parser.add_argument("--largest", type=int, default=2048, help="longest side of the largest picture")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all runs")
    parser.add_argument("--json", type=pathlib.Path, help="also write the tables to this file")
    found = parser.parse_args(arguments)
    repeat = min(found.repeat, 2) if found.quick else found.repeat
    return Options(found.images, found.device, repeat, found.largest, found.quick), found.json


def show(tables: Iterable[Table], json_path: pathlib.Path | None) -> None:
    """Print each table as it comes and, where a path is given, write all as JSON with the environment beside them."""
    shown = []
    for table in tables:
        print(table.text(), flush=True)
        shown.append(table.as_dict())
    if json_path is not None:
        content = {"environment": environment(), "tables": shown}
        json_path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main(run: Callable[[Options], Iterable[Table]]) -> None:
    """Run one member as a command."""
    options, json_path = options_from()
    try:
        show(itertools.chain([device_table(options)], run(options)), json_path)
    except runtime.ClquantError as error:
        sys.exit(f"benchmarks: {error}")
