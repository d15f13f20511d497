"""Choosing a kernel's form for a device: a table with predicates, the portable form always last."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clquant.runtime.device.limits import Limits
from clquant.runtime.errors import InvalidArgument, text_of

VARIANT_VARIABLE = "CLQUANT_VARIANT"
# A statement after which all work-groups of an NVIDIA device see what was written before; OpenCL C 1.2 has no word for
# it.
NVIDIA_FENCE = 'asm volatile("membar.gl;" ::: "memory")'

# The names of all tables' forms.
FORMS = ("grid", "group", "lanes", "mma", "partition", "parts", "portable", "rings", "rows", "serial", "strips")

_forced: contextvars.ContextVar[str | None] = contextvars.ContextVar("clquant_variant", default=None)


@dataclass(frozen=True)
class Variant:
    """One form of a kernel."""

    name: str  # ``"portable"`` for the form that runs anywhere
    file: str  # the kernel file in `cl/`
    admits: Callable[[Limits], bool] = lambda _: True  # from `Limits` to whether this form may run there
    # compile-time constants of this form, tile sizes and the like; they never change a result
    constants: Mapping[str, int | str] = field(default_factory=dict)
    # what runs this form, best first: callables or classes that the table's own module defines
    launchers: tuple[Any, ...] = ()
    # times faster than the next form on a whole call, as measured; None for the portable form, and where no measurement
    # is at hand
    gain: float | None = None
    # from `Limits` to whether an admitted form is taken without being forced
    is_worthwhile: Callable[[Limits], bool] = lambda _: True


def choose(variants: Sequence[Variant], limits: Limits) -> Variant:
    """Choose the forced form if the table has it, else the first that the device admits.

    The last form is named ``"portable"`` and admits every device.
    """
    name = _forced.get() or _named()
    for variant in variants:
        if name is not None and variant.name == name:
            if not variant.admits(limits):
                raise InvalidArgument(f"variant {name!r} does not run on this device")
            return variant
    return next(v for v in variants if v.admits(limits) and v.is_worthwhile(limits))


def _named() -> str | None:
    """The form that `CLQUANT_VARIANT` names."""
    name = os.environ.get(VARIANT_VARIABLE)
    if not name:
        return None
    if name not in FORMS:
        raise InvalidArgument(f"{VARIANT_VARIABLE}={text_of(name)}; allowed: {', '.join(FORMS)}")
    return name


@contextlib.contextmanager
def force_variant(name: str) -> Iterator[None]:
    """Within the block, this thread takes the named form from every table that has it; others choose as ever.

    Calls within raise `InvalidArgument` if the device does not admit the form.
    """
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)
