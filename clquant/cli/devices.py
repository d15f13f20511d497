"""`clquant devices`: what OpenCL devices there are, and which one is used."""

from __future__ import annotations

import argparse
import json

from clquant import runtime
from clquant.cli.table import Table

HELP = "list the OpenCL devices there are"

EPILOG = """Name a device to any command by its number, by gpu, cpu or accelerator, or by a part of its name:
  clquant palette photo.jpg --device 0
  clquant palette photo.jpg --device nvidia
The environment variable CLQUANT_DEVICE does the same for all of them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """List the devices."""
    default = runtime.default_device()
    table = Table(
        "OpenCL devices, best first; * is used by default",
        {
            "number": "",
            "default": "*",
            "device": "device",
            "platform": "platform",
            "driver": "driver",
            "units": "units",
            "memory": "memory, MiB",
            "largest": "largest buffer, MiB",
            "group": "work-group",
        },
    )
    for number, device in enumerate(runtime.list_devices()):
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
    print(json.dumps(table.as_dict(), indent=1) if args.json else table.text())
    return 0
