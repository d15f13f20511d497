"""Kernels' arguments by name."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import runtime
from clquant.runtime.program import programs


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
        "__kernel void less(__global uint *data, const uint step, const uint off)\n"
        "{ data[get_global_id(0)] = step - off; }\n"
    )
    monkeypatch.setattr(programs, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(programs.pocl, "takes_short_header", lambda _: False)
    session = runtime.open_session(queue)
    kernel = session.program("less.cl").kernel("less")
    with session.scope() as scope:
        data = scope.zeros(8)
        session.launch(kernel, 2, None, data, off=np.uint32(3), step=np.uint32(10))
        assert session.download(data, 2, np.uint32).tolist() == [7, 7]
        session.prepare(scope, kernel, 2, None, data, off=np.uint32(4), step=np.uint32(10)).queue()
        assert session.download(data, 2, np.uint32).tolist() == [6, 6]
