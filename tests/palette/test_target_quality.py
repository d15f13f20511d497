"""Errors in each space, the fewest colours for a quality, and orders of a palette."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from clquant import IndexedImage, KMeansPalette, NeuQuantCL, Palette, quality
from clquant.color import order, spaces
from clquant.images import decode
from clquant.mapping import error
from clquant.mapping.candidates import CandidateLister
from clquant.palette import engine, target_quality
from clquant.runtime import InvalidArgument, StoppedError, force_tuning, force_variant, open_session
from tests.reference.palette_map import nearest, with_alpha


@pytest.mark.small
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_error_equals_the_reference(queue, rng, name, channels):
    image = rng.integers(1, 256, (9, 14, channels), dtype=np.uint8)
    palette = Palette(rng.integers(1, 256, (6, 4 if channels == 4 else 3)))
    space = spaces.space(name, channels == 4)
    pixels = image.reshape(-1, channels)
    chosen = palette.rgba()[nearest(pixels, palette, space)]
    apart = space.coordinates(with_alpha(pixels)).astype(np.int64) - space.coordinates(chosen)
    expected = int((apart**2).sum()) / (space.unit**2 * 3 * len(pixels))
    given = image[:, :, 0] if channels == 1 else image
    assert error.mean_squared_error(given, palette, color_space=name, queue=queue) == expected


def test_srgb_error_is_the_mean_squared_error(queue, sample):
    palette = [[20, 40, 10], [200, 220, 40], [60, 110, 40], [0, 0, 0]]
    shown = engine.transform(sample, palette, queue=queue).astype(float)
    assert error.mean_squared_error(sample, palette, queue=queue) == ((shown - sample) ** 2).mean()


@pytest.mark.small
@pytest.mark.parametrize("name", spaces.NAMES)
@pytest.mark.parametrize("metric", ["l2", "l1"])
def test_an_error_in_srgb_of_colors_chosen_otherwise(queue, sample, name, metric):
    image = np.ascontiguousarray(sample[::12, ::12])
    palette = [[20, 40, 10], [200, 220, 40], [60, 110, 40], [0, 0, 0]]
    shown = engine.transform(image, palette, color_space=name, metric=metric, queue=queue).astype(float)
    given = {"color_space": name, "metric": metric, "error_space": "srgb"}
    assert error.mean_squared_error(image, palette, **given, queue=queue) == ((shown - image) ** 2).mean()


@pytest.mark.parametrize("most", [2, 3, 17, 256, 65536])
@pytest.mark.parametrize("law", ["step", "power", "exact", "slow"])
def test_fewest_colors_finds_every_threshold(most, law):
    for threshold in {1, 2, 3, 4, 5, 15, 16, 17, 100, 255, 256, 257, 65535, 65536}:
        tried = []

        def error(count, threshold=threshold, tried=tried):
            tried.append(count)
            if law == "exact":
                return 9.0 if count < threshold else 0.0
            if law == "slow":
                return 1.0 + 1e-6 * (threshold - count)
            return float(count < threshold) if law == "step" else (threshold / count) ** 0.7

        limit = 0.0 if law in ("step", "exact") else 1.0
        expected = max(threshold, 2) if threshold <= most else None
        assert target_quality.fewest_colors(error, limit, most) == expected
        assert len(tried) == len(set(tried)) <= 2 * most.bit_length() + 4
        if law == "power":
            assert len(tried) <= 12


def test_fewer_colors_that_are_as_good_are_found():
    errors = {n: 100 / n for n in range(2, 300)} | {18: 5.0, 19: 5.05, 20: 5.0}
    assert target_quality.fewest_colors(errors.__getitem__, 5.0, 256) == 18


def test_fit_quality_reaches_the_target_with_the_fewest_colors(queue, sample):
    image = np.ascontiguousarray(sample[::6, ::6])
    learner = KMeansPalette(64, queue=queue)
    assert learner.fit_quality(image, target_psnr=27) is learner
    count = len(learner.palette_)
    assert learner.n_colors == 64
    limit = 255**2 / 10**2.7
    assert error.mean_squared_error(image, learner.palette_, queue=queue) <= limit
    fewer = KMeansPalette(count - 1, queue=queue).fit(image).palette_
    assert error.mean_squared_error(image, fewer, queue=queue) > limit
    both = KMeansPalette(64, queue=queue).fit_quality([image, image], max_mse=limit)
    assert len(both.palette_) == count


@pytest.mark.full
@pytest.mark.parametrize(
    "learner",
    [KMeansPalette(64, color_space="oklab"), KMeansPalette(64, color_space="linear"), NeuQuantCL(64, metric="l1")],
    ids=["oklab", "linear", "l1"],
)
def test_fit_quality_is_that_of_what_the_engine_makes(queue, sample, learner):
    image = np.ascontiguousarray(sample[::6, ::6])
    learner.set_params(queue=queue)
    learner.fit_quality(image, target_psnr=27)
    assert quality.psnr(image, learner.transform(image)) >= 27
    fewer = type(learner)(**{**learner.get_params(), "n_colors": len(learner.palette_) - 1})
    assert quality.psnr(image, fewer.fit_transform(image)) < 27


def test_fit_quality_leaves_what_fit_would(queue, sample):
    image = np.ascontiguousarray(sample[::6, ::6])
    learner = KMeansPalette(64, queue=queue).fit(image[:9])
    learner.fit_quality(image, target_psnr=27)
    alone = KMeansPalette(len(learner.palette_), queue=queue).fit(image)
    assert (learner.palette_, learner.inertia_, learner.n_iter_) == (alone.palette_, alone.inertia_, alone.n_iter_)


def test_a_file_is_read_once(tmp_path, queue, rng, monkeypatch):
    path = tmp_path / "a.png"
    PIL.Image.fromarray(rng.integers(0, 256, (20, 21, 3), np.uint8)).save(path)
    read, from_file = [], decode.from_file
    monkeypatch.setattr(decode, "from_file", lambda *args: read.append(args[0]) or from_file(*args))
    KMeansPalette(64, queue=queue).fit_quality(path, max_mse=2000)
    assert read == [str(path)]
    error.mean_squared_error(path, [[1, 2, 3]], queue=queue)
    assert read == 2 * [str(path)]


def test_an_error_needs_no_candidate_lists(queue, rng, monkeypatch):
    class First:
        def __init__(self, *_):
            pass

        def map(self, session, _, portion):
            session.fill(portion.out, np.uint8(0), portion.count)

    monkeypatch.setattr(error, "search_of", First)
    monkeypatch.setattr(CandidateLister, "fine", None)
    image = rng.integers(0, 256, (9, 14, 3), dtype=np.uint8)
    with force_tuning({"mapping.grid_pays": 1}), force_variant("portable"):
        assert error.mean_squared_error(image, [[0, 0, 0]], queue=queue) == (image.astype(float) ** 2).mean()


def test_fit_quality_errors(queue, sample):
    image = np.ascontiguousarray(sample[::16, ::16])
    learner = KMeansPalette(4, queue=queue)
    with pytest.raises(
        InvalidArgument, match=r"n_colors is 4, which gives a mean squared error of .* dB\); the target of"
    ):
        learner.fit_quality(image, target_psnr=60)
    assert not hasattr(learner, "palette_")
    with pytest.raises(InvalidArgument, match="allowed: exactly one of them"):
        learner.fit_quality(image)
    with pytest.raises(InvalidArgument, match="allowed: exactly one of them"):
        learner.fit_quality(image, target_psnr=30, max_mse=3)
    with pytest.raises(InvalidArgument, match="target_psnr is -1"):
        learner.fit_quality(image, target_psnr=-1)
    with pytest.raises(InvalidArgument, match=r"init is \[.*\]; allowed in fit_quality, .*: a name"):
        KMeansPalette(2, init=[[0, 0, 0], [9, 9, 9]], queue=queue).fit_quality(image, max_mse=9)
    with pytest.raises(StoppedError):
        learner.fit_quality(image, max_mse=1, progress=lambda *_: False)


def test_orders():
    palette = Palette([[255, 255, 255], [0, 0, 255], [255, 0, 0], [9, 9, 9], [90, 0, 0], [0, 200, 0]])
    assert [palette.hex()[i] for i in order.permutation(palette.colors, "luma")] == [
        "#090909",
        "#5a0000",
        "#0000ff",
        "#ff0000",
        "#00c800",
        "#ffffff",
    ]
    hues = [palette.hex()[i] for i in order.permutation(palette.colors, "hue")]
    assert hues == ["#090909", "#ffffff", "#5a0000", "#ff0000", "#00c800", "#0000ff"]
    assert palette.sorted("fitted") == palette
    with pytest.raises(InvalidArgument, match="order is 'size'; allowed: 'fitted', 'luma', 'hue', 'popularity'"):
        palette.sorted("size")
    with pytest.raises(InvalidArgument, match="needs the picture"):
        palette.sorted("popularity")


@pytest.mark.parametrize("name", order.ORDERS)
def test_a_sorted_picture_is_the_same_picture(name, rng):
    colors = rng.integers(1, 256, (300, 4))
    colors[7] = 0
    image = IndexedImage(rng.integers(0, 300, (20, 31)), colors)
    again = image.sorted(name)
    assert np.array_equal(again.to_array(), image.to_array())
    if name != "fitted":
        assert again.palette.transparent_index == 0
    if name == "popularity":
        assert (np.diff(again.counts()[1:]) <= 0).all()


def test_error_of_a_device_array(queue, rng):
    image = rng.integers(0, 256, (21, 8, 3), dtype=np.uint8)
    there = open_session(queue).new_array(image.shape, np.uint8)
    there.set(image)
    palette = [[0, 0, 0], [200, 100, 50]]
    assert error.mean_squared_error(there, palette) == error.mean_squared_error(image, palette, queue=queue)
