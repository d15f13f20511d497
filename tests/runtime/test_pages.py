"""Host memory of large results that is kept for the next ones."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import QuadtreeBuilder, runtime
from clquant.runtime.memory import pages
from clquant.runtime.memory.pages import HostPool

MEBIBYTE = 1 << 20


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> HostPool:
    monkeypatch.setattr(pages, "SMALLEST", MEBIBYTE)
    monkeypatch.setattr(pages, "host_share", lambda: 8 * MEBIBYTE)
    return HostPool()


def begin(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_what_was_let_go_is_given_again_from_the_second_time_on(pool: HostPool) -> None:
    first = pool.empty((2 * MEBIBYTE,), np.uint8)
    assert not isinstance(first.base, pages._Owner)
    second = pool.empty((512, 1024), np.uint32)
    assert second.shape == (512, 1024)
    assert second.dtype == np.uint32
    assert second.flags.c_contiguous
    assert second.flags.writeable
    place = begin(second)
    assert place % pages.PAGE == 0
    view = second[100:, 3:]
    del second
    third = pool.empty((2 * MEBIBYTE,), np.uint8)
    assert begin(third) != place, "a view still shows it"
    del view
    assert begin(pool.empty((2 * MEBIBYTE - 8,), np.uint8)) == place, "sizes that round to the same share memory"
    assert begin(third) != place


def test_small_arrays_are_not_kept(pool: HostPool) -> None:
    for _ in range(3):
        pool.empty((MEBIBYTE - 1,), np.uint8)
    assert not pool._asked


def test_no_more_than_a_share_of_the_memory(pool: HostPool) -> None:
    held = [pool.empty((3 * MEBIBYTE,), np.uint8) for _ in range(5)]
    assert pool._total == 6 * MEBIBYTE
    del held
    pool.empty((4 * MEBIBYTE,), np.uint8)
    array = pool.empty((4 * MEBIBYTE,), np.uint8)
    assert pool._total == 7 * MEBIBYTE, "what was kept longest made room"
    pool.clear()
    assert pool._total == 4 * MEBIBYTE
    del array
    pool.clear()
    assert pool._total == 0


def test_trees_on_kept_memory_stay_as_they_are(
    queue: runtime.CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SMALLEST", 1 << 17)
    monkeypatch.setattr(pages, "host_share", lambda: 8 * MEBIBYTE)
    pictures = [rng.integers(0, 256, (300, 260, 3), np.uint8) // divisor for divisor in (1, 2, 3, 4, 5, 6)]
    builder = QuadtreeBuilder(queue=queue)

    def content(tree: object) -> list[bytes]:
        levels = [level.sums.tobytes() + level.squares.tobytes() + level.kinds.tobytes() for level in tree.levels]
        return [tree.leaves().tobytes(), *levels]

    runtime.release_memory()
    expected = []
    for picture in pictures:
        runtime.release_memory()
        expected.append(content(builder.build(picture)))
    trees: list[object] = []
    for _ in range(2):
        for i, picture in enumerate(pictures):
            trees.append(builder.build(picture))
            if i % 2:
                del trees[-2]
    assert [content(tree) for tree in trees] == [expected[i] for _ in range(2) for i in (1, 3, 5)]
    del trees
    runtime.release_memory()
    assert not pages.HOST_POOL._idle
