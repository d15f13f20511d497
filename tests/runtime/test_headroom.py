"""Address space that runs out: a right result or one error, and never the end of the process."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import clquant
from clquant import runtime
from clquant.runtime.errors import reports_memory
from clquant.runtime.memory import headroom
from tests.portability import short_memory
from tests.portability.inputs import photo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its address space")


# In MiB beside what the process has, and whether drivers are started and a first job is compiled by then.
LIMITS = [(1, False), (560, False), *((limit, True) for limit in (1, 12, 60, 240, 1500))]


@pytest.mark.parametrize(("limit", "warm"), LIMITS)
def test_every_engine_ends_in_its_bits_or_in_one_error(limit: int, warm: bool) -> None:
    names = ["kmeans rgb 8", "neuquant 8", "vq gray 4x4", "halftone bits", "quadtree rgb", "search 12", "serial gray"]
    told = list(short_memory.outcomes(limit << 20, names, warm))
    assert [name for name, _ in told] == names
    short = {"DeviceMemoryError", short_memory.OWN_PICTURE}
    wanted = {"right"} if limit == 1500 else {"right", *short}
    assert {outcome for _, outcome in told} <= wanted


def _bare_functions(thing: object, name: str) -> Iterator[str]:
    """Public functions and methods whose `MemoryError` stays what it is."""
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        for method, member in vars(thing).items():
            if not method.startswith("_"):
                yield from _bare_functions(member, f"{name}.{method}")
    elif inspect.isfunction(thing) and not hasattr(thing, "__wrapped__") and not inspect.isgeneratorfunction(thing):
        yield name


def test_every_public_call_says_where_memory_ran_out() -> None:
    dithers = {"ErrorDiffusion.dither", "ErrorDiffusion.dither_after", "OrderedDither.dither", "SearchDither.dither"}
    dithers.add("OrderedDither.thresholds")
    bare = {one for name in clquant.__all__ for one in _bare_functions(getattr(clquant, name), name)}
    assert bare == {*dithers, "WeightTables.checked"}  # engines call these


def test_what_is_kept_is_given_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    left = 10
    monkeypatch.setattr(headroom, "room", lambda: left)

    def release() -> None:
        nonlocal left
        left = 100

    monkeypatch.setattr(headroom, "_release", [release])
    headroom.check_room(60, "a test")
    with pytest.raises(runtime.DeviceMemoryError, match=r"in a test: 101 bytes of addresses are needed, .* leaves 100"):
        headroom.check_room(101, "a test")


def test_short_memory_is_seen_before_the_device_is_asked(
    queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    palette = clquant.KMeansPalette(4, queue=queue).fit(photo(20, 30))
    before = palette.predict(photo(20, 30))
    with monkeypatch.context() as patch:
        patch.setattr(headroom, "room", lambda: 1000)
        with pytest.raises(runtime.DeviceMemoryError, match="the process ran out of memory in"):
            palette.predict(photo(20, 30))
    np.testing.assert_array_equal(palette.predict(photo(20, 30)), before)


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
