"""Several queues of one process: the bits of one, whatever is shared out; bad input; devices that fail."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import clquant
from clquant import flow, runtime
from clquant.flow.queues import QueueThreads
from clquant.training.shares import Share

SHARED = "shared_pixels=500,shared_work=1"


@pytest.fixture
def queues(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> list[runtime.CommandQueue]:
    """Two queues of a device, among which even little work is shared out."""
    monkeypatch.setenv("CLQUANT_LIMITS", SHARED)
    return [queue, runtime.sibling_queue(queue)]


@pytest.mark.parametrize("kind", ["uint8", "float32", "weighted", "mapped"])
def test_codebooks_of_rows(queues: Any, rng: np.random.Generator, tmp_path: pathlib.Path, kind: str) -> None:
    rows: Any = rng.integers(0, 255, (700, 5)).astype(np.uint8)
    rows = rows if kind == "uint8" else (rows / 7 - 3).astype(np.float32)
    weights = rng.random(700) if kind == "weighted" else None
    one = clquant.VectorQuantizer(12, refine=1, max_iter=5, queue=queues[0]).fit(rows, sample_weight=weights)
    if kind == "mapped":
        np.save(tmp_path / "rows.npy", rows)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    two = clquant.VectorQuantizer(12, refine=1, max_iter=5, queue=queues).fit(rows, sample_weight=weights)
    assert np.array_equal(one.codebook_, two.codebook_)
    assert np.array_equal(one.labels_, two.labels_)
    assert one.inertia_ == two.inertia_
    assert one.score(rows, sample_weight=weights) == two.score(rows, sample_weight=weights)
    assert np.array_equal(one.transform(rows), two.transform(rows))
    one.partial_fit(rows[:200])
    two.partial_fit(rows[:200])
    assert np.array_equal(one.codebook_, two.codebook_)


def test_codebooks_of_pictures_with_weights(queues: Any, rng: np.random.Generator) -> None:
    pictures = [rng.integers(0, 9, shape).astype(np.uint8) * np.uint8(28) for shape in ((33, 21), (9, 50))]
    fitted = [clquant.VQCodec(9, refine=1, queue=one).fit(pictures, [1.0, 0.3]) for one in (queues[0], queues)]
    assert np.array_equal(fitted[0].codebook_, fitted[1].codebook_)


def test_fit_many_and_streams_use_every_queue(queues: Any, rng: np.random.Generator) -> None:
    pictures = [rng.integers(0, 255, (9 + i, 8, 3)).astype(np.uint8) for i in range(7)]
    one, two = (clquant.KMeansPalette(5, queue=own) for own in (queues[0], queues))
    told: list[tuple[int, int]] = []
    assert two.fit_many(pictures, progress=lambda *step: told.append(step)) == one.fit_many(pictures)
    assert told[-1] == (7, 7)
    two.fit(pictures[0])
    expected = [two.predict(picture) for picture in pictures]
    assert all(map(np.array_equal, two.stream(pictures, "predict", depth=4), expected))
    with pytest.raises(clquant.InvalidArgument, match=r"images\[7\] has the shape"):
        two.fit_many([*pictures, np.zeros((2, 2, 7))])


def test_a_file_of_results(queues: Any, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    picture = rng.integers(0, 255, (90, 40, 3)).astype(np.uint8)
    engine = clquant.KMeansPalette(7, queue=queues).fit(picture)
    out = np.zeros((90, 40), np.uint8)
    told: list[tuple[int, int]] = []
    engine.predict(picture, "blue-noise", out=out, progress=lambda *step: told.append(step))
    assert np.array_equal(out, engine.predict(picture, "blue-noise"))
    assert told[-1] == (90, 90)
    assert len(told) > 1
    with pytest.raises(clquant.StoppedError):
        engine.predict(picture, out=tmp_path / "a.tif", progress=lambda *_: False)
    assert not list(tmp_path.iterdir())


def test_what_is_no_list_of_queues(queue: runtime.CommandQueue) -> None:
    picture, context = np.zeros((4, 4, 3), np.uint8), cl.Context([queue.device])
    for given, text in (
        ([], "queue is empty"),
        ([queue, queue], r"queue\[0\] and queue\[1\] are the same"),
        ([queue, cl.CommandQueue(context)], r"queue\[0\] and queue\[1\] share the device .* in two contexts"),
        ([queue, None], r"queue\[1\] is None"),
        ("gpus", "queue is 'gpus'"),
        (7, "queue is 7"),
    ):
        for call in (clquant.KMeansPalette(2, queue=given).fit, clquant.PinwheelHalftoner(8, queue=given).transform):
            with pytest.raises(clquant.ClquantError, match=text):
                call(picture)


def test_queues_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    best = runtime.list_devices()[0]
    assert [one.device for one in runtime.device_queues([0])] == [best]
    assert runtime.device_queues()[0].device == best
    for given, text in (([], "devices is empty"), ([0, "0"], "twice; allowed: each device once"), (5, "devices is 5")):
        with pytest.raises(clquant.ClquantError, match=text):
            runtime.device_queues(given)  # type: ignore[arg-type]
    monkeypatch.setenv("CLQUANT_DEVICE", "all")
    assert runtime.default_device() == best
    assert [one.device for one in runtime.queues_of(None)] == [one.device for one in runtime.device_queues()]


def test_a_device_that_fails_is_named(queues: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, *_: Any) -> Any:
        raise runtime.DeviceError("the device failed in kernel row_words: lost")

    monkeypatch.setattr(Share, "sums", fail)
    rows = np.arange(900, dtype=np.uint8).reshape(-1, 5)
    with pytest.raises(runtime.DeviceError, match=r"device '.*': the device failed in kernel row_words: lost"):
        clquant.VectorQuantizer(8, refine=0, queue=queues).fit(rows)


def test_an_error_ends_all_threads(queues: Any) -> None:
    def step(number: int, _: runtime.CommandQueue) -> int:
        if number:
            raise clquant.InvalidArgument("wrong")
        return number

    with QueueThreads(queues) as threads:
        with pytest.raises(clquant.InvalidArgument, match="wrong"):
            threads.each(step)
        assert threads.each(lambda number, _: number) == [0, 1]
        assert [end - first for first, end in threads.shares_of(2)] == [1, 1]
        assert sum(end - first for first, end in threads.shares_of(7)) == 7


def test_scans_stay_with_one_queue(queues: Any, rng: np.random.Generator) -> None:
    picture = rng.integers(0, 255, (60, 40, 3)).astype(np.uint8)
    one, two = (clquant.KMeansPalette(5, queue=own).fit(picture) for own in (queues[0], queues))
    assert np.array_equal(one.predict(picture, "floyd-steinberg"), two.predict(picture, "floyd-steinberg"))
    assert one.score(picture) == two.score(picture)
    assert isinstance(flow.executor_for(picture, queue=queues), flow.queues.Several)


def test_devices_of_several_vendors_together(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Whatever is there: PoCL alone, beside Intel's runtime, a GPU beside a CPU."""
    monkeypatch.setenv("CLQUANT_LIMITS", SHARED)
    found = [one for one in runtime.list_devices() if "oclgrind" not in runtime.describe(one).lower()]
    queues = [runtime.default_queue(one) for one in found]
    if len(queues) == 1:
        queues.append(runtime.sibling_queue(queues[0]))
    picture = rng.integers(0, 255, (60, 40, 3)).astype(np.uint8)
    rows = rng.integers(0, 255, (700, 5)).astype(np.uint8)
    engines = [clquant.KMeansPalette(7, queue=own).fit(picture) for own in (queues[0], queues)]
    maps = [engine.predict(picture, "blue-noise") for engine in engines]
    assert np.array_equal(*maps)
    fitted = [clquant.VectorQuantizer(12, refine=1, max_iter=5, queue=own).fit(rows) for own in (queues[0], queues)]
    assert np.array_equal(fitted[0].codebook_, fitted[1].codebook_)
    assert np.array_equal(fitted[0].labels_, fitted[1].labels_)
