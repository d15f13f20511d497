"""`clquant tune`: measure tunable numbers on a device and keep those that are faster than the shipped ones."""

from __future__ import annotations

import argparse
import pathlib

from clquant import runtime
from clquant.cli import common, streams, tune_search
from clquant.cli.table import Table
from clquant.images import files
from clquant.runtime import FormatError, InvalidArgument
from clquant.runtime.program import tuning

HELP = "measure the numbers that suit a device best, and keep them"

EPILOG = """examples:
  clquant tune                    a minute or two on a GPU, some minutes on a CPU
  clquant tune --device gpu --quick
  clquant tune --dry-run          measure and print, keep nothing
  clquant tune --reset            forget what was kept for the device

Tuned are work-group sizes, work a launch, and thresholds between forms that give equal results: no value of any can
change a result, and the results of all timed calls are compared all the same. A value is kept where it was at least 5 %
faster than the shipped one, twice. They are kept in tuning.json in the folder of compiled programs (CLQUANT_CACHE_DIR);
CLQUANT_TUNING=off ignores that file."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    parser.add_argument("--quick", action="store_true", help="smaller pictures, neighbouring values alone")
    parser.add_argument("--dry-run", action="store_true", help="keep nothing")
    parser.add_argument("--reset", action="store_true", help="forget what was kept for the device, measure nothing")
    parser.add_argument("--list", action="store_true", help="print the numbers as they are now, measure nothing")
    parser.add_argument("--json", action="store_true", help="print the tables as JSON")
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print, keep."""
    if sum((args.dry_run, args.reset, args.list)) > 1:
        raise InvalidArgument("--dry-run, --reset and --list exclude each other")
    queue = common.open_queue(args)
    device = runtime.describe(queue.device)
    if args.list:
        return _list(args, queue)
    path = tuning.user_file()
    if path is None and not args.dry_run:
        raise InvalidArgument(
            "CLQUANT_CACHE_DIR is empty, so there is no folder for tuning.json; allowed with --dry-run"
        )
    if args.reset:
        return _reset(args, device)
    kept = {} if path is None or args.dry_run else _read(path)
    with common.progress_bar(args, "tuning") as bar:
        outcomes = tune_search.tune(queue, args.quick, runtime.Progress(lambda done, total: bar(done, total)))
    table = _table(device, outcomes)
    common.say(args, table.text(), is_table=True, **table.as_dict())
    if path is not None and not args.dry_run:
        changed = {n: v for o in outcomes for n, v in o.after.items() if v != o.before[n]}
        _write(path, {**kept, device: changed})
        common.note(args, f"kept in {str(path)!r}")
    return 0


def _list(args: argparse.Namespace, queue: runtime.CommandQueue) -> int:
    limits = runtime.Limits.of(queue.device)
    shipped, now = tuning.shipped(tuning.family(limits)), tuning.values(queue.device, limits)
    columns = {"name": "number", "shipped": "shipped", "now": "now", "purpose": "what it is"}
    table = Table(f"Tunable numbers: {runtime.describe(queue.device)}", columns)
    for parameter in tuning.PARAMETERS:
        name = parameter.name
        table.add(name=name, shipped=shipped[name], now=now[name], purpose=parameter.purpose)
    if common.wants_json(args):
        common.say(args, "", **table.as_dict())
    else:
        streams.write_text(table.text())
    return 0


def _reset(args: argparse.Namespace, device: str) -> int:
    path = tuning.user_file()
    assert path is not None
    try:
        kept = tuning.read(path)
    except FormatError:
        kept = {}  # a damaged file goes as a whole
    kept.pop(device, None)
    if path.exists():
        _write(path, kept)
    common.say(args, f"{device}: the shipped numbers")
    return 0


def _read(path: pathlib.Path) -> dict[str, dict[str, int]]:
    try:
        return tuning.read(path)
    except FormatError as error:
        raise FormatError(f"{str(path)!r} cannot be used: {error}; clquant tune --reset removes it") from error


def _write(path: pathlib.Path, tables: dict[str, dict[str, int]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise runtime.FileError(f"cannot make the folder {str(path.parent)!r}: {error.strerror}") from error
    files.write_bytes(path, tuning.unparse(tables))
    tuning.forget()


def _table(device: str, outcomes: list[tune_search.Outcome]) -> Table:
    columns = {"name": "number", "before": "shipped", "after": "tuned", "job": "timed by"}
    columns |= {"before_ms": "shipped, ms", "after_ms": "tuned, ms"}
    table = Table(f"Tuning: {device}", columns, note="Times only of jobs for which other numbers were faster.")
    for outcome in outcomes:
        for name, before in outcome.before.items():
            changed = outcome.after != outcome.before
            table.add(
                name=name,
                before=before,
                after=outcome.after[name],
                job=outcome.job.name,
                before_ms=outcome.before_ms if changed else None,
                after_ms=outcome.after_ms if changed else None,
            )
    return table
