"""Colour spaces: the integers against the published equations in double precision, and the inverse."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from clquant.color import space_tables, spaces
from clquant.runtime import InvalidArgument
from tests.reference import spaces as reference


def light(rgb):
    value = rgb / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def all_spaces():
    return [spaces.space(name, alpha) for name in spaces.NAMES for alpha in (False, True)]


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("name", [*spaces.NAMES, spaces.LUMA_CHROMA])
def test_coordinates_equal_the_reference(name, alpha, rng):
    grays = np.repeat(np.arange(256)[:, None], 4, axis=1)
    colors = np.concatenate([grays, rng.integers(0, 256, (2000, 4))]).astype(np.uint8)
    space = spaces.luma_chroma(alpha) if name == spaces.LUMA_CHROMA else spaces.space(name, alpha)
    assert np.array_equal(space.coordinates(colors), reference.coordinates(name, alpha, colors))


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


def exact(space, colors):
    """Coordinates by the definitions, not rounded."""
    value = space.values(colors) / space.white
    alpha = value[:, 3:4] if colors.shape[1] == 4 else np.ones((len(value), 1))
    ranges = {"srgb": 255, "linear": 2047, "oklab": 2048}
    gray, depth = np.full(3, 0.5), np.sqrt(3) / 2
    points = value[:, :3]
    if space.name == "linear":
        points = light(255 * points)
    if space.name == "oklab":
        points, gray, depth = (
            np.cbrt(light(255 * points) @ np.array(reference.TO_LMS).T) @ np.array(reference.TO_LAB).T,
            np.array([0.5, 0, 0]),
            0.5,
        )
    unit = ranges[space.name] * space.scale * (2 if space.name == "srgb" and space.alpha else 1)
    if space.alpha:
        points = np.concatenate([points * alpha + gray * (1 - alpha), depth * alpha], axis=1)
    return points * unit


def farther(space, pixel, taken, other):
    """How much farther `taken` is than `other`, which the integers say is no nearer: in 8-bit levels, or steps."""
    colors = np.array([pixel, taken, other], np.uint8 if space.bits == 8 else np.uint16)
    whole, real = space.coordinates(colors).astype(np.int64), exact(space, colors)
    taken_squared, other_squared = ((whole[1:] - whole[0]) ** 2).sum(axis=1)
    assert taken_squared <= other_squared
    taken_real, other_real = np.sqrt(((real[1:] - real[0]) ** 2).sum(axis=1))
    return (taken_real - other_real) / (space.unit if space.name == "srgb" else space.scale)


@pytest.mark.parametrize(
    ("name", "alpha", "bits", "bound", "colors"),
    [
        ("srgb", True, 8, 1.71, ((36, 32, 32, 193), (25, 16, 25, 212), (50, 39, 50, 175))),
        ("linear", False, 8, 3.21, ((139, 168, 139), (191, 203, 191), (42, 89, 70))),
        ("linear", True, 8, 4.02, ((12, 156, 156, 97), (135, 214, 246, 230), (89, 78, 127, 244))),
        ("oklab", False, 8, 3.72, ((160, 134, 146), (72, 207, 91), (164, 3, 192))),
        ("oklab", True, 8, 4.63, ((132, 118, 15, 250), (148, 120, 5, 248), (117, 120, 12, 248))),
        (
            *("srgb", True, 16, 0.17),
            ((41887, 33340, 24566, 65413), (2254, 4490, 56147, 64979), (54606, 20523, 34568, 122)),
        ),
        (*("linear", False, 16, 0.10), ((15411, 12788, 12642), (16001, 12238, 11641), (14936, 13418, 13595))),
        (
            *("linear", True, 16, 1.24),
            ((36625, 38624, 37462, 367), (65509, 65311, 65153, 65535), (452, 4922, 6145, 65535)),
        ),
        (*("oklab", False, 16, 0.21), ((20615, 10976, 64732), (45617, 9879, 3071), (13559, 54689, 64675))),
        (
            *("oklab", True, 16, 0.21),
            ((25393, 7730, 65277, 65363), (27501, 10731, 4693, 65535), (18426, 51149, 60727, 65535)),
        ),
    ],
)
def test_what_is_taken_for_nearest_is_as_near_as_is_said(name, alpha, bits, bound, colors, rng):
    """docs/palettes.md: the worst that was found, and that entries by chance are no worse."""
    space = spaces.space(name, alpha, bits)
    assert bound - 0.02 < farther(space, *colors) <= bound
    pixels = rng.integers(0, 1 << bits, (40, 4 if alpha else 3))
    entries = rng.integers(0, 1 << bits, (3000, 4 if alpha else 3)).astype(np.uint8 if bits == 8 else np.uint16)
    whole, real = space.coordinates(entries).astype(np.int64), exact(space, entries)
    for pixel in pixels.astype(entries.dtype):
        squared = ((whole - space.coordinates(pixel[None])) ** 2).sum(axis=1)
        distances = np.sqrt(((real - exact(space, pixel[None])) ** 2).sum(axis=1))
        order = np.lexsort((-distances, squared))
        excess = (np.maximum.accumulate(distances[order]) - distances[order]).max()
        assert excess / (space.unit if name == "srgb" else space.scale) <= bound
