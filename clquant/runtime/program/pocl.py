"""Building programs for PoCL."""

from __future__ import annotations

import pyopencl as cl

PLATFORM = "Portable Computing Language"
SHORT_HEADER = "common/pocl.h"
WITHOUT_LONG_HEADER = "-D_OPENCL_H_"
_UNKNOWN_PROCESSOR = "unknown target CPU"


_INTEGERS = ("uchar", "short", "ushort", "int", "uint", "long", "ulong")
_WIDTHS = ("2", "3", "4", "8", "16")


def conversions() -> str:
    """Define the built-in `as_*` and `convert_*` of all types that kernels use."""
    vectors = [name + width for name in (*_INTEGERS, "float") for width in _WIDTHS]
    reread = [*_INTEGERS, "float", *vectors]
    lines = [f"#define as_{name}(x) __builtin_astype(x, {name})" for name in reread]
    lines += [f"#define convert_{name}(x) __builtin_convertvector(x, {name})" for name in ("char16", *vectors)]
    return "\n".join(lines) + "\n"


def takes_short_header(device: cl.Device) -> bool:
    """Whether programs for a device may be built with `cl/common/pocl.h` in the place of PoCL's `opencl-c.h`."""
    return device.platform.name == PLATFORM


def build_advice(error: cl.Error) -> str:
    """Advise on an error of PoCL's build, for the end of a message; empty for unknown errors."""
    if _UNKNOWN_PROCESSOR not in str(error):
        return ""
    return (
        "\nThis PoCL is older than the processor; use a newer one (a package of the system, conda-forge) or another "
        "runtime (`pip install intel-opencl-rt`)"
    )
