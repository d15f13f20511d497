"""Whole jobs in one process, on several devices of the host, and by Dask. `python -m benchmarks dask_devices`.

Each job runs in this process on one queue and on the queues of all devices, then on 1, 2, 4 and so on of Dask's
workers, which have the same data in memory. `CLQUANT_BENCH_DEVICES` names the devices, such as ``0,1`` (default: every
GPU, or the first CPU; a single device counts as two). `--scale 0.01` makes all sizes smaller.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import PIL.Image

import clquant
from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from clquant import runtime
from clquant.color.formats import parallel

COLUMNS = {"job": "job", "way": "way", "x": "devices", "ms": "ms", "rate": "10^6/s", "ratio": "times one queue's rate"}
NOTE = (
    "Best of the timed calls; 10^6 pixels a second, or rows of 128 bytes a step. Aims: Dask's worker 0.8 of one queue; "
    "two queues 1.4 (rows, k = 8,192); two workers 1.9 of one for collections, 1.8 for maps, never slower than one."
)
VARIABLE = "CLQUANT_BENCH_DEVICES"
DEFAULT_SECONDS = 175.0
CHUNKS, QUICK_SCALE = 16, 1 / 4096
COLORS, CODEWORDS, QUICK_CODEWORDS, STEPS = 256, (1024, 8192), (16, 64), (5, 45)


@dataclass(frozen=True)
class Size:
    """How much is done: rows of 128 bytes, a picture in chunks, files of 2 Mpx."""

    rows: int
    codewords: tuple[int, int]
    chunk: tuple[int, int]  # rows and columns of pixels
    files: int
    file_shape: tuple[int, int]

    @classmethod
    def of(cls, options: Options) -> Size:
        """The sizes of DESIGN's table, or a share of them."""
        scale = QUICK_SCALE if options.quick else options.scale
        side = scale**0.5
        codewords = QUICK_CODEWORDS if options.quick else CODEWORDS
        return cls(
            max(round(7_700_000 * scale), 2 * max(codewords)) // CHUNKS * CHUNKS,
            codewords,
            (max(round(4096 * side), 32), max(round(8192 * side), 64)),
            max(round(256 * scale), 8),
            (max(round(1080 * side), 48), max(round(1920 * side), 64)),
        )


class Job(NamedTuple):
    """A job on the data of a name: its size in millions, and its seconds on data and queues (None: Dask's)."""

    name: str
    data: str
    millions: float
    seconds: Callable[[Any, Any], float]


def devices() -> list[str]:
    """What the variable names; by default all that a cluster takes, twice if that is one."""
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE].split(",")
    from clquant.dask.cluster import is_cpu

    known = runtime.list_devices()
    best = [str(i) for i, device in enumerate(known) if not is_cpu(device)] or ["0"]
    return best if len(best) > 1 else 2 * best


def queues_on(names: list[str]) -> list[runtime.CommandQueue]:
    """A queue for each name; a device that is named twice has two."""
    found: list[runtime.CommandQueue] = []
    for name in names:
        queue = runtime.default_queue(runtime.find_device(name))
        found.append(runtime.sibling_queue(queue) if queue in found else queue)
    return found


@contextlib.contextmanager
def collection(photo: Picture, size: Size) -> Iterator[Any]:
    """Files of a photograph in other light, which have been read once."""
    from clquant.dask import Files

    distinct = min(size.files, 64)
    with tempfile.TemporaryDirectory() as folder:
        names = [pathlib.Path(folder) / f"{i:05}.ppm" for i in range(size.files)]
        base = harness.photo_of_size(photo, *size.file_shape)
        for i, name in enumerate(names):
            if i < distinct:
                PIL.Image.fromarray(lighter(base, i * 96 // distinct)).save(name)
            else:
                os.link(names[i % distinct], name)
        yield Files(names)


def lighter(picture: Picture, shift: int) -> Picture:
    """A picture in other light."""
    return np.minimum(picture, 255 - shift) + np.uint8(shift)


@functools.lru_cache(maxsize=1)
def _base(photo_bytes: bytes, photo_shape: tuple[int, ...], shape: tuple[int, int]) -> Picture:
    return harness.photo_of_size(np.frombuffer(photo_bytes, np.uint8).reshape(photo_shape), *shape)


def pixels_of(photo: Picture, shape: tuple[int, int], number: int) -> Picture:
    """A chunk of the picture by its number."""
    return lighter(_base(photo.tobytes(), photo.shape, shape), 5 * number)


def gray_of(photo: Picture, shape: tuple[int, int], number: int) -> Picture:
    """The same in gray."""
    return np.ascontiguousarray(pixels_of(photo, shape, number)[..., 1])


def rows_of(count: int, number: int) -> npt.NDArray[np.uint8]:
    """A chunk of rows around 512 places."""
    centers = np.random.default_rng(0).integers(0, 192, (512, 128), np.uint8)
    rng = np.random.default_rng(1 + number)
    return centers[rng.integers(0, len(centers), count)] + rng.integers(0, 64, (count, 128), np.uint8)


def makers(photo: Picture, size: Size) -> dict[str, tuple[Callable[[int], Any], tuple[int, ...]]]:
    """What makes chunks of each kind of data by their numbers, and their shape."""
    return {
        "rows": (functools.partial(rows_of, size.rows // CHUNKS), (size.rows // CHUNKS, 128)),
        "picture": (functools.partial(pixels_of, photo, size.chunk), (*size.chunk, 3)),
        "gray": (functools.partial(gray_of, photo, size.chunk), size.chunk),
    }


def data_on_workers(make: Callable[[int], Any], shape: tuple[int, ...]) -> Any:
    """Chunks in workers' memory as one array, dealt out among them."""
    import dask.array as da
    from distributed import get_client, wait

    client = get_client()
    there = list(client.nthreads())
    chunks = [
        da.from_delayed(client.submit(make, i, workers=there[i % len(there)], pure=False), shape, np.uint8)
        for i in range(CHUNKS)
    ]
    made = client.persist(da.concatenate(chunks))
    wait(made)
    return made


def seconds_of(call: Callable[[], Any]) -> float:
    """Seconds of a call; what is lazy is computed and stays on workers."""
    begin = time.perf_counter()
    found = call()
    if hasattr(found, "__dask_graph__"):
        from distributed import wait

        found = found.persist()
        wait(found)
    return time.perf_counter() - begin


def step_seconds(codewords: int, rows: Any, queues: Any) -> float:
    """Seconds of a training step, from trainings of two lengths from one start."""
    start = rows_of(codewords, -1)
    taken, steps = [], []
    for most in STEPS:
        engine = clquant.VectorQuantizer(codewords, init=start, refine=0, max_iter=most, queue=queues)
        begin = time.perf_counter()
        steps.append(engine.fit(rows).n_iter_)
        taken.append(time.perf_counter() - begin)
    return max(taken[1] - taken[0], 1e-9) / max(steps[1] - steps[0], 1)


def jobs(size: Size, palette: Any) -> list[Job]:
    """All jobs, those of DESIGN's table first."""
    pixels = CHUNKS * size.chunk[0] * size.chunk[1] / 1e6
    files = size.files * size.file_shape[0] * size.file_shape[1] / 1e6

    def engine(queues: Any) -> clquant.KMeansPalette:
        return clquant.KMeansPalette(COLORS, queue=queues)

    def map_to(given: Any, queues: Any) -> Any:
        mapper = clquant.KMeansPalette(COLORS, queue=queues).fit(palette)
        return seconds_of(lambda: mapper.predict(given, "blue-noise"))

    def halftone(given: Any, queues: Any) -> float:
        return seconds_of(lambda: clquant.PinwheelHalftoner(queue=queues).transform(given))

    def codebook(given: Any, queues: Any) -> float:
        return seconds_of(lambda: clquant.VQCodec(size.codewords[0], queue=queues).fit(given).n_iter_)

    rows = [
        Job(f"a step, {size.rows:,} rows, k = {k:,}", "rows", size.rows / 1e6, functools.partial(step_seconds, k))
        for k in size.codewords
    ]
    return [
        *rows,
        Job(f"k-means, {pixels:.3g} Mpx", "picture", pixels, lambda a, q: seconds_of(lambda: engine(q).fit(a).n_iter_)),
        Job(f"blue noise, {pixels:.3g} Mpx", "picture", pixels, map_to),
        Job(f"pinwheel, gray, {pixels:.3g} Mpx", "gray", pixels, halftone),
        Job(f"codebook, gray, {pixels:.3g} Mpx", "gray", pixels, codebook),
        Job(
            f"{size.files} files, a palette each",
            "files",
            files,
            lambda a, q: seconds_of(lambda: engine(q).fit_many(a)),
        ),
        Job(
            f"{size.files} files, one palette",
            "files",
            files,
            lambda a, q: seconds_of(lambda: engine(q).fit(a).n_iter_),
        ),
    ]


def measure(
    options: Options,
    table: Table,
    all_jobs: list[Job],
    ways: Mapping[str, tuple[int, Any]],
    load: Callable[[str], Any],
) -> list[str]:
    """Add a row for each job and way, with its devices and queues; return those that there was no time for."""
    given, kind, left = None, "", []
    alone = {row["job"]: row["rate"] for row in table.rows if row["x"] == 1 and row["way"] == "one queue"}
    for job in all_jobs:
        for way, (count, queues) in ways.items():
            if options.is_over:
                left.append(f"{job.name} ({way})")
                continue
            if kind != job.data:
                given = None  # before the next is made
                given, kind = load(job.data), job.data
            job.seconds(given, queues)  # compiles
            taken = [job.seconds(given, queues)]
            while len(taken) < min(options.repeat, 2) and not options.is_over:
                taken.append(job.seconds(given, queues))
            rate = job.millions / min(taken)
            ratio = rate / alone.setdefault(job.name, rate)
            table.add(job=job.name, way=way, x=count, ms=1e3 * min(taken), rate=rate, ratio=ratio)
            harness.tell(f"{job.name}, {way}: {1e3 * min(taken):.1f} ms, {ratio:.2f} times one queue's rate")
    return left


def run(options: Options) -> Iterator[Table]:
    """One table: a row for each job on each way."""
    from distributed import Client

    from clquant.dask import LocalOpenCLCluster

    if options.deadline is None:
        options = dataclasses.replace(options, deadline=time.perf_counter() + DEFAULT_SECONDS)
    photo, names, size = next(iter(harness.pictures(options).values())), devices(), Size.of(options)
    table, all_jobs, chunks = Table("One device and several", COLUMNS), jobs(size, photo), makers(photo, size)
    with collection(photo, size) as files:

        def load_here(kind: str) -> Any:
            if kind == "files":
                return files
            make, _ = chunks[kind]
            return np.concatenate([make(0), *parallel.in_threads(lambda i: make(i + 1), CHUNKS - 1)])

        queues = queues_on(names)
        ways = {"one queue": (1, queues[0]), f"{len(queues)} queues": (len(queues), queues)}
        left = measure(options, table, all_jobs, ways, load_here)
        runtime.release_memory()
        for count in [count for count in (1, 2, 4, 8) if count < len(names)] + [len(names)]:
            with LocalOpenCLCluster(names[:count], silence_logs=50) as cluster, Client(cluster):
                ways = {f"Dask, {count} worker{'s'[: count > 1]}": (count, None)}
                load = lambda kind: files if kind == "files" else data_on_workers(*chunks[kind])  # noqa: E731
                left += measure(options, table, all_jobs, ways, load)
    table.note = " ".join([NOTE, *([f"No time left for: {', '.join(left)}."] if left else [])])
    yield table


if __name__ == "__main__":
    harness.main(run)
