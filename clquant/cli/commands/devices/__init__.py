"""`clquant devices`: what OpenCL devices there are, and which one is used."""

from __future__ import annotations

import argparse
import json
import os

from clquant import runtime
from clquant.cli import common, streams
from clquant.cli.commands.devices import check
from clquant.cli.table import Table
from clquant.runtime.device.discovery import DEVICE_VARIABLE
from clquant.runtime.device.fitness import unfit

HELP = "list the OpenCL devices there are"

EPILOG = """Name a device to any command by its number, by gpu, cpu or accelerator, or by a
part of its name; the variable CLQUANT_DEVICE does the same for all of them:
  clquant palette photo.jpg --device nvidia
  clquant devices --check                        golden jobs of every engine
  clquant devices --check --report report.json   versions, hashes and times
Exit code 1 if a device is unfit: it is used last and with a warning from then
on, until its driver changes or it passes. Attach a report to your issue."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="run a golden job of every engine on each device")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="with --check: this device alone")
    parser.add_argument("--report", metavar="FILE", help="with --check: write what was found to a JSON file")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """List the devices, or check them."""
    if args.check:
        return check.run(args)
    common.refuse(args, ("only", "report"), "without --check; allowed: with --check")
    there = runtime.list_devices()
    default, note = None, ""
    try:
        default = runtime.default_device()
    except runtime.NoDeviceError:
        if not there:
            raise
        # A name that fits no device is no error here: the list shows what there is.
        wanted = next(name for name in (DEVICE_VARIABLE, "PYOPENCL_CTX") if os.environ.get(name))
        note = f"No default: {wanted}={os.environ[wanted]} names none of these."
    defects = ((n, unfit(device)) for n, device in enumerate(there))
    notes = [f"{n}: unfit: {defect} (clquant devices --check)." for n, defect in defects if defect]
    note = "\n".join([*notes, *([note] if note else [])])
    columns = {name: name for name in ("number", "default", "device", "platform", "driver", "units")}
    columns |= {"number": "", "default": "*", "memory": "memory, MiB", "largest": "largest buffer, MiB"}
    table = Table("OpenCL devices, best first; * is used by default", {**columns, "group": "work-group"}, note)
    for number, device in enumerate(there):
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
