"""Colour spaces: the integers against the published equations in double precision, and the inverse."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from clquant.color import space_tables, spaces
from clquant.runtime import InvalidArgument

LMS = np.array(space_tables.TO_LMS, float)
LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def light(rgb):
    value = rgb / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def all_spaces():
    return [spaces.space(name, alpha) for name in spaces.NAMES for alpha in (False, True)]


def test_oklab_is_within_a_unit_of_the_definition(rng):
    rgb = rng.integers(0, 256, (20000, 3), dtype=np.uint8)
    exact = np.cbrt(light(rgb) @ LMS.T) @ LAB.T * spaces.OKLAB_SCALE + np.array(spaces.OKLAB_SHIFT)
    assert np.abs(spaces.space("oklab", False).coordinates(rgb) - exact).max() <= 1


def test_linear_is_the_rounded_transfer_function():
    codes = np.arange(256, dtype=np.uint8)
    assert np.array_equal(space_tables.linear_table(), np.floor(light(codes) * 2047 + 0.5))


def test_tables_are_the_same_integers_everywhere():
    tables = [space_tables.linear_table().astype("<i4"), space_tables.oklab_table().astype("<i4")]
    thresholds = space_tables.light_thresholds().astype("<i8")
    digest = hashlib.sha256(b"".join(t.tobytes() for t in (*tables, thresholds))).hexdigest()
    assert digest == "cf04382cfb59bc4639b863efb1da8968e6006122ab785de4d2e64ff5ef12da43"


@pytest.mark.parametrize("space", all_spaces(), ids=str)
def test_coordinates_stay_within_the_extent_and_distances_below_two_to_24(space, rng):
    corners = np.array(np.meshgrid(*[[0, 255]] * 4)).reshape(4, -1).T
    colors = np.concatenate([corners, rng.integers(0, 256, (5000, 4))]).astype(np.uint8)
    points = space.coordinates(colors)
    assert points.shape == (len(colors), space.dims)
    assert (points >= 0).all()
    assert (points <= np.array(space.extent)).all()
    assert sum(e * e for e in space.extent) < 2**24


@pytest.mark.parametrize("space", all_spaces(), ids=str)
def test_the_inverse_returns_to_the_point(space, rng):
    colors = rng.integers(0, 256, (3000, 4), dtype=np.uint8)
    colors[::2, 3] = 255
    points = space.coordinates(colors)
    back = space.colors(points)
    assert back.shape == (len(colors), 4 if space.alpha else 3)
    opaque = colors[:, 3] == 255
    missed = space.coordinates(back) - points
    assert np.abs(missed).max() <= 1
    if space.name != "oklab":
        assert not missed[opaque].any()


def test_srgb_coordinates_are_the_values(rng):
    colors = rng.integers(0, 256, (100, 3), dtype=np.uint8)
    assert np.array_equal(spaces.space("srgb", False).coordinates(colors), colors)
    assert np.array_equal(spaces.space("srgb", False).colors(colors), colors)


def test_distance_with_alpha_is_the_mean_over_black_and_white(rng):
    space = spaces.space("srgb", True)
    colors = rng.integers(0, 256, (2, 500, 4)).astype(float)
    over = [c[:, :3] * c[:, 3:] / 255 + b * (255 - c[:, 3:]) / 255 for c in colors for b in (0, 255)]
    mean = (((over[0] - over[2]) ** 2).sum(1) + ((over[1] - over[3]) ** 2).sum(1)) / 2
    first, second = (space.coordinates(c.astype(np.uint8)).astype(float) for c in colors)
    ours = ((first - second) ** 2).sum(1) / space.unit**2
    assert np.abs(np.sqrt(ours) - np.sqrt(mean)).max() < 1.5


def test_unknown_space():
    with pytest.raises(InvalidArgument, match="color_space is 'lab'; allowed: 'srgb', 'linear', 'oklab'"):
        spaces.space("lab", False)
