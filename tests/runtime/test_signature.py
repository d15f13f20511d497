"""Kernels' arguments by name."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import runtime
from clquant.runtime.program import programs
from clquant.runtime.program.signature import argument_places

SOURCE = """
/* __kernel void scale(__global uint *wrong) */
#define PAIR __global const uint *first, \\
             __global uint *second
#define ALL PAIR, const uint count
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void scale(ALL, uint4 factors /* four, of */, // which
                                                                   __local float *room)
{
}
kernel void other(const uint n) {}
"""


def test_names_are_read_once_from_the_signature() -> None:
    assert argument_places(SOURCE, "scale") == {"first": 0, "second": 1, "count": 2, "factors": 3, "room": 4}
    assert argument_places(SOURCE, "other") == {"n": 0}
    assert argument_places(SOURCE, "absent") == {}


@pytest.mark.parametrize(
    ("lanes", "bits", "names"),
    [
        (1, 8, ["blocks", "image", "few"]),
        (0, 8, ["points", "list", "image", "few"]),
        (0, 16, ["points", "list", "image", "many", "wide"]),
    ],
)
def test_arguments_are_those_that_constants_leave(lanes: int, bits: int, names: list[str]) -> None:
    source = (
        f"#define LANES {lanes}\n#define BITS {bits}\n"
        + """
#if LANES && !defined(OTHER)
#define SEARCH __global const short *blocks
#else
#define SEARCH __global const int *points, \\
               __global const ushort *list
#endif
#ifndef BITS
#error
#elif BITS == 16 || BITS > 0x10u
#define COUNT int many
#else
#define COUNT int few
#endif
__kernel void map(SEARCH, __global const uchar *image, COUNT
#if BITS == 16
                  , int wide
#endif
                  ) {}
"""
    )
    assert list(argument_places(source, "map")) == names


def test_a_prepared_launch_takes_arguments_by_name(queue: runtime.CommandQueue, monkeypatch, tmp_path) -> None:
    (tmp_path / "add.cl").write_text(
        "__kernel void add(__global uint *data, const uint first, const uint n, const uint high)\n"
        "{ if (get_global_id(0) < n) data[get_global_id(0)] = first + high; }\n"
    )
    monkeypatch.setattr(programs, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(programs.pocl, "takes_short_header", lambda _: False)
    session = runtime.open_session(queue)
    kernel = session.program("add.cl").kernel("add")
    with session.scope() as scope:
        data = scope.zeros(16)
        launch = session.prepare(scope, kernel, 4, None, data, np.uint32(0), np.uint32(4), np.uint32(0))
        launch.set(high=np.uint32(7), first=np.uint32(30))
        launch.queue()
        assert session.download(data, 4, np.uint32).tolist() == [37] * 4
        with pytest.raises(runtime.DeviceError, match="kernel add has no argument 'middle'; it has data, first, n"):
            launch.set(middle=np.uint32(1))


def test_arguments_are_put_in_order(queue: runtime.CommandQueue, monkeypatch, tmp_path) -> None:
    (tmp_path / "both.cl").write_text(
        "__kernel void both(__global uint *data, const uint n\n#if MORE\n, const uint more\n#endif\n) {}\n"
    )
    monkeypatch.setattr(programs, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(programs.pocl, "takes_short_header", lambda _: False)
    session = runtime.open_session(queue)
    kernel = session.program("both.cl", MORE=0).kernel("both")
    assert kernel.in_order((), {"n": 2, "data": 1}) == (1, 2)
    assert kernel.in_order((1,), {"n": 2}) == (1, 2)
    with pytest.raises(runtime.DeviceError, match=r"no argument 'more'; it has data, n$"):
        kernel.in_order((), {"more": 3, "n": 2, "data": 1})
    kernel = session.program("both.cl", MORE=1).kernel("both")
    assert kernel.in_order((), {"more": 3, "n": 2, "data": 1}) == (1, 2, 3)
    said = r"kernel both takes data, n, more; given are {} by place, and {}$"
    with pytest.raises(runtime.DeviceError, match=said.format(0, "n, more")):
        kernel.in_order((), {"n": 2, "more": 3})
    with pytest.raises(runtime.DeviceError, match=said.format(2, "n, more")):
        kernel.in_order((1, 2), {"n": 2, "more": 3})


def test_a_launch_takes_arguments_by_name(queue: runtime.CommandQueue, monkeypatch, tmp_path) -> None:
    (tmp_path / "less.cl").write_text(
        "__kernel void less(__global uint *data, const uint from, const uint off)\n"
        "{ data[get_global_id(0)] = from - off; }\n"
    )
    monkeypatch.setattr(programs, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(programs.pocl, "takes_short_header", lambda _: False)
    session = runtime.open_session(queue)
    kernel = session.program("less.cl").kernel("less")
    with session.scope() as scope:
        data = scope.zeros(8)
        session.launch(kernel, 2, None, data, off=np.uint32(3), **{"from": np.uint32(10)})
        assert session.download(data, 2, np.uint32).tolist() == [7, 7]
        session.prepare(scope, kernel, 2, None, data, off=np.uint32(4), **{"from": np.uint32(10)}).queue()
        assert session.download(data, 2, np.uint32).tolist() == [6, 6]
