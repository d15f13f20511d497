"""Many threads, mixed engines, shared engines and shared queues: the bits of one thread."""

from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import clquant
from clquant import runtime
from clquant.runtime.memory import scope
from portability.buffers import TrackedBuffer, tracked_allocation
from portability.hashes import golden
from portability.inputs import photo
from portability.jobs import JOBS, digest

SMALL = [job for job in JOBS if job.small]


@pytest.mark.full
def test_eight_threads_with_mixed_engines(device: object) -> None:
    def work(turn: int) -> list[str]:
        queue = runtime.default_queue(device)
        jobs = SMALL[turn % len(SMALL) :] + SMALL[: turn % len(SMALL)]
        return [job.name for job in jobs if digest(job.run(queue)) != golden()[job.name]]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [[]] * 8


def test_eight_threads_share_one_engine_and_one_queue(queue: runtime.CommandQueue) -> None:
    picture = photo(40, 52)
    engine = clquant.KMeansPalette(6, max_iter=2, swap_rounds=1, queue=queue).fit(picture)
    codec = clquant.VQCodec(8, max_iter=2, queue=queue).fit(picture)
    indices, table = engine.predict(picture), codec.encode(picture)

    def work(turn: int) -> bool:
        if turn % 2:
            return np.array_equal(codec.encode(picture), table)
        return np.array_equal(engine.predict(picture), indices)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


def test_memory_levels_off(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where Python, NumPy and this library ask for memory: the process's size depends on its allocator."""
    monkeypatch.setattr(scope, "allocate", tracked_allocation)
    halftoner = clquant.PinwheelHalftoner(8, queue=queue)
    builder = clquant.QuadtreeBuilder(queue=queue)
    gray = photo(256, 256, 1)

    def calls(number: int) -> None:
        for _ in range(number):
            halftoner.transform(gray)
            builder.build(gray)
        gc.collect()

    tracemalloc.start()
    try:
        calls(10)
        before, buffers = tracemalloc.get_traced_memory()[0], len(TrackedBuffer.alive)
        calls(30)
        assert tracemalloc.get_traced_memory()[0] - before < 30 * gray.nbytes // 10
        assert len(TrackedBuffer.alive) == buffers
    finally:
        tracemalloc.stop()
        runtime.release_memory()
        TrackedBuffer.alive.clear()
