"""Clusters with one worker process per OpenCL device: threads of one process do not scale, processes do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from distributed import Nanny, Scheduler
from distributed.deploy.spec import SpecCluster
from distributed.system import MEMORY_LIMIT

from clquant import params
from clquant.runtime import InvalidArgument, InvalidType, NoDeviceError
from clquant.runtime.device.discovery import DEVICE_VARIABLE, describe, find_device, list_devices

# The resource that tasks may ask for, so that a device has one at a time: ``resources={"opencl": 1}``.
RESOURCE = "opencl"


class LocalOpenCLCluster(SpecCluster):
    """A Dask cluster on this machine: one worker per OpenCL device, in a process of its own that is spawned.

    Parameters
    ----------
    devices : sequence of str or int, optional
        Numbers into `clquant.runtime.list_devices`, or what ``CLQUANT_DEVICE`` takes; a device that is named twice
        gets two workers. Default: every GPU and accelerator, or, without any, every CPU.
    threads_per_worker : int, default=2
        1 to 64. Two, so that the host's part of one task, and what Dask does between tasks, go on beside the device's
        part of another.
    **options
        Of `distributed.SpecCluster`, such as ``scheduler``, ``asynchronous``, or ``silence_logs`` (default: below
        warnings).

    Raises
    ------
    InvalidArgument, InvalidType
        If `devices` is empty or no sequence.
    NoDeviceError
        If there is no such device.

    Notes
    -----
    Results are the same bits on any number and any mix of devices. Workers share the host's memory equally. Those that
    die are started again, and what they had is computed anew.
    """

    def __init__(
        self, devices: Sequence[str | int] | None = None, *, threads_per_worker: int = 2, **options: Any
    ) -> None:
        threads = params.integer("threads_per_worker", threads_per_worker, 1, 64)
        level = options.setdefault("silence_logs", logging.WARNING)
        numbers = _numbers(devices)
        shared = {
            "nthreads": threads,
            "preload": ["clquant.dask.preload"],
            "resources": {RESOURCE: 1},
            "dashboard_address": None,
            "memory_limit": MEMORY_LIMIT // len(numbers),
            "silence_logs": level,
        }
        workers: dict[int, Any] = {}
        for place, number in enumerate(numbers):
            own = {"env": {DEVICE_VARIABLE: str(number)}, "name": f"{place}: {describe(list_devices()[number])}"}
            workers[place] = {"cls": Nanny, "options": {**shared, **own}}
        scheduler = options.pop("scheduler", {"cls": Scheduler, "options": {"dashboard_address": ":0", "port": 0}})
        super().__init__(workers=workers, scheduler=scheduler, **options)


def is_cpu(device: Any) -> bool:
    """Whether an OpenCL device is a CPU."""
    return bool(device.type & 2)  # CL_DEVICE_TYPE_CPU is bit 1


def _numbers(devices: Any) -> list[int]:
    known = list_devices()
    if devices is None:
        real = [i for i, d in enumerate(known) if "oclgrind" not in describe(d).lower()]
        best = [i for i in real if not is_cpu(known[i])] or real
        if not best:
            raise NoDeviceError("there is no OpenCL device for a worker")
        return best
    if isinstance(devices, str) or not hasattr(devices, "__iter__"):
        raise InvalidType(f"devices is {params.shown(devices)}; allowed: a sequence of numbers or names of devices")
    found = [known.index(find_device(str(one))) for one in devices]
    if not found:
        raise InvalidArgument("devices is empty; allowed: at least one device")
    return found
