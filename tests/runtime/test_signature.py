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


def test_what_stands_behind_a_macro_of_two_meanings_is_not_found() -> None:
    source = (
        "#if WIDE\n#define MORE int a, int b\n#else\n#define MORE int a\n#endif\nkernel void f(int n, MORE, int z) {}"
    )
    assert argument_places(source, "f") == {"n": 0}


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
    kernel = runtime.open_session(queue).program("both.cl", MORE=0).kernel("both")
    assert kernel.in_order(n=2, data=1) == [1, 2]
    assert kernel.in_order(more=3, n=2, data=1) == [1, 2, 3]
    with pytest.raises(runtime.DeviceError, match=r"kernel both takes data, n, more; given are n$"):
        kernel.in_order(n=2)
    with pytest.raises(runtime.DeviceError, match="kernel both has no argument 'least'"):
        kernel.in_order(least=2)
