"""`python -m benchmarks.tune`: measure tunable numbers on a device and keep those faster than the shipped ones.

Tuned are work-group sizes, work a launch, and thresholds between forms that give equal results: no value of any can
change a result, and the results of all timed calls are compared all the same. A value is kept where it was at least 5 %
faster than the shipped one, twice, in tuning.json in the folder of compiled programs.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.measure import tuning as search
from clquant import runtime
from clquant.cli.table import Table
from clquant.images import files
from clquant.runtime.program import tuning


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tune", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller pictures, neighbouring values alone")
    parser.add_argument("--dry-run", action="store_true", help="keep nothing")
    parser.add_argument("--device", help="as `clquant --device`")
    args = parser.parse_args(arguments)
    queue = runtime.default_queue(args.device)
    device, path = runtime.describe(queue.device), tuning.user_file()
    if path is None and not args.dry_run:
        raise runtime.InvalidArgument(f"{tuning.FILE} has no folder, as CLQUANT_CACHE_DIR is empty; take --dry-run")
    kept = {} if path is None or args.dry_run else tuning.read(path)
    outcomes = search.tune(queue, args.quick, runtime.Progress(tell))
    print(table(device, outcomes).text())
    if path is not None and not args.dry_run:
        changed = {n: v for o in outcomes for n, v in o.after.items() if v != o.before[n]}
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, tuning.unparse({**kept, device: changed}))
        tuning.forget()
        print(f"kept in {str(path)!r}", file=sys.stderr)


def tell(done: int, total: int) -> None:
    """Say how many numbers are decided."""
    print(f"{done} of {total}", file=sys.stderr)


def table(device: str, outcomes: list[search.Outcome]) -> Table:
    """Shipped and tuned numbers with the times of the jobs that decided them."""
    columns = {"name": "number", "before": "shipped", "after": "tuned", "job": "timed by"}
    columns |= {"before_ms": "shipped, ms", "after_ms": "tuned, ms"}
    found = Table(f"Tuning: {device}", columns, note="Times only of jobs for which other numbers were faster.")
    for outcome in outcomes:
        for name, before in outcome.before.items():
            changed = outcome.after != outcome.before
            found.add(
                name=name,
                before=before,
                after=outcome.after[name],
                job=outcome.job.name,
                before_ms=outcome.before_ms if changed else None,
                after_ms=outcome.after_ms if changed else None,
            )
    return found


if __name__ == "__main__":
    main()
