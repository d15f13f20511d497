"""`clquant devices`: what OpenCL devices there are, which one is used, and which give the right results.

``--check`` runs golden jobs on each device, each in a process of its own, which may crash or hang.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from typing import Any

from clquant import check, runtime
from clquant.cli import common, streams
from clquant.cli.common import option
from clquant.cli.table import Table
from clquant.images import files
from clquant.runtime import InvalidArgument
from clquant.runtime.device import fitness
from clquant.runtime.device.discovery import DEVICE_VARIABLE

HELP = "list the OpenCL devices there are"

EPILOG = """Name a device to any command by its number, by gpu, cpu or accelerator, or by a
part of its name; the variable CLQUANT_DEVICE does the same for all of them:
  clquant palette photo.jpg --device nvidia
  clquant devices --check                        golden jobs of every engine
  clquant devices --check --report report.json   versions, hashes and times
Exit code 1 if a device is unfit: it is used last and with a warning from then
on, until its driver changes or it passes. Attach a report to your issue."""

SECONDS = 600


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    option(parser, "--check", "run a golden job of every engine on each device")
    option(parser, "--only NUMBER", "with --check: this device alone", type=int)
    option(parser, "--report FILE", "with --check: write what was found to a JSON file")
    option(parser, "--in-process", argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """List the devices, or check them."""
    if args.check:
        return _check(args)
    common.refuse(args, ("only", "report"), "without --check; allowed: with --check")
    devices = runtime.list_devices()
    default, note = None, ""
    try:
        default = runtime.default_device()
    except runtime.NoDeviceError:
        if not devices:
            raise
        # A name that fits no device is no error here: the list shows what there is.
        wanted = next(name for name in (DEVICE_VARIABLE, "PYOPENCL_CTX") if os.environ.get(name))
        note = f"No default: {wanted}={os.environ[wanted]} names none of these."
    defects = ((n, fitness.unfit(device)) for n, device in enumerate(devices))
    notes = [f"{n}: unfit: {defect} (clquant devices --check)." for n, defect in defects if defect]
    note = "\n".join([*notes, *([note] if note else [])])
    columns = {name: name for name in ("number", "default", "device", "platform", "driver", "units")}
    columns |= {"number": "", "default": "*", "memory": "memory, MiB", "largest": "largest buffer, MiB"}
    table = Table("OpenCL devices, best first; * is used by default", {**columns, "group": "work-group"}, note)
    for number, device in enumerate(devices):
        limits = runtime.Limits.of(device)
        table.add(
            number=number,
            default="*" if device == default else "",
            device=device.name.strip(),
            platform=device.platform.name.strip(),
            driver=device.driver_version.strip(),
            units=limits.compute_units,
            memory=limits.global_memory >> 20,
            largest=limits.max_alloc >> 20,
            group=limits.work_group,
        )
    streams.write_text((json.dumps(table.as_dict(), indent=1) if args.as_json else table.text()) + "\n")
    return 0


def _check(args: argparse.Namespace) -> int:
    """Check all devices, or one; 1 if any is unfit."""
    devices = runtime.list_devices()
    if not devices:
        runtime.default_device()  # says how to get one
    if args.only is not None and not 0 <= args.only < len(devices):
        raise InvalidArgument(f"--only is {args.only}; allowed: a device's number, 0 to {len(devices) - 1}")
    if args.in_process:
        outcomes = [check.check(runtime.default_queue(devices[args.only]), name) for name in check.JOBS]
        streams.write_text(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes]) + "\n")
        return 0
    machine = check.machine()
    with contextlib.nullcontext() if args.report is None else files.atomic_write(args.report) as file:
        reports = [_report(n, device) for n, device in enumerate(devices) if args.only in (None, n)]
        passed = not any(report["unfit"] for report in reports)
        text = json.dumps({"passed": passed, "machine": machine, "devices": reports}, indent=1) + "\n"
        if file is not None:
            file.write(text.encode())
    for report in reports:  # when all are done, as it changes the devices' numbers
        if report["jobs"] or report["unfit"]:
            fitness.note(devices[report["number"]], report["unfit"])
    if args.as_json:
        streams.write_text(text)
    else:
        streams.write_text("\n".join(f"{name}: {value}" for name, value in machine.items()) + "\n\n")
        streams.write_text("\n".join(_outcome_table(report).text() for report in reports))
    return 0 if passed else 1


def _report(number: int, device: Any) -> dict[str, Any]:
    """Run all jobs on one device and describe device and outcomes."""
    report: dict[str, Any] = {
        "number": number,
        "device": runtime.describe(device),
        "driver": device.driver_version.strip(),
        "version": device.version.strip(),
        "limits": dataclasses.asdict(runtime.Limits.of(device)),
        "jobs": [],
        "unfit": "",
    }
    if runtime.Limits.of(device).is_simulator:
        report["note"] = "a simulator: left out, as a job takes it minutes"
        return report
    report["jobs"], failed = _outcomes(number, {})
    if failed:
        jobs, still = _outcomes(number, {"CLQUANT_VARIANT": "portable"})
        portable = "CLQUANT_VARIANT=portable gives right results"
        report["unfit"] = f"{failed}; {portable if jobs and not still else 'use another device, or another driver'}"
    return report


def _outcomes(number: int, environment: dict[str, str]) -> tuple[list[dict[str, Any]], str]:
    """Run all jobs in a process of their own; return their outcomes and a summary of failures."""
    command = [sys.executable, "-m", "clquant", "devices", "--check", "--in-process", "--only", str(number)]
    environment = {**os.environ, **environment}
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return [], f"its jobs were not done after {SECONDS} s"
    try:
        jobs: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        how = f"ended with {done.returncode}"
        if done.returncode < 0:
            how = f"was ended by {signal.Signals(-done.returncode).name}"
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return [], f"its process {how}" + (f" ({said[-1][:200]})" if said else "")
    wrong = [f"{job['job']} {job['error'].splitlines()[0][:200]}" for job in jobs if not job["right"]]
    return jobs, ", ".join(wrong)


def _passed(report: dict[str, Any]) -> str:
    """Say that a device computed all jobs right."""
    return f"{report['device']}: all {common.counted(len(report['jobs']), 'golden job')} equal"


def _outcome_table(report: dict[str, Any]) -> Table:
    verdict = report.get("note") or (f"UNFIT: {report['unfit']}" if report["unfit"] else _passed(report))
    table = Table(
        f"{report['number']}: {report['device']}, driver {report['driver']}, {report['version']}",
        {"job": "job", "hash": "hash", "first": "first, ms", "again": "again, ms", "outcome": "outcome"},
        verdict,
    )
    for job in report["jobs"]:
        first, again = (round(job[name], 1) for name in ("first_ms", "again_ms"))
        outcome = "right" if job["right"] else job["error"].splitlines()[0]
        table.add(job=job["job"], hash=job["digest"][:16], first=first, again=again, outcome=outcome)
    return table
