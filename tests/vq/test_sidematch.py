"""Side-match VQ against its reference, through the container too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest

from clquant import VQCodec, runtime
from clquant.runtime import InvalidArgument
from clquant.vq.blocks import BlockShape
from clquant.vq.sidematch import SideMatch
from tests.reference import vq as reference

Bytes = npt.NDArray[np.uint8]


def smooth(rng: np.random.Generator, height: int, width: int, channels: int) -> Bytes:
    y, x = np.mgrid[:height, :width]
    waves = 120 + 60 * np.sin(x / 9) + 50 * np.cos(y / 7)
    image = waves[..., None] + 10 * np.arange(channels) + rng.integers(0, 12, (height, width, channels))
    return image.astype(np.uint8)[..., 0] if channels == 1 else image.astype(np.uint8)


def check_both_ways(queue: Any, image: Bytes, codebook: Bytes, shape: BlockShape, state: int, tolerance: int) -> None:
    """Codes an image, compares with the reference, and turns the ranks back."""
    rows = reference.blocks(image, shape.rows, shape.columns).astype(np.uint8)
    whole = codebook.reshape(len(codebook), *shape.codeword_shape())
    symbols, chosen = reference.side_match(image, whole, state, tolerance)
    session = runtime.open_session(queue)
    with session.scope() as scope:
        matcher = SideMatch(session, scope, codebook, shape, state)
        found, taken = matcher.encode(scope.copy_of(rows), reference.encode(image, whole), tolerance)
        np.testing.assert_array_equal(found, symbols)
        np.testing.assert_array_equal(taken, chosen)
        np.testing.assert_array_equal(matcher.decode(found, taken[found == reference.ESCAPE]), chosen)


@pytest.mark.parametrize(
    ("channels", "block", "size", "state", "tolerance"),
    [(1, (4, 4), 20, 5, 0), (1, (4, 4), 20, 5, 900), (3, (2, 3), 9, 9, 60), (1, (4, 4), 12, 1, 2000)],
)
def test_ranks_and_codewords_equal_the_reference(
    queue: Any,
    rng: np.random.Generator,
    channels: int,
    block: tuple[int, int],
    size: int,
    state: int,
    tolerance: int,
) -> None:
    image = smooth(rng, 22, 27, channels)
    shape = BlockShape(*block, channels)
    rows = reference.blocks(image, *block).astype(np.uint8)
    codebook = rows[rng.choice(len(rows), size)]  # repeated codewords make ties
    check_both_ways(queue, image, codebook, shape, state, tolerance)


@pytest.mark.small
def test_on_a_simulator_too(queue: Any, rng: np.random.Generator) -> None:
    image = smooth(rng, 8, 6, 1)
    check_both_ways(queue, image, rng.integers(60, 180, (5, 4), np.uint8), BlockShape(2, 2, 1), 3, 500)


def test_small_groups_and_little_scratch_give_the_same(
    queue: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = smooth(rng, 40, 40, 1)
    codec = VQCodec(16, queue=queue, state_size=4, tolerance=30.0).fit(image)
    data = codec.compress(image)
    picture = codec.decompress(data)
    monkeypatch.setenv("CLQUANT_LIMITS", "work_group=2,max_alloc=2000")
    with runtime.force_variant("portable"):
        assert codec.compress(image) == data
        np.testing.assert_array_equal(codec.decompress(data), picture)


@pytest.mark.parametrize(("state_size", "height"), [(0, 42), (4, 42), (4, 3)])
@pytest.mark.parametrize("max_alloc", [700, 520])
def test_files_do_not_depend_on_the_devices_memory(
    queue: Any,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    state_size: int,
    height: int,
    max_alloc: int,
) -> None:
    monkeypatch.setattr("clquant.vq.container.MAX_BAND_BLOCKS", 65)  # 6 of 11 block rows of 10 blocks
    image = smooth(rng, height, 39, 1)
    codec = VQCodec(8, queue=queue, state_size=state_size, tolerance=600.0)
    codec.codebook_ = rng.integers(40, 210, (8, 4, 4), np.uint8)
    data = codec.compress(image)
    picture = codec.decompress(data)
    on_device = pyopencl.array.to_device(queue, image)
    monkeypatch.setenv("CLQUANT_LIMITS", f"max_alloc={max_alloc}")
    seen: list[int] = []
    assert codec.compress(image, progress=lambda done, _: seen.append(done)) == codec.compress(on_device) == data
    assert seen == sorted(set(seen))
    assert seen[-1] == 10 * -(-height // 4)
    np.testing.assert_array_equal(codec.decompress(data), picture)


def test_without_tolerance_the_picture_is_that_of_plain_vq(queue: Any, rng: np.random.Generator) -> None:
    image = smooth(rng, 96, 80, 1) // 2 + rng.integers(0, 90, (96, 80)).astype(np.uint8)
    codec = VQCodec(64, refine=3, queue=queue).fit(image)
    plain = codec.compress(image, embed_codebook=False)
    matched = codec.set_params(state_size=4).compress(image, embed_codebook=False)
    np.testing.assert_array_equal(codec.decompress(matched), codec.decompress(plain))
    codec.set_params(tolerance=300.0)
    lossy = codec.compress(image, embed_codebook=False)
    assert len(lossy) < len(matched)
    bound = reference.error(image, codec.decompress(plain)) + 300 * image.size
    assert reference.error(image, codec.decompress(lossy)) <= bound


def test_equal_codewords_outside_the_state_codebook_are_not_exchanged(queue: Any, rng: np.random.Generator) -> None:
    """Codewords equally near to a block differ: without tolerance the one that plain VQ takes must stay."""
    image = 10 * rng.integers(0, 3, (40, 40), np.uint8)
    codebook = 5 + 10 * rng.integers(0, 2, (24, 2, 2), np.uint8)
    codec = VQCodec(24, (2, 2), queue=queue, state_size=3)
    codec.codebook_ = codebook
    np.testing.assert_array_equal(codec.decompress(codec.compress(image)), codec.decode(codec.encode(image)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"state_size": 256}, "state_size is 256; allowed: an integer from 0 to 8"),
        ({"state_size": 9}, "state_size is 9;"),
        ({"tolerance": -1.0}, "tolerance is -1;"),
        ({"tolerance": float("nan")}, "tolerance is nan;"),
    ],
)
def test_wrong_parameters(rng: np.random.Generator, parameters: dict[str, Any], message: str) -> None:
    codec = VQCodec(8, **parameters)
    codec.codebook_ = rng.integers(0, 256, (8, 4, 4), np.uint8)
    with pytest.raises(InvalidArgument, match=message):
        codec.compress(np.zeros((8, 8), np.uint8))
