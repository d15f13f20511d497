"""Overlapped parts of pictures give what whole ones give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import clquant
from clquant import KMeansPalette, images, runtime
from clquant.flow import Steps
from clquant.flow.source import PictureSource
from clquant.histogram import counting
from clquant.images import upload
from clquant.palette import engine
from clquant.runtime.memory import scope as memory
from clquant.runtime.transfer import copy
from clquant.runtime.transfer import staging as staging_module


@pytest.fixture
def session(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch, copies_in_turn: None) -> runtime.Session:
    """A session of a device that seems to have memory of its own, with several lanes."""
    for name in ("SMALLEST", "SMALLEST_DOWN", "UNAWAITED_BYTES"):
        monkeypatch.setattr(copy, name, 0)
    monkeypatch.setattr(upload, "PAGEABLE_PART", 5000)
    monkeypatch.setattr(upload, "STAGED_BYTES", 4096)
    for name, value in (("CHUNK_BYTES", 1000), ("LEAST_PER_LANE", 1)):
        monkeypatch.setattr(staging_module, name, value)
    monkeypatch.setattr(staging_module, "_stagings", type(staging_module._stagings)())
    monkeypatch.setattr(staging_module.os, "cpu_count", lambda: 8)
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    return runtime.open_session(queue)


@pytest.mark.parametrize(("bands", "rows"), [(1, 64), (2, 32), (4, 16), (8, 12), (64, 12)])  # 4096 bytes are 13 rows
def test_bands_are_of_whole_multiples(session: runtime.Session, bands: int, rows: int) -> None:
    with runtime.force_tuning({"transfer.bands": bands}):
        assert upload.part_rows(session, 64, 333, True, multiple_of=2) == rows


@pytest.mark.parametrize(("least", "rows"), [(0, 64), (100, 100), (10**6, 512)])
def test_bands_of_blocks_have_the_rows_that_keep_a_device_busy(session: runtime.Session, least: int, rows: int) -> None:
    picture = images.read(np.zeros((512, 200), np.uint8))
    with runtime.force_tuning({"transfer.bands": 8}):
        steps = Steps(lambda *_: None, rows=4, reach=4, least_rows=least)
        found = PictureSource(picture).portions(session, **steps.cutting(200))
    assert [(cut.row0, cut.row1) for cut in found] == [(row, min(row + rows, 512)) for row in range(0, 512, rows)]
    assert all((cut.first, cut.last) == (max(cut.row0 - 4, 0), min(cut.row1 + 4, 512)) for cut in found)


def test_shared_memory_takes_one_band(queue: runtime.CommandQueue) -> None:
    assert upload.part_rows(runtime.open_session(queue), 10, 1 << 20, True) >= 10


def test_a_profile_sees_every_copy(session: runtime.Session, rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (97, 61, 3), dtype=np.uint8)
    palette = clquant.Palette(rng.integers(0, 256, (40, 3), dtype=np.uint8))
    expected = engine.predict(image, palette, queue=session.queue)
    with runtime.profile() as profile:
        assert np.array_equal(engine.predict(image, palette, queue=session.queue), expected)
    assert profile.counts()["download"] >= 4


def test_progress_stops_between_parts_and_the_next_call_is_whole(
    session: runtime.Session, rng: np.random.Generator
) -> None:
    image = rng.integers(0, 256, (97, 61, 3), dtype=np.uint8)
    palette = clquant.Palette(rng.integers(0, 256, (40, 3), dtype=np.uint8))
    expected = engine.predict(image, palette, queue=session.queue)
    with pytest.raises(runtime.StoppedError, match="at 56 of 97"):
        engine.predict(image, palette, queue=session.queue, progress=lambda done, _: done < 50)
    assert np.array_equal(engine.predict(image, palette, queue=session.queue), expected)


def in_time(call: Callable[[], object]) -> None:
    """Run in a thread; a deadlock fails the test instead of stopping all."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(600)
    assert not thread.is_alive()
    assert not errors, errors


def test_a_callback_may_run_the_same_engine_and_others(
    session: runtime.Session, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = rng.integers(0, 256, (97, 61, 3), dtype=np.uint8)
    palette = clquant.Palette(rng.integers(0, 256, (40, 3), dtype=np.uint8))
    expected = engine.predict(image, palette, queue=session.queue)
    halftone = clquant.PinwheelHalftoner(8, queue=session.queue).transform(image)
    inner: list[bool] = []

    def nested(done: int, total: int) -> None:
        inner.append(np.array_equal(engine.predict(image, palette, queue=session.queue), expected))

    def in_threads(done: int, total: int) -> None:
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(nested, done, total) for _ in range(2)]
            inner.append(np.array_equal(clquant.PinwheelHalftoner(8, queue=session.queue).transform(image), halftone))
            for call in calls:
                call.result()

    for callback in (nested, in_threads):
        inner.clear()

        def outer(callback: Callable[[int, int], None] = callback) -> None:
            result = engine.predict(image, palette, queue=session.queue, progress=callback)
            assert np.array_equal(result, expected)

        in_time(outer)
        assert len(inner) >= 4
        assert all(inner)


def test_bands_respect_the_largest_allocation(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1000")
    assert upload.part_rows(runtime.open_session(queue), 25, 100, True, multiple_of=4) == 8


@pytest.mark.parametrize("colors", [False, True])
def test_an_overlapped_picture_is_mapped_as_a_whole_one(
    session: runtime.Session, rng: np.random.Generator, colors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = rng.integers(0, 256, (97, 61, 3), dtype=np.uint8)
    palette = rng.integers(0, 256, (40, 3), dtype=np.uint8)
    call = engine.transform if colors else engine.predict
    overlapped = call(image, palette, queue=session.queue)
    assert staging_module._stagings
    monkeypatch.delenv("CLQUANT_LIMITS")
    assert np.array_equal(overlapped, call(image, palette, queue=session.queue))


def photo(rng: np.random.Generator, channels: int = 3) -> np.ndarray:
    return np.clip(rng.normal(120, 30, (90, 70, channels)), 1, 255).astype(np.uint8)


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
def test_colours_counted_in_parts_are_those_of_the_whole(
    session: runtime.Session, rng: np.random.Generator, channels: int
) -> None:
    pixels = photo(rng, channels)
    weights = rng.integers(0, 9, (90, 70)).astype(np.uint32)
    tuning = {"counting.table_pixels": 0}
    with session.scope() as scope, runtime.force_variant("portable"), runtime.force_tuning(tuning):
        made = counting.count_colors(session, scope, [images.read(pixels)], [weights])
        colors, counts = made.to_host(session)
    packed = np.zeros((90, 70, 4), np.uint8) + np.array([0, 0, 0, 255], np.uint8)
    packed[..., :channels] = pixels
    expected, where = np.unique(packed.reshape(-1, 4), axis=0, return_inverse=True)
    mass = np.bincount(where.ravel(), weights.ravel())
    order = np.lexsort(colors.T[::-1])
    np.testing.assert_array_equal(colors[order], expected[mass > 0])
    np.testing.assert_array_equal(counts[order], mass[mass > 0])


def test_a_picture_goes_in_parts_where_memory_is_short_for_all(
    session: runtime.Session, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = photo(rng)
    palette = clquant.Palette(rng.integers(0, 256, (40, 3), dtype=np.uint8))
    expected = engine.predict(pixels, palette, queue=session.queue)
    allocate = memory.allocate

    def short(context: Any, flags: int, nbytes: int, hostbuf: Any = None) -> Any:
        if nbytes == pixels.nbytes:
            raise runtime.DeviceMemoryError("short")
        return allocate(context, flags, nbytes, hostbuf)

    runtime.release_memory()
    monkeypatch.setattr(memory, "allocate", short)
    assert np.array_equal(engine.predict(pixels, palette, queue=session.queue), expected)


def test_a_picture_that_is_there_goes_on_in_fewer_parts(session: runtime.Session, rng: np.random.Generator) -> None:
    with session.scope() as scope:
        picture = images.read(photo(rng)).send(session, scope)
        on_its_way = PictureSource(picture).portions(session)
        picture.upload(session, scope)
        there = PictureSource(picture).portions(session)
    assert len(there) == upload.PARTS_THERE or len(on_its_way) <= len(there) <= upload.PARTS_THERE
    assert [*(cut.row0 for cut in there), 90] == [0, *(cut.row1 for cut in there)]


def test_fit_predict_copies_the_picture_once(session: runtime.Session, rng: np.random.Generator) -> None:
    pixels = photo(rng)
    model = KMeansPalette(12, max_iter=2, swap_rounds=1, queue=session.queue)
    expected = KMeansPalette(12, max_iter=2, swap_rounds=1, queue=session.queue).fit(pixels)
    indices = expected.predict(pixels)
    copied: list[tuple[int, int]] = []
    original = runtime.Scope.begin_upload

    def counted(scope: runtime.Scope, buffer: Any, array: np.ndarray, offset: int) -> Any:
        if array.ndim == 3:
            copied.append((offset, offset + array.nbytes))
        return original(scope, buffer, array, offset)

    with runtime.force_variant("portable"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime.Scope, "begin_upload", counted)
        got = model.fit_predict(pixels)
    np.testing.assert_array_equal(got, indices)
    np.testing.assert_array_equal(model.palette_.colors, expected.palette_.colors)
    cuts = [begin for begin, _ in copied]
    assert len(cuts) > 3
    assert [*cuts, pixels.nbytes] == [0, *(end for _, end in copied)]
