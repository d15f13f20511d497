"""The VQ codec against its reference: search, decoding, banding, devices, wrong calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import VQCodec, runtime
from clquant.runtime import InvalidArgument, InvalidType, NotFittedError
from clquant.training.search import VARIANTS
from tests.reference import vq as reference

Bytes = npt.NDArray[np.uint8]
SHAPES = [(4, 4), (2, 2), (8, 8), (3, 5), (1, 1), (32, 8)]


def codec_with(codebook: Bytes, queue: Any) -> VQCodec:
    codec = VQCodec(len(codebook), codebook.shape[1:3], queue=queue)
    codec.codebook_ = codebook
    return codec


def picture(rng: np.random.Generator, height: int, width: int, channels: int) -> Bytes:
    """Gradients with noise, so that blocks differ and neighbours do not."""
    y, x = np.mgrid[:height, :width]
    base = (3 * x + 2 * y)[..., None] + 40 * np.arange(channels)
    noisy = (base + rng.integers(0, 60, (height, width, channels))) % 256
    return noisy.astype(np.uint8)[..., 0] if channels == 1 else noisy.astype(np.uint8)


def codebook_of(rng: np.random.Generator, size: int, p: int, q: int, channels: int) -> Bytes:
    shape = (size, p, q) if channels == 1 else (size, p, q, channels)
    return rng.integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize(("shape", "channels"), [*((s, 1) for s in SHAPES), ((2, 2), 4), ((3, 5), 3), ((4, 4), 3)])
def test_encode_and_decode_equal_the_reference(
    queue: Any, rng: np.random.Generator, shape: tuple[int, int], channels: int
) -> None:
    image = picture(rng, 37, 45, channels)
    codebook = codebook_of(rng, 29, *shape, channels)
    codec = codec_with(codebook, queue)
    indices = codec.encode(image)
    assert indices.dtype == np.uint8
    np.testing.assert_array_equal(indices, reference.encode(image, codebook))
    np.testing.assert_array_equal(codec.decode(indices, (37, 45)), reference.decode(indices, codebook, 37, 45))


@pytest.mark.parametrize("variant", [v.name for v in reversed(VARIANTS)])
@pytest.mark.parametrize(
    ("channels", "shape"),
    [(1, (2, 3)), *(pytest.param(*case, marks=pytest.mark.full) for case in ((1, (4, 4)), (3, (4, 4)), (4, (9, 8))))],
)
def test_every_variant_gives_the_same_indices(
    queue: Any, rng: np.random.Generator, variant: str, channels: int, shape: tuple[int, int]
) -> None:
    image = picture(rng, 64, 48, channels)
    codebook = codebook_of(rng, 300, *shape, channels)
    codec = codec_with(codebook, queue)
    limits = runtime.open_session(queue).limits
    admitted = next(v for v in VARIANTS if v.name == variant).admits(limits)
    with runtime.force_variant(variant if admitted else "portable"):
        indices = codec.encode(image)
    assert indices.dtype == np.uint16
    np.testing.assert_array_equal(indices, reference.encode(image, codebook))


@pytest.mark.full
@pytest.mark.parametrize("variant", ["portable", "lanes"])
@pytest.mark.parametrize(("size", "shape"), [(128, (4, 4)), (8300, (4, 4)), (4096, (2, 2)), (65536, (1, 1))])
def test_codebook_sizes(queue: Any, rng: np.random.Generator, variant: str, size: int, shape: tuple[int, int]) -> None:
    image = picture(rng, 16, 24, 1)
    codebook = codebook_of(rng, size, *shape, 1)
    limits = runtime.open_session(queue).limits
    with runtime.force_variant(variant if variant == "portable" or limits.is_cpu else "portable"):
        indices = codec_with(codebook, queue).encode(image)
    np.testing.assert_array_equal(indices, reference.encode(image, codebook))


@pytest.mark.small
def test_ties_go_to_the_lowest_index(queue: Any) -> None:
    codebook = np.repeat(np.array([10, 30, 10, 30, 20], np.uint8), 16).reshape(5, 4, 4)
    image = np.kron(np.array([[10, 20], [30, 25]], np.uint8), np.ones((4, 4), np.uint8))
    np.testing.assert_array_equal(codec_with(codebook, queue).encode(image), [[0, 4], [1, 1]])


@pytest.mark.full
@pytest.mark.parametrize("extreme", [0, 255])
@pytest.mark.parametrize("shape", [(16, 16), (4, 4)])
@pytest.mark.parametrize("variant", ["portable", "lanes"])
def test_the_largest_scores_are_exact(queue: Any, extreme: int, shape: tuple[int, int], variant: str) -> None:
    """Codewords one apart at the ends of the range, 4 channels: scores reach the proved bounds."""
    p, q = shape
    codebook = np.full((6, p, q, 4), extreme, np.uint8)
    for j in range(5):
        codebook[j, 0, 0, 0] = abs(extreme - 1 - j)
    image = np.full((p, 3 * q, 4), extreme, np.uint8)
    image[:, q : 2 * q] = 255 - extreme
    image[0, 0, 0] = abs(extreme - 3)
    limits = runtime.open_session(queue).limits
    with runtime.force_variant(variant if variant == "portable" or limits.is_cpu else "portable"):
        indices = codec_with(codebook, queue).encode(image)
    np.testing.assert_array_equal(indices, reference.encode(image, codebook))


@settings(max_examples=12)
@given(data=st.data())
def test_any_size_and_block(queue: Any, data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20))
    p, q, channels = data.draw(st.sampled_from([(4, 4, 1), (2, 3, 1), (4, 4, 3)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    image = picture(rng, height, width, channels)
    codebook = codebook_of(rng, 7, p, q, channels)
    codec = codec_with(codebook, queue)
    indices = codec.encode(image)
    np.testing.assert_array_equal(indices, reference.encode(image, codebook))
    decoded = codec.decode(indices, (height, width))
    np.testing.assert_array_equal(decoded, reference.decode(indices, codebook, height, width))
    np.testing.assert_array_equal(codec.encode(codec.decode(indices)), indices)  # codewords code themselves


def test_device_arrays_stay_on_the_device(queue: Any, rng: np.random.Generator) -> None:
    image = picture(rng, 30, 44, 3)
    codebook = codebook_of(rng, 200, 4, 4, 3)
    codec = codec_with(codebook, None)
    indices = codec.encode(pyopencl.array.to_device(queue, image))
    assert isinstance(indices, runtime.Array)
    assert indices.queue == queue
    np.testing.assert_array_equal(indices.get(), reference.encode(image, codebook))
    decoded = codec.decode(indices, (30, 44))
    assert isinstance(decoded, runtime.Array)
    np.testing.assert_array_equal(decoded.get(), codec_with(codebook, queue).decode(indices.get(), (30, 44)))


def test_a_device_table_may_begin_inside_its_buffer(queue: Any, rng: np.random.Generator) -> None:
    codebook = codebook_of(rng, 256, 4, 4, 3)
    table = rng.integers(0, 256, (6, 5), np.uint8)
    decoded = codec_with(codebook, None).decode(pyopencl.array.to_device(queue, table)[2:])
    np.testing.assert_array_equal(decoded.get(), reference.decode(table[2:], codebook, 16, 20))


def test_pictures_larger_than_an_allocation_are_done_in_bands(
    queue: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = picture(rng, 50, 32, 3)
    codebook = codebook_of(rng, 12, 4, 4, 3)
    expected = reference.encode(image, codebook)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=3500,local_memory=16384,work_group=8")
    codec = codec_with(codebook, queue)
    indices = codec.encode(image)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(codec.encode(pyopencl.array.to_device(queue, image)).get(), expected)
    np.testing.assert_array_equal(codec.decode(indices, (50, 32)), reference.decode(expected, codebook, 50, 32))


@pytest.mark.full
@pytest.mark.small
@pytest.mark.parametrize("shape", [(4, 4), (9, 8)])
@pytest.mark.parametrize("limits", ["work_group=1", "work_group=2,local_memory=4096"])
def test_small_devices(
    queue: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, limits: str, shape: tuple[int, int]
) -> None:
    image = picture(rng, 9, 10, 1)
    codebook = codebook_of(rng, 11, *shape, 1)
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    with runtime.force_variant("portable"):
        indices = codec_with(codebook, queue).encode(image)
    np.testing.assert_array_equal(indices, reference.encode(image, codebook))


def test_a_stream_of_pictures_gives_what_single_calls_give(queue: Any, rng: np.random.Generator) -> None:
    codec = codec_with(codebook_of(rng, 9, 4, 4, 1), queue)
    pictures = [picture(rng, 12 + 4 * i, 20, 1) for i in range(4)]
    for table, image in zip(codec.stream(pictures), pictures, strict=True):
        np.testing.assert_array_equal(table, codec.encode(image))
    assert list(codec.stream(pictures, "compress")) == [codec.compress(image) for image in pictures]


def wrong_calls() -> list[tuple[str, type[Exception], str, dict[str, Any]]]:
    image, flat = np.zeros((8, 8), np.uint8), np.zeros((2, 2), np.uint8)
    return [
        ("fit", InvalidArgument, "codebook_size is 1;", {"codebook_size": 1}),
        ("fit", InvalidArgument, "codebook_size is 65537;", {"codebook_size": 65537}),
        ("fit", InvalidType, "codebook_size is 2.5;", {"codebook_size": 2.5}),
        ("fit", InvalidType, "block_shape is 4;", {"block_shape": 4}),
        ("fit", InvalidArgument, r"block_shape\[1\] is 33;", {"block_shape": (1, 33)}),
        ("fit", InvalidArgument, r"block_shape is \(32, 32\);", {"block_shape": (32, 32)}),
        ("fit", InvalidArgument, "init is 'random';", {"init": "random"}),
        ("fit", InvalidArgument, "max_iter is 0;", {"max_iter": 0}),
        ("fit", InvalidArgument, "refine is -1;", {"refine": -1}),
        ("fit", InvalidArgument, "refine is 1001; allowed: an integer from 0 to 1000", {"refine": 1001}),
        ("fit", InvalidType, "random_state is 0.5;", {"random_state": 0.5}),
        ("fit", InvalidType, "queue is 'gpu';", {"queue": "gpu"}),
        ("fit", InvalidArgument, "images is empty;", {"argument": []}),
        ("fit", InvalidArgument, "images have", {"argument": [image, np.zeros((4, 4, 3), np.uint8)]}),
        ("fit", InvalidType, "sample_weight is", {"argument": [image], "sample_weight": [1, 2]}),
        ("fit", InvalidArgument, r"sample_weight\[0\] holds negative", {"argument": [image], "sample_weight": [-1]}),
        ("fit", InvalidArgument, "sample_weight is zero", {"argument": [image], "sample_weight": [0]}),
        ("fit", InvalidArgument, r"sample_weight\[0\] has the shape", {"argument": [image], "sample_weight": [[1, 2]]}),
        ("fit", InvalidType, "progress is 3;", {"progress": 3}),
        ("encode", InvalidType, "image is None;", {"argument": None}),
        ("encode", InvalidArgument, "image has 3 channels;", {"argument": np.zeros((4, 4, 3), np.uint8)}),
        ("decode", InvalidType, "indices is", {"argument": [[0]]}),
        ("decode", InvalidType, "indices is", {"argument": np.zeros((2, 2))}),
        ("decode", InvalidArgument, "indices has the shape", {"argument": np.zeros(3, np.uint8)}),
        ("decode", InvalidArgument, "indices holds values from 0 to 9;", {"argument": 9 * np.eye(2, dtype=np.uint8)}),
        ("decode", InvalidType, "shape is 8;", {"argument": flat, "shape": 8}),
        ("decode", InvalidArgument, r"shape is \(8, 9\);", {"argument": flat, "shape": (8, 9)}),
        ("decode", InvalidArgument, r"shape\[0\] is 0;", {"argument": flat, "shape": (0, 8)}),
        ("decompress", InvalidType, "data is", {"argument": "text"}),
        ("decompress_from", InvalidType, "file is 1; allowed: a binary file open for reading", {"argument": 1}),
        ("compress_to", InvalidType, "file is", {"argument": 1, "image": image}),
        ("compress", InvalidType, "embed_codebook is", {"argument": image, "embed_codebook": 1}),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(len(wrong_calls())))
def test_wrong_calls_raise_one_clear_error(case: int, rng: np.random.Generator) -> None:
    verb, error, message, given_ = wrong_calls()[case]
    constructor = {k: given_.pop(k) for k in list(given_) if k in VQCodec().get_params()}
    codec = VQCodec(**{"codebook_size": 4, **constructor})
    if verb != "fit":
        codec.codebook_ = codebook_of(rng, 4, 4, 4, 1)
    argument = given_.pop("argument", np.zeros((8, 8), np.uint8))
    with pytest.raises(error, match=message):
        getattr(codec, verb)(argument, **given_)


def test_a_device_table_with_a_wrong_index_is_refused(queue: Any, rng: np.random.Generator) -> None:
    codec = codec_with(codebook_of(rng, 5, 4, 4, 3), None)
    table = pyopencl.array.to_device(queue, np.array([[0, 4], [5, 1]], np.uint8))
    with pytest.raises(InvalidArgument, match="indices holds an index of 5 or more"):
        codec.decode(table)
    with pytest.raises(InvalidType, match="indices is a device array of uint16"):
        codec.decode(table.astype(np.uint16))


def test_a_codebook_that_is_none(rng: np.random.Generator) -> None:
    for book, error in ((np.zeros((4, 2, 2)), InvalidType), (np.zeros((4, 2, 2, 2), np.uint8), InvalidArgument)):
        with pytest.raises(error, match="codebook_"):
            codec_with(book, None).encode(picture(rng, 8, 8, 1))


@pytest.mark.parametrize("verb", ["encode", "decode", "compress", "save"])
def test_unfitted(verb: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(VQCodec(), verb)(np.zeros((4, 4), np.uint8))


def test_decode_takes_an_images_whole_shape(queue, rng):
    image = rng.integers(0, 256, (21, 30, 3), dtype=np.uint8)
    codec = VQCodec(8, queue=queue).fit(image)
    table = codec.encode(image)
    np.testing.assert_array_equal(codec.decode(table, shape=image.shape), codec.decode(table, shape=(21, 30)))
    with pytest.raises(runtime.ClquantError, match=r"shape\[2\] is 4; allowed: an integer from 3 to 3"):
        codec.decode(table, shape=(21, 30, 4))


@pytest.mark.full
@pytest.mark.parametrize(
    ("block", "channels", "size"),
    [((4, 4), 1, 256), ((4, 4), 3, 7), ((4, 4), 4, 300), ((2, 2), 1, 7), ((4, 8), 3, 300), ((3, 5), 3, 7)],
)
def test_decoding_puts_codewords_side_by_side(queue, rng, block, channels, size):
    rows, columns = block
    shape = (size, rows, columns) if channels == 1 else (size, rows, columns, channels)
    codec = VQCodec(2, block_shape=block, queue=queue)
    codec.fit(rng.integers(0, 256, (rows, 2 * columns, *shape[3:]), np.uint8))
    codec.codebook_ = rng.integers(0, 256, shape, np.uint8)
    for height, width in ((1, 1), (33, 47), (64, 96), (40, 100), (17, 50)):
        table = rng.integers(0, size, (-(-height // rows), -(-width // columns)))
        blocks = np.moveaxis(codec.codebook_[table], 2, 1)
        expected = blocks.reshape(table.shape[0] * rows, table.shape[1] * columns, *shape[3:])[:height, :width]
        for indices in (table, table.astype(np.uint8 if size <= 256 else np.uint16)):
            assert np.array_equal(codec.decode(indices, (height, width)), expected)


def test_rows_of_vectors_are_no_gray_picture(queue):
    for rows in (np.zeros((999, 3), np.uint8), np.zeros((999, 128), np.float32)):
        with pytest.raises(
            InvalidArgument, match=r"images has the shape .* looks like rows .* clquant.VectorQuantizer"
        ):
            VQCodec(4, queue=queue).fit(rows)
