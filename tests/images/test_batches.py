"""`fit_many` reads files when their turn comes: of large pictures one is in memory, small ones wait for each other."""

from __future__ import annotations

import pathlib
import weakref
from typing import Any

import numpy as np
import PIL.Image
import pytest

from clquant import KMeansPalette, NeuQuantCL, images, runtime
from clquant.images import batches, decode
from tests.lowering import lower

ENGINES = (KMeansPalette, NeuQuantCL)
LARGE, SMALL = (257, 256, 3), (20, 30, 3)


def saved(folder: pathlib.Path, rng: np.random.Generator, shapes: list[tuple[int, ...]]) -> list[pathlib.Path]:
    """Files of noise in 40 colours."""
    paths = [folder / f"{i}.png" for i in range(len(shapes))]
    for path, shape in zip(paths, shapes, strict=True):
        colors = rng.integers(0, 256, (40, 3), dtype=np.uint8)
        PIL.Image.fromarray(colors[rng.integers(0, 40, shape[:2])]).save(path)
    return paths


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pictures that files were decoded to are in memory whenever one is decoded."""
    known: list[Any] = []
    counts: list[int] = []
    from_file = decode.from_file

    def noted(path: str, argument: str, *rest: int) -> np.ndarray:
        counts.append(sum(one() is not None for one in known))
        array = from_file(path, argument, *rest).copy()
        known.append(weakref.ref(array))
        return array

    monkeypatch.setattr(decode, "from_file", noted)
    return counts


@pytest.mark.parametrize("engine", ENGINES)
def test_of_large_files_one_is_in_memory(
    queue: runtime.CommandQueue, tmp_path: pathlib.Path, rng: np.random.Generator, alive: list[int], engine: Any
) -> None:
    paths = saved(tmp_path, rng, [LARGE] * 4)
    learner = engine(4, queue=queue)
    found = learner.fit_many(paths)
    assert alive == [0, 0, 0, 0]
    assert found == [learner.fit(path).palette_ for path in paths]


@pytest.mark.full
@pytest.mark.parametrize(
    ("engine", "options", "in_memory", "done"),
    [
        (KMeansPalette, {}, [0, 1, 1, 0, 1, 0], [1, 3, 5, 6]),
        (NeuQuantCL, {}, [0] * 6, [1, 2, 3, 4, 5, 6]),
        (NeuQuantCL, {"mode": "sequential"}, [0, 1, 0, 1, 0, 1], None),
    ],
)
def test_what_waits_together_is_bounded(
    queue: runtime.CommandQueue,
    tmp_path: pathlib.Path,
    rng: np.random.Generator,
    alive: list[int],
    monkeypatch: pytest.MonkeyPatch,
    engine: Any,
    options: dict[str, Any],
    in_memory: list[int],
    done: list[int] | None,
) -> None:
    paths = saved(tmp_path, rng, [SMALL, LARGE, *[SMALL] * 4])
    learner = engine(4, queue=queue, **options)
    expected = learner.fit_many([np.asarray(PIL.Image.open(path)) for path in paths])
    told: list[tuple[int, int]] = []
    lower(monkeypatch, batches__bytes=2 * 20 * 30 * 3)
    assert learner.fit_many(paths, progress=lambda done, total: told.append((done, total))) == expected
    assert alive == in_memory
    if done is not None:
        assert told == [(i, 6) for i in done]


def test_arrays_in_memory_are_worked_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, batches__bytes=1)
    groups: list[list[int]] = []
    array = np.zeros((3, 4), np.uint8)
    sources = [array, images.read(array), array.astype(bool), array, array[:, ::2]]
    batches.read_in_groups(sources, lambda _: True, lambda group: groups.append(list(group)), lambda *_: None)
    assert groups == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_is_none_is_found_at_its_turn(
    queue: runtime.CommandQueue, tmp_path: pathlib.Path, rng: np.random.Generator, engine: Any
) -> None:
    paths = [*saved(tmp_path, rng, [LARGE, LARGE]), tmp_path / "none.png", tmp_path / "nor this.png"]
    told: list[tuple[int, int]] = []
    with pytest.raises(runtime.FileError, match=r"images\[2\]: cannot read .*none\.png"):
        engine(4, queue=queue).fit_many(paths, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4)]
