"""Large copies through pinned staging give the same bytes as plain ones."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clquant import runtime
from clquant.runtime.transfer import copy
from clquant.runtime.transfer import staging as staging_module
from clquant.runtime.transfer.staging import ranges_of


@pytest.fixture
def staged(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch, copies_in_turn: None) -> runtime.Session:
    """A session that stages every copy in chunks of 1000 bytes, as a device with memory of its own would."""
    monkeypatch.setattr(copy, "SMALLEST", 0)
    monkeypatch.setattr(copy, "SMALLEST_DOWN", 0)
    monkeypatch.setattr(copy, "UNAWAITED_BYTES", 0)
    for name, value in (("CHUNK_BYTES", 1000), ("LEAST_PER_LANE", 1)):
        monkeypatch.setattr(staging_module, name, value)
    monkeypatch.setattr(staging_module, "_stagings", type(staging_module._stagings)())
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    session = runtime.open_session(queue)
    assert not session.limits.unified_memory
    return session


@pytest.mark.parametrize("nbytes", [1, 999, 1000, 1001, 7777, 100_003])
def test_bytes_survive_both_ways(staged: runtime.Session, nbytes: int, rng: np.random.Generator) -> None:
    data = rng.integers(0, 256, nbytes, dtype=np.uint8)
    with staged.scope() as scope:
        buffer = scope.copy_of(data)
        assert np.array_equal(staged.download(buffer, nbytes, np.uint8), data)
        assert staging_module._stagings


def test_offsets_and_wider_types(staged: runtime.Session, rng: np.random.Generator) -> None:
    data = rng.integers(0, 2**32, (50, 60), dtype=np.uint32)
    with staged.scope() as scope:
        buffer = scope.zeros(data.nbytes + 400)
        staged.write(buffer, data, offset=400)
        assert np.array_equal(staged.download(buffer, data.shape, np.uint32, offset=400), data)
        assert not staged.download(buffer, 100, np.uint32).any()


def test_copies_wait_for_what_was_queued(staged: runtime.Session) -> None:
    with staged.scope() as scope:
        buffer = scope.empty(1 << 20)
        for value in range(20):
            staged.fill(buffer, np.uint8(value), 1 << 20)
        assert (staged.download(buffer, 1 << 20, np.uint8) == 19).all()


def test_threads_share_one_staging(staged: runtime.Session) -> None:
    wrong: list[int] = []

    def work(value: int) -> None:
        with staged.scope() as scope:
            data = np.full(20_000, value, np.uint8)
            if not np.array_equal(staged.download(scope.copy_of(data), 20_000, np.uint8), data):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_pinned_memory_the_plain_copy_serves(
    staged: runtime.Session, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    def refuse(*_: object) -> object:
        raise cl.MemoryError("no pinned memory")

    monkeypatch.setattr(staging_module, "Staging", refuse)
    data = rng.integers(0, 256, 5000, dtype=np.uint8)
    with staged.scope() as scope:
        assert np.array_equal(staged.download(scope.copy_of(data), 5000, np.uint8), data)


def test_a_failing_transfer_is_one_error(staged: runtime.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with staged.scope() as scope:
        buffer = scope.empty(5000)
        with pytest.raises(runtime.DeviceError, match="copying to the device"):
            staged.write(buffer, np.zeros(9000, np.uint8))
        assert staged.download(scope.zeros(5000), 5000, np.uint8).sum() == 0


@given(st.integers(0, 1 << 29), st.integers(1, 12))
def test_pieces_cover_all_bytes_once_and_fit_a_chunk(nbytes: int, lanes: int) -> None:
    ranges = list(ranges_of(nbytes, lanes, 8 << 20))
    assert [begin for begin, _ in ranges] + [nbytes] == [0] + [end for _, end in ranges]
    assert all(0 < end - begin <= 8 << 20 for begin, end in ranges)
    assert all(begin % staging_module.LINE == 0 for begin, _ in ranges)


@pytest.mark.parametrize(("nbytes", "least", "lanes"), [(100_003, 1, 4), (2999, 1000, 2), (999, 1000, 1)])
def test_copies_take_as_many_lanes_as_they_keep_busy(
    staged: runtime.Session,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
    nbytes: int,
    least: int,
    lanes: int,
) -> None:
    monkeypatch.setattr(staging_module, "LEAST_PER_LANE", least)
    monkeypatch.setattr(staging_module, "LANES_BESIDE_OTHERS", 3)
    monkeypatch.setattr(staging_module.os, "cpu_count", lambda: 8)
    data, found = rng.integers(0, 256, nbytes, dtype=np.uint8), np.zeros(nbytes, np.uint8)
    made = staging_module.staging(staged.context, staged.device)
    assert made is not None
    with staged.scope() as scope, contextlib.ExitStack() as jobs:
        for number, taken in enumerate((lanes, lanes, min(lanes, 3), min(lanes, 3))):
            buffer = scope.zeros(nbytes)
            staged.finish()
            upload = made.begin_upload(buffer, data, 0, [])
            assert len(upload._slices) == taken, f"{number} jobs that share lanes"
            made.download(found, buffer, 0, upload.events())
            assert np.array_equal(found, data)
            found[:] = 0
            jobs.enter_context(staging_module.sharing_lanes())
    assert not staging_module._sharing


def lane_of(session: runtime.Session) -> staging_module.Lane:
    made = staging_module.staging(session.context, session.device)
    assert made is not None
    return made._lanes[0]


def test_a_failed_upload_is_not_the_next_jobs_error(staged: runtime.Session, rng: np.random.Generator) -> None:
    lane, gate = lane_of(staged), cl.UserEvent(staged.context)
    data = rng.integers(0, 256, 1500, dtype=np.uint8)
    with staged.scope() as scope:
        buffer = scope.empty(1500)
        failing = lane.upload(buffer, data[500:][::-1].copy(), 0, ranges_of(1000, 1, 1000), [gate])
        gate.set_status(cl.status_code.OUT_OF_RESOURCES)
        cl.wait_for_events(lane.upload(buffer, data, 0, ranges_of(1500, 1, 1000), []))
        assert np.array_equal(staged.download(buffer, 1500, np.uint8), data)
        for event in failing:
            with pytest.raises(cl.Error):
                event.wait()


def test_an_upload_that_fails_is_told(staged: runtime.Session) -> None:
    with staged.scope() as scope:
        for nbytes, events in ((0, 0), (1000, 1), (1001, 1), (5000, 1)):
            source, ranges = np.zeros(nbytes, np.uint8), ranges_of(nbytes, 1, 1000)
            assert len(lane_of(staged).upload(scope.empty(nbytes), source, 0, ranges, [])) == events
        gate = cl.UserEvent(staged.context)
        upload = lane_of(staged).upload(
            scope.empty(1000), np.zeros(1000, np.uint8), 0, ranges_of(1000, 1, 1000), [gate]
        )
        gate.set_status(cl.status_code.OUT_OF_RESOURCES)
        for event in upload:
            with pytest.raises(cl.Error):
                event.wait()


def test_an_upload_stops_at_the_chunk_that_failed(staged: runtime.Session) -> None:
    lane, gate = lane_of(staged), cl.UserEvent(staged.context)
    ranges = ranges_of(3000, 1, 1000)
    threading.Timer(0.05, gate.set_status, [cl.status_code.OUT_OF_RESOURCES]).start()
    with staged.scope() as scope, pytest.raises(cl.Error):
        lane.upload(scope.empty(3000), np.zeros(3000, np.uint8), 0, ranges, [gate])
    assert len(ranges) == 1  # the second was taken when the first failed


def test_a_failed_download_leaves_no_chunk_in_use(staged: runtime.Session, rng: np.random.Generator) -> None:
    lane, gate = lane_of(staged), cl.UserEvent(staged.context)
    data = rng.integers(0, 256, 1500, dtype=np.uint8)
    with staged.scope() as scope:
        source, target = scope.zeros(1500), scope.empty(1500)
        failed: list[BaseException] = []

        def work() -> None:
            try:
                lane.download(np.empty(1500, np.uint8), source, 0, ranges_of(1500, 1, 1000), [gate])
            except cl.Error as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while lane._pending is None:
            time.sleep(0.001)
        gate.set_status(cl.status_code.OUT_OF_RESOURCES)
        thread.join()
        assert failed
        cl.wait_for_events(lane.upload(target, data, 0, ranges_of(1500, 1, 1000), []))
        assert np.array_equal(staged.download(target, 1500, np.uint8), data)


def test_release_memory_gives_the_pinned_chunks_back(staged: runtime.Session, rng: np.random.Generator) -> None:
    data = rng.integers(0, 256, 5000, dtype=np.uint8)
    for _ in range(2):
        with staged.scope() as scope:
            buffer = scope.copy_of(data)
            assert staging_module._stagings
            runtime.release_memory()
            assert not staging_module._stagings
            assert np.array_equal(staged.download(buffer, 5000, np.uint8), data)
