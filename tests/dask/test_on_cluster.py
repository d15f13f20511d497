"""On a cluster of two workers: files, verifying, errors that say where, and clients that disappear."""

from __future__ import annotations

import copy
import os
import pathlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import PIL.Image
import pytest
from distributed import Client, LocalCluster, SchedulerPlugin, worker_client

import clquant
from clquant import runtime
from clquant.dask import (
    Files,
    LocalOpenCLCluster,
    MismatchError,
    files,
    maps,
    reductions,
    sums,
    verify,
    work,
)
from clquant.dask.verify import connect
from clquant.flow.file_sinks import digest_of as digest
from clquant.palette.engine import predict

PALETTE = clquant.Palette([(0, 0, 0), (255, 255, 255), (200, 30, 30)])

pytestmark = pytest.mark.filterwarnings("ignore")  # of asyncio, when clients go


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalOpenCLCluster([0, 0], silence_logs=50) as cluster, Client(cluster) as made:
        made.wait_for_workers(2, timeout=120)
        yield made


@pytest.fixture
def picture() -> Any:
    return np.random.default_rng(3).integers(0, 256, (90, 70, 3), dtype=np.uint8)


def _pid(_: Any) -> int:
    return os.getpid()


def _unlike(_: Any) -> Any:
    return np.array([os.getpid()])


def _starved(*_: Any) -> Any:
    raise clquant.DeviceMemoryError("no room for 7 bytes")


@pytest.mark.full
def test_files_are_spread(client: Client, tmp_path: pathlib.Path) -> None:
    for i in range(40):
        values = np.random.default_rng(i).integers(0, 5, (9, 11, 3), np.uint8) * np.uint8(50)
        PIL.Image.fromarray(values).save(tmp_path / f"{i:02}.png")
    given = Files(tmp_path)
    paths = list(given)
    assert work.workers() == 2
    assert clquant.KMeansPalette(7).fit(given).palette_ == clquant.KMeansPalette(7).fit(paths).palette_
    assert clquant.KMeansPalette(7).fit_many(given) == clquant.KMeansPalette(7).fit_many(paths)
    engine = clquant.KMeansPalette(7).fit(paths)
    for one, other in zip(engine.stream(given, "quantize"), paths, strict=True):
        assert np.array_equal(one.indices, engine.predict(other))
    taken = engine.stream(given)
    next(taken)
    taken.close()  # leaves nothing running


@pytest.mark.full
@pytest.mark.parametrize("most", [1, 9000, 1 << 28])
def test_palettes_are_learned_where_the_colours_are(client: Client, picture: Any, monkeypatch: Any, most: int) -> None:
    monkeypatch.setattr(reductions, "MOST_AT_ONCE", most)
    given = da.from_array(picture, (20, 25, 3)).persist()
    done: list[tuple[int, int]] = []
    for engine in (clquant.KMeansPalette(7), clquant.NeuQuantCL(8)):
        done.clear()
        one = copy.copy(engine).fit_histogram(clquant.ColorHistogram.of(picture))
        assert copy.copy(engine).fit(given).palette_ == one.palette_
        assert engine.fit([given[:40], given[40:]], progress=lambda *now: done.append(now)).palette_ == one.palette_
        assert done[0][0] == 0
        assert done[-1][0] == done[-1][1]
        with pytest.raises(clquant.StoppedError):
            engine.fit(given, progress=lambda *_: False)
        own = type(engine)(engine.n_colors, queue=runtime.default_queue()).fit(given)
        assert own.palette_ == one.palette_


@pytest.mark.full
@pytest.mark.parametrize("at_once", [2, 8])
@pytest.mark.parametrize("count", [1, 2, 9, 40])
def test_sums_are_made_where_values_are(client: Client, monkeypatch: Any, at_once: int, count: int) -> None:
    monkeypatch.setattr(sums, "MERGED_AT_ONCE", at_once)
    told: list[tuple[int, int]] = []

    def tells(*now: int) -> bool:
        told.append(now)
        return True

    before = set(client.futures)  # tests that failed calls on purpose may have left some
    parts = [dask.delayed(_set)(i) for i in range(count)]
    found = sums.merged(_union, _union, parts, runtime.Progress(tells))
    assert found == set(range(count))
    assert told[0] == (0, count + 1)
    assert told[-1] == (count + 1, count + 1)
    assert told == sorted(told)
    with pytest.raises(clquant.StoppedError):
        sums.merged(_union, _union, parts, runtime.Progress(lambda done, _: done == 0))
    with pytest.raises(ZeroDivisionError):
        sums.merged(_union, _union, [*parts, dask.delayed(divmod)(1, 0)], runtime.Progress(None))
    end = time.monotonic() + 20
    while set(client.futures) - before and time.monotonic() < end:
        time.sleep(0.01)
    assert not set(client.futures) - before


def _set(number: int) -> set[int]:
    return {number}


def _union(given: list[set[int]]) -> set[int]:
    assert len(given) == len({min(one) for one in given})  # nothing twice
    return set().union(*given)


@pytest.mark.full
def test_verbs_take_what_workers_hold(client: Client, picture: Any) -> None:
    given, gray = da.from_array(picture, (40, 33, 3)).persist(), picture[:, :, 1].copy()
    codec = clquant.VQCodec(9, refine=0, max_iter=2).fit(picture)
    halftoner, builder = clquant.PinwheelHalftoner(8), clquant.QuadtreeBuilder(75.0)
    for made, expected in (
        (predict(given, PALETTE, dither="leaky"), predict(picture, PALETTE, dither="leaky")),
        (predict(given, PALETTE, dither="burkes"), predict(picture, PALETTE, dither="burkes")),
        (halftoner.transform(given[:, :, 1]), halftoner.transform(gray)),
        (codec.decode(codec.encode(given)), codec.decode(codec.encode(picture))),
        (builder.leaves(given), builder.leaves(picture)),
        (clquant.quality.ssim(given, picture // 2), clquant.quality.ssim(picture, picture // 2)),
    ):
        assert np.array_equal(made.compute(), expected)


@pytest.mark.full
def test_serial_scans_are_written_as_they_come(client: Client, picture: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(maps, "PIXELS", 500)
    out = np.empty(picture.shape[:2], np.uint8)
    predict(da.from_array(picture, (20, 33, 3)), PALETTE, dither="floyd-steinberg", out=out)
    assert np.array_equal(out, predict(picture, PALETTE, dither="floyd-steinberg"))


@pytest.mark.full
def test_verified_results_are_those_of_two_workers(client: Client, picture: Any) -> None:
    given = da.from_array(picture, (40, 70, 3))
    with verify(1.0):
        lazy = predict(given, PALETTE, dither="blue-noise")
        assert clquant.KMeansPalette(7).fit(given).palette_ == clquant.KMeansPalette(7).fit(picture).palette_
        one, other = (clquant.VQCodec(9, refine=0, max_iter=4).fit(image) for image in (given, picture))
        assert np.array_equal(one.codebook_, other.codebook_)
        task = work.named(_unlike)
    assert np.array_equal(lazy.compute(), predict(picture, PALETTE, dither="blue-noise"))
    with pytest.raises(MismatchError, match=r"_unlike differ: sha256 \w+ of worker .*, device .* of worker .*, device"):
        client.submit(task, 1).result()
    with pytest.raises(clquant.InvalidArgument, match="share is 2"), verify(2):
        pass


def test_digests_are_of_values() -> None:
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert digest(values) == digest(np.asfortranarray(values))
    assert digest(values) != digest(values.T)
    assert digest(PALETTE) == digest(clquant.Palette(PALETTE.colors))
    assert len({digest(one) for one in (1, 1.5, "1", None, [1], [[1]], {"a": 1}, PALETTE, values[0])}) == 9


def test_a_device_without_memory_is_named_once(client: Client, picture: Any) -> None:
    with pytest.raises(clquant.DeviceMemoryError, match=r"worker '[01]: .*', device '.*': no room for 7 bytes"):
        client.submit(work.named(_starved), 1).result()
    with pytest.raises(clquant.DeviceMemoryError) as found:
        client.submit(work.named(work.named(_starved)), 1).result()
    assert str(found.value).count("worker '") == 1
    with pytest.raises(clquant.DeviceMemoryError) as found:
        reductions._Group([picture], numbers=[0]).reduced(_starved, len).result()
    assert str(found.value).count("worker '") == 1


class _Unlike:
    """An engine whose results are its process's."""

    def fit_many(self, images: Any) -> list[int]:
        return [os.getpid()] * len(images)


def test_palettes_of_files_are_verified(client: Client) -> None:
    paths = [__file__] * 3
    assert len(files.fit_many(_Unlike(), Files(paths))) == 3
    with pytest.raises(MismatchError, match="_called differ"), verify(1.0):
        files.fit_many(_Unlike(), Files(paths))


class _Broadcast(SchedulerPlugin):
    """Tells all clients something in the same moment as a new one gets its welcome."""

    idempotent = True

    def __init__(self) -> None:
        self.left = 2

    def add_client(self, scheduler: Any, client: str) -> None:  # noqa: ARG002
        if self.left:
            self.left -= 1
            scheduler.loop.add_callback(scheduler.report, {"op": "cancelled-keys", "keys": [], "reason": "", "msg": ""})


@pytest.mark.full
def test_a_worker_connects_amid_broadcasts() -> None:
    with LocalCluster(n_workers=1, dashboard_address=None, silence_logs=50) as cluster, Client(cluster) as own:
        own.register_plugin(_Broadcast())
        assert own.submit(_connected).result() == 1


def _connected() -> int:
    connect()
    with worker_client() as there:
        return len(there.nthreads())


@pytest.mark.parametrize(
    "engine", [clquant.KMeansPalette(4), pytest.param(clquant.VQCodec(4, refine=0), marks=pytest.mark.full)]
)
def test_a_chunk_that_cannot_be_read_is_named_once(client: Client, picture: Any, engine: Any) -> None:
    def fails(block: Any, block_info: Any = None) -> Any:
        if block_info and block_info[0]["chunk-location"] == (2, 1, 0):
            raise OSError("the disk is gone")
        return block

    broken = da.from_array(picture, (30, 40, 3)).map_blocks(fails, dtype=np.uint8, meta=np.empty((0, 0, 0), np.uint8))
    with pytest.raises(
        clquant.FileError, match=r"images\[1\] \(fails-\w+\): cannot read the chunk at row 60, column 40: the disk"
    ):
        engine.fit([da.from_array(picture, (50, 50, 3)), broken])


@pytest.mark.full
def test_a_client_that_disappears_leaves_nothing(client: Client) -> None:
    script = f"""
        import sys, time
        import clquant, dask.array as da, numpy as np
        from distributed import Client
        if __name__ == "__main__":
            with Client({client.scheduler.address!r}):
                image = da.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8, chunks=(400, 1200))
                def told(done, total):
                    print(done, flush=True)
                    time.sleep(0.05)
                    return True
                clquant.VQCodec(256, refine=1000).fit(image, progress=told)
    """
    before = client.run_on_scheduler(_tasks)
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"0\n"
    child.stdout.readline()
    assert client.run_on_scheduler(_tasks) - before
    child.kill()
    child.wait()
    child.stdout.close()
    _is_over(client, before)


@pytest.mark.full
@pytest.mark.parametrize("chunk", [400, 1200])
def test_training_stops_where_the_client_says_so(client: Client, chunk: int) -> None:
    before = client.run_on_scheduler(_tasks)
    values = np.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8)
    image = da.from_array(values, (chunk, 1200))
    steps: list[tuple[int, int]] = []
    with pytest.raises(clquant.StoppedError, match="at 3 of 1021"):
        clquant.VQCodec(256, refine=1000).fit(image, progress=lambda *step: steps.append(step) or step[0] < 3)
    assert steps == [(done, 1021) for done in range(4)]
    _is_over(client, before)
    whole, told = clquant.VQCodec(16, refine=3), list[tuple[int, int]]()
    whole.fit(image, progress=lambda *step: told.append(step))
    assert told == sorted(set(told))
    assert (told[0], told[-1]) == ((0, 24), (24, 24))
    assert np.array_equal(whole.codebook_, clquant.VQCodec(16, refine=3).fit(values).codebook_)


def _is_over(client: Client, before: set[str]) -> None:
    """Nothing is left at the scheduler."""
    for _ in range(100):
        left = client.run_on_scheduler(_tasks) - before
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


def _tasks(dask_scheduler: Any) -> set[str]:
    return {str(key) for key in dask_scheduler.tasks}
