"""What every benchmark shares: options, pictures, peers, and one way to print and keep the tables.

A member is a module of this package with `run(options)`, which gives tables (a list, or one by one), and ends in
`harness.main(run)`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import functools
import importlib
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

import clquant
from benchmarks import measure
from benchmarks.measure import Timing, kernel_ms, time_call
from clquant import runtime
from clquant.cli.table import Table

__all__ = [
    "Method",
    "Options",
    "Table",
    "Timing",
    "batch_of",
    "device_table",
    "kernel_ms",
    "main",
    "options_of",
    "parser",
    "peer",
    "photo_of_size",
    "pictures",
    "synthetic_photo",
    "table_from",
    "tell",
    "time_call",
    "to_size",
]

Picture = npt.NDArray[np.uint8]
SAMPLE = pathlib.Path(__file__).parent.parent / "docs" / "images" / "red_eyed_tree_frog.png"
LONGEST_COMPILATION_S = 20  # a first call that takes longer does so by what it computes
GRAIN = 61  # rows of noise that are repeated, their channels in turn
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}

RATES = {
    "copy_gbps": ("copy inside the device, read + write", "GB/s"),
    "float_gfma": ("float multiply-adds", "10^9/s"),
    "integer_gmad": ("32-bit integer multiply-adds", "10^9/s"),
    "small_reads_g": ("reads of 4 bytes at random places of 16 KB", "10^9/s"),
    "large_reads_g": ("the same of 16 MB", "10^9/s"),
    "local_reads_g": ("the same of 16 KB of local memory", "10^9/s"),
    "large_adds_g": ("atomic additions at random places of 64 MB", "10^9/s"),
    "local_adds_g": ("the same of 16 KB of local memory", "10^9/s"),
    "large_wait_ns": ("a read of 16 MB that the next one waits for", "ns"),
    "local_wait_ns": ("the same of local memory", "ns"),
    "upload_gbps": ("host to device, pageable", "GB/s"),
    "download_gbps": ("device to host, pageable", "GB/s"),
    "pinned_upload_gbps": ("host to device, pinned", "GB/s"),
    "pinned_download_gbps": ("device to host, pinned", "GB/s"),
    "launch_us": ("a launch among dependent ones", "us"),
    "round_trip_us": ("a launch and waiting for it", "us"),
}


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
    scale : float
        Share of the sizes of `dask_devices` and `folders`.
    deadline : float or None
        What `time.perf_counter()` says when no further measurement is to be begun.
    """

    images: pathlib.Path | None = None
    device: str | None = None
    repeat: int = 5
    largest: int = 2048
    quick: bool = False
    scale: float = 1.0
    deadline: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the time budget is used up."""
        return self.deadline is not None and time.perf_counter() > self.deadline

    def median_ms(self, call: Callable[[], object], most_s: float = 5.0) -> float | None:
        """Median milliseconds of a call; of very slow ones a single call's; None once the time budget is used up."""
        if self.is_over:
            return None
        first = time_call(call, 1, warmup=0).best_ms  # compiles, where there is something to compile
        if first > 1e3 * max(most_s, LONGEST_COMPILATION_S):
            return first
        # A size's second call may lock memory for the ones that come.
        return time_call(call, self.repeat, warmup=2, budget_s=most_s).median_ms

    def method_ms(self, method: Method, most_s: float = 5.0) -> tuple[float | None, Any]:
        """`median_ms` of a method, and what its last call gave; a peer that fails is named, and ends no run."""
        results: list[Any] = []

        def call() -> None:
            results[:] = [method.call()]

        try:
            return self.median_ms(call, most_s), results[0] if results else None
        except Exception as error:
            if method.name.startswith("clquant"):
                raise
            print(f"{method.name} fails: {error}", file=sys.stderr)
            return None, None

    def queue(self) -> runtime.CommandQueue:
        """A queue with profiling on the chosen device; kernel times come from its events."""
        return runtime.profiling_queue(runtime.find_device(self.device) if self.device else None)

    def sizes(self, *sides: int) -> list[int]:
        """Those of the sides that the options admit, at least the first."""
        limit = min(self.largest, 512) if self.quick else self.largest
        return [side for side in sides if side <= limit] or [sides[0]]


@dataclasses.dataclass(frozen=True)
class Method:
    """A way of doing a job.

    Attributes
    ----------
    name : str
    call : callable
        From host memory to host memory.
    kernel_ms : callable or None
        Milliseconds on the device alone, where that can be told.
    shown : callable or None
        From what `call` gives to a picture beside the original, where quality can be told.
    """

    name: str
    call: Callable[[], Any]
    kernel_ms: Callable[[], float] | None = None
    shown: Callable[[Any], Picture] | None = None


def peer(module: str) -> Any | None:
    """A peer's module, or None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


@functools.lru_cache(maxsize=2)
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


def photo_of_size(picture: Picture, height: int, width: int) -> Picture:
    """An RGB picture at any size with as many colours as photographs of that size have: enlarged smoothly, with grain.

    Repeating a small picture (`to_size`) would leave it with the colours of the small one.
    """
    image = PIL.Image.fromarray(picture)
    if picture.shape[0] >= height and picture.shape[1] >= width:
        return np.asarray(image.resize((width, height), PIL.Image.Resampling.LANCZOS))
    large = np.array(image.resize((width, height), PIL.Image.Resampling.BICUBIC))
    grain = np.rint(np.random.default_rng(0).normal(0, 2, (GRAIN, width, 3))).astype(np.int16)
    for row in range(0, height, GRAIN):
        rows = large[row : row + GRAIN]
        rows[...] = np.clip(rows + np.roll(grain, row // GRAIN, axis=2)[: len(rows)], 0, 255)
    return large


def batch_of(picture: Picture, count: int, side: int) -> list[Picture]:
    """`count` square cuts out of a picture, at seeded positions: icons, thumbnails."""
    source = to_size(picture, max(side, picture.shape[0]), max(side, picture.shape[1]))
    rng = np.random.default_rng(1)
    rows = rng.integers(0, source.shape[0] - side + 1, count)
    columns = rng.integers(0, source.shape[1] - side + 1, count)
    return [np.ascontiguousarray(source[r : r + side, c : c + side]) for r, c in zip(rows, columns, strict=True)]


def rates_table(rates: measure.DeviceRates) -> Table:
    """The device's own limits as a table."""
    table = Table(f"Device limits: {rates.device}", {"what": "limit", "value": "measured", "unit": "unit"})
    for name, value in dataclasses.asdict(rates).items():
        if name in RATES:
            what, unit = RATES[name]
            table.add(what=what, value=value, unit=unit)
    return table


def device_table(options: Options) -> Table:
    """The device's own limits, measured now."""
    return rates_table(measure.device_rates(options.queue(), megabytes=64 if options.quick else 256))


def checkout() -> dict[str, str]:
    """The checkout's commit, ending in + if tracked files differ from it, and its date; empty outside of Git."""
    calls = {
        "commit": ["git", "describe", "--always", "--abbrev=9", "--exclude=*", "--dirty=+"],
        "committed": ["git", "log", "-1", "--format=%cI"],
    }
    try:
        here = pathlib.Path(__file__).parent
        found = {name: subprocess.run(call, cwd=here, capture_output=True, text=True) for name, call in calls.items()}
    except OSError:
        return {}
    return {name: done.stdout.strip() for name, done in found.items() if done.returncode == 0}


def environment() -> dict[str, Any]:
    """Where and when a run was made: versions, commit, processor, time."""
    packages = ("numpy", "pillow", "pyopencl", "scikit-learn", "scipy", "numba", "faiss-cpu", "imagequant", "torch")
    versions = {}
    for name in (*packages, "opencv-python-headless"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return {
        "clquant": clquant.__version__,
        **checkout(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "packages": versions,
    }


def parser() -> argparse.ArgumentParser:
    """The command line that every benchmark has."""
    found = argparse.ArgumentParser(description="Time clquant beside its peers and the device's limits.")
    found.add_argument("--images", type=pathlib.Path, help="a folder of pictures, or one picture")
    found.add_argument("--device", help="number, kind or part of the name, as for the clquant command")
    found.add_argument("--repeat", type=int, default=5, help="timed calls each (default 5)")
    found.add_argument("--largest", type=int, default=2048, help="longest side of the largest picture (default 2048)")
    found.add_argument("--budget", type=float, metavar="SECONDS", help="begin no measurement after so long")
    found.add_argument("--quick", action="store_true", help="small sizes, to see that all runs")
    found.add_argument("--scale", type=float, default=1.0, help="share of the sizes of dask_devices and folders")
    found.add_argument("--json", type=pathlib.Path, help="also write the tables to this file")
    return found


def options_of(found: argparse.Namespace) -> Options:
    """The options of a parsed command line; the time budget begins now."""
    repeat = min(found.repeat, 2) if found.quick else found.repeat
    deadline = None if found.budget is None else time.perf_counter() + found.budget
    return Options(found.images, found.device, repeat, found.largest, found.quick, found.scale, deadline)


def tell(text: str) -> None:
    """Print a figure as it comes, before its table is whole."""
    print(text, file=sys.stderr, flush=True)


def table_from(content: dict[str, Any]) -> Table:
    """A table from its JSON."""
    table = Table(content["title"], content["columns"], content["note"])
    table.rows = content["rows"]
    return table


def show(tables: Iterable[Table], json_path: pathlib.Path | None) -> dict[str, Any]:
    """Print each table as it comes; give, and write where a path is given, all of them with the environment."""
    content: dict[str, Any] = {"environment": environment(), "tables": []}
    for table in tables:
        print(table.text(), flush=True)
        content["tables"].append(table.as_dict())
        if json_path is not None:
            json_path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return content


def main(run: Callable[[Options], Iterable[Table]]) -> None:
    """Run one member as a command."""
    found = parser().parse_args()
    options = options_of(found)
    try:
        show(itertools.chain([device_table(options)], run(options)), found.json)
    except runtime.ClquantError as error:
        sys.exit(f"benchmarks: {error}")
