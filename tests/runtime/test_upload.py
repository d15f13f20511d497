"""Host arrays that begin anywhere reach the device whole."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from clquant import runtime
from clquant.runtime.memory.scope import HOST_ALIGNMENT, SMALL_BYTES, aligned
from clquant.runtime.transfer import copy


@pytest.mark.parametrize("start", [0, 1, 8, 63])
@pytest.mark.parametrize("nbytes", [1, 1000, SMALL_BYTES + 1])
def test_uploads_of_any_alignment(queue: Any, rng: np.random.Generator, start: int, nbytes: int) -> None:
    array = rng.integers(0, 256, nbytes + start, np.uint8)[start:]
    session = runtime.open_session(queue)
    with session.scope() as scope:
        np.testing.assert_array_equal(session.download(scope.upload(array), nbytes, np.uint8), array)


def test_aligned_arrays_keep_shape_and_values(rng: np.random.Generator) -> None:
    odd = rng.integers(0, 9, 101, np.uint8)[1:].view(np.uint16).reshape(5, 10)
    even = aligned(odd)
    np.testing.assert_array_equal(even, odd)
    assert even.ctypes.data % HOST_ALIGNMENT == 0
    assert aligned(even) is even


def test_nothing_waits_for_small_copies(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    monkeypatch.setattr(copy, "MOST_UNDER_WAY", 8)
    session, gate, ended = runtime.open_session(queue), cl.UserEvent(queue.context), threading.Event()
    with session.scope() as outer:
        first, second = outer.empty(400), outer.empty(400)
        session.finish()
        cl.enqueue_barrier(queue, wait_for=[gate])

        def work() -> None:
            numbers = np.arange(100, dtype=np.uint32)
            with session.scope() as inner:
                session.copy(first, inner.copy_of(numbers), 400)
                session.write(second, numbers)
                numbers[:] = 0
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        free = ended.wait(60)
        gate.set_status(cl.command_execution_status.COMPLETE)
        thread.join()
        assert free
        for buffer in (first, second):
            assert np.array_equal(session.download(buffer, 100, np.uint32), np.arange(100))
        for i in range(20):
            session.write(second, np.full(100, i, np.uint32))
        assert (session.download(second, 100, np.uint32) == 19).all()
        copy.drop_arrived()
        assert not copy._under_way
