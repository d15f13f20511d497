"""Memory of the host that runs out: one error that says where."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import clquant
from clquant import runtime
from clquant.runtime.errors import reports_memory


def _bare_functions(thing: object, name: str) -> Iterator[str]:
    """Public functions and methods whose `MemoryError` stays what it is."""
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        for method, member in vars(thing).items():
            if not method.startswith("_"):
                yield from _bare_functions(member, f"{name}.{method}")
    elif inspect.isfunction(thing) and not hasattr(thing, "__wrapped__") and not inspect.isgeneratorfunction(thing):
        yield name


def test_every_public_call_says_where_memory_ran_out() -> None:
    dithers = {"ErrorDiffusion.dither_after", "OrderedDither.thresholds"}
    bare = {one for name in clquant.__all__ for one in _bare_functions(getattr(clquant, name), name)}
    assert bare == {*dithers, "WeightTables.checked"}  # engines call these


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("no"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ImportError("failed to map segment from shared object"),
    ],
)
def test_what_python_says_of_memory_is_said_as_one_error(error: Exception) -> None:
    class Thing:
        @property
        def attribute(self) -> int:
            raise error

        def method(self) -> int:
            raise error

        @classmethod
        def of_class(cls) -> int:
            raise error

    made = reports_memory(Thing)()
    for call in (made.method, made.of_class, lambda: made.attribute, reports_memory(lambda: made.method())):
        with pytest.raises(runtime.DeviceMemoryError, match="the process ran out of memory in") as raised:
            call()
        assert isinstance(raised.value, MemoryError)


@pytest.mark.parametrize("error", [OSError(2, "No such file"), RuntimeError("else"), ImportError("no module")])
def test_other_errors_stay(error: Exception) -> None:
    @reports_memory
    def fails() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        fails()
    assert raised.value is error
