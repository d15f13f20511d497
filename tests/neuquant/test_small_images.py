"""Palettes of many small pictures by the parallel map equal those that `fit` gives each, whatever form learns them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import NeuQuantCL, runtime
from clquant.images import read
from clquant.neuquant import small_images

OPTIONS = (
    {},
    {"refine_steps": 0},
    {"metric": "l1", "sample_factor": 7},
    {"metric": "l1", "conscience": True},
    {"color_space": "oklab", "random_state": 5},
    {"color_space": "linear", "refine_steps": 1},
    {"keep_exact": False, "sample_factor": 30},
)


def smooth(rng: np.random.Generator, height: int, width: int, channels: int) -> np.ndarray:
    """Waves of colour with a little noise."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(rng.uniform(0.01, 0.2) * y + rng.uniform(0.01, 0.2) * x + c) for c in range(channels)]
    return np.clip(127 + 127 * np.stack(waves, -1) + rng.normal(0, 5, (height, width, channels)), 0, 255).astype(
        np.uint8
    )


def cut_out(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A picture some of whose pixels are transparent, the others opaque."""
    picture = smooth(rng, height, width, 4)
    picture[..., 3] = np.where(picture[..., 3] > 100, 255, 0)
    return picture


def many(rng: np.random.Generator) -> list[np.ndarray]:
    """Of all kinds: gray, with alpha of every sort, of few colours and of more than are counted, flat, tiny, large."""
    few = rng.integers(0, 256, (40, 3), dtype=np.uint8)
    solid = smooth(rng, 20, 23, 4)
    solid[..., 3] |= 1
    return [
        smooth(rng, 64, 64, 3),
        few[rng.integers(0, 40, (30, 31))],
        smooth(rng, 33, 57, 4),
        cut_out(rng, 40, 41),
        solid,
        smooth(rng, 50, 20, 1)[..., 0],
        rng.integers(0, 256, (9, 7, 3), dtype=np.uint8),
        np.zeros((4, 4, 3), np.uint8),
        np.zeros((5, 5, 4), np.uint8),
        rng.integers(0, 256, (1, 1, 3), dtype=np.uint8),
        rng.integers(0, 256, (150, 200, 3), dtype=np.uint8),
        smooth(rng, 300, 220, 3),
    ]


def learned(engine: NeuQuantCL, pictures: list[np.ndarray], variant: str) -> list[Any]:
    """Their palettes, as a form learns them; on devices without that form, as the portable one does."""
    session = runtime.open_session(engine.queue)
    admitted = {v.name for v in small_images.VARIANTS if v.admits(session.limits)}
    with runtime.force_variant(variant if variant in admitted else "portable"):
        return engine.fit_many(pictures)


# On PoCL the portable form takes seconds to compile, so it learns by fewer of them.
CASES = [("lanes", 2 + 7 * i, options) for i, options in enumerate(OPTIONS)]
CASES += [("portable", 3 + 7 * i, OPTIONS[i]) for i in (0, 3, 4, 6)]


def built_for(options: dict[str, Any], pictures: list[np.ndarray]) -> list[np.ndarray]:
    """Of pictures those that these options learn from here: kernels are others with alpha below 255 than without, and
    only the ones that most calls take are built both ways.
    """
    if not options.keys() & {"metric", "color_space"}:
        return pictures
    with_alpha = [picture.ndim == 3 and picture.shape[2] == 4 and picture[..., 3].min() < 255 for picture in pictures]
    wanted = options.get("color_space") == "oklab"
    return [picture for picture, has in zip(pictures, with_alpha, strict=True) if has == wanted]


@pytest.mark.full
@pytest.mark.parametrize(("variant", "k", "options"), CASES)
def test_each_palette_is_that_of_fit(
    queue: runtime.CommandQueue, variant: str, k: int, options: dict[str, Any], rng: np.random.Generator
) -> None:
    engine, pictures = NeuQuantCL(k, queue=queue, **options), built_for(options, many(rng))
    assert learned(engine, pictures, variant) == [engine.fit(picture).palette_ for picture in pictures]


@pytest.mark.full
@pytest.mark.parametrize("variant", ["lanes", "portable"])
def test_most_colors(queue: runtime.CommandQueue, variant: str, rng: np.random.Generator) -> None:
    engine = NeuQuantCL(small_images.MAX_COLORS, queue=queue, sample_factor=10, refine_steps=2)
    pictures = [smooth(rng, 30, 40 + i, 3 + i % 2) for i in range(9)]
    assert learned(engine, pictures, variant) == [engine.fit(picture).palette_ for picture in pictures]


@pytest.mark.full
@pytest.mark.parametrize("options", [{}, {"metric": "l1", "conscience": True}, {"color_space": "oklab"}])
def test_searches_that_leave_nodes_out(
    queue: runtime.CommandQueue, options: dict[str, Any], rng: np.random.Generator
) -> None:
    """With so many nodes, processors compare a point only with some; the portable form with all of them."""
    engine = NeuQuantCL(200, queue=queue, sample_factor=20, refine_steps=2, **options)
    pictures = built_for(
        options, [*many(rng), *(smooth(rng, 200, 210, channels) for channels in (3, 4)), cut_out(rng, 240, 250)]
    )
    found = learned(engine, pictures, "lanes")
    assert found == learned(engine, pictures, "portable")
    assert found[-4:] == [engine.fit(picture).palette_ for picture in pictures[-4:]]


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
def test_more_nodes_in_all_than_a_palette_may_have(
    queue: runtime.CommandQueue, channels: int, rng: np.random.Generator
) -> None:
    engine = NeuQuantCL(250, queue=queue, sample_factor=30, refine_steps=0)
    pictures = [rng.integers(0, 256, (16, 17, channels), dtype=np.uint8) for _ in range(270)]
    for picture, palette in list(zip(pictures, engine.fit_many(pictures), strict=True))[::90]:
        assert palette == engine.fit(picture).palette_


@pytest.mark.full
@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 4])), min_size=2, max_size=5),
    st.integers(2, 60),
    st.integers(1, 300),
    st.integers(0, 2**32),
)
def test_any_sizes_and_colors(sizes: list[tuple[int, int, int]], k: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pictures = []
    for height, width, channels in sizes:
        colors = rng.integers(0, 256, (int(rng.integers(1, most + 1)), channels), dtype=np.uint8)
        pictures.append(colors[rng.integers(0, len(colors), (height, width))])
    engine = NeuQuantCL(k, sample_factor=20, random_state=seed)
    assert engine.fit_many(pictures) == [engine.fit(picture).palette_ for picture in pictures]


@pytest.mark.full
@pytest.mark.parametrize("group", [1, 8])
def test_group_sizes_change_nothing(queue: runtime.CommandQueue, group: int, rng: np.random.Generator) -> None:
    engine = NeuQuantCL(13, queue=queue, sample_factor=20)
    pictures = [smooth(rng, 20, 21, 3), cut_out(rng, 16, 17), smooth(rng, 150, 160, 3)]
    wanted = [engine.fit(picture).palette_ for picture in pictures]
    with runtime.force_tuning({"batch.group": group, "batch.groups_a_unit": 1, "batch.pictures": 2}):
        assert learned(engine, pictures, "portable") == wanted


@pytest.mark.full
def test_what_takes_part(
    queue: runtime.CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pictures on the host, enough of them; none with fixed colours, or where local memory is little."""
    session = runtime.open_session(queue)
    learner, seen = small_images.learn_many, []

    def noted(session: Any, pictures: Any, *rest: Any) -> Any:
        seen.append(len(pictures))
        return learner(session, pictures, *rest)

    monkeypatch.setattr("clquant.neuquant.fit.learn_many", noted)
    small, large = smooth(rng, 9, 9, 3), np.zeros((257, 256, 3), np.uint8)
    there = session.new_array(small.shape, np.uint8)
    there.set(small)
    assert [small_images.is_small(read(p)) for p in (small, large, there)] == [True, False, False]
    engine = NeuQuantCL(4, queue=queue, sample_factor=30)
    expected = engine.fit(small).palette_
    assert engine.fit_many([small, large, small]) == [expected, engine.fit(large).palette_, expected]
    assert engine.fit_many([small]) == [expected]
    assert seen == [2]
    NeuQuantCL(4, queue=queue, sample_factor=30, fixed_colors=["#123456"]).fit_many([small, small])
    NeuQuantCL(512, queue=queue, sample_factor=30).fit_many([small] * 20)
    assert seen == [2]
    monkeypatch.setenv("CLQUANT_LIMITS", "local_memory=4096")
    engine = NeuQuantCL(70, queue=queue, sample_factor=30)
    assert engine.fit_many([small, small]) == [engine.fit(small).palette_] * 2
    assert seen == [2]


def test_progress_counts_pictures_and_may_stop(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    pictures = [smooth(rng, 12, 12, 3) for _ in range(5)] + [smooth(rng, 300, 300, 3)]
    told: list[tuple[int, int]] = []
    engine = NeuQuantCL(4, queue=queue, sample_factor=30)
    with runtime.force_tuning({"batch.pictures": 2}):
        engine.fit_many(pictures, progress=lambda done, total: told.append((done, total)))
        assert told == [(1, 6), (3, 6), (5, 6), (6, 6)]
        with pytest.raises(runtime.StoppedError):
            engine.fit_many(pictures, progress=lambda done, _: done < 4)
