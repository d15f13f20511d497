"""Capabilities of a device: read once per device, and lowered by `CLQUANT_LIMITS` for tests."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from typing import Any

import pyopencl as cl

from clquant.runtime.device.bounds import BOUNDS, ENVIRONMENT
from clquant.runtime.errors import InvalidArgument, text_of
from clquant.runtime.program.pocl import PLATFORM

POCL_MEMORY_VARIABLE = "POCL_MEMORY_LIMIT"
# Limits of the control group that the process sees as its own, as in a container: versions 2 and 1.
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# Every device has some of these; OpenCL's embedded profile asks for 1 KiB of local memory, and more for buffers.
_AT_LEAST = {"work_group": 1, "local_memory": 1 << 10, "max_alloc": 16, "global_memory": 16, "compute_units": 1}
_AT_LEAST |= {"shared_pixels": 1, "shared_work": 1}


@dataclasses.dataclass(frozen=True)
class Limits:
    """A device's limits and optional features, the only facts that variants and launches may depend on."""

    work_group: int  # most work-items in a work-group (a compiled kernel may admit fewer)
    # bytes of local memory of a work-group, of the largest single buffer, of the whole device. Where the device is the
    # host's processor, the last is what the operating system says, or what `POCL_MEMORY_LIMIT` leaves of it
    local_memory: int
    max_alloc: int
    global_memory: int
    compute_units: int  # compute units; CPU cores where the device is a CPU
    # whether 64-bit integer atomics and doubles exist. Portable kernels use neither
    int64_atomics: bool
    fp64: bool
    # device families and runtimes that variants tell apart; a simulator (Oclgrind) runs one work-item at a time.
    # llvmpipe, though it computes on the CPU, is none: it leaves loops silently when a work-item has gone round 65,535
    # times in all, and the forms for CPUs have few work-items with long loops
    is_cpu: bool
    is_nvidia: bool
    is_simulator: bool
    is_pocl: bool
    compute_capability: int  # of an NVIDIA device, ten times major plus minor (90 for 9.0); 0 elsewhere
    unified_memory: bool  # whether host and device share memory, so that buffers may wrap host arrays
    # from which work is shared out among several queues: pixels of a portion, and products of a training step, less of
    # which take a device no longer than the exchange of sums
    shared_pixels: int = 1 << 24
    shared_work: int = 1 << 40

    @classmethod
    def of(cls, device: cl.Device) -> Limits:
        """Read the limits of a device, lowered by `CLQUANT_LIMITS` (``name=number,name=number``)."""
        return _limits(device, os.environ.get(ENVIRONMENT, ""))

    @classmethod
    def _read(cls, device: cl.Device) -> Limits:
        extensions = set(device.extensions.split())
        platform = device.platform.name
        is_simulator = "oclgrind" in platform.lower()
        on_host = bool(device.type & cl.device_type.CPU) and not is_simulator
        return cls(
            # The first of the item sizes bounds a one-dimensional group (macOS CPUs report 1 there).
            work_group=min(device.max_work_group_size, device.max_work_item_sizes[0]),
            local_memory=device.local_mem_size,
            max_alloc=device.max_mem_alloc_size,
            global_memory=_host_memory(device) if on_host else device.global_mem_size,
            compute_units=device.max_compute_units,
            int64_atomics="cl_khr_int64_base_atomics" in extensions,
            fp64="cl_khr_fp64" in extensions,
            is_cpu=bool(device.type & cl.device_type.CPU) and "llvmpipe" not in device.name.lower(),
            is_nvidia="nvidia" in device.vendor.lower(),
            is_simulator=is_simulator,
            is_pocl=platform == PLATFORM,
            compute_capability=_compute_capability(device, extensions),
            unified_memory=bool(device.type & cl.device_type.CPU) or bool(device.host_unified_memory),
            shared_work=1 << 32 if on_host else 1 << 40,
        )

    def has_lanes(self) -> bool:
        """Whether forms with explicit vector lanes run well: on CPUs, but not on a simulator."""
        return self.is_cpu and not self.is_simulator

    def lowered(self, text: str) -> Limits:
        """Lower limits as a text such as ``"work_group=8,int64_atomics=0"`` says; higher numbers have no effect."""
        changes: dict[str, Any] = {}
        names = {field.name for field in dataclasses.fields(self)} | set(BOUNDS)
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, _, number = part.partition("=")
            if name not in names or not re.fullmatch("[0-9]{1,19}", number):
                own = ", ".join(sorted(names - set(BOUNDS)))
                allowed = f"NAME=NUMBER with NAME one of {own}, or of clquant.runtime.device.bounds"
                raise InvalidArgument(f"{ENVIRONMENT}={text_of(text)} holds {text_of(part)}; allowed: {allowed}")
            if name in _AT_LEAST and int(number) < _AT_LEAST[name]:
                allowed = f"at least {_AT_LEAST[name]}"
                raise InvalidArgument(f"{ENVIRONMENT}={text_of(text)} holds {text_of(part)}; allowed: {allowed}")
            if name in BOUNDS:
                continue
            present = getattr(self, name)
            changes[name] = type(present)(min(int(present), int(number)))
        return dataclasses.replace(self, **changes)


@functools.lru_cache(maxsize=64)
def _limits(device: cl.Device, lowering: str) -> Limits:
    """Reading a device's limits takes a dozen driver calls, so each device is asked once."""
    return Limits._read(device).lowered(lowering)


def _host_memory(device: cl.Device) -> int:
    """Memory of a device that is the host's processor.

    PoCL states that of one NUMA node, which on a virtual machine that has just started is a fraction of it. Larger
    single buffers than it states it refuses, so `max_alloc` stays.
    """
    stated: int = device.global_mem_size
    if device.platform.name == PLATFORM and os.environ.get(POCL_MEMORY_VARIABLE):
        return stated
    return host_memory() or stated


@functools.cache
def host_memory() -> int | None:
    """Bytes of the host's memory that this process may have at most, or None where the system does not tell."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for path in CGROUP_LIMITS:
        try:
            total = min(total, int(pathlib.Path(path).read_text(encoding="ascii")))
        except (ValueError, OSError):  # "max", or no such control group
            continue
    return total


def _compute_capability(device: cl.Device, extensions: set[str]) -> int:
    if "cl_nv_device_attribute_query" not in extensions:
        return 0
    return 10 * int(device.compute_capability_major_nv) + int(device.compute_capability_minor_nv)
