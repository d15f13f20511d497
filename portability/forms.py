"""`python -m portability.forms --device NVIDIA`: every kernel form that a device admits, on the golden jobs.

Prints for each form how many jobs ran it and whether all of them gave their golden hashes. Ends with 1 if a hash
differs, or if a form is admitted and no job runs it. Forms that CPUs never admit (VQ's ``mma``, grids) are
tested in this way on GPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

import clquant
from clquant import runtime
from clquant.runtime.program import variants
from clquant.runtime.program.variants import Variant
from portability.hashes import find, golden
from portability.jobs import JOBS, Job, digest

Form = tuple[str, str]  # name, kernel file


def forms() -> dict[Form, Variant]:
    """Every form of every table in the package but the portable ones."""
    found: dict[Form, Variant] = {}
    for module in _modules():
        for value in vars(module).values():
            for one in value if isinstance(value, tuple | list) else (value,):
                if isinstance(one, Variant) and one.name != "portable":
                    found[one.name, one.file] = one
    return dict(sorted(found.items()))


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(clquant.__path__, "clquant."):
        if not info.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # a module of an extra that is not installed
                yield importlib.import_module(info.name)


@contextlib.contextmanager
def recorded_choices() -> Iterator[set[Form]]:
    """Which forms are chosen within the block."""
    chosen: set[Form] = set()
    original = variants.choose

    def choose(table: Sequence[Variant], limits: runtime.Limits) -> Variant:
        taken = original(table, limits)
        chosen.add((taken.name, taken.file))
        return taken

    variants.choose = choose
    try:
        yield chosen
    finally:
        variants.choose = original


def run(queue: runtime.CommandQueue, jobs: Sequence[Job] = JOBS) -> dict[Form, list[tuple[str, bool]]]:
    """For each form that the device admits: the jobs that ran it, and whether each gave its golden hash."""
    limits = runtime.open_session(queue).limits
    expected = golden()
    admitted = {form: variant for form, variant in forms().items() if variant.admits(limits)}
    found: dict[Form, list[tuple[str, bool]]] = {form: [] for form in admitted}
    for name in sorted({form[0] for form in admitted}):
        for job in jobs:
            runtime.release_memory()
            with runtime.force_variant(name), recorded_choices() as chosen:
                try:
                    equal = digest(job.run(queue)) == expected[job.name]
                except runtime.InvalidArgument as error:
                    if "does not run on this device" not in str(error):  # another table's form of that name
                        raise
                    continue
            for form in chosen & admitted.keys():
                if form[0] == name:
                    found[form].append((job.name, equal))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print one line per form."""
    parser = argparse.ArgumentParser(prog="portability.forms", description=__doc__)
    parser.add_argument("--device", default="", help="part of the device's name or its platform's name or version")
    device = find(parser.parse_args(arguments).device)
    print(runtime.describe(device))
    failed = 0
    found = run(runtime.default_queue(device))
    for (name, file), jobs in found.items():
        wrong = [job for job, equal in jobs if not equal]
        failed += bool(wrong) or not jobs
        said = "no job runs it" if not jobs else f"{len(jobs)} jobs, " + (f"differ: {wrong}" if wrong else "equal")
        print(f"{name:12s} {file:44s} {said}", flush=True)
    others = sorted(set(forms()) - set(found))
    print(f"{len(found)} forms, {failed} differ or did not run; not for this device: {others}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
