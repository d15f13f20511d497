"""`clquant bench`: how fast every engine is on this device, beside what the device could do at best."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

import clquant
from clquant import params, runtime
from clquant.cli import common, inputs, streams
from clquant.cli.outputs import STDOUT, Outputs
from clquant.cli.table import Table
from clquant.quality import psnr
from clquant.runtime import measure

HELP = "time every engine on this device"

EPILOG = """examples:
  clquant bench                          a made picture of 1024x1024
  clquant bench photo.jpg --device gpu
  clquant bench --side 4096 --json bench.json

End to end is from a picture in the host's memory to a result there; kernels is the device's own time. The device's
limits are measured in the same run. Beside other libraries: python -m benchmarks, in a checkout."""

Picture = npt.NDArray[np.uint8]
Job = tuple[str, Callable[[], object], Callable[[], float] | None]

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    parser.add_argument("picture", nargs="?", metavar="IN", help="a picture (default: one that is made)")
    parser.add_argument("--side", type=int, default=1024, help="side of the made picture, 64 to 16384 (default 1024)")
    parser.add_argument("--repeat", type=int, default=5, help="timed calls each, 1 to 1000 (default 5)")
    parser.add_argument(
        "--json",
        metavar="FILE",
        nargs="?",
        const=STDOUT,
        help="also write the tables to a file; without one, print them as JSON alone",
    )
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    repeat = params.integer("--repeat", args.repeat, 1, 1000)
    sources = inputs.expand([] if args.picture is None else [args.picture])
    places = Outputs(sources)
    if args.json not in (None, STDOUT):
        places.one(args.json, "--json")
    if args.picture is None:
        picture = made_picture(params.integer("--side", args.side, 64, 16384))
    else:
        read = inputs.read_picture(next(iter(sources)))
        picture = read[..., :3] if read.shape[2] >= 3 else read.repeat(3, axis=2)
    queue = common.open_queue(args)
    tables = [rates_table(measure.device_rates(queue)), _engines(queue, np.ascontiguousarray(picture), repeat)]
    if args.json != STDOUT and not args.quiet:
        streams.write_text("\n".join(table.text() for table in tables))
    if args.json is not None:
        content = {"clquant": clquant.__version__, "tables": [table.as_dict() for table in tables]}
        text = json.dumps(content, indent=1) + "\n"
        if args.json == STDOUT:
            streams.write_text(text)
        else:
            places.write(args.json, text.encode())
    return 0


def rates_table(rates: measure.DeviceRates) -> Table:
    """The device's own limits as a table."""
    table = Table(f"Device limits: {rates.device}", {"what": "limit", "value": "measured", "unit": "unit"})
    for name, value in dataclasses.asdict(rates).items():
        if name in RATES:
            what, unit = RATES[name]
            table.add(what=what, value=value, unit=unit)
    return table


def made_picture(side: int) -> Picture:
    """Folded gradients with grain, (side, side, 3): many colours, soft areas and edges."""
    y, x = np.mgrid[0:side, 0:side].astype(np.int32) * (1024 // min(side, 1024))
    grain = np.random.default_rng(1).integers(-6, 7, (side, side, 3), np.int16)
    planes = [np.abs((x * a + y * b) % 1020 - 510) // 2 for a, b in ((2, 1), (1, 3), (3, 2))]
    picture: Picture = np.clip(np.stack(planes, axis=-1) + grain, 0, 255).astype(np.uint8)
    return picture


def _engines(queue: runtime.CommandQueue, picture: Picture, repeat: int) -> Table:
    """End to end on the queue that users get; kernels, by calls of their own, on one whose events carry times."""
    height, width = picture.shape[:2]
    columns = {"job": "job", "ms": "end to end, ms", "kernels": "kernels, ms", "mpx": "Mpx/s", "psnr": "PSNR, dB"}
    table = Table(f"Engines, {width}x{height}, median of {repeat}", columns)
    profiled = _jobs(runtime.profiling_queue(queue.device), picture)
    rows: list[dict[str, float | str]] = []
    qualities: list[Callable[[], float] | None] = []
    for (name, call, quality), (_, profiled_call, _) in zip(_jobs(queue, picture), profiled, strict=True):
        ms = measure.time_call(call, repeat, budget_s=20).median_ms
        kernels = measure.kernel_ms(profiled_call, repeat=1, warmup=0)
        rows.append({"job": name, "ms": ms, "kernels": kernels, "mpx": height * width / ms * 1e-3})
        qualities.append(quality)
    # Last: it takes and gives back gigabytes, after which calls take twice as long.
    for row, quality in zip(rows, qualities, strict=True):
        table.add(**row, psnr=quality() if quality is not None else None)
    return table


def _jobs(queue: runtime.CommandQueue, picture: Picture) -> Iterator[Job]:
    """Name, call, and the quality of its result where that says something."""
    gray = picture[..., 1].copy()
    for colors in (16, 256):
        kmeans = clquant.KMeansPalette(colors, queue=queue)
        yield (
            f"k-means palette of {colors}: learn",
            lambda e=kmeans: e.fit(picture),  # type: ignore[misc]
            lambda e=kmeans: psnr(picture, e.transform(picture)),  # type: ignore[misc]
        )
        yield f"palette of {colors}: map", lambda e=kmeans: e.predict(picture), None  # type: ignore[misc]
    neuquant = clquant.NeuQuantCL(256, queue=queue)
    yield (
        "NeuQuant palette of 256: learn",
        lambda: neuquant.fit(picture),
        lambda: psnr(picture, neuquant.transform(picture)),
    )
    codec = clquant.VQCodec(256, queue=queue)
    yield (
        "VQ of 256, 4x4, gray: learn",
        lambda: codec.fit(gray),
        lambda: psnr(gray, np.asarray(codec.decode(codec.encode(gray), gray.shape))),
    )
    yield "VQ of 256, 4x4, gray: encode", lambda: codec.encode(gray), None
    halftoner = clquant.PinwheelHalftoner(queue=queue)
    yield "pinwheel halftone, gray", lambda: halftoner.transform(gray), None
    builder = clquant.QuadtreeBuilder(queue=queue)
    yield "quadtree", lambda: builder.build(picture), lambda: psnr(picture, builder.build(picture).render())
