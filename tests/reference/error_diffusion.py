"""Serial error diffusion to a palette, pixel by pixel, in plain integers."""

from __future__ import annotations

import numpy as np

from tests.reference.halftone import as_rgba
from tests.reference.reach import barred, bounds, in_reach, penalty, speck


def toward_zero(value, divisor):
    return np.sign(value) * (np.abs(value) // divisor)


def bounded(error, first, other):
    """What of an error is passed on."""
    most = np.array([first, other, other, first][: len(error)])
    return np.clip(error, -most, most)


def error_diffusion(image, palette, error_filter, strength, serpentine, space, plain, tile=None, overlap=8):
    """(H, W[, C]) uint8, or uint16 in a space of 16-bit values, -> (H, W) indices.

    `strength` in 1/256. Errors are of these values where `plain`, else of the space's coordinates. With `tile` each
    tile of that side is scanned on its own, from `overlap` pixels outside it on.
    """
    pixels = as_rgba(image, space.white)
    height, width = pixels.shape[:2]
    out = np.zeros((height, width), int)
    side = tile or max(height, width)
    overlap = overlap if tile else 0
    entries = space.values(palette.rgba()).astype(int)
    points = space.coordinates(palette.rgba()).astype(int)

    limits, most_gap = bounds(palette, space, plain), speck(palette, space)
    added = penalty(space, 2 if plain or space.name == "linear" else 1)

    def point_of(colour):
        return space.coordinates(colour[None].astype(np.uint8 if space.bits == 8 else np.uint16))[0].astype(int)

    def nearest(point, colour):
        far = ((points - point) ** 2).sum(axis=1)
        beside = ((entries - colour) ** 2).sum(axis=1)
        far[barred(colour, entries, space.white)] += 1 << 40
        return min(range(len(points)), key=lambda i: (far[i], 0 if space.is_injective else beside[i], i))

    def chosen(colour, arriving):
        """Entry and error of a pixel; opaque ones take no error of alpha."""
        if colour[3] == space.white and len(arriving) == 4:
            arriving[3] = 0
        if plain:
            value = np.clip(colour + arriving, 0, space.white)
            point, beside = point_of(value), value
        else:
            value = point = np.clip(point_of(colour) + arriving, 0, space.extent)
            beside = colour
        entry = in_reach(nearest(point, beside), point, colour, points, entries, most_gap, added, space)
        error = value - (entries if plain else points)[entry]
        return entry, bounded(error, *limits[entry][:2])

    for top in range(0, height, side):
        for left in range(0, width, side):
            begin, end = max(0, left - overlap), min(width, left + side + overlap)
            errors = np.zeros((height + 2, width + 4, 4 if plain else space.dims), int)
            for y in range(max(0, top - overlap), min(height, top + side)):
                step = -1 if serpentine and y % 2 else 1
                for x in range(begin, end)[::step]:
                    if pixels[y, x, 3] == 0:
                        entry = palette.transparent_index
                    else:
                        total = sum(
                            weight * errors[y - row + 2, x - step * column + 2]
                            for column, row, weight in error_filter.shares
                        )
                        entry, error = chosen(pixels[y, x], toward_zero(strength * total, 256 * error_filter.divisor))
                        errors[y + 2, x + 2] = error
                    if y >= top and left <= x < left + side:
                        out[y, x] = entry
    return out
