"""Codebooks of pictures that are read in parts: those of the whole pictures in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import VQCodec, runtime
from clquant.runtime import FileError, InvalidArgument, StoppedError

SMALL = 12 << 10


class Rows:
    """The least that a lazy picture needs; it notes how much was read at once, and may fail."""

    def __init__(self, values: npt.NDArray[Any], fails: bool = False) -> None:
        self.values, self.fails = values, fails
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.most = 0

    def __getitem__(self, key: slice) -> npt.NDArray[Any]:
        if self.fails:
            raise OSError("the disk is gone")
        part = self.values[key]
        self.most = max(self.most, len(part))
        return part


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound so low that pictures of these tests take several bands."""
    monkeypatch.setenv("CLQUANT_LIMITS", f"lazy.memory={SMALL}")


def smooth(rng: np.random.Generator, height: int, width: int, channels: int = 1) -> npt.NDArray[np.uint8]:
    waves = np.add.outer(np.arange(height) % 37 * 3, np.arange(width) % 23 * 4)[..., None]
    made = (waves + rng.integers(0, 40, (height, width, channels))).astype(np.uint8)
    return made[..., 0] if channels == 1 else made


def equal(one: VQCodec, other: VQCodec) -> bool:
    return np.array_equal(one.codebook_, other.codebook_) and (one.mse_, one.n_iter_) == (other.mse_, other.n_iter_)


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((150, 121), {"codebook_size": 40}),
        ((97, 90, 3), {"codebook_size": 16, "block_shape": (3, 5), "refine": 3}),
        ((130, 64), {"codebook_size": 9, "init": "splitting", "refine": 2, "random_state": 7}),
        ((120, 100), {"codebook_size": 700, "block_shape": (2, 3), "refine": 4, "max_iter": 5}),
        ((64, 300, 4), {"codebook_size": 12, "block_shape": (4, 4), "refine": 0}),
    ],
)
def test_the_codebook_of_the_whole(
    queue: runtime.CommandQueue, rng: np.random.Generator, shape: tuple[int, ...], options: Any
) -> None:
    image = smooth(rng, *shape)
    source = Rows(image)
    found = VQCodec(queue=queue, **options).fit(source)
    assert equal(found, VQCodec(queue=queue, **options).fit(image))
    assert source.most < image.shape[0]


@pytest.mark.full
def test_several_pictures_and_weights(rng: np.random.Generator) -> None:
    images = [smooth(rng, 90, 70), smooth(rng, 41, 33), smooth(rng, 60, 64)]
    sources = [Rows(images[0]), images[1], Rows(images[2])]
    weights = [rng.random((23, 18)), 0.5, rng.integers(0, 3, (15, 16))]
    codec = VQCodec(24, refine=5)
    assert equal(VQCodec(24, refine=5).fit(sources), codec.fit(images))
    assert equal(VQCodec(24, refine=5).fit(sources, weights), codec.fit(images, weights))


@pytest.mark.full
def test_what_fits_memory_is_read_at_once(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLQUANT_LIMITS")
    image = smooth(rng, 90, 70)
    source = Rows(image)
    assert equal(VQCodec(8, refine=2).fit(source, memory="1 MiB"), VQCodec(8, refine=2).fit(image))
    assert source.most == 90


def test_a_picture_of_no_more_blocks_than_codewords(rng: np.random.Generator) -> None:
    image = smooth(rng, 64, 128)
    assert equal(VQCodec(600).fit(Rows(image)), VQCodec(600).fit(image))


def test_what_fails_is_named_and_stops(rng: np.random.Generator) -> None:
    image, codec = smooth(rng, 90, 170), VQCodec(8)
    with pytest.raises(FileError, match=r"images\[1\]: cannot read rows .*: the disk is gone"):
        codec.fit([image, Rows(image, fails=True)])
    with pytest.raises(StoppedError):
        codec.fit(Rows(image), progress=lambda done, _: done < 2)
    with pytest.raises(InvalidArgument, match="images have"):
        codec.fit([Rows(image), np.zeros((9, 9, 3), np.uint8)])
    assert not hasattr(codec, "codebook_")
