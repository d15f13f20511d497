"""The warning that uint16 values use few bits: once a call, and of a lazy picture when all rows were read."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

# Whether the call has warned; without a list every picture may.
_warned: contextvars.ContextVar[list[bool] | None] = contextvars.ContextVar("clquant_dark_values", default=None)
# Largest values of 8, 10 and 12 bits, which cameras and scanners leave as they are.
_WHITES = (255, 1023, 4095)
SCALING = "scale other values first: (x - low) / (high - low) in Python, gdal_translate -ot Byte -scale of a TIFF"
_PACKAGE = __name__.partition(".")[0] + "."


@contextlib.contextmanager
def warned_once(before: bool = False) -> Iterator[None]:
    """Within the block there is one warning at most, none if there was one before."""
    token = _warned.set([True] if before else _warned.get() or [False])
    try:
        yield
    finally:
        _warned.reset(token)


def warn_of_dark(largest: int, argument: str) -> None:
    """Warn if the largest value of a uint16 picture is one of 12 bits or fewer, above 1."""
    warned = _warned.get()
    if not 1 < largest <= _WHITES[-1] or (warned and warned[0]):
        return
    white = next(white for white in _WHITES if largest <= white)
    how = "give it as uint8" if white == 255 else f"multiply it by {65535 // white}"
    if warned is not None:
        warned[0] = True
    warnings.warn(
        f"{argument} is uint16 with no value above {white}, so nearly black: 65535 is white; if it holds "
        f"{white.bit_length()}-bit values, {how} (--range {white} of the command)",
        stacklevel=callers_level(),
    )


def callers_level() -> int:
    """Count the frames from the one that asks up to the first outside this package, for `warnings.warn`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


class DarkRows:
    """The largest value of a lazy picture's rows, of which it warns after the last row."""

    def __init__(self) -> None:
        self._largest = 0
        self._rows = 0
        self._has_warned = False

    def note(self, values: npt.NDArray[np.generic]) -> None:
        """Note the largest of values that were read."""
        if self._largest <= _WHITES[-1] and values.dtype.newbyteorder("=") == np.uint16:
            self._largest = max(self._largest, int(values.max(initial=0)))

    def passed(self, row0: int, row1: int, height: int, argument: str) -> None:
        """Note rows that were read; warn after the last if all before were read."""
        if row0 <= self._rows:
            self._rows = max(self._rows, row1)
        if self._rows == height and not self._has_warned:
            self._has_warned = True
            warn_of_dark(self._largest, argument)
