"""Side-match VQ against its reference, and through files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest

from clquant import VQCodec, clvq_info, runtime
from clquant.runtime import InvalidArgument
from clquant.training.blocks import BlockShape
from clquant.vq.coding.contexts import PRESET, Contexts, Model
from clquant.vq.coding.sidematch import SideMatch
from tests.lowering import lower
from tests.reference import clvq as clvq_reference
from tests.reference import vq as reference

Bytes = npt.NDArray[np.uint8]


def smooth(rng: np.random.Generator, height: int, width: int, channels: int) -> Bytes:
    y, x = np.mgrid[:height, :width]
    waves = 120 + 60 * np.sin(x / 9) + 50 * np.cos(y / 7)
    image = waves[..., None] + 10 * np.arange(channels) + rng.integers(0, 12, (height, width, channels))
    return image.astype(np.uint8)[..., 0] if channels == 1 else image.astype(np.uint8)


def check(
    queue: Any, image: Bytes, codebook: Bytes, shape: BlockShape, state: int, tolerance: int, band_rows: int
) -> None:
    """Chooses codewords for an image and compares with the reference."""
    rows = reference.blocks(image, shape.rows, shape.columns)
    whole = codebook.reshape(len(codebook), shape.rows, shape.columns, shape.channels)
    pixels = image.shape[0] * image.shape[1]
    model = Model(PRESET, np.zeros(len(codebook), np.uint8))
    expected = clvq_reference.Contexts(whole, PRESET, pixels)
    nearest = reference.encode(image, codebook.reshape(len(codebook), *shape.codeword_shape()))
    nearest = np.argsort(expected.order)[nearest]
    parts = []
    for top in range(0, len(nearest), band_rows):
        band = nearest[top : top + band_rows]
        blocks = rows[top * band.shape[1] : (top + len(band)) * band.shape[1]]
        parts.append(clvq_reference.chosen(blocks, band, whole, expected, state, tolerance))
    session = runtime.open_session(queue)
    with session.scope() as scope:
        contexts = Contexts(session, scope, codebook, shape, pixels)
        tables = contexts.tables(scope, model)
        matcher = SideMatch(session, scope.copy_of(codebook[contexts.order]), shape, tables, state)
        found = matcher.choose(scope.copy_of(image), image.shape[:2], nearest, band_rows, tolerance)
    np.testing.assert_array_equal(found, np.concatenate(parts))


@pytest.mark.parametrize(
    ("channels", "block", "size", "state", "tolerance", "band_rows"),
    [
        (1, (4, 4), 12, 4, 1, 9),
        (1, (4, 4), 20, 5, 1, 9),
        (1, (4, 4), 20, 5, 900, 4),
        (3, (2, 3), 9, 9, 60, 5),
        (1, (4, 4), 12, 1, 2000, 9),
        (4, (3, 2), 300, 4, 3000, 3),
        (1, (4, 4), 12, 4, 2000, 4),
    ],
)
def test_codewords_equal_the_reference(
    queue: Any,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    channels: int,
    block: tuple[int, int],
    size: int,
    state: int,
    tolerance: int,
    band_rows: int,
) -> None:
    image = smooth(rng, 22, 27, channels)
    shape = BlockShape(*block, channels)
    rows = reference.blocks(image, *block).astype(np.uint8)
    codebook = rows[rng.choice(len(rows), size)]  # repeated codewords make ties
    check(queue, image, codebook, shape, state, tolerance, band_rows)
    monkeypatch.setenv("CLQUANT_LIMITS", "is_cpu=0,work_group=4")
    check(queue, image, codebook, shape, state, tolerance, band_rows)


@pytest.mark.small
def test_on_a_simulator_too(queue: Any, rng: np.random.Generator) -> None:
    image = smooth(rng, 14, 11, 1)
    check(queue, image, rng.integers(60, 180, (9, 16), np.uint8), BlockShape(4, 4, 1), 4, 500, 4)


@pytest.mark.full
@pytest.mark.parametrize("state_size", [0, 4])
def test_files_do_not_depend_on_the_device(
    queue: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, state_size: int
) -> None:
    lower(monkeypatch, bands__narrow=65, bands__rows=6)
    image = smooth(rng, 142, 39, 1)
    codec = VQCodec(8, queue=queue, state_size=state_size, tolerance=600.0)
    codec.codebook_ = rng.integers(40, 210, (8, 4, 4), np.uint8)
    data = codec.compress(image)
    assert clvq_info(data).bands == 6
    picture = codec.decompress(data)
    on_device = pyopencl.array.to_device(queue, image)
    lower(monkeypatch, work_group=2, max_alloc=20000)
    seen: list[int] = []
    assert codec.compress(image, progress=lambda done, _: seen.append(done)) == codec.compress(on_device) == data
    assert seen == sorted(seen)
    assert seen[-1] == 10 * 36
    np.testing.assert_array_equal(codec.decompress(data), picture)


def test_without_tolerance_the_picture_is_that_of_plain_vq(queue: Any, rng: np.random.Generator) -> None:
    image = smooth(rng, 96, 80, 1) // 2 + rng.integers(0, 90, (96, 80)).astype(np.uint8)
    codec = VQCodec(64, refine=3, queue=queue).fit(image)
    plain = codec.compress(image, embed_codebook=False)
    matched = codec.set_params(state_size=4).compress(image, embed_codebook=False)
    np.testing.assert_array_equal(codec.decompress(matched), codec.decompress(plain))
    assert len(matched) == len(plain)
    codec.set_params(tolerance=300.0)
    lossy = codec.compress(image, embed_codebook=False)
    assert len(lossy) < len(matched)
    bound = reference.error(image, codec.decompress(plain)) + 300 * image.size
    assert reference.error(image, codec.decompress(lossy)) <= bound


def test_equal_codewords_outside_the_state_codebook_are_not_exchanged(queue: Any, rng: np.random.Generator) -> None:
    """Codewords equally near to a block differ: without tolerance the one that plain VQ takes must stay."""
    image = 10 * rng.integers(0, 3, (40, 40), np.uint8)
    codebook = 5 + 10 * rng.integers(0, 2, (40, 4, 4), np.uint8)
    codec = VQCodec(40, queue=queue, state_size=4)
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
