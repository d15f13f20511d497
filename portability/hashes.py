"""`python -m portability.hashes`: result hashes of every engine on one device, compared with the golden file."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

from clquant import runtime
from portability.jobs import JOBS, digest
from portability.programs import recorded, save

GOLDEN = pathlib.Path(__file__).parent.parent / "tests" / "data" / "golden_hashes.json"


def golden() -> dict[str, str]:
    """The hashes that every device must give."""
    found: dict[str, str] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def find(text: str) -> Any:
    """The first device whose name, or platform's name or version, contains the text.

    Raises
    ------
    NoDeviceError
        If none does.
    """
    for device in runtime.list_devices():
        if text.lower() in f"{runtime.describe(device)} {device.platform.version}".lower():
            return device
    raise runtime.NoDeviceError(f"no device with {text!r} in its name or version")


def main(arguments: list[str] | None = None) -> int:
    """Print one line a job; 1 if a hash differs from the golden one, or a job fails."""
    parser = argparse.ArgumentParser(description="Hash every engine's results on one device and compare.")
    parser.add_argument("--device", help="part of the device's name or its platform's name or version")
    parser.add_argument("--small", action="store_true", help="only jobs small enough for a simulator")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--write", action="store_true", help="take this device's hashes as the golden ones")
    parser.add_argument("--record", type=pathlib.Path, help="write which programs the jobs asked for to this file")
    options = parser.parse_args(arguments)
    if options.record is None:
        return _run(options)
    with recorded() as builds:
        status = _run(options)
    save(builds, options.record)
    return status


def _run(options: argparse.Namespace) -> int:
    device = find(options.device) if options.device else runtime.default_device()
    queue = runtime.default_queue(device)
    print(f"{runtime.describe(device)}; {device.platform.version}; driver {device.driver_version}")
    expected = {} if options.write else golden()
    found, wrong = {}, 0
    for job in JOBS:
        if options.only not in job.name or (options.small and not job.small):
            continue
        if job.table_bytes > runtime.open_session(queue).limits.max_alloc:
            print(f"{job.name:26} takes a table of {job.table_bytes} bytes, which the limits do not admit")
            continue
        began = time.perf_counter()
        try:
            found[job.name] = digest(job.run(queue))
        except Exception as error:
            verdict, wrong = f"FAILED {type(error).__name__}: {str(error)[:600]}", wrong + 1
        else:
            equal = options.write or found[job.name] == expected.get(job.name)
            verdict, wrong = "equal" if equal else "DIFFERS", wrong + (not equal)
        print(
            f"{job.name:26} {found.get(job.name, '')[:16]:16} {time.perf_counter() - began:6.2f} s  {verdict}",
            flush=True,
        )
    if options.write:
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(found)} jobs, {wrong} differ or fail")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
