"""Mapping and ordered dithering by a table of all colours' answers: equal to the portable forms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clquant import OrderedDither, Palette, runtime
from clquant.color import spaces
from clquant.dithering import ordered_table
from clquant.mapping import full_table
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.pixel_batch import PixelBatch
from clquant.mapping.search import search_of
from clquant.palette import engine

LEAST = 1 << 16


def by_table(queue, image, palette, **given):
    with runtime.force_variant("table"), runtime.force_tuning({"mapping.table_pays": LEAST, "mapping.grid_pays": 1}):
        return engine.predict(image, palette, queue=queue, **given)


def portable(queue, image, palette, **given):
    with runtime.force_variant("portable"):
        return engine.predict(image, palette, queue=queue, **given)


def picture(rng, shape):
    """Soft areas, grain, pixels of alpha 0 and of less than 255."""
    ramp = np.add.outer(np.arange(shape[0]), np.arange(shape[1]) * 2) // 3
    channels = 1 if len(shape) == 2 else shape[2]
    image = (ramp[..., None] * np.arange(1, channels + 1) + rng.integers(0, 9, (*shape[:2], channels))) % 256
    if channels == 4:
        image[..., 3] = np.where(image[..., 3] < 20, 0, np.where(image[..., 3] > 40, 255, image[..., 3]))
    return image.astype(np.uint8).reshape(shape)


@pytest.fixture(autouse=True)
def _pays(monkeypatch):
    """Tables pay for small pictures."""
    monkeypatch.setattr(full_table, "LISTS_COST", 1)
    monkeypatch.setattr(ordered_table, "ANSWERS_COST", 1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        *(
            ("srgb", *case)
            for case in (((257, 261, 3), 256), ((299, 220, 4), 37), ((260, 256), 9), ((300, 230, 3), 700))
        ),
        *(("linear", *case) for case in (((257, 261, 3), 256), ((260, 256), 9))),
        *(("oklab", *case) for case in (((257, 261, 3), 99), ((299, 220, 4), 37))),
    ],
)
def test_equals_the_portable_form(queue, rng, monkeypatch, name, shape, count):
    made = []
    table = full_table.nearest_table
    monkeypatch.setattr(full_table, "nearest_table", lambda *args: made.append(1) or table(*args))
    image = picture(rng, shape)
    palette = Palette(rng.integers(0, 256, (count, 4 if shape[-1] == 4 else 3)))
    palette = palette.with_transparent() if shape[-1] == 4 else palette
    dithers = [None, OrderedDither(strength=0.7)] if count <= 256 else [None]
    for dither in dithers:
        given = {"dither": dither, "color_space": name}
        assert np.array_equal(by_table(queue, image, palette, **given), portable(queue, image, palette, **given))
    assert len(made) >= len(dithers)


@pytest.mark.parametrize("size", [2, 4, 256])
@pytest.mark.parametrize("width", [3, 254, 263, 1100])
def test_masks_and_rows_of_any_size(queue, rng, size, width):
    image = picture(rng, (LEAST // width + 1, width))
    palette = Palette(rng.integers(0, 256, (20, 3)))
    dither = OrderedDither("bayer", size=size)
    assert np.array_equal(
        by_table(queue, image, palette, dither=dither), portable(queue, image, palette, dither=dither)
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("channels", "size", "strength"), [(3, 4, 1), (3, 8, 0.3), (3, 16, 0.9), (3, 128, 1), (4, 8, 1), (1, 16, 1)]
)
def test_tiles_that_are_full(queue, rng, monkeypatch, channels, size, strength):
    """Several quads at once, in rows that begin with one, beside tiles that the edges cut."""
    for module in (full_table, ordered_table):
        monkeypatch.setattr(module, "GROUP", 32)
    image = picture(rng, (141, 516, channels) if channels > 1 else (141, 516))
    palette = Palette(rng.integers(0, 256, (99, 4 if channels == 4 else 3)))
    palette = palette.with_transparent() if channels == 4 else palette
    for dither in (None, OrderedDither("bayer", size=size, strength=strength)):
        assert np.array_equal(
            by_table(queue, image, palette, dither=dither), portable(queue, image, palette, dither=dither)
        )


@pytest.mark.full
def test_sums_of_absolute_differences(queue, rng):
    image, palette = picture(rng, (270, 270, 3)), Palette(rng.integers(0, 256, (5, 3)))
    given = {"metric": "l1", "color_space": "oklab"}
    assert np.array_equal(by_table(queue, image, palette, **given), portable(queue, image, palette, **given))


def test_pixels_in_no_rows(queue, rng):
    session = runtime.open_session(queue)
    pixels, palette = picture(rng, (1, LEAST + 5)), Palette(rng.integers(0, 256, (20, 3)))
    found = []
    for form in ("table", "portable"):
        with (
            runtime.force_variant(form),
            runtime.force_tuning({"mapping.table_pays": LEAST}),
            session.scope() as scope,
        ):
            on_device = PaletteOnDevice.of(session, scope, palette, spaces.space("srgb", False), pixels.size)
            out = scope.empty(pixels.size)
            search_of(on_device, 1).map(PixelBatch(scope.copy_of(pixels), 1, pixels.size, out))
            found.append(session.download(out, pixels.size, np.uint8))
    assert np.array_equal(*found)


def test_dear_tables_want_more_pixels(queue, rng, monkeypatch):
    monkeypatch.undo()
    made = []
    table = full_table.nearest_table
    monkeypatch.setattr(full_table, "nearest_table", lambda *args: made.append(1) or table(*args))
    image, palette = picture(rng, (270, 270, 3)), Palette(rng.integers(0, 256, (9, 3)))
    for given in ({"dither": "bayer4"}, {"color_space": "oklab"}, {}):
        assert not made
        by_table(queue, image, palette, **given)
    assert len(made) == 1


@pytest.mark.parametrize(("memory", "tables"), [(1 << 30, 3), (1 << 34, 1)])
def test_a_table_is_kept_where_memory_is_plenty(queue, rng, monkeypatch, memory, tables):
    limits = dataclasses.replace(runtime.Limits.of(queue.device), global_memory=memory)
    monkeypatch.setattr(runtime.Limits, "of", lambda _: limits)
    made = []
    over_boxes = full_table._map_boxes
    monkeypatch.setattr(full_table, "_map_boxes", lambda *args, **given: made.append(1) or over_boxes(*args, **given))
    image, palette = picture(rng, (270, 270, 3)), Palette(rng.integers(0, 256, (9, 3)))
    runtime.release_memory()
    first, *others = (by_table(queue, image, palette) for _ in range(3))
    runtime.release_memory()
    assert all(np.array_equal(first, other) for other in others)
    assert len(made) == tables


def test_a_small_device_makes_no_table(queue, rng, monkeypatch):
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=8000000,work_group=8")
    monkeypatch.setattr(full_table, "nearest_table", None)
    image, palette = picture(rng, (270, 270, 3)), Palette(rng.integers(0, 256, (5, 3)))
    assert np.array_equal(by_table(queue, image, palette), portable(queue, image, palette))


@pytest.mark.full
def test_transparent_pixels_need_an_entry(queue, rng):
    image, palette = picture(rng, (270, 270, 4)), Palette(rng.integers(0, 256, (5, 3)))
    for dither in (None, "bayer4"):
        with pytest.raises(runtime.InvalidArgument, match="with_transparent"):
            by_table(queue, image, palette, dither=dither)


@pytest.mark.full
@pytest.mark.parametrize("channels", [3, 4])
def test_a_palette_that_was_met_before_has_a_table_where_it_pays(queue, rng, channels):
    """Small pictures have none, before a larger one and after it; palettes are kept from one to the next."""
    palette = Palette(rng.integers(0, 256, (20, channels))).with_transparent()
    runtime.release_memory()
    for side in (9, 260, 10, 270, 9, 260):
        image = picture(rng, (side, side + 3, channels))
        assert np.array_equal(by_table(queue, image, palette), portable(queue, image, palette))
    runtime.release_memory()
