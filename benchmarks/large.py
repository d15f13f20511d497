"""Pictures larger than memory: peak memory by size, and time beside pieces in memory. `python -m benchmarks large`.

Each job runs in a process of its own, whose peak of resident memory the system tells. A process that imports everything
and works on one small picture takes the memory of the first row.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import clquant
from benchmarks import harness, large_hashes
from benchmarks.harness import Options, Picture, Table

SIDES = (1024, 4096, 8192, 16384, 32768, 65536, 131072)
CHUNK = 512
LIGHTS = 64
COLORS = 256
MEMORY = "512 MiB"
COLUMNS = {
    "side": "pixels a side",
    "method": "method",
    "seconds": "s",
    "mpx_s": "Mpx/s",
    "peak": "peak memory, MiB",
    "ratio": "time over pieces in memory",
    "mse": "MSE",
}
# Of a process; `ru_maxrss` would be no less than that of the process it comes from.
_PEAK = """
import json, pathlib, resource, sys, time

def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
"""
_CHILD = (
    _PEAK
    + """
import hashlib
import numpy as np
import zarr
import clquant
from clquant.images.lazy import BANDS_IN_MEMORY, memory_bytes

source, out, memory, colors, device, how = sys.argv[1:]
queue = clquant.runtime.default_queue(clquant.runtime.find_device(device) if device else None)
engine = clquant.KMeansPalette(int(colors), queue=queue)
warm = np.zeros((64, 64, 3), np.uint8)
warm[::2] = np.arange(64)[:, None]
engine.fit(warm).predict(warm)
seconds, most, digest = 0.0, None, hashlib.sha256()
if how == "lazy":
    begin = time.perf_counter()
    engine.fit(source, memory=memory).predict(source, out=out, memory=memory)
    seconds = time.perf_counter() - begin
    most = peak()
    stored = zarr.open(out, mode="r")
    for row in range(0, stored.shape[0], 512):
        digest.update(stored[row : row + 512].tobytes())
elif how == "pieces":
    stored = zarr.open(source, mode="r")
    rows = max(memory_bytes(memory) // (BANDS_IN_MEMORY * 3 * stored.shape[1]) // 512, 1) * 512
    counted = clquant.ColorHistogram(np.zeros((0, 3), np.uint8), np.zeros(0, np.int64))
    for row in range(0, stored.shape[0], rows):
        piece = stored[row : row + rows]
        begin = time.perf_counter()
        counted = counted + clquant.ColorHistogram.of(piece, queue=queue)
        seconds += time.perf_counter() - begin
    begin = time.perf_counter()
    engine.fit_histogram(counted)
    seconds += time.perf_counter() - begin
    for row in range(0, stored.shape[0], rows):
        piece = stored[row : row + rows]
        begin = time.perf_counter()
        indices = engine.predict(piece)
        seconds += time.perf_counter() - begin
        digest.update(indices.tobytes())
elif how == "copy":
    stored = zarr.open(source, mode="r")
    begin = time.perf_counter()
    for row in range(0, stored.shape[0], 512):
        stored[row : row + 512]
    seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "peak": most or peak(), "hash": digest.hexdigest()}))
"""
)
METHODS = {
    "clquant, zarr to zarr": "lazy",
    "pieces in memory, neither read nor written": "pieces",
    "reading alone": "copy",
}


def store(path: pathlib.Path, photo: Picture, side: int) -> None:
    """A zarr of a side, whose chunks are files of a photograph in `LIGHTS` lights, which links repeat."""
    import zarr

    rng = np.random.default_rng(1)
    tile = harness.photo_of_size(photo, CHUNK, CHUNK).astype(np.int16)
    shape, chunks = (side, side, 3), (CHUNK, CHUNK, 3)
    array = zarr.create_array(str(path), shape=shape, chunks=chunks, dtype="u1", overwrite=True)
    lights: dict[int, pathlib.Path] = {}
    for place in range((side // CHUNK) ** 2):
        row, column = divmod(place, side // CHUNK)
        light, file = (7 * row + column) % LIGHTS, path / "c" / str(row) / str(column) / "0"
        if light in lights:
            file.parent.mkdir(parents=True, exist_ok=True)
            os.link(lights[light], file)
            continue
        at = slice(row * CHUNK, (row + 1) * CHUNK), slice(column * CHUNK, (column + 1) * CHUNK)
        array[at] = np.clip(tile + rng.integers(-60, 60, 3, dtype=np.int16), 0, 255).astype(np.uint8)
        lights[light] = file


def measured(options: Options, source: pathlib.Path, out: pathlib.Path, how: str) -> dict[str, Any]:
    """Seconds, MiB and the hash of one job in a process of its own."""
    arguments = [str(source), str(out), MEMORY, str(COLORS), options.device or "", how]
    done = subprocess.run([sys.executable, "-c", _CHILD, *arguments], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def stores(options: Options, photo: Picture, folder: pathlib.Path, sides: tuple[int, ...] = SIDES) -> Table:
    """zarr to zarr, of growing sides, each a multiple of `CHUNK`."""
    note = (
        f"{COLORS} colours learned and mapped, memory='{MEMORY}'. Reading and writing are a part of the first method. "
        "The indices of the first two have the same hash."
    )
    table = Table("Pictures larger than memory: zarr", COLUMNS, note=note)
    source, out = folder / "source.zarr", folder / "out.zarr"
    for side in options.sizes(*sides):
        if options.is_over:
            table.note += f" The time budget ended before {side}."
            break
        store(source, photo, side)
        if not table.rows:
            table.add(side=side, method="nothing but a small picture", peak=measured(options, source, out, "")["peak"])
        found = {name: measured(options, source, out, how) for name, how in METHODS.items()}
        lazy, in_memory = (found[name] for name, how in METHODS.items() if how != "copy")
        if lazy["hash"] != in_memory["hash"]:
            raise clquant.DeviceError(f"{side} x {side} pixels in parts have other indices than in memory")
        pieces = in_memory["seconds"]
        for name, one in found.items():
            table.add(
                side=side,
                method=name,
                seconds=one["seconds"],
                mpx_s=side * side / one["seconds"] / 1e6,
                peak=one["peak"],
                ratio=one["seconds"] / pieces,
            )
        shutil.rmtree(out)
    return table


def scenes(options: Options, photo: Picture, folder: pathlib.Path) -> Iterator[Table]:
    """GeoTIFF to GeoTIFF by the command, beside GDAL's `rgb2pct.py`; both times include starting Python."""
    try:
        import rasterio
    except ImportError:
        return
    table = Table("A GeoTIFF in 256 colours, file to file", COLUMNS, note="Peak memory is of the process and its own.")
    peer = shutil.which("rgb2pct.py")
    for side in options.sizes(1024, 4096, 8192):
        source, out = folder / "scene.tif", folder / "out.tif"
        given = harness.photo_of_size(photo, side, side)
        _write_scene(rasterio, source, given)
        device = ["--device", options.device] if options.device else []
        calls = {
            "clquant palette": [sys.executable, "-m", "clquant", "palette", str(source), "-o", str(out), "-q", *device]
        }
        if peer is not None:
            calls["GDAL rgb2pct.py"] = [peer, str(source), str(out)]
        for name, call in calls.items():
            found = _timed(call)
            with rasterio.open(out) as made:
                colors = np.array([made.colormap(1)[i][:3] for i in range(256)], np.int16)
                error = np.square(colors[made.read(1)] - given.astype(np.int16), dtype=np.int32).mean()
            table.add(
                side=side,
                method=name,
                seconds=found["seconds"],
                mpx_s=side * side / found["seconds"] / 1e6,
                peak=found["peak"],
                mse=float(error),
            )
    if peer is None:
        table.add(method="GDAL rgb2pct.py: not installed")
    yield table


def _write_scene(rasterio: object, path: pathlib.Path, given: Picture) -> None:
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 5e5, 0, -10, 5e6)}
    shape = {"height": given.shape[0], "width": given.shape[1], "count": 3, "dtype": "uint8"}
    layout = {"tiled": True, "blockxsize": CHUNK, "blockysize": CHUNK, "compress": "deflate", "photometric": "RGB"}
    with rasterio.open(path, "w", driver="GTiff", **shape, **place, **layout) as file:
        file.write(np.moveaxis(given, 2, 0))


_TIMED = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"seconds": seconds, "peak": peak / (1024 if sys.platform != "darwin" else 1 << 20)}))
"""


def _timed(call: list[str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", _TIMED, *call], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run(options: Options) -> Iterator[Table]:
    """All tables; sides up to `--largest`."""
    photo = next(iter(harness.pictures(options).values()))
    with tempfile.TemporaryDirectory() as name:
        yield large_hashes.verbs(options, photo[:600, :700], pathlib.Path(name))
        yield stores(options, photo, pathlib.Path(name))
        yield from scenes(options, photo, pathlib.Path(name))


if __name__ == "__main__":
    harness.main(run)
