"""Error diffusion in strips, with and without a table of all colours, against the portable form."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import ErrorDiffusion, Palette, flow, runtime
from clquant.dithering.diffusion_strips import ROWS
from clquant.dithering.error_filters import FILTERS
from clquant.mapping import plain_table
from tests.dithering.test_error_diffusion import SIX, expected, picture, rows_after

OTHERS = [name for name in FILTERS if name != "floyd-steinberg"]


@pytest.fixture
def table(monkeypatch):
    """A table of all colours, which small pictures are not worth."""
    monkeypatch.setattr(plain_table, "is_worthwhile", lambda *_: True)


def strips(dither, image, palette, queue, color_space="srgb"):
    with runtime.force_variant("strips"):
        return dither.dither(image, palette, color_space=color_space, queue=queue)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", ["floyd-steinberg", *(pytest.param(name, marks=pytest.mark.full) for name in OTHERS)])
def test_every_filter_equals_the_reference(queue, rng, name):
    """Few colours are compared in turn, more are looked up in the table."""
    image, dither = picture(ROWS + 3, 23, 3, rng), ErrorDiffusion(name, error_space="srgb")
    palette = SIX if name == "floyd-steinberg" else Palette(rng.integers(0, 256, (40, 3)).astype(np.uint8))
    assert np.array_equal(strips(dither, image, palette, queue), expected(dither, image, palette))


@pytest.mark.full
@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("color_space", "error_space", "channels"),
    [("srgb", "ycbcr", 4), ("srgb", None, 4), ("srgb", None, 1), ("oklab", "srgb", 4), ("oklab", None, 1)],
)
def test_spaces_and_alpha_equal_the_portable_form(queue, rng, error_space, channels, color_space):
    image, palette = picture(70, 90, channels, rng), SIX
    if channels == 4:
        image[3:6, 2:9, 3] = 0
        image[30:, 40:, 3] = 255
        palette = Palette(np.concatenate([SIX.rgba(), [[200, 100, 20, 90]]])).with_transparent()
    dither = ErrorDiffusion("burkes", 0.9, error_space=error_space)
    with runtime.force_variant("portable"):
        portable = dither.dither(image, palette, color_space=color_space, queue=queue)
    assert np.array_equal(strips(dither, image, palette, queue, color_space), portable)


@pytest.mark.full
@pytest.mark.parametrize("height", [1, 2, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 2])
@pytest.mark.parametrize("name", ["floyd-steinberg", "stucki"])
def test_rows_after_others_equal_the_whole(queue, rng, name, height):
    """What the last rows pass on is the same in every form, so a scan may go on in another one."""
    image = picture(height + 70, 33, 3, rng)
    dither = ErrorDiffusion(name, error_space="srgb")
    with runtime.force_variant("portable"):
        whole = dither.dither(image, SIX, queue=queue)
    for first, second in (("strips", "portable"), ("portable", "strips")):
        carried = flow.Carried()
        with runtime.force_variant(first):
            upper = rows_after(dither, carried, image[:height], queue)
        with runtime.force_variant(second):
            lower = rows_after(dither, carried, image[height:], queue)
        assert np.array_equal(np.concatenate([upper, lower]), whole)


@pytest.mark.full
@pytest.mark.parametrize("limits", ["max_alloc=60000", "work_group=4"])
def test_bands_and_work_groups_do_not_show(device, rng, monkeypatch, limits):
    image = picture(3 * ROWS + 5, 70, 3, rng)
    palette = Palette(rng.integers(0, 256, (300, 3), np.uint8))
    dither = ErrorDiffusion("floyd-steinberg", error_space="srgb")
    with runtime.force_variant("portable"):
        whole = dither.dither(image, palette, queue=runtime.default_queue(device))
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    assert np.array_equal(strips(dither, image, palette, runtime.default_queue(device)), whole)


@pytest.mark.full
@pytest.mark.parametrize("colors", [7, 60])
def test_entries_in_place_of_specks_equal_the_portable_form(queue, rng, colors):
    """A dark palette and noise: at every step several rows look for entries that are no specks."""
    image, palette = picture(ROWS + 3, 90, 3, rng), Palette(rng.integers(0, 128, (colors, 3), np.uint8))
    dither = ErrorDiffusion("stucki")
    with runtime.force_variant("portable"):
        portable = dither.dither(image, palette, color_space="oklab", queue=queue)
    off = np.abs(palette.colors[portable].astype(int) - image).max(axis=2)
    assert (off > 60).any()
    assert np.array_equal(strips(dither, image, palette, queue, "oklab"), portable)
