"""Every public call at several sizes, slowest per pixel first: what nobody measured, and cliffs as sizes grow.

`python -m benchmarks sweep --largest 8192`, or `python -m benchmarks.sweep --only Quadtree` for some of the rows. The
test of this module fails for a public function or method that has neither a row in `sweep_rows` nor a reason in
`LEFT_OUT`.
"""

from __future__ import annotations

import inspect
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import clquant
from benchmarks import harness, sweep_rows
from benchmarks.harness import Options, Picture, Table
from benchmarks.sweep_case import Case
from benchmarks.sweep_rows import Row
from clquant import panel, pillow, quality, runtime, tiles, video

SIDES = (512, 2048, 8192)
SMALL_SIDES = (64,)
# Above these a row is marked: nanoseconds per pixel at its largest size, on CPUs (of four cores) and elsewhere, and by
# how much more than the pixels the time grew between its last two sizes.
MOST_NS_ON_CPUS, MOST_NS = 20.0, 1.0
MOST_GROWTH = 1.3
# A call that takes longer at one size is not tried at the next.
LIMIT_S = 4.0
TURNS = 3

# Public names without a row.
LEFT_OUT = {
    "ClvqInfo": "the header of a file, as `clvq_info` gives it",
    "DominantColor": "a pair of values",
    "ErrorDiffusion": "stores its arguments",
    "GeoTiff": "names a file and its layout",
    "OrderedDither": "stores its arguments; `thresholds` gives a stored table",
    "SearchDither": "stores its arguments",
    "Palette": "at most 65,536 colours, and no pixels",
    "PaletteEngine": "what the three palette engines inherit; each verb has a row per engine",
    "WeightTables": "checks a table of 256 rows",
    "empty_pinned": "allocates",
    "register_codebook": "keeps a codebook by its hash",
    "runtime": "what the other names are made of",
    "IndexedImage.of_own": "stores its arguments",
    "ProductQuantizer.get_feature_names_out": "names columns",
    "ResidualQuantizer.get_feature_names_out": "names columns",
    "VectorQuantizer.get_feature_names_out": "names columns",
    "OrderedDither.thresholds": "a stored table",
    "PinwheelHalftoner.fit": "learns nothing",
    "ProductQuantizer.from_faiss": "copies codebooks",
    "ProductQuantizer.to_faiss": "copies codebooks",
    **{
        f"{kind}Quantizer.{verb}": "copies codebooks, whatever the rows were"
        for kind in ("Vector", "Product", "Residual")
        for verb in ("save", "load")
    },
    "SpatialPalette.fit_quality": "refused by this engine",
    "panel.PANELS": "a table",
    "panel.pack_codes": "part of `panel.Panel.pack`",
    "panel.pack_planes": "part of `panel.Panel.pack`",
    "panel.panel": "looks a name up",
    "tiles.PyramidReport": "what `tiles.quantize` says",
    "video.Animation": "the same as `clquant.Animation`",
    "video.animate": "the same as `clquant.animate`",
    "video.Frame": "a pair of values",
    "video.Frames": "what `video.frames` gives",
}
# Methods that store or give arguments, whatever their class.
ACCESSORS = ("get_params", "set_params")
MODULES = {"quality": quality, "video": video, "tiles": tiles, "panel": panel, "pillow": pillow}


def public_calls() -> list[str]:
    """Every public function, and every public method of the classes, as `sweep_rows.Row.of` names them."""
    found = []
    homes = [("", clquant), *((f"{name}.", module) for name, module in MODULES.items())]
    for prefix, name, value in ((p, n, getattr(m, n)) for p, m in homes for n in m.__all__):
        if inspect.isclass(value):
            found += [] if issubclass(value, Exception) else _methods(prefix + name, value)
        elif prefix or name not in MODULES:
            found.append(prefix + name)
    return found


def _methods(name: str, kind: type) -> list[str]:
    """Methods by name; of a class without any, its own name."""
    methods = [
        verb for verb, value in inspect.getmembers(kind, callable) if not verb.startswith("_") and verb not in ACCESSORS
    ]
    return [f"{name}.{verb}" for verb in methods] or [name]


def without_row(rows: Sequence[Row]) -> list[str]:
    """Public calls that have neither a row nor a reason to have none."""
    there = {row.of for row in rows}
    return [
        name for name in public_calls() if name not in there and not {name, name.rpartition(".")[0]} & LEFT_OUT.keys()
    ]


class Took(NamedTuple):
    """Seconds of a call: by the clock on the wall, and of the host's processors, PoCL's devices among them."""

    wall: float
    processor: float


def time_of(row: Row, turns: int) -> Took:
    """The least of several calls, after one that is not timed; one alone of calls that take longer than `LIMIT_S`."""
    row.call()
    took: list[Took] = []
    while len(took) < turns and sum(one.wall for one in took) <= LIMIT_S:
        begin = Took(time.perf_counter(), time.process_time())
        row.call()
        took.append(Took(time.perf_counter() - begin.wall, time.process_time() - begin.processor))
    return Took(min(one.wall for one in took), min(one.processor for one in took))


def sweep(
    photo: Picture, queue: runtime.CommandQueue, sides: Sequence[int], only: str, options: Options
) -> tuple[dict[str, list[Took]], dict[str, str]]:
    """Times by row's name, one per size, as far as `LIMIT_S` and the time budget admit; and errors by row's name."""
    times: dict[str, list[Took]] = {}
    errors: dict[str, str] = {}
    for place, side in enumerate(sides):
        with tempfile.TemporaryDirectory(prefix="clquant-sweep-") as folder:
            case = Case(harness.photo_of_size(photo, side, side), queue, pathlib.Path(folder))
            for row in sweep_rows.rows(case):
                before = times.setdefault(row.name, [])
                if only.lower() not in row.name.lower() or len(before) < place or options.is_over:
                    continue
                if row.name in errors or (before and before[-1].wall > LIMIT_S):
                    continue
                try:
                    before.append(time_of(row, TURNS if options.repeat > 1 else 1))
                except runtime.ClquantError as error:
                    errors[row.name] = str(error)
    return {name: took for name, took in times.items() if took}, errors


def table_of(times: dict[str, list[Took]], sides: Sequence[int], queue: runtime.CommandQueue) -> Table:
    """The rows by nanoseconds per pixel, the slowest first; with a mark where that or the growth is too much."""
    columns = {"call": "call", **{f"ms_{side}": f"{side}x{side}, ms" for side in sides}}
    columns |= {"ns": "ns per pixel", "host": "processor ns per pixel", "growth": "growth", "mark": "mark"}
    most = MOST_NS_ON_CPUS if runtime.open_session(queue).limits.is_cpu else MOST_NS
    table = Table(f"Every public call: {runtime.describe(queue.device)}", columns)
    lines = []
    for name, took in times.items():
        pixels = [side * side for side in sides[: len(took)]]
        ns, host = (seconds / pixels[-1] * 1e9 for seconds in took[-1])
        growth = took[-1].wall / took[-2].wall / (pixels[-1] / pixels[-2]) if len(took) > 1 else None
        is_slow = ns > most and pixels[-1] >= SIDES[0] ** 2
        marks = ["slow"] * is_slow + ["grows"] * (growth is not None and growth > MOST_GROWTH)
        ms = {f"ms_{side}": one.wall * 1e3 for side, one in zip(sides, took, strict=False)}
        lines.append((ns, {"call": name, **ms, "ns": ns, "host": host, "growth": growth, "mark": " ".join(marks)}))
    for _, cells in sorted(lines, key=lambda line: line[0], reverse=True):
        table.add(**cells)
    return table


def run(options: Options, sides: Sequence[int] = SIDES, only: str = "") -> Iterator[Table]:
    """The table of all rows."""
    photo = next(iter(harness.pictures(options).values()))
    queue = runtime.default_queue(runtime.find_device(options.device) if options.device else None)
    given = options.sizes(*sides)
    times, errors = sweep(photo, queue, given, only, options)
    yield table_of(times, given, queue)
    if errors:
        raise runtime.ClquantError("; ".join(f"{name}: {error}" for name, error in errors.items()))


def main() -> None:
    """The rows alone, with options of their own."""
    parser = harness.parser()
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has this text")
    parser.add_argument("--sides", metavar="N,N", help=f"sizes (default {','.join(map(str, SIDES))}, up to --largest)")
    parser.add_argument("--small", action="store_true", help="every row once, at 64x64, to see that all run")
    found = parser.parse_args()
    sides: Sequence[int] = SIDES
    if found.small:
        sides, found.repeat = SMALL_SIDES, 1
    elif found.sides:
        sides = [int(side) for side in found.sides.split(",")]
        found.largest = max(sides)
    options = harness.options_of(found)
    try:
        harness.show(run(options, sides, found.only), found.json)
    except runtime.ClquantError as error:
        sys.exit(f"benchmarks: {error}")


if __name__ == "__main__":
    main()
