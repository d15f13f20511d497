"""Making the PoCL of PyPI compile on processors newer than its LLVM.

PoCL 3.0's wheel carries LLVM 14, which names every x86 processor that it does not know ``generic``. PoCL hands that
name to its own clang, which refuses it on 64-bit x86: *every* build fails there with "unknown target CPU 'generic'"
(seen on an AMD family 26 processor). No option or environment variable reaches that name, so it is replaced in
PoCL's description of the device, before the first build, by one that the processor has.

It must be the name that PoCL's built-in library was compiled for. PoCL picks that library by the processor's features,
and how 512-bit vectors are passed to its functions depends on the name: with AVX-512 and any lesser name, kernels that
give a float16 or an int16 to `max` or `vstore16` crash, hang, or end the process ("Do not know how to scalarize this
operator's operand!"). LLVM 14 knows such a name for AMD's Zen 4 too: it takes the whole family for Zen 3, which has no
AVX-512.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import os
import pathlib
import sys

import pyopencl as cl

from clquant.runtime.errors import InvalidArgument, text_of

CPU_VARIABLE = "CLQUANT_POCL_CPU"
OFF = "off"
PLATFORM = "Portable Computing Language"
SHORT_HEADER = "common/pocl.h"
WITHOUT_LONG_HEADER = "-D_OPENCL_H_"
_AVX2 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"})
_AVX512 = _AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
_DESCRIPTION_BYTES, _LOWEST_ADDRESS = 8192, 4096
# LLVM 14's name for processors that it does not know, and its name for a family of which it knows none with AVX-512.
_UNKNOWN, _PERHAPS_LATER = b"generic\0", b"znver3\0"

# The features a processor must have, and the name of PoCL's built-in library for them, best first.
# PoCL keeps the address of these strings, so they must live as long as the process.
_NAMES: tuple[tuple[frozenset[str], ctypes.Array[ctypes.c_char]], ...] = (
    (_AVX512, ctypes.create_string_buffer(b"skylake-avx512")),
    (_AVX2, ctypes.create_string_buffer(b"haswell")),
    (frozenset(), ctypes.create_string_buffer(b"x86-64")),
)
# By device: the name that replaced its own, or nothing. Each device is looked at once.
_outcomes: dict[int, str] = {}


def takes_short_header(device: cl.Device) -> bool:
    """Whether programs for a device may be built with `cl/common/pocl.h` in the place of PoCL's `opencl-c.h`.

    Parameters
    ----------
    device : pyopencl.Device
    """
    return device.platform.name == PLATFORM


def name_unknown_processor(device: cl.Device) -> str:
    """Give a PoCL device whose processor LLVM does not know a name that its clang accepts and its library has.

    Does nothing on other platforms, other systems than Linux on x86-64, and processors that LLVM knows, nor with
    ``CLQUANT_POCL_CPU=off``.

    Parameters
    ----------
    device : pyopencl.Device

    Returns
    -------
    str
        The name that was put in, at this call or before; empty where none was.

    Raises
    ------
    InvalidArgument
        If `CLQUANT_POCL_CPU` is neither empty nor ``off``.
    """
    switch = os.environ.get(CPU_VARIABLE, "")
    if switch not in ("", OFF):
        raise InvalidArgument(f"{CPU_VARIABLE}={text_of(switch)}; allowed: {OFF!r}, or not set")
    if switch == OFF or sys.platform != "linux" or device.platform.name != PLATFORM:
        return ""
    if device.int_ptr not in _outcomes:
        _outcomes[device.int_ptr] = _replace_name(device)
    return _outcomes[device.int_ptr]


def _replace_name(device: cl.Device) -> str:
    try:
        flags, readable = _processor_flags(), _readable_ranges()
    except OSError:
        return ""
    wrong = (_UNKNOWN, _PERHAPS_LATER) if flags >= _AVX512 else (_UNKNOWN,)
    field = _cpu_name_field(device.int_ptr, readable, wrong)
    if field is None:
        return ""
    name = next(name for needed, name in _NAMES if flags >= needed)
    ctypes.c_uint64.from_address(field).value = ctypes.addressof(name)
    return name.value.decode()


def _processor_flags() -> set[str]:
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


def _readable_ranges() -> list[tuple[int, int]]:
    """Of this process, ascending."""
    ranges = []
    for line in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, permissions = line.split()[:2]
        if permissions.startswith("r"):
            low, high = (int(x, 16) for x in span.split("-"))
            ranges.append((low, high))
    return ranges


def _cpu_name_field(description: int, readable: list[tuple[int, int]], names: tuple[bytes, ...]) -> int | None:
    """Address of the pointer to one of some names that follows the pointer to the target triplet, or None."""

    def is_readable(address: int, nbytes: int) -> bool:
        at = bisect.bisect_right(readable, (address, sys.maxsize)) - 1
        return at >= 0 and address + nbytes <= readable[at][1]

    def holds(address: int, text: bytes) -> bool:
        return is_readable(address, len(text)) and ctypes.string_at(address, len(text)) == text

    ends = (high for low, high in readable if low <= description < high)
    nbytes = min(max(next(ends, description) - description, 0), _DESCRIPTION_BYTES)
    words = memoryview(ctypes.string_at(description, nbytes // 8 * 8)).cast("Q")
    for place, (triplet, cpu) in enumerate(itertools.pairwise(words)):
        # Most words are no pointers.
        if min(triplet, cpu) < _LOWEST_ADDRESS or not holds(triplet, b"x86_64-"):
            continue
        if any(holds(cpu, name) for name in names):
            return description + 8 * (place + 1)
    return None
