"""Ordered dithering to a palette, written from the equations at the head of cl/dithering/ordered.cl."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space
from tests.reference.palette_map import nearest, with_alpha
from tests.reference.reach import gaps, in_reach, penalty, speck

LIGHTNESS = {"srgb": (77, 150, 29, 64), "linear": (54, 183, 19, 64), "oklab": (256, 0, 0, 64)}


def dither(
    image: npt.NDArray[np.uint8] | npt.NDArray[np.uint16],
    palette: Palette,
    space: Space,
    mask: npt.NDArray[np.int32],
    strength: int,
) -> npt.NDArray[np.int64]:
    """(H, W) indices of an (H, W, C) image; `strength` from 0 to 256."""
    height, width, channels = image.shape
    pixels = image.reshape(-1, channels)
    colors = space.coordinates(palette.rgba()).astype(np.int64)
    point = space.coordinates(with_alpha(pixels)).astype(np.int64)
    first = nearest(pixels, palette, space)
    values, entries = with_alpha(pixels).astype(int), space.values(palette.rgba()).astype(int)
    most, added = speck(palette, space), penalty(space, 1.75 if space.name == "srgb" else 1.3)
    light = np.array(LIGHTNESS[space.name])[: space.dims]
    neighbours = [nearest_entries(colors, entry)[: 12 if space.alpha else 6] for entry in range(len(colors))]
    side = len(mask)
    chosen = first.copy()
    for i, a in enumerate(first):
        a = chosen[i] = in_reach(a, point[i], values[i], colors, entries, most, added, space)
        far = gaps(values[i], entries, space) > most
        specks = set() if far[a] else set(np.flatnonzero(far))
        weights = np.array([*light[:3], 0][: space.dims])
        second, share = mixed(
            point[i] - colors[a], colors - colors[a], neighbours[a], weights, space.extent[0], specks, added
        )
        t = int(mask[i // width % side, i % width % side])
        if (colors[second] - colors[a]) @ light < 0:
            t = side * side - 1 - t
        if share * strength * 2 * side * side > 2**24 * (2 * t + 1):
            chosen[i] = second
    if channels == 4 and palette.transparent_index is not None:
        chosen[pixels[:, 3] == 0] = palette.transparent_index
    return chosen.reshape(height, width)


def nearest_entries(colors, entry):
    """The other points in the order of their distances."""
    far = [int(((color - colors[entry]) ** 2).sum()) for color in colors]
    return [i for i in sorted(range(len(colors)), key=lambda i: (far[i], i)) if far[i] > 0]


def mixed(error, steps, neighbours, light, extent, specks, penalty):
    """The neighbour that costs least, and its share in 1/65536."""
    least, share = None, 0
    second = int(np.flatnonzero((steps == 0).all(axis=1))[0])
    error = [int(e) for e in error]
    for entry in neighbours:
        step = [int(s) for s in steps[entry]]
        luma = sum(s * int(w) for s, w in zip(step, light, strict=True))
        seen = [65536 * s + 2 * luma * int(w) for s, w in zip(step, light, strict=True)]
        if len(step) == 4:
            seen[3] += 2 * 65536 * step[3]
        square = sum(s * g for s, g in zip(step, seen, strict=True))
        f = sum(e * ((2**25 * g + square) // (2 * square)) for e, g in zip(error, seen, strict=True)) // 256
        if f <= 0:
            continue
        length = sum(s * s for s in step)
        if entry in specks and min(f, 65536) * (square // 65536) < 65536 * penalty:
            continue
        weight, spread, h = square // 65536, length // (3 if len(step) == 4 else 2), f // 256
        cost = 256 * h * spread - h * h * (weight + spread) if f < 65536 else (65536 - 512 * h) * weight
        if least is None or cost < least:
            lost = int(min(2 * math.sqrt(length) / extent, 1) * 6554) if len(steps) > 6 else 0
            least, second, share = cost, entry, max(min(f, 65536) - lost, 0) * 65536 // (65536 - lost)
    return second, share
