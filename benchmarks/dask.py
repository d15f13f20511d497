"""Dask's overhead on one worker, and weak scaling over workers. `python -m benchmarks dask`.

Workers have chunks in memory before the clock starts. The plain call runs in the worker's own process, one chunk after
another. For weak scaling each worker has one core of a CPU (`POCL_MAX_PTHREAD_COUNT`) and as many chunks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import clquant
from benchmarks import harness
from benchmarks.harness import Options, Picture, Table

WORKERS = (1, 2, 4)
CHUNKS = 4  # of the picture that one worker has
SIDE, SCALING_SIDE, QUICK_SIDE = 4096, 2048, 512
COLORS, CODEWORDS = 256, 256
MOST_WAIT_S = 5.0  # for the scheduler to forget a result
_CORES = "POCL_MAX_PTHREAD_COUNT"
OVERHEAD = {"job": "job", "plain": "plain, s", "dask": "Dask, one worker, s", "ratio": "ratio"}
SCALING = {"job": "job", "x": "workers", "seconds": "s", "ratio": "time over one worker's", "rate": "Mpx/s"}


@contextlib.contextmanager
def cluster(workers: int, options: Options, cores: int | None) -> Iterator[Any]:
    """A client of so many workers on one device, or on as many GPUs as there are."""
    from distributed import Client

    from clquant import runtime
    from clquant.dask import LocalOpenCLCluster

    number = runtime.list_devices().index(runtime.find_device(options.device or "0"))
    before = os.environ.get(_CORES)
    if cores is not None:
        os.environ[_CORES] = str(cores)
    try:
        with LocalOpenCLCluster([number] * workers, silence_logs=50) as made, Client(made) as client:
            client.wait_for_workers(workers)
            yield client
    finally:
        if cores is not None:
            os.environ.pop(_CORES)
            if before is not None:
                os.environ[_CORES] = before


def held(photo: Picture, side: int, chunks: int) -> Any:
    """A lazy picture in workers' memory: squares one below the other, each of a photograph in other light."""
    import dask.array as da
    from distributed import wait

    def drawn(block_info: Any = None) -> Picture:
        shift = 7 * block_info[None]["chunk-location"][0]
        return np.minimum(harness.photo_of_size(photo, side, side), 255 - shift) + np.uint8(shift)

    meta = np.empty((0, 0, 0), np.uint8)
    made = da.map_blocks(drawn, chunks=((side,) * chunks, (side,), (3,)), dtype=np.uint8, meta=meta).persist()
    wait(made)
    return made


def jobs(engine: clquant.KMeansPalette, codec: clquant.VQCodec) -> dict[str, Callable[[Any], Any]]:
    """What is done with a picture, an array or lazy."""
    return {
        f"KMeansPalette({COLORS}).fit": lambda image: clquant.KMeansPalette(COLORS).fit(image),
        "predict": engine.predict,
        "predict, blue noise": functools.partial(engine.predict, dither="blue-noise"),
        "predict, leaky": functools.partial(engine.predict, dither="leaky"),
        f"VQCodec({CODEWORDS}).fit": lambda image: clquant.VQCodec(CODEWORDS, refine=10, max_iter=20).fit(image),
        "VQCodec.encode": codec.encode,
        "PinwheelHalftoner.transform": clquant.PinwheelHalftoner().transform,
    }


def once(call: Callable[[], Any]) -> float:
    """Seconds of a call whose result is let go of afterwards."""
    from distributed import wait

    before, begin = known_tasks(), time.perf_counter()
    found = call()
    if hasattr(found, "__dask_graph__"):
        found = found.persist()
        wait(found)
    taken = time.perf_counter() - begin
    del found
    give_up = time.perf_counter() + MOST_WAIT_S
    while known_tasks() > before and time.perf_counter() < give_up:  # what is held need not be computed again
        time.sleep(0.01)
    return taken


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """The median of some calls after one that compiles."""
    return float(np.median([once(call) for _ in range(repeat + 1)][1:]))


def known_tasks() -> int:
    """Tasks that the scheduler knows; 0 on a worker."""
    from distributed import get_client, get_worker

    with contextlib.suppress(ValueError):
        get_worker()
        return 0
    return int(get_client().run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))


def plain(job: Callable[[Any], Any], blocks: list[Picture]) -> float:
    """Seconds of the same on arrays, in this process; what learns takes all of them together."""
    if isinstance(job, functools.partial) or hasattr(job, "__self__"):
        return once(lambda: [job(block) for block in blocks])
    return once(lambda: job(blocks))


def overhead(options: Options, photo: Picture) -> Table:
    """One worker beside the plain call."""
    side = min(QUICK_SIDE, options.largest) if options.quick else SIDE
    pixels = side * side / 1e6
    note = f"{CHUNKS} chunks of {pixels:.1f} Mpx RGB in the worker's memory; results stay there."
    table = Table("Dask: one worker beside the plain call", OVERHEAD, note=note)
    small = harness.photo_of_size(photo, 512, 512)
    engine = clquant.KMeansPalette(COLORS).fit(small)
    codec = clquant.VQCodec(CODEWORDS, refine=0, max_iter=3).fit(small)
    with cluster(1, options, None) as client:
        picture = held(photo, side, CHUNKS)
        blocks = list(picture.to_delayed().ravel())
        for name, job in jobs(engine, codec).items():
            if options.is_over:
                break
            given, taken = client.compute(blocks), []
            for _ in range(options.repeat + 1):  # in turn, as other work on the machine comes and goes
                there = client.submit(plain, job, given, pure=False).result()
                taken.append((there, once(functools.partial(job, picture))))
            apart, spread = np.median(taken[1:], axis=0).tolist()
            table.add(job=name, plain=apart, dask=spread, ratio=spread / apart)
    return table


def scaling(options: Options, photo: Picture) -> Table:
    """As much work per worker on 1, 2 and 4 workers."""
    side = min(QUICK_SIDE, options.largest) if options.quick else SCALING_SIDE
    note = f"{CHUNKS} chunks of {side * side / 1e6:.1f} Mpx RGB and one core per worker; ideal: the same time."
    table = Table("Dask: weak scaling", SCALING, note=note)
    small = harness.photo_of_size(photo, 512, 512)
    engine = clquant.KMeansPalette(COLORS).fit(small)
    codec = clquant.VQCodec(CODEWORDS, refine=0, max_iter=3).fit(small)
    first: dict[str, float] = {}
    for workers in WORKERS[: 1 if options.quick else None]:
        if options.is_over or workers > (os.cpu_count() or 1):
            break
        with cluster(workers, options, 1):
            picture = held(photo, side, CHUNKS * workers)
            for name, job in jobs(engine, codec).items():
                taken = seconds(functools.partial(job, picture), options.repeat)
                ratio = taken / first.setdefault(name, taken)
                rate = picture.shape[0] * picture.shape[1] / 1e6 / taken
                table.add(job=name, x=workers, seconds=taken, ratio=ratio, rate=rate)
    return table


def run(options: Options) -> Iterator[Table]:
    """Both tables."""
    photo = next(iter(harness.pictures(options).values()))
    yield overhead(options, photo)
    yield scaling(options, photo)


if __name__ == "__main__":
    harness.main(run)
