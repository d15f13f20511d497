"""Released buffers serve the next job of the same queue, within a bound, and change no result."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyopencl as cl
import pytest

from clquant import runtime
from clquant.runtime.memory import scope as memory
from clquant.runtime.memory.buffer_pool import LEAST, MOST_QUEUES, SMALLEST, BufferPool
from clquant.runtime.transfer import copy


@pytest.fixture
def session(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch, copies_in_turn: None) -> runtime.Session:
    """A session of a device that seems to have memory of its own, with nothing kept."""
    monkeypatch.setattr(memory, "BUFFER_POOL", BufferPool())
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    return runtime.open_session(queue)


def handle_of(session: runtime.Session, nbytes: int) -> int:
    with session.scope() as scope:
        return int(scope.empty(nbytes).int_ptr)


def test_the_next_job_takes_the_same_buffer(session: runtime.Session) -> None:
    first = handle_of(session, 1_000_000)
    assert handle_of(session, 1_000_001) == first
    with session.scope() as scope:
        one, two = scope.empty(1_000_000), scope.empty(1_000_000)
        assert one.int_ptr == first
        assert two.int_ptr != first


def test_a_buffer_in_use_is_not_idle(session: runtime.Session) -> None:
    buffer = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, size=1 << 20)
    gate = cl.UserEvent(session.context)
    memory.BUFFER_POOL.keep(session.queue, [(buffer, 1 << 20)], 1 << 30, gate)
    assert memory.BUFFER_POOL.take(session.queue, 1 << 20, idle=True) is None
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert memory.BUFFER_POOL.take(session.queue, 1 << 20, idle=True) is buffer


def test_another_queue_takes_none(session: runtime.Session) -> None:
    first = handle_of(session, 1_000_000)
    other = runtime.open_session(runtime.sibling_queue(session.queue))
    with session.scope() as scope, other.scope() as others:
        assert others.empty(1_000_000).int_ptr != first
        assert scope.empty(1_000_000).int_ptr == first


def test_buffers_of_the_queues_that_were_used_last_are_kept(session: runtime.Session) -> None:
    queues = [runtime.sibling_queue(session.queue) for _ in range(MOST_QUEUES + 3)]
    for queue in queues:
        handle_of(runtime.open_session(queue), 1_000_000)
    kept = [memory.BUFFER_POOL.take(queue, BufferPool.rounded(1_000_000)) is not None for queue in queues]
    assert kept == [False] * 3 + [True] * MOST_QUEUES


def test_small_buffers_are_kept_too(session: runtime.Session) -> None:
    """NVIDIA's driver waits for all that the device does before it releases one."""
    first = handle_of(session, 1000)
    assert handle_of(session, 1024) == first
    assert handle_of(session, 1025) != first
    assert handle_of(session, 1) != first
    assert handle_of(session, 513) == first
    assert memory.BUFFER_POOL.take(session.queue, 1024, idle=True) is None
    assert memory.BUFFER_POOL.take(session.queue, 1024) is not None


@pytest.mark.parametrize("nbytes", [300, 1 << 20])
def test_arrays_of_one_size_are_copied_to_the_same_buffer(session: runtime.Session, nbytes: int) -> None:
    """Job after job: none is left over, whichever queue copies it."""
    array = np.arange(nbytes, dtype=np.uint8)
    for _ in range(5):
        with session.scope() as scope:
            np.testing.assert_array_equal(session.download(scope.copy_of(array), nbytes, np.uint8), array)
        session.finish()
    assert [len(same) for same in memory.BUFFER_POOL._kept.values()] == [1]


def test_shared_memory_keeps_no_small_buffers_and_no_host_arrays(
    session: runtime.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.limits = dataclasses.replace(session.limits, unified_memory=True)
    handle_of(session, SMALLEST - 1)
    monkeypatch.delenv("CLQUANT_LIMITS")
    with runtime.open_session(session.queue).scope() as scope:
        if runtime.open_session(session.queue).limits.unified_memory:
            assert scope.upload(memory.aligned(np.zeros(1 << 20, np.uint8))).hostbuf is not None
    assert not memory.BUFFER_POOL._kept


def test_shared_memory_is_kept_within_a_smaller_share(session: runtime.Session) -> None:
    session.limits = dataclasses.replace(session.limits, unified_memory=True, global_memory=64 << 20)
    with session.scope() as scope:
        scope.empty(1 << 20)
        scope.empty(1 << 19)
    kept = [kept.buffer.size for same in memory.BUFFER_POOL._kept.values() for kept in same]
    assert 0 < sum(kept) <= 1 << 20


def test_zeros_are_zeros_again(session: runtime.Session) -> None:
    with session.scope() as scope:
        session.fill(scope.empty(1 << 20), np.uint8(255), 1 << 20)
    with session.scope() as scope:
        assert not session.download(scope.zeros(1 << 20), 1 << 20, np.uint8).any()


def test_a_failed_job_keeps_nothing(session: runtime.Session) -> None:
    with pytest.raises(ZeroDivisionError), session.scope() as scope:
        scope.empty(1 << 20)
        raise ZeroDivisionError
    assert not memory.BUFFER_POOL._kept


def test_the_oldest_go_beyond_the_bound(session: runtime.Session) -> None:
    recycler = BufferPool()
    buffers = [cl.Buffer(session.context, cl.mem_flags.READ_WRITE, size=1 << 20) for _ in range(4)]
    for buffer in buffers:
        recycler.keep(session.queue, [(buffer, 1 << 20)], 3 << 20, True)
    with pytest.raises(cl.LogicError):
        buffers[0].release()
    assert recycler.take(session.queue, 1 << 20) is buffers[3]
    recycler.clear()
    assert recycler.take(session.queue, 1 << 20) is None
    buffers[3].release()


@pytest.mark.parametrize("nbytes", [100, 3 << 20])
def test_short_memory_empties_what_is_kept(
    session: runtime.Session, monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    handle_of(session, 1 << 20)
    allocate = memory.allocate
    refusals = iter([True, False])

    def once_short(*arguments: object) -> cl.Buffer:
        if next(refusals):
            raise runtime.DeviceMemoryError("short")
        return allocate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(memory, "allocate", once_short)
    with session.scope() as scope:
        assert scope.empty(nbytes).size >= nbytes
        assert not memory.BUFFER_POOL._kept


def test_memory_short_at_the_first_use_empties_what_is_kept(session: runtime.Session) -> None:
    handle_of(session, 1 << 20)
    with pytest.raises(runtime.DeviceMemoryError), session.scope():
        raise runtime.DeviceMemoryError("short")
    assert not memory.BUFFER_POOL._kept


def test_a_copy_that_nothing_waits_for_keeps_its_buffer_from_others(
    session: runtime.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "SMALLEST", 0)
    data = np.zeros(1 << 20, np.uint8)
    for ordered in (False, True):
        with session.scope() as scope:
            upload = scope.begin_upload(scope.room_for(data), data, 0)
            assert not upload.ordered
            if ordered:
                upload.order()
        assert bool(memory.BUFFER_POOL._kept) == ordered


def test_buffers_of_unknown_use_are_not_kept(session: runtime.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> cl.Event:
        raise cl.RuntimeError("no marker")

    monkeypatch.setattr(memory, "marker", refuse)
    handle_of(session, 1 << 20)
    assert not memory.BUFFER_POOL._kept


def test_large_sizes_are_rounded_by_at_most_an_eighth() -> None:
    for nbytes in (SMALLEST, SMALLEST + 1, 10**6, 201326592, 2**31 + 1):
        assert nbytes <= BufferPool.rounded(nbytes) <= nbytes + nbytes // 8 + 1


def test_small_sizes_are_rounded_to_powers_of_two() -> None:
    expected = {1: LEAST, LEAST: LEAST, LEAST + 1: 2 * LEAST, SMALLEST // 2 + 1: SMALLEST, SMALLEST - 1: SMALLEST}
    assert {nbytes: BufferPool.rounded(nbytes) for nbytes in expected} == expected


def test_release_memory_gives_all_back(session: runtime.Session) -> None:
    handle_of(session, 1 << 20)
    assert memory.BUFFER_POOL._kept
    memory.BUFFER_POOL.clear()
    assert not memory.BUFFER_POOL._kept
    runtime.release_memory()
