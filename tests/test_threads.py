"""Many threads, mixed engines, shared engines and shared queues: the bits of one thread."""

from __future__ import annotations

import gc
import resource
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import clquant
from clquant import runtime
from tests.portability.hashes import golden
from tests.portability.inputs import photo
from tests.portability.jobs import JOBS, digest

SMALL = [job for job in JOBS if job.small]


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


def test_memory_levels_off(queue: runtime.CommandQueue) -> None:
    halftoner = clquant.PinwheelHalftoner(8, queue=queue)
    builder = clquant.QuadtreeBuilder(queue=queue)
    gray = photo(256, 256, 1)

    def calls(number: int) -> None:
        for _ in range(number):
            halftoner.transform(gray)
            builder.build(gray)
        gc.collect()

    calls(20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(60)
    # A leak of one picture a call would be 7.7 MB; the peak may still grow by what the allocator keeps.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 6000
