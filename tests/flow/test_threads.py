"""Streams of pictures give what plain calls give, in order, and stop cleanly."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest

import clquant
from clquant import KMeansPalette, runtime
from clquant.estimator import Estimator
from clquant.flow.threads import unshared


class Doubler(Estimator):
    """Doubles numbers; the number 13 fails."""

    stream_method = "double"

    def __init__(self, queue: runtime.CommandQueue | None = None) -> None:
        self.queue = queue
        self.queues: set[int] = set()

    def double(self, image: int, add: int = 0) -> int:
        """Twice the number."""
        if image == 13:
            raise runtime.InvalidArgument("image is 13")
        self.queues.add(runtime.open_session(self.queue).queue.int_ptr)
        return 2 * image + add


def test_results_come_in_order() -> None:
    assert list(Doubler().stream(range(12), depth=4, add=1)) == [2 * i + 1 for i in range(12)]
    assert list(Doubler().stream([], depth=4)) == []


def test_an_endless_source_is_read_as_results_are_taken() -> None:
    taken: list[int] = []

    def source() -> Iterator[int]:
        for i in itertools.count():
            taken.append(i)
            yield i

    results = Doubler().stream(source(), depth=2)
    assert [next(results) for _ in range(5)] == [0, 2, 4, 6, 8]
    results.close()
    assert len(taken) <= 8


def test_an_error_comes_at_its_pictures_turn() -> None:
    results = Doubler().stream([1, 13, 2])
    assert next(results) == 2
    with pytest.raises(runtime.InvalidArgument, match="image is 13"):
        next(results)


def test_an_error_of_the_iterable_comes_at_its_turn() -> None:
    def source() -> Iterator[int]:
        yield from range(6)
        raise ZeroDivisionError("no more")

    for depth in (1, 2, 4, 9):
        results = Doubler().stream(source(), depth=depth)
        assert [next(results) for _ in range(6)] == [0, 2, 4, 6, 8, 10]
        with pytest.raises(ZeroDivisionError, match="no more"):
            next(results)


@pytest.mark.full
def test_engines_that_learn_do_not_share_what_they_learn(rng: np.random.Generator) -> None:
    tiles = [rng.integers(0, 256, (20, 30, 3), dtype=np.uint8) for _ in range(24)]
    model = KMeansPalette(5)
    fitted = list(model.stream(tiles, "fit", depth=8))
    for tile, one in zip(tiles, fitted, strict=True):
        np.testing.assert_array_equal(one.palette_.colors, KMeansPalette(5).fit(tile).palette_.colors)
    assert not hasattr(model, "palette_")


def test_frames_of_an_animated_file_are_read_as_they_come(tmp_path: Path) -> None:
    frames = [PIL.Image.new("RGB", (20, 10), color) for color in ("#ff0000", "#00ff00", "#0000ff", "#ffff00")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    expected = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0]]
    with PIL.Image.open(tmp_path / "a.gif") as animation:
        learned = KMeansPalette(2).stream(PIL.ImageSequence.Iterator(animation), "fit", depth=4)
        assert [model.palette_.colors.tolist() for model in learned] == [[color] for color in expected]


def test_one_file_may_be_read_by_many(tmp_path: Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (200, 300, 3), dtype=np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = clquant.PinwheelHalftoner(8).transform(pixels)
    for _ in range(5):
        with PIL.Image.open(tmp_path / "a.png") as image:
            for result in clquant.PinwheelHalftoner(8).stream([image] * 8, depth=8):
                np.testing.assert_array_equal(result, expected)


@pytest.mark.full
def test_an_iterator_may_fill_one_array_again_and_again() -> None:
    """As readers of videos do."""
    frame = np.zeros((64, 64), np.uint8)

    def source() -> Iterator[np.ndarray]:
        for value in range(0, 240, 20):
            frame[...] = value
            yield frame

    results = clquant.PinwheelHalftoner(levels=256).stream(source(), depth=4)
    assert [set(result.ravel().tolist()) for result in results] == [{value} for value in range(0, 240, 20)]
    assert len(KMeansPalette(64).fit(source()).palette_) == 12


def test_arrays_of_lists_and_page_locked_ones_are_not_copied(
    queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    locked, plain = clquant.empty_pinned((8, 8), queue=queue), np.zeros((8, 8), np.uint8)
    locked[...] = 3
    assert next(unshared(iter([locked]))) is locked
    assert next(unshared([plain])) is plain
    copied = next(unshared(iter([plain])))
    assert copied is not plain
    assert not np.shares_memory(copied, plain)


def test_queues_beside_a_named_one_serve_the_next_stream(queue: runtime.CommandQueue) -> None:
    runtime.release_memory()
    used: list[set[int]] = []
    for _ in range(3):
        doubler = Doubler(queue)
        assert list(doubler.stream(range(6), depth=1)) == [0, 2, 4, 6, 8, 10]
        used.append(doubler.queues)
    assert used[0] == used[1] == used[2]


def test_a_named_queue_gets_siblings(queue: runtime.CommandQueue) -> None:
    doubler = Doubler(queue)
    assert list(doubler.stream(range(6), depth=2)) == [0, 2, 4, 6, 8, 10]
    assert doubler.queues
    assert queue.int_ptr not in doubler.queues
    assert threading.active_count() < 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "_check_fitted"}, "method is '_check_fitted'"),
        ({"method": "nothing"}, "allowed: the name of a method of Doubler"),
        ({"method": 3}, "method is 3"),
        ({"depth": 0}, "depth is 0; allowed: an integer from 1 to 64"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(runtime.InvalidArgument, match=message):
        Doubler().stream([1], **arguments)  # type: ignore[arg-type]
