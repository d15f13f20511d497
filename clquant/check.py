"""Whether a device computes what it should: a golden job of every engine, against hashes that ship with the package."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.resources
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL

import clquant
from clquant.runtime import ClquantError, CommandQueue, philox4x32

HASHES = "check_hashes.json"

Arrays = Mapping[str, Any]
Job = Callable[[CommandQueue], Arrays]


@functools.cache
def picture(height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    """Ramps, tiles and grain by integer arithmetic alone, (H, W, C); a fourth channel has holes."""
    y, x = np.mgrid[0:height, 0:width]
    position = np.arange(height * width * channels, dtype=np.uint32)
    counter = np.stack([position, *[np.zeros_like(position)] * 3], axis=-1)
    grain = (philox4x32(counter, np.array([7, 0], np.uint32))[:, 0] >> np.uint32(27)).reshape(height, width, channels)
    planes = [np.abs((x * (5 + c) + y * (9 - 2 * c)) % 510 - 255) for c in range(min(channels, 3))]
    planes += [np.where((x // 8 + y // 8) % 3 == 0, 0, 255)] * (channels == 4)
    made = np.clip(np.stack(planes, axis=-1) + (grain if channels < 4 else grain * [1, 1, 1, 0]), 0, 255)
    return np.ascontiguousarray(made.astype(np.uint8))


def _colors(count: int) -> npt.NDArray[np.uint8]:
    return picture(count, 1, 3)[:, 0] ^ np.arange(count, dtype=np.uint8)[:, None]


def _kmeans(queue: CommandQueue) -> Arrays:
    model = clquant.KMeansPalette(16, init=_colors(16), max_iter=8, queue=queue).fit(picture(60, 84, 3))
    return {"palette": model.palette_.colors}


def _neuquant(queue: CommandQueue) -> Arrays:
    model = clquant.NeuQuantCL(16, queue=queue).fit(picture(60, 84, 3))
    return {"palette": model.palette_.colors}


def _sequential(queue: CommandQueue) -> Arrays:
    model = clquant.NeuQuantCL(256, mode="sequential", sample_factor=10, queue=queue).fit(picture(60, 84, 3))
    return {"palette": model.palette_.colors}


def _mapping(dither: str | None, channels: int = 3) -> Job:
    def run(queue: CommandQueue) -> Arrays:
        from clquant.palette import engine

        colors = _colors(24)
        if channels == 4:
            colors = np.vstack([np.insert(colors, 3, 255, axis=1), np.zeros((1, 4), np.uint8)])
        return {"indices": engine.predict(picture(60, 84, channels), colors, dither=dither, queue=queue)}

    return run


def _spatial(queue: CommandQueue) -> Arrays:
    return {"palette": clquant.SpatialPalette(8, queue=queue).fit(picture(60, 84, 3)).palette_.colors}


def _vq(queue: CommandQueue) -> Arrays:
    codec = clquant.VQCodec(16, queue=queue)
    codec.codebook_ = picture(64, 4, 1).reshape(16, 4, 4)
    return {"decoded": codec.decode(codec.encode(picture(50, 61, 1)), shape=(50, 61))}


def _vectors(queue: CommandQueue) -> Arrays:
    rows = picture(48, 20, 1).reshape(-1, 8)
    model = clquant.ProductQuantizer(2, 3, refine=2, max_iter=4, rotation="opq", queue=queue).fit(rows)
    weights = picture(3, 64, 1)[:, :, 0] * np.float16(0.01)
    scalars = clquant.scalar_codebook(weights, 5, axis=1, queue=queue)
    return {"rotation": model.rotation_, "codes": model.encode(rows), "scalars": scalars}


def _files(queue: CommandQueue) -> Arrays:
    codec = clquant.VQCodec(16, max_iter=4, state_size=4, tolerance=9.0, queue=queue).fit(picture(50, 61, 1))
    data = codec.compress(picture(50, 61, 1))
    return {"file": np.frombuffer(data, np.uint8), "decoded": codec.decompress(data)}


def _tile_palettes(queue: CommandQueue) -> Arrays:
    model = clquant.TilePalettes(2, 4, swap_rounds=2, queue=queue).fit(picture(32, 40, 3))
    return {"palette": model.palette_.colors, "indices": model.predict(picture(32, 40, 3))}


def _deep(queue: CommandQueue) -> Arrays:
    shown = picture(60, 84, 3) * np.uint16(257) - picture(60, 84, 3) // np.uint16(3)
    model = clquant.KMeansPalette(16, max_iter=4, queue=queue).fit(shown)
    return {"palette": model.palette_.colors, "indices": model.predict(shown)}


def _quality(queue: CommandQueue) -> Arrays:
    pictures = picture(60, 84, 3), picture(60, 84, 3) // 40 * 40 + np.uint8(20)
    measures = (clquant.quality.mse, clquant.quality.ssim)
    return {measure.__name__: np.float64(measure(*pictures, queue=queue)) for measure in measures}


def _halftone(block: int, refine: int = 0) -> Job:
    return lambda queue: {
        "levels": clquant.PinwheelHalftoner(block, queue=queue).transform(picture(70, 90, 1), refine=refine)
    }


def _quadtree(queue: CommandQueue) -> Arrays:
    tree = clquant.QuadtreeBuilder(9.0, queue=queue).build(picture(70, 90, 3))
    return {name: tree.leaves()[name] for name in ("x", "y", "size", "mean")}


JOBS: Mapping[str, Job] = {
    "k-means": _kmeans,
    "NeuQuant": _neuquant,
    "NeuQuant, sequential": _sequential,
    "mapping": _mapping(None),
    "mapping with alpha": _mapping(None, 4),
    "blue noise": _mapping("blue-noise"),
    "Floyd-Steinberg": _mapping("floyd-steinberg"),
    "dithering by search": _mapping("search"),
    "spatial palette": _spatial,
    "tile palettes": _tile_palettes,
    "16 bits": _deep,
    "VQ": _vq,
    "VQ, learned, in a file": _files,
    "vectors": _vectors,
    "halftone": _halftone(8),
    "halftone, large blocks": _halftone(32),
    "halftone, refined": _halftone(16, 1),
    "quadtree": _quadtree,
    "quality": _quality,
}


@dataclass(frozen=True)
class Outcome:
    """Outcome of one golden job.

    Attributes
    ----------
    job, digest : str
        SHA-256 in hexadecimal digits, empty if it failed.
    right : bool
    first_ms, again_ms : float
        With the kernels' builds, and without.
    error : str
    """

    job: str
    digest: str
    right: bool
    first_ms: float = 0.0
    again_ms: float = 0.0
    error: str = ""


def digest(arrays: Arrays) -> str:
    """SHA-256 of arrays by name: name, dtype, shape and bytes, little-endian."""
    total = hashlib.sha256()
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return total.hexdigest()


def expected() -> dict[str, str]:
    """The right digest of every job."""
    text = importlib.resources.files("clquant").joinpath(HASHES).read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def check(queue: CommandQueue, name: str) -> Outcome:
    """Run one job twice.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
    name : str
        Of `JOBS`.
    """
    found = ""
    times: list[float] = []
    for _ in range(2):
        began = time.perf_counter()
        try:
            again = digest(JOBS[name](queue))
        except ClquantError as error:
            return Outcome(name, found, False, error=f"{type(error).__name__}: {error}")
        times.append((time.perf_counter() - began) * 1e3)
        if found not in ("", again):
            return Outcome(name, again, False, times[0], times[1], "differs from time to time")
        found = again
    right = found == expected()[name]
    return Outcome(name, found, right, times[0], times[1], "" if right else "differs")


def machine() -> dict[str, str]:
    """Collect versions, system and processor, on which results could depend."""
    return {
        "clquant": clquant.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "Pillow": PIL.__version__,
        "PyOpenCL": importlib.metadata.version("pyopencl"),
        "system": platform.platform(),
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
    }


def processor() -> str:
    """The processor's name, with family, model and stepping where the system tells (Linux on x86)."""
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                fields.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    if "model name" not in fields:
        return platform.processor() or platform.machine()
    numbers = [f"{name} {fields[name]}" for name in ("cpu family", "model", "stepping") if name in fields]
    return ", ".join([fields["model name"], *numbers])
