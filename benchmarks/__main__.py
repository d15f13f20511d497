"""`python -m benchmarks [TOPIC ...]`: all engines beside all peers, and how time grows; see `--help`."""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import pkgutil
import sys
import time
from collections.abc import Iterator

import benchmarks
from benchmarks import figures, harness
from clquant import runtime
from clquant.cli.table import Table

DEFAULT = ("peers", "growth")
EPILOG = """topics:
  peers     every engine beside all peers that are installed, time and quality (default)
  growth    time by size, by colours and codewords, by the number of pictures (default)
  sweep     every public call by size, slowest per pixel first
  limits    each hot kernel beside the device's limit for its bytes or operations
  figures   every figure the engines are built to reach
  papers    the tables of the papers that the engines follow, beside the same jobs here
  dask      jobs on a worker beside the plain call, and as many per worker on several
  dask_devices  jobs on one queue, on several, and on 1, 2, 4 ... workers; --scale 0.01 for small devices
  folders   the command on a folder of PNGs, by --jobs and --cluster
  all       these and every other module of this folder that has a run()

examples:
  python -m benchmarks --quick
  python -m benchmarks --largest 16384 --budget 600 --json out.json --plots docs/images
  python -m benchmarks --from out.json --plots docs/images --label h200"""


def members() -> list[str]:
    """The modules of this package that have a `run`, the default ones first."""
    names = [info.name for info in pkgutil.iter_modules(benchmarks.__path__) if not info.name.startswith("_")]
    names.remove("plots")  # which wants matplotlib
    found = [name for name in names if hasattr(importlib.import_module(f"benchmarks.{name}"), "run")]
    return [*DEFAULT, *(name for name in found if name not in DEFAULT)]


def tables(topics: list[str], options: harness.Options, failed: list[str]) -> Iterator[Table]:
    """Every topic's tables; one that fails is noted and does not keep the others from running."""
    yield harness.device_table(options)
    for name in topics:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        try:
            yield from importlib.import_module(f"benchmarks.{name}").run(options)
        except runtime.ClquantError as error:
            failed.append(f"{name}: {error}")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = harness.parser()
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("topics", nargs="*", metavar="TOPIC", default=[], help="what to measure (see below)")
    parser.add_argument("--plots", type=pathlib.Path, metavar="FOLDER", help="also draw plots there (needs matplotlib)")
    parser.add_argument("--label", help="in the plots' file names (default: the kind of device)")
    parser.add_argument(
        "--from",
        dest="sources",
        type=pathlib.Path,
        nargs="+",
        metavar="JSON",
        help="measure nothing, take a run's; of several runs, their figures side by side",
    )
    found = parser.parse_args(arguments)
    there = members()
    unknown = [topic for topic in found.topics if topic not in (*there, "all")]
    if unknown:
        parser.error(f"no topic {unknown[0]!r}; there are {', '.join(there)} and all")
    found.topics = there if "all" in found.topics else found.topics or list(DEFAULT)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure or read, print, draw; the exit code tells whether a topic failed."""
    found = parsed(arguments)
    failed: list[str] = []
    if found.sources is not None:
        contents = [json.loads(source.read_text(encoding="utf-8")) for source in found.sources]
        content = contents[0]
        shown = map(harness.table_from, content["tables"]) if len(contents) == 1 else [figures.side_by_side(contents)]
        for table in shown:
            print(table.text())
    else:
        content = harness.show(tables(found.topics, harness.options_of(found), failed), found.json)
    if found.plots is not None:
        plots = importlib.import_module("benchmarks.plots")
        for path in plots.draw(content, found.plots, found.label):
            print(f"drew {path}", file=sys.stderr)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
