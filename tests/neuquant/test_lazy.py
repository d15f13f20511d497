"""NeuQuant of pictures that are read in parts: the palette of the whole picture in memory."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from clquant import NeuQuantCL, runtime
from clquant.runtime import FileError, InvalidArgument

SMALL = 24 << 10


class Rows:
    """The least that a lazy picture needs; it notes what was read, and may fail."""

    def __init__(self, values: npt.NDArray[Any], fails_from: int | None = None) -> None:
        self.values, self.fails_from = values, fails_from
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.read: list[int] = []

    def __getitem__(self, key: slice) -> npt.NDArray[Any]:
        if self.fails_from is not None and key.stop > self.fails_from:
            raise OSError("the disk is gone")
        self.read += range(self.shape[0])[key]
        return self.values[key]


@pytest.fixture
def in_small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound so low that pictures of these tests take several bands."""
    monkeypatch.setenv("CLQUANT_LIMITS", f"lazy.memory={SMALL}")


def picture(rng: np.random.Generator, height: int, width: int, channels: int, colors: int, alpha: str) -> Any:
    """Random pixels of so many colours, alpha opaque, clear in places, or of all values."""
    table = rng.integers(0, 256, (colors, channels), dtype=np.uint8)
    if channels == 4:
        alphas = {"opaque": [255], "clear": [0, 255], "partial": range(256)}[alpha]
        table[:, 3] = rng.choice(np.array(alphas, np.uint8), colors)
    image = table[rng.integers(0, colors, (height, width))]
    return image[..., 0] if channels == 1 else image


@pytest.mark.full
@pytest.mark.usefixtures("in_small_bands")
@pytest.mark.parametrize(
    ("channels", "colors", "alpha", "options"),
    [
        (3, 40, "opaque", {}),
        (3, 60_000, "opaque", {}),
        (3, 60_000, "opaque", {"n_colors": 150, "random_state": 9}),
        (4, 60_000, "clear", {"color_space": "oklab"}),
        (4, 60_000, "partial", {"metric": "l1", "conscience": True}),
        (4, 500, "clear", {"n_colors": 7}),
        (1, 256, "opaque", {}),
        (3, 60_000, "opaque", {"fixed_colors": ["#102030", "#ffffff"]}),
        (3, 9, "opaque", {}),
    ],
)
def test_the_palette_of_the_whole(
    queue: runtime.CommandQueue, rng: np.random.Generator, channels: int, colors: int, alpha: str, options: Any
) -> None:
    image = picture(rng, 190, 180, channels, colors, alpha)
    source = Rows(image)
    engine = NeuQuantCL(**{"n_colors": 12, "sample_factor": 20, "queue": queue, **options})
    assert engine.fit(source).palette_ == engine.fit(image).palette_
    assert source.read == list(range(190))


@pytest.mark.full
@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.integers(40, 120), st.integers(40, 120), st.sampled_from([1, 3, 4])), min_size=1, max_size=4),
    st.integers(1, 40_000),
    st.integers(2, 20),
    st.integers(SMALL, 1 << 20),
    st.integers(0, 2**32),
)
def test_any_pictures_and_parts(sizes: Any, colors: int, k: int, memory: int, seed: int) -> None:
    """Several pictures, some of them lazy, are trained on end to end."""
    rng = np.random.default_rng(seed)
    images = [picture(rng, *size, colors, str(rng.choice(["opaque", "clear", "partial"]))) for size in sizes]
    sources = [Rows(image) if i == 0 or rng.random() < 0.6 else image for i, image in enumerate(images)]
    engine = NeuQuantCL(k, sample_factor=30, random_state=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLQUANT_LIMITS", f"lazy.memory={memory}")
        found = engine.fit(sources).palette_
    assert found == engine.fit(images).palette_


def test_memory_mapped_files_and_weights(tmp_path: Any, rng: np.random.Generator) -> None:
    image = picture(rng, 90, 80, 3, 20_000, "opaque")
    np.save(tmp_path / "a.npy", image)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    engine = NeuQuantCL(20, sample_factor=30)
    assert engine.fit(mapped, memory="2 MiB").palette_ == engine.fit(image).palette_
    weights = rng.integers(0, 9, (90, 80))
    assert engine.fit(mapped, sample_weight=weights).palette_ == engine.fit(image, sample_weight=weights).palette_


@pytest.mark.full
@pytest.mark.usefixtures("in_small_bands")
@pytest.mark.parametrize(
    ("channels", "alpha", "colors", "options", "passes"),
    [
        (3, "opaque", 60_000, {"sample_factor": 1}, None),
        (3, "opaque", 60_000, {"sample_factor": 30}, 1),
        (4, "partial", 60_000, {"sample_factor": 3, "fixed_colors": ["#102030"]}, None),
        (4, "clear", 30, {"sample_factor": 10}, None),
        (1, "opaque", 200, {"sample_factor": 2}, None),
        (3, "opaque", 6, {}, None),
    ],
)
def test_the_sequential_walk_of_the_whole(
    queue: runtime.CommandQueue,
    rng: np.random.Generator,
    channels: int,
    alpha: str,
    colors: int,
    options: Any,
    passes: int | None,
) -> None:
    image = picture(rng, 190, 180, channels, colors, alpha)
    source = Rows(image)
    engine = NeuQuantCL(16, mode="sequential", queue=queue, **options)
    assert engine.fit(source).palette_ == engine.fit(image).palette_
    assert passes is None or source.read == list(range(190)) * passes
    assert len(source.read) % 190 == 0


@pytest.mark.full
@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.integers(40, 90), st.integers(40, 90), st.sampled_from([1, 3, 4])), min_size=1, max_size=3),
    st.integers(1, 30),
    st.integers(SMALL, 1 << 17),
    st.integers(0, 2**32),
)
def test_walks_through_any_pictures_and_parts(sizes: Any, factor: int, memory: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = [picture(rng, *size, 9999, str(rng.choice(["opaque", "clear", "partial"]))) for size in sizes]
    sources = [Rows(image) if i == 0 or rng.random() < 0.6 else image for i, image in enumerate(images)]
    engine = NeuQuantCL(9, mode="sequential", sample_factor=factor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clquant.neuquant.engine._COPIES", 1 << 20)
        patch.setenv("CLQUANT_LIMITS", f"lazy.memory={memory}")
        patch.setattr("clquant.neuquant.sequential.MOST_POINT_BYTES", memory)
        found = engine.fit(sources).palette_
    assert found == engine.fit(images).palette_


@pytest.mark.usefixtures("in_small_bands")
def test_what_fails_is_named(rng: np.random.Generator) -> None:
    image = picture(rng, 190, 180, 3, 300, "opaque")
    with pytest.raises(FileError, match=r"images\[1\]: cannot read rows .*: the disk is gone"):
        NeuQuantCL(4, sample_factor=30).fit([image, Rows(image, fails_from=100)])


def test_memory_is_checked(rng: np.random.Generator) -> None:
    with pytest.raises(InvalidArgument, match="memory is 'much'"):
        NeuQuantCL(4).fit(picture(rng, 9, 9, 3, 30, "opaque"), memory="much")
