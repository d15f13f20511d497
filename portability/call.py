"""A public call as `fuzz` makes it: its function, good arguments, and what its result must be."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Good = Callable[[random.Random], Any]
Check = Callable[[Any, Mapping[str, Any]], str | None]


def one_of(*values: Any) -> Good:
    return lambda rng: rng.choice(values)


def no_check(result: Any, given: Mapping[str, Any]) -> str | None:
    return None


@dataclass(frozen=True)
class Call:
    """A public function.

    Attributes
    ----------
    name : str
    function : callable
    arguments : mapping
        By name: makes a good value.
    check : callable
        From the result and the arguments to what is wrong with the result, or None.
    aliases : mapping
        What an error may call an argument instead of its name.
    """

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Good]
    check: Check = no_check
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def shown(value: Any) -> str:
    """A short text for any value, also for one whose own text fails."""
    if isinstance(value, np.ndarray):
        return f"<{type(value).__name__} {value.dtype} {value.shape}>"
    try:
        return repr(value)[:60]
    except Exception:
        return f"<{type(value).__name__}>"
