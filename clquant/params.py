"""Checking arguments: each check returns the value to use, or raises one sentence naming argument, value and rule."""

from __future__ import annotations

import importlib
import math
import numbers
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant.executors import is_remote
from clquant.runtime import Array, ClquantError, FileError, InvalidArgument, InvalidType, open_session
from clquant.runtime.errors import text_of

T = TypeVar("T")

_NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # Python and NumPy count these among the integers
_INTEGERS = (int, np.integer, numbers.Integral)


_MOST_REASON = 200
_QUOTED_BYTES = ("\\x", "b'", 'b"')


def shown(value: object) -> str:
    """A value as an error message shows it: its `repr`, cut where it is long, or its type where it has none."""
    if isinstance(value, np.ndarray | Array):
        where = "" if isinstance(value, np.ndarray) else "device "
        return f"{where}array of shape {value.shape}, dtype {value.dtype}"
    return text_of(value)


def refuse_remote(name: str, value: Any) -> None:
    """Refuse a collection on workers where all its values would be computed in this process."""
    if is_remote(value):
        text = "is a Dask array, of which all values are needed in one process; allowed: its compute()"
        raise InvalidType(f"{name} {text}")


def refuse_masked(name: str, value: Any) -> None:
    """Refuse an array with masked values where these cannot be left out."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)  # no array is masked before it is imported
    if masked is not None and isinstance(value, masked) and bool(np.ma.getmaskarray(value).any()):
        raise InvalidArgument(f"{name} has masked values, which cannot be left out here; allowed: its filled(value)")


def array(name: str, value: Any, allowed: str, kinds: str | None = None) -> npt.NDArray[Any]:
    """Make a NumPy array of what a person gave, of dtype kinds in `kinds` if given; device arrays come to the host.

    `allowed` ends the error's sentence.
    """
    refuse_remote(name, value)
    refuse_masked(name, value)
    if isinstance(value, Array):
        value = _downloaded(name, value)
    try:
        made = np.asarray(value)
    except ValueError as error:
        raise InvalidArgument(f"{name} is {shown(value)}, ragged or no array; allowed: {allowed}") from error
    except Exception as error:  # arrays of other libraries that refuse, in their own ways
        raise InvalidType(f"{name} is {shown(value)}, which makes no array; allowed: {allowed}") from error
    if kinds is not None and made.dtype.kind not in kinds:
        kind = "" if isinstance(value, np.ndarray) else f" of dtype {made.dtype}"
        raise InvalidType(f"{name} is {shown(value)}{kind}; allowed: {allowed}")
    return made


def _downloaded(name: str, value: Array) -> npt.NDArray[Any]:
    """A device array's values; NumPy alone would ask for one after the other."""
    if value.queue is None:
        raise InvalidArgument(f"{name} is a device array on no queue; allowed: array.with_queue(queue)")
    if not value.flags.forc:
        raise InvalidArgument(f"{name} is a device array with strides {value.strides}; allowed: contiguous ones")
    made: npt.NDArray[Any] = value.get(open_session(None, [value]).queue)
    return made


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Check an integer from `low` to `high` (None: no bound); booleans and floats are refused."""
    is_integer = not isinstance(value, _NO_NUMBERS) and isinstance(value, _INTEGERS)
    if is_integer:
        number = operator.index(value)
        if low <= number and (high is None or number <= high):
            return number
    allowed = f"an integer from {low} to {high}" if high is not None else f"an integer of at least {low}"
    raise (InvalidArgument if is_integer else InvalidType)(f"{name} is {shown(value)}; allowed: {allowed}")


def real(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Check a finite real number from `low` to `high`."""
    allowed = f"a number from {low:g} to {high:g}" if high < math.inf else f"a number of at least {low:g}"
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real | np.integer | np.floating):
        raise InvalidType(f"{name} is {shown(value)}; allowed: {allowed}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < low or number > high:
        raise InvalidArgument(f"{name} is {number:g}; allowed: {allowed}")
    return number


def choice(name: str, value: Any, allowed: Iterable[T]) -> T:
    """Check that a value is one of the allowed ones."""
    options = list(allowed)
    for option in options:
        if type(value) is type(option) and value == option:
            return option
    raise InvalidArgument(f"{name} is {shown(value)}; allowed: {', '.join(repr(o) for o in options)}")


def boolean(name: str, value: Any) -> bool:
    """Check True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidType(f"{name} is {shown(value)}; allowed: True or False")
    return bool(value)


def seed(value: Any, name: str = "random_state") -> int:
    """Check a seed, 0 to 2^64 - 1; by scikit-learn's rule None and generators are drawn from, anew at each call."""
    if value is None:
        return int(np.random.randint(0, 2**63, dtype=np.int64))  # noqa: NPY002 - the global state is the rule
    if isinstance(value, int):  # before `numpy.random` is touched, which NumPy imports when it is first asked for
        return integer(name, value, 0, 2**64 - 1)
    if isinstance(value, np.random.RandomState):
        return int(value.randint(0, 2**63, dtype=np.int64))
    if isinstance(value, np.random.Generator):
        return int(value.integers(0, 2**63, dtype=np.int64))
    return integer(name, value, 0, 2**64 - 1)


def callback(name: str, value: Any) -> Callable[..., object] | None:
    """Check a callable or None."""
    if value is not None and not callable(value):
        raise InvalidType(f"{name} is {shown(value)}; allowed: a callable or None")
    return value  # type: ignore[no-any-return]


def import_package(name: str, job: str, install: str, refusal: type[ClquantError] = FileError) -> Any:
    """Import a package that not everybody has; the error says why one that is there fails, for lack of memory say."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        is_missing = isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] == name.split(".")[0]
        reason = f"is not installed ({install})" if is_missing else f"cannot be loaded: {error or type(error).__name__}"
        raise refusal(f"cannot {job}: {name.split('.')[0]} {reason}") from error


def reason_of(error: Exception) -> str:
    """Say in a few words why a library could not read a file, without the bytes of it that some libraries quote."""
    if isinstance(error, ClquantError):
        return str(error)
    text = " ".join((getattr(error, "strerror", None) or str(error)).split())
    is_plain = 0 < len(text) <= _MOST_REASON and text.isprintable() and not any(sign in text for sign in _QUOTED_BYTES)
    return text if is_plain else f"it is damaged ({type(error).__name__})"
