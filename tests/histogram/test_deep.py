"""Counts of 16-bit colours: equal to a count pixel by pixel, whatever the bands and order; files."""

from __future__ import annotations

import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clquant
from clquant import ColorHistogram, images
from clquant.histogram import file, merging
from clquant.histogram.counting import count_colors
from clquant.histogram.merging import HostCounts
from clquant.runtime import CommandQueue, InvalidArgument, open_session
from tests.lowering import lower

ANY = settings(max_examples=20)


def picture(rng: np.random.Generator, shape: tuple[int, ...], levels: int = 40) -> np.ndarray:
    """Few enough levels for colours to come again; alpha of 0, 1, 30000 and 65535."""
    values = rng.integers(0, 65536, levels).astype(np.uint16)
    pixels = values[rng.integers(0, levels, shape)]
    if len(shape) == 3 and shape[2] == 4:
        pixels[..., 3] = rng.choice(np.array([0, 1, 30000, 65535], np.uint16), shape[:2])
    return pixels


def expected(pictures: list[np.ndarray]) -> dict[tuple[int, ...], int]:
    """Colours and their counts, pixel by pixel."""
    counts: dict[tuple[int, ...], int] = {}
    for one in pictures:
        wide = one.astype(np.int64) * (257 if one.dtype == np.uint8 else 1)
        flat = wide.reshape(-1, 1 if one.ndim == 2 else one.shape[2])
        for pixel in flat.tolist():
            full = pixel * 3 if len(pixel) == 1 else pixel
            color = tuple(full) if len(full) == 4 else (*full, 65535)
            color = color if color[3] else (0, 0, 0, 0)
            counts[color] = counts.get(color, 0) + 1
    return counts


def found(histogram: ColorHistogram) -> dict[tuple[int, ...], int]:
    colors, counts = histogram.to_arrays()
    return dict(zip(map(tuple, colors.tolist()), counts.tolist(), strict=True))


@pytest.mark.small
@pytest.mark.parametrize("shape", [(5, 7), (6, 5, 3), (4, 9, 4)])
def test_small(queue: CommandQueue, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    pixels = picture(rng, shape, 6)
    assert found(ColorHistogram.of(pixels, queue=queue)) == expected([pixels])


@ANY
@given(
    seed=st.integers(0, 2**32), channels=st.sampled_from([None, 3, 4]), cuts=st.lists(st.integers(1, 23), max_size=4)
)
def test_any_cutting_in_any_order(queue: CommandQueue, seed: int, channels: int | None, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    pixels = picture(rng, (24, 31) if channels is None else (24, 31, channels), int(rng.integers(2, 200)))
    parts = np.split(pixels, sorted(set(cuts)))
    histograms = [ColorHistogram.of(parts[i], queue=queue) for i in rng.permutation(len(parts))]
    whole = ColorHistogram.of(pixels, queue=queue)
    assert sum(histograms) == whole == ColorHistogram.of(parts, queue=queue)
    assert found(whole) == expected([pixels])
    assert whole - histograms[0] + histograms[0] == whole
    assert ColorHistogram(*whole.to_arrays()) == whole


def test_bands(queue: CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, deep_counting__band=64)
    pictures = [picture(rng, (13, 9, 3)), picture(rng, (5, 100, 4)), picture(rng, (7, 8))]
    assert found(ColorHistogram.of(pictures, queue=queue)) == expected(pictures)


def test_differing_bits_and_places(queue: CommandQueue, rng: np.random.Generator) -> None:
    """8-bit pictures count as 257 v among others of 16 bits, on the host and on the device."""
    deep, plain = picture(rng, (8, 9, 3)), rng.integers(0, 4, (6, 7, 4), np.uint8) * np.uint8(85)
    sources = [plain, pyopencl.array.to_device(queue, deep), deep]
    both = ColorHistogram.of(sources, queue=queue)
    assert found(both) == expected([plain, deep, deep])
    eight = ColorHistogram.of(plain, queue=queue)
    assert eight + ColorHistogram.of([deep, deep], queue=queue) == both
    assert both - eight == ColorHistogram.of([deep, deep], queue=queue)
    assert eight == ColorHistogram.of(plain.astype(np.uint16) * 257, queue=queue)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_narrowed_counts_are_those_of_the_narrowed_picture(
    queue: CommandQueue, rng: np.random.Generator, channels: int
) -> None:
    pixels = rng.integers(0, 5000, (20, 30, channels)).astype(np.uint16)
    deep = ColorHistogram.of(pixels, queue=queue)
    plain = ColorHistogram.of(pixels, queue=queue, max_bits=8)
    session = open_session(queue)
    with session.scope() as scope:
        direct = HostCounts.of(session, count_colors(session, scope, [images.read(pixels)]))
    narrow = deep._counted.narrowed()
    for one in (plain._counted, direct):
        assert np.array_equal(narrow.codes, one.codes)
        assert np.array_equal(narrow.counts, one.counts)
        assert (narrow.transparent, narrow.partial, narrow.clear) == (one.transparent, one.partial, one.clear)


def test_the_order_is_that_of_the_codes(rng: np.random.Generator) -> None:
    colors = rng.integers(0, 65536, (500, 4)).astype(np.uint16)
    codes = merging.codes_of(colors)
    bits = [(int(v) >> b & 1) << (4 * b + 3 - c) for v, c in zip(colors[7], range(4), strict=True) for b in range(16)]
    assert int(codes[7]) == sum(bits)
    assert np.array_equal(merging.colors_of(codes), colors)


def test_files(queue: CommandQueue, rng: np.random.Generator, tmp_path: object) -> None:
    histogram = ColorHistogram.of(picture(rng, (24, 31, 4)), queue=queue)
    path = f"{tmp_path}/deep.clqh"
    histogram.save(path)
    loaded = ColorHistogram.load(path)
    assert loaded == histogram
    assert np.array_equal(loaded.to_arrays()[0], histogram.to_arrays()[0])
    with open(path, "rb") as one:
        data = one.read()
    assert data[8] == 2
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 16
        with pytest.raises(clquant.ClquantError):
            file.from_bytes(bytes(damaged))


def test_codes_that_do_not_ascend_are_refused() -> None:
    for codes in ([5, 3], [2**63 + 1, 1], [1, 1]):
        with pytest.raises(clquant.ClquantError, match="colours"):
            file.from_bytes(file.to_bytes(np.array(codes, np.uint64), np.ones(2, np.uint64), 0))


def test_8_bit_values_in_16_bits_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="colors is uint16"):
        ColorHistogram(np.array([[1, 2, 3]], np.uint16), [1])


def test_memory_bounds_colours(queue: CommandQueue, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """More colours than a 48th of the bytes are refused before they are kept; as many, however often, are counted."""
    lower(monkeypatch, deep_counting__band=1 << 12)
    most = (1 << 20) // 48
    colors = np.arange(most, dtype=np.uint16).repeat(3).reshape(1, most, 3)
    few = np.concatenate([colors] * 4)
    assert ColorHistogram.of(few, queue=queue, memory="1 MiB").n_colors == most
    many = rng.integers(0, 65536, (200, 300, 3)).astype(np.uint16)
    with pytest.raises(InvalidArgument, match="allowed: more memory, or max_bits=8"):
        ColorHistogram.of(many, queue=queue, memory="1 MiB")
    assert ColorHistogram.of(many, queue=queue, memory="1 MiB", max_bits=8).total == 60000
