"""`python -m benchmarks`: every member, one after the other, with the device's limits first."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator

import benchmarks
from benchmarks import harness
from clquant import runtime


def members() -> list[str]:
    """The modules of this package that have a `run`."""
    names = [info.name for info in pkgutil.iter_modules(benchmarks.__path__) if not info.name.startswith("_")]
    return [name for name in names if hasattr(importlib.import_module(f"benchmarks.{name}"), "run")]


def tables(options: harness.Options, failed: list[str]) -> Iterator[harness.Table]:
    """Every member's tables; a member that fails is noted and does not keep the others from running."""
    yield harness.device_table(options)
    for name in members():
        print(f"running {name} ...", file=sys.stderr, flush=True)
        try:
            yield from importlib.import_module(f"benchmarks.{name}").run(options)
        except runtime.ClquantError as error:
            failed.append(f"{name}: {error}")


def main() -> None:
    """Run them all; the exit code tells whether one failed."""
    options, json_path = harness.options_from()
    failed: list[str] = []
    harness.show(tables(options, failed), json_path)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
