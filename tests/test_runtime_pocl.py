"""PoCL gets a processor name that fits its built-in library."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from clquant import runtime
from clquant.runtime import pocl

SOURCE = """
kernel void wide(global float16 *a, global const float16 *b)
{
    const size_t i = get_global_id(0);
    a[i] = max(floor(b[i]), fmin(b[i], (float16)(0.5f))) + fabs(b[i]);
}
"""


def test_built_ins_of_512_bit_vectors_work_on_every_device() -> None:
    b = np.linspace(-4, 4, 64, dtype=np.float32)
    expected = np.maximum(np.floor(b), np.minimum(b, np.float32(0.5))) + np.abs(b)
    devices = runtime.list_devices()
    assert devices
    for device in devices:
        pocl.name_unknown_processor(device)
        session = runtime.open_session(runtime.default_queue(device))
        kernel = cl.Kernel(cl.Program(session.context, SOURCE).build(cache_dir=False), "wide")
        with session.scope() as scope:
            source, target = scope.copy_of(b), scope.empty(b.nbytes)
            kernel(session.queue, (4,), (1,), target, source)
            np.testing.assert_array_equal(session.download(target, 64, np.float32), expected)


def test_each_device_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(pocl, "_outcomes", {})
    monkeypatch.setattr(pocl, "_replace_name", lambda device: bool(looked.append(device.int_ptr)))
    devices = [device for device in runtime.list_devices() if device.platform.name == pocl.PLATFORM]
    for _ in range(3):
        assert not any(pocl.name_unknown_processor(device) for device in devices)
    assert sorted(looked) == sorted(device.int_ptr for device in devices)
