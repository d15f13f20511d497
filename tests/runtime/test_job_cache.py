"""What jobs prepare is kept for the next of its kind: one job at a time, within a bound, gone after a failure."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyopencl.array
import pytest

from clquant import PinwheelHalftoner, VQCodec, floyd_steinberg, runtime
from clquant.quadtree import QuadtreeBuilder
from clquant.runtime.memory import job_cache


@pytest.fixture
def session(queue: runtime.CommandQueue) -> runtime.Session:
    runtime.release_memory()
    return runtime.open_session(queue)


def made(session: runtime.Session, key: object) -> object:
    with runtime.cached_job(session, key, lambda _: object()) as thing:
        return thing


def test_the_next_job_has_what_the_last_one_made(session):
    assert made(session, "a") is made(session, "a")
    assert made(session, "b") is not made(session, "a")


def test_two_jobs_at_once_have_two(session):
    with runtime.cached_job(session, "a", lambda _: object()) as one:
        assert made(session, "a") is not one


def test_another_queue_and_lower_limits_have_none(session, new_queue, monkeypatch):
    one = made(session, "a")
    assert made(runtime.open_session(new_queue()), "a") is not one
    monkeypatch.setenv("CLQUANT_LIMITS", "work_group=1")
    assert made(runtime.open_session(session.queue), "a") is not one


def test_a_failed_job_keeps_nothing(session):
    one = made(session, "a")
    with pytest.raises(KeyError), runtime.cached_job(session, "a", lambda _: object()) as thing:
        assert thing is one
        raise KeyError
    assert made(session, "a") is not one
    ended = []

    def fail(scope: runtime.Scope) -> object:
        scope.at_end(lambda: ended.append(1))
        raise KeyError

    with pytest.raises(KeyError), runtime.cached_job(session, "b", fail):
        pass
    assert ended == [1]


def test_what_was_used_longest_ago_goes_first(session):
    ended = []
    for key in range(job_cache.MOST + 2):
        with runtime.cached_job(session, key, lambda scope, key=key: scope.at_end(lambda: ended.append(key))):
            pass
    assert ended == [0, 1]
    runtime.release_memory()
    assert sorted(ended) == list(range(job_cache.MOST + 2))


@pytest.mark.full
def test_quadtrees_of_one_shape_after_another(queue, rng):
    runtime.release_memory()
    pictures = [rng.integers(0, top, (90, 100, 3), np.uint8) for top in (256, 20, 40)]
    apart = []
    for image in pictures:
        runtime.release_memory()
        apart.append(QuadtreeBuilder(queue=queue).build(image))
    for _ in range(2):
        for image, tree in zip(pictures, apart, strict=True):
            assert QuadtreeBuilder(queue=queue).build(image) == tree
            flat = pyopencl.array.to_device(queue, np.concatenate([np.zeros(4, np.uint8), image.ravel()]))
            leaves = QuadtreeBuilder().leaves(flat[4:].reshape(image.shape))
            assert leaves.get().tobytes() == tree.leaves().tobytes()
            again = QuadtreeBuilder(queue=queue).build(image)
            for mine, its in zip(again.levels, tree.levels, strict=True):
                assert np.array_equal(mine.kinds, its.kinds)
                assert np.array_equal(mine.sums, its.sums)


def test_no_picture_is_kept(queue, rng):
    image = rng.integers(0, 256, (64, 64), np.uint8)
    seen = weakref.ref(image)
    for _ in range(2):
        QuadtreeBuilder(queue=queue).leaves(image)
    del image
    gc.collect()
    assert seen() is None


def test_what_is_not_worth_it_is_let_go(session):
    ended: list[str] = []

    def one(worth: bool) -> object:
        def make(scope: runtime.Scope) -> object:
            scope.at_end(lambda: ended.append("one"))
            return object()

        with runtime.cached_job(session, "a", make, lambda _: worth) as thing:
            return thing

    first = one(False)
    assert ended == ["one"]
    second = one(True)
    assert second is not first
    assert one(True) is second
    assert ended == ["one"]


def test_a_serial_scan_in_bands_does_not_serve_again(queue, monkeypatch, rng):
    runtime.release_memory()
    gray = rng.integers(0, 256, (600, 90), dtype=np.uint8)
    whole = floyd_steinberg(gray, queue=queue)
    # In bands in every form: the portable one has 8 bytes of errors per pixel of its 32 rows, which is 25,568 bytes.
    for limits in ("max_alloc=32768", "max_alloc=32768,is_cpu=0", ""):
        monkeypatch.setenv("CLQUANT_LIMITS", limits)
        for _ in range(2):
            np.testing.assert_array_equal(floyd_steinberg(gray, queue=queue), whole)


def test_other_codebooks_and_settings_have_tables_of_their_own(queue, rng):
    runtime.release_memory()
    gray = rng.integers(0, 256, (64, 64), dtype=np.uint8)
    books = [rng.integers(0, 256, (9, 4, 4), dtype=np.uint8) for _ in range(2)]
    codec = VQCodec(9, queue=queue)
    found = []
    for _ in range(2):
        for book, levels in zip(books, (2, 4), strict=True):
            codec.codebook_ = book
            found.append(codec.encode(gray))
            found.append(PinwheelHalftoner(8, levels=levels, queue=queue).transform(gray))
    for a, b in zip(found[:4], found[4:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(found[0], found[2])
    assert not np.array_equal(found[1], found[3])
    book = books[0].copy()
    codec.codebook_ = book
    before = codec.encode(gray)
    book[:] = books[1]  # in place, between two calls
    np.testing.assert_array_equal(codec.encode(gray), found[2])
    np.testing.assert_array_equal(before, found[0])
