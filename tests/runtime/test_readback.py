"""Readings are what a buffer held when they were asked for, and no host waits for them before it wants to."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from clquant import runtime


@pytest.fixture(params=["shared memory", "memory of its own"])
def session(request: pytest.FixtureRequest, queue: Any, monkeypatch: pytest.MonkeyPatch) -> runtime.Session:
    if request.param == "memory of its own":
        monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    return runtime.open_session(queue)


def test_what_is_queued_later_does_not_change_a_reading(session: runtime.Session) -> None:
    with session.scope() as scope:
        buffer = scope.copy_of(np.arange(5, dtype=np.uint32))
        readings = []
        for i in range(6):
            readings.append(runtime.Readback(session, buffer, 5, np.uint32))
            session.fill(buffer, np.uint32(i), 20)
        readings.append(runtime.Readback(session, buffer, (1, 2), np.uint32))
        assert readings[0].array().tolist() == [0, 1, 2, 3, 4]
        assert [reading.array().tolist() for reading in readings[1:6]] == [[i] * 5 for i in range(5)]
        assert readings[6].array().tolist() == [[5, 5]]
        assert readings[0].array().tolist() == [0, 1, 2, 3, 4]


def test_the_host_goes_on_while_a_reading_waits(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    session, gate, ended = runtime.open_session(queue), cl.UserEvent(queue.context), threading.Event()
    found: list[runtime.Readback] = []
    with session.scope() as scope:
        buffer = scope.copy_of(np.arange(3, dtype=np.uint32))
        runtime.Readback(session, buffer, 3, np.uint32)  # page-locked memory comes from the second of a size on
        session.finish()
        cl.enqueue_barrier(queue, wait_for=[gate])

        def work() -> None:
            found.append(runtime.Readback(session, buffer, 3, np.uint32))
            runtime.Readback(session, buffer, 3, np.uint32)  # dropped at once
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        free = ended.wait(60)
        gate.set_status(cl.command_execution_status.COMPLETE)
        thread.join()
        assert free
        assert found[0].array().tolist() == [0, 1, 2]
