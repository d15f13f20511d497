"""`python -m benchmarks`: every member, one after the other, with the device's limits first."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks import harness
from clquant import runtime


def members() -> list[str]:
    """The modules of this package that have a `run`."""
    names = [info.name for info in pkgutil.iter_modules(benchmarks.__path__) if not info.name.startswith("_")]
    return [name for name in names if hasattr(importlib.import_module(f"benchmarks.{name}"), "run")]


def main() -> None:
    """Run them all; a member that fails does not keep the others from running."""
    options, json_path = harness.options_from()
    tables, failed = [harness.device_table(options)], []
    for name in members():
        print(f"running {name} ...", file=sys.stderr, flush=True)
        try:
            tables += importlib.import_module(f"benchmarks.{name}").run(options)
        except runtime.ClquantError as error:
            failed.append(f"{name}: {error}")
    harness.show(tables, json_path)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
