"""Collections and training on one device and on several, by Dask. `python -m benchmarks dask_devices`.

2,000 files of 2 Mpx in page cache, a palette each and one of all; a codebook of eight pictures of 67 Mpx in workers'
memory. Workers are as many as 1, 2, 4 and so on, up to the devices that the variable `CLQUANT_BENCH_DEVICES` names,
such as ``0,1`` (default: every GPU, or the first CPU; one device has two workers). One that is named twice has two.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

import clquant
from benchmarks import harness
from benchmarks.harness import Options, Picture, Table

COLUMNS = {"job": "job", "x": "workers", "seconds": "s", "rate": "Mpx/s", "ratio": "times one worker's rate"}
NOTE = "Best of the timed calls. The aim on two GPUs: 1.9 for collections, 1.8 for training."


@dataclass(frozen=True)
class Size:
    """How much is done.

    Attributes
    ----------
    files, distinct : int
        Names of files, and files that they stand for.
    shape : (int, int)
        Pixels of a file.
    squares, side : int
        Pictures for the codebook, and their side.
    """

    files: int
    distinct: int
    shape: tuple[int, int]
    squares: int
    side: int


FULL = Size(2000, 200, (1080, 1920), 8, 8192)
QUICK = Size(8, 4, (48, 64), 2, 128)
COLORS, CODEWORDS = 256, 1024
VARIABLE = "CLQUANT_BENCH_DEVICES"


def devices() -> list[str | int]:
    """What the variable names; by default all that a cluster takes, twice if that is one."""
    from clquant import runtime
    from clquant.dask.cluster import is_cpu

    if os.environ.get(VARIABLE):
        return [*os.environ[VARIABLE].split(",")]
    known = runtime.list_devices()
    best = [i for i, device in enumerate(known) if not is_cpu(device)] or [0]
    return [*best] if len(best) > 1 else 2 * best


@contextlib.contextmanager
def collection(photo: Picture, size: Size) -> Iterator[Any]:
    """Files of parts of a photograph in other light, which have been read once."""
    from clquant.dask import Files

    with tempfile.TemporaryDirectory() as folder:
        names = [pathlib.Path(folder) / f"{i:05}.ppm" for i in range(size.files)]
        base = harness.photo_of_size(photo, *size.shape)
        for i, name in enumerate(names):
            if i < size.distinct:
                shift = i * 96 // size.distinct
                PIL.Image.fromarray(np.minimum(base, 255 - shift) + np.uint8(shift)).save(name)
            else:
                os.link(names[i % size.distinct], name)
        yield Files(names)


def squares(photo: Picture, size: Size) -> list[Any]:
    """Gray pictures in workers' memory, dealt out among them."""
    import dask.array as da
    from distributed import get_client, wait

    client = get_client()
    workers = list(client.nthreads())

    def drawn(shift: int) -> Picture:
        gray = harness.photo_of_size(photo, size.side, size.side)[..., 1]
        return np.minimum(gray, 255 - shift) + np.uint8(shift)

    futures = [
        client.submit(drawn, 9 * i, workers=[workers[i % len(workers)]], pure=False) for i in range(size.squares)
    ]
    wait(futures)
    given = [client.persist(da.from_delayed(future, (size.side, size.side), np.uint8)) for future in futures]
    wait(given)
    return given


def best(call: Callable[[], Any], options: Options) -> float:
    """Seconds of the fastest call after one that compiles."""
    taken = []
    for _ in range(1 + min(options.repeat, 3)):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
        if options.is_over:
            break
    return min(taken[1:] or taken)


def run(options: Options) -> Iterator[Table]:
    """One table: a row per job and number of workers."""
    from distributed import Client

    from clquant.dask import LocalOpenCLCluster

    photo = next(iter(harness.pictures(options).values()))
    size, there = QUICK if options.quick else FULL, devices()
    table, alone = Table("Dask: one device and several", COLUMNS, note=NOTE), {}
    files_mpx = size.files * size.shape[0] * size.shape[1] / 1e6
    square_mpx = size.squares * size.side**2 / 1e6
    counts = [count for count in (1, 2, 4, 8, 16) if count < len(there)] + [len(there)]
    with collection(photo, size) as files:
        for count in counts:
            with LocalOpenCLCluster(there[:count], silence_logs=50) as cluster, Client(cluster) as client:
                client.wait_for_workers(count)
                pictures = squares(photo, size)
                jobs = {
                    f"{size.files} files, a palette each": (files_mpx, lambda: _palettes().fit_many(files)),
                    f"{size.files} files, one palette": (files_mpx, lambda: _palettes().fit(files)),
                    f"codebook of {square_mpx:.3g} Mpx": (square_mpx, lambda given=pictures: _codec().fit(given)),
                }
                for name, (mpx, call) in jobs.items():
                    taken = best(call, options)
                    ratio = alone.setdefault(name, taken) / taken
                    table.add(job=name, x=count, seconds=taken, rate=mpx / taken, ratio=ratio)
    yield table


def _palettes() -> clquant.KMeansPalette:
    return clquant.KMeansPalette(COLORS)


def _codec() -> clquant.VQCodec:
    return clquant.VQCodec(CODEWORDS)


if __name__ == "__main__":
    harness.main(run)
