"""Bounds on what is held or done at once, beside a device's own: `CLQUANT_LIMITS` lowers them for tests."""

from __future__ import annotations

import functools
import os

ENVIRONMENT = "CLQUANT_LIMITS"
BOUNDS = {
    "lazy.memory": 1 << 60,  # bytes of host memory for the rows of a lazy picture, whatever `memory=` says
    "training.sample": 1 << 60,  # blocks or rows of a sample that a codebook is trained on
}


def bound(name: str) -> int:
    """Return a bound by its name, as the environment lowers it now."""
    return _lowered(os.environ.get(ENVIRONMENT, ""))[name]


@functools.lru_cache(maxsize=64)
def _lowered(text: str) -> dict[str, int]:
    """All bounds under `CLQUANT_LIMITS`, whose wording `Limits.lowered` checks."""
    found = dict(BOUNDS)
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name in found and number.isdecimal():
            found[name] = min(found[name], int(number))
    return found
