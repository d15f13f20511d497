"""Colour histograms: parts that add up to the whole's bits, their files, and counts beyond 32 bits."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import PIL.Image
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clquant
from clquant import ColorHistogram, KMeansPalette, NeuQuantCL
from clquant.histogram import accumulation, counting, file, merging
from tests.lowering import lower
from tests.reference import counting as reference

ANY = settings(max_examples=20)


def picture(rng, shape=(24, 31, 3), levels=256):
    return rng.integers(0, levels, shape, dtype=np.uint8)


def with_holes(rng, partial):
    pixels = picture(rng, (24, 31, 4), 64)
    pixels[..., 3] = rng.choice([0, 255, 200 if partial else 255], (24, 31))
    return pixels


def learned(engine):
    return engine.palette_.colors.tolist(), engine.inertia_, engine.n_iter_


@pytest.mark.full
@ANY
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["rgb", "gray", "holes", "alpha"]),
    cuts=st.lists(st.integers(1, 23), max_size=5),
    k=st.integers(2, 12),
)
def test_any_cutting_in_any_order_gives_the_bits_of_the_whole(queue, seed, kind, cuts, k):
    rng = np.random.default_rng(seed)
    pixels = {"rgb": picture(rng), "gray": picture(rng, (24, 31)), "holes": with_holes(rng, False)}.get(kind)
    pixels = with_holes(rng, True) if pixels is None else pixels
    parts = np.split(pixels, sorted(set(cuts)))
    histograms = [ColorHistogram.of(parts[i], queue=queue) for i in rng.permutation(len(parts))]
    total = sum(histograms)
    assert total == ColorHistogram.of(pixels, queue=queue) == ColorHistogram.of(parts, queue=queue)
    engine = KMeansPalette(k, swap_rounds=3, queue=queue)
    assert learned(engine.fit_histogram(total)) == learned(engine.fit(pixels))
    left = total - histograms[0]
    assert left + histograms[0] == total
    assert left.total == total.total - histograms[0].total


@pytest.mark.parametrize("partial", [False, True])
def test_colors_and_counts(queue, rng, partial):
    pixels = with_holes(rng, partial)
    histogram = ColorHistogram.of(pixels, queue=queue)
    colors, counts = histogram.to_arrays()
    expected_colors, expected_counts = reference.count_colors([pixels])
    np.testing.assert_array_equal(colors[1:], expected_colors)
    np.testing.assert_array_equal(counts[1:], expected_counts)
    assert colors[0].tolist() == [0, 0, 0, 0]
    assert counts[0] == (pixels[..., 3] == 0).sum()
    assert counts.dtype == np.uint64
    assert (histogram.total, histogram.n_colors) == (24 * 31, len(colors))
    order = rng.permutation(len(colors))
    assert ColorHistogram(colors[order], counts[order]) == histogram
    twice = ColorHistogram(np.concatenate([colors, colors]), np.concatenate([counts, counts]))
    assert twice == histogram + histogram


def test_pictures_paths_folders_and_device_arrays(queue, rng, tmp_path):
    pictures = [picture(rng), picture(rng, (5, 7)), with_holes(rng, True)]
    (tmp_path / "below").mkdir()
    PIL.Image.fromarray(pictures[0]).save(tmp_path / "a.png")
    PIL.Image.fromarray(pictures[2]).save(tmp_path / "below" / "b.png")
    (tmp_path / "notes.txt").write_text("no picture")
    expected = ColorHistogram.of(pictures, queue=queue)
    told = []
    found = ColorHistogram.of([tmp_path, pictures[1]], queue=queue, progress=lambda *done: told.append(done))
    assert found == expected
    assert told[-1] == (3, 3)
    device = pyopencl.array.to_device(queue, pictures[0])
    assert ColorHistogram.of([device, str(tmp_path / "below"), pictures[1]], queue=queue) == expected


@given(st.lists(st.lists(st.integers(0, 40), max_size=60), min_size=2, max_size=5), st.integers(1, 9))
@settings(max_examples=40)
def test_parts_are_merged_range_by_range(parts, at_a_time):
    grays = [np.uint8([[[v, v, 9]] for v in part] or np.zeros((0, 1, 3))) for part in parts]
    counted = [ColorHistogram(part.reshape(-1, 3), np.ones(len(part), np.int64)) for part in grays]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_RANGE", at_a_time)
        found = sum(counted)
    together = np.concatenate([part.reshape(-1, 3) for part in grays])
    assert found == ColorHistogram(together, np.ones(len(together), np.int64))


@pytest.mark.full
def test_merging_on_the_way(queue, rng, monkeypatch):
    pictures = [picture(rng, (9, 9, 4), 20) for _ in range(7)]
    pictures += [picture(rng, (9, 9, 3), 20) for _ in range(3)]
    pictures[2][..., 3] = 255
    together = sum(ColorHistogram.of(one, queue=queue) for one in pictures)
    monkeypatch.setattr("clquant.histogram.accumulation.MOST_WAITING", 100)
    lower(monkeypatch, batches__bytes=1)
    found = ColorHistogram.of(pictures, queue=queue)
    assert found == together
    learned = KMeansPalette(5, queue=queue).fit_histogram(found)
    assert learned.palette_ == KMeansPalette(5, queue=queue).fit(pictures).palette_


def test_a_table_of_all_colors_keeps_their_order(rng):
    colors = np.unique(rng.integers(0, 256, (3000, 3), dtype=np.uint8), axis=0)
    codes = np.sort(merging.codes_of(np.insert(colors, 3, 255, axis=1)))
    places = accumulation._places(codes)
    assert (np.diff(places.astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(accumulation._codes(places.astype(np.intp)), codes)


def test_the_order_is_that_of_the_codes(rng):
    colors = rng.integers(0, 256, (500, 4), dtype=np.uint8)
    codes = merging.codes_of(colors)
    np.testing.assert_array_equal(codes, reference.z_order(colors))
    np.testing.assert_array_equal(merging.colors_of(codes), colors)


def test_operators_refuse_what_is_no_histogram():
    histogram = ColorHistogram([[1, 2, 3]], [2])
    with pytest.raises(TypeError):
        histogram + 1
    with pytest.raises(TypeError):
        histogram - [1]
    with pytest.raises(TypeError):
        hash(histogram)
    assert histogram != 3
    assert repr(histogram) == "ColorHistogram(1 colours, 2 pixels)"


@pytest.mark.parametrize("other", [([[1, 2, 4]], [1]), ([[1, 2, 3]], [3]), ([[1, 2, 3, 0]], [1])])
def test_only_parts_are_subtracted(other):
    with pytest.raises(clquant.InvalidArgument, match="pixels that the other has not"):
        ColorHistogram([[1, 2, 3]], [2]) - ColorHistogram(*other)


def test_what_is_subtracted_whole_leaves_nothing(queue):
    histogram = ColorHistogram([[1, 2, 3, 255], [4, 5, 6, 9]], [2, 3])
    empty = histogram - histogram
    assert (empty.total, empty.n_colors) == (0, 0)
    with pytest.raises(clquant.InvalidArgument, match="histogram has no pixels"):
        KMeansPalette(4, queue=queue).fit_histogram(empty)
    opaque = histogram - ColorHistogram([[4, 5, 6, 9]], [3])
    assert KMeansPalette(4, queue=queue).fit_histogram(opaque).palette_.colors.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("colors", "counts", "message"),
    [
        ([[1, 2]], [1], r"colors has shape \(1, 2\)"),
        ([[1, 2, 256]], [1], "colors goes from 1 to 256"),
        ([[1.0, 2, 3]], [1], "colors is"),
        ([[1, 2, 3]], [1, 2], r"counts has shape \(2,\)"),
        ([[1, 2, 3]], [-1], "counts goes down to -1"),
        ([[1, 2, 3]], [2**39 + 1], "at most 2\\^39"),
        ([[1, 2, 3], [1, 2, 4]], [2**39, 1], "at most 2\\^39"),
    ],
)
def test_wrong_colors_and_counts(colors, counts, message):
    with pytest.raises(clquant.ClquantError, match=message):
        ColorHistogram(colors, counts)


def test_sums_beyond_the_most_are_refused():
    half = ColorHistogram([[1, 2, 3]], [2**38])
    assert (half + half).total == 2**39
    with pytest.raises(clquant.InvalidArgument, match="at most 2\\^39"):
        half + half + ColorHistogram([[0, 0, 0, 0]], [1])


@pytest.mark.parametrize("given", [3, np.zeros((2, 2, 3), np.uint8), None])
def test_fits_want_a_histogram(queue, given):
    for engine in KMeansPalette(2, queue=queue), NeuQuantCL(2, queue=queue):
        with pytest.raises(clquant.InvalidType, match="histogram is"):
            engine.fit_histogram(given)


def test_files(queue, rng, tmp_path):
    for histogram in (
        ColorHistogram.of(with_holes(rng, True), queue=queue),
        ColorHistogram.of(picture(rng), queue=queue),
        ColorHistogram([[7, 8, 9], [0, 0, 0]], [2**39 - 1, 1]),
        ColorHistogram([[0, 0, 0, 0]], [5]),
        ColorHistogram(np.zeros((0, 3), np.uint8), np.zeros(0, int)),
    ):
        histogram.save(tmp_path / "some.clqh")
        assert ColorHistogram.load(tmp_path / "some.clqh") == histogram
    assert (tmp_path / "some.clqh").stat().st_size < 64


def stamped(body):
    """A file's bytes with the check that they should have."""
    return body + struct.pack("<I", zlib.crc32(body))


def test_damaged_files(rng, tmp_path):
    colors = np.unique(picture(rng, (40, 4)) | np.array([0, 0, 0, 1], np.uint8), axis=0)
    path = tmp_path / "some.clqh"
    ColorHistogram(colors, np.arange(1, len(colors) + 1)).save(path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(clquant.FormatError):
                ColorHistogram.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(clquant.FormatError):
        ColorHistogram.load(path)
    path.write_bytes(whole)
    with pytest.raises(clquant.FormatError, match="at most 39"):
        ColorHistogram.load(path, max_colors=39)
    with pytest.raises(clquant.FileError):
        ColorHistogram.load(tmp_path / "none.clqh")


@pytest.mark.parametrize(
    ("codes", "counts", "transparent"),
    [([5, 5], [1, 1], 0), ([0x22], [1], 0), ([1, 3], [1, 2**39], 0), ([1], [1], 2**39)],
)
def test_files_that_no_histogram_writes(tmp_path, codes, counts, transparent):
    data = file.to_bytes(np.array(codes, np.uint32), np.array(counts, np.uint64), transparent)
    with pytest.raises(clquant.FormatError):
        file.from_bytes(data)


def test_files_that_claim_other_sizes():
    payload = zlib.compress(bytes(9))
    for n, size, version, data in ((2, 0, 1, payload), (0, 0, 1, payload), (1, 1, 1, payload), (1, 0, 2, payload)):
        head = struct.pack("<8sB3xIQQ", file.MAGIC, version, n, 0, len(data) + size)
        with pytest.raises(clquant.FormatError):
            file.from_bytes(stamped(head + data))
    head = struct.pack("<8sB3xIQQ", file.MAGIC, 1, 1, 0, len(payload) + 1)
    with pytest.raises(clquant.FormatError):
        file.from_bytes(stamped(head + payload + b"\0"))


def test_weights_beyond_32_bits_count_exactly(queue, rng):
    pixels = picture(rng, (9, 11, 4), 12)
    weights = rng.integers(0, 2**32, (9, 11), dtype=np.uint64)
    weights[3, 4] = 2**38
    session = clquant.runtime.open_session(queue)
    pictures = [clquant.images.read(pixels), clquant.images.read(pixels[:2])]
    given = [weights, weights[:2]]
    with session.scope() as scope:
        counted = counting.count_colors(session, scope, pictures, given)
        colors, counts = counted.to_host(session)
        expected_colors, expected_counts = reference.count_colors([pixels, pixels[:2]], given)
        np.testing.assert_array_equal(colors, expected_colors)
        np.testing.assert_array_equal(counts, expected_counts)
        assert counted.wide
        assert counted.total + counted.transparent == int(weights.sum()) + int(weights[:2].sum())


@pytest.mark.full
def test_pixels_beyond_a_counter_are_counted_in_portions(queue, rng, monkeypatch):
    monkeypatch.setattr(counting, "MAX_NARROW", 100)
    monkeypatch.setattr(merging, "MAX_NARROW", 100)
    pictures = [picture(rng, (9, 11, 3), 5), picture(rng, (40, 20), 5), picture(rng, (3, 3, 4), 5)]
    engine = KMeansPalette(5, queue=queue)
    found = learned(engine.fit(pictures))
    device = [pyopencl.array.to_device(queue, pictures[0]), *pictures[1:]]
    assert learned(engine.fit(device)) == found
    weights = [np.ones(one.shape[:2], int) for one in pictures]
    assert learned(engine.fit(pictures, sample_weight=weights)) == found
    monkeypatch.undo()
    assert learned(engine.fit(pictures)) == found


@pytest.mark.parametrize("k", [3, 20])
@pytest.mark.parametrize("channels", [3, 4])
def test_boolean_weights(queue, rng, k, channels):
    pixels = picture(rng, (20, 30, channels), 40)
    kept = rng.integers(0, 2, (20, 30)).astype(bool)
    engine = KMeansPalette(k, queue=queue)
    assert learned(engine.fit(pixels, sample_weight=kept)) == learned(engine.fit(pixels, sample_weight=kept * 1))


def test_neuquant_does_not_depend_on_the_cutting(queue, rng):
    pixels = picture(rng, (60, 70, 3), 64)
    whole, parts = ColorHistogram.of(pixels, queue=queue), np.split(pixels, [7, 31])
    expected = NeuQuantCL(12, queue=queue).fit_histogram(whole).palette_.colors
    cut = sum(ColorHistogram.of(part, queue=queue) for part in parts[::-1])
    np.testing.assert_array_equal(NeuQuantCL(12, queue=queue).fit_histogram(cut).palette_.colors, expected)
    colors, counts = whole.to_arrays()
    row = np.repeat(colors[:, :3], counts.astype(int), axis=0)[None]
    np.testing.assert_array_equal(NeuQuantCL(12, queue=queue).fit(row).palette_.colors, expected)


def test_neuquant_keeps_every_colour_of_large_histograms(queue):
    histogram = ColorHistogram([[1, 2, 3, 255], [200, 9, 4, 255], [5, 6, 7, 0]], [2**38, 1, 2**20])
    palette = NeuQuantCL(4, queue=queue).fit_histogram(histogram).palette_.colors
    assert palette.tolist() == [[1, 2, 3, 255], [200, 9, 4, 255], [0, 0, 0, 0]]
