"""Ordered dithering to a palette, written from the equations at the head of cl/dithering/ordered.cl."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.reference.palette_map import nearest, with_alpha
from tests.reference.reach import barred, gaps, in_reach, penalty, seen_colors, speck
from tests.reference.spaces import coordinates

LIGHTNESS = {"srgb": (77, 150, 29, 64), "linear": (54, 183, 19, 64), "oklab": (256, 0, 0, 64)}


def dither(
    image: npt.NDArray[np.uint8] | npt.NDArray[np.uint16],
    palette: Any,
    space: Any,
    mask: npt.NDArray[np.int32],
    strength: int,
    means: str = "exact",
) -> npt.NDArray[np.int64]:
    """(H, W) indices of an (H, W, C) image; `strength` from 0 to 256."""
    height, width, channels = image.shape
    pixels = image.reshape(-1, channels)
    colors = space.coordinates(palette.rgba()).astype(np.int64)
    point = space.coordinates(with_alpha(pixels)).astype(np.int64)
    first = nearest(pixels, palette, space)
    values, entries = with_alpha(pixels).astype(int), space.values(palette.rgba()).astype(int)
    most, added = speck(palette, space), penalty(space, 1.75 if space.name == "srgb" else 1.3)
    is_opaque = palette.rgba()[:, 3] == 255
    spread = any(is_opaque) and 2 < len(palette) <= 1024 if means == "exact" else spans(palette)
    if spread:
        most = space.white
    light = np.array(LIGHTNESS[space.name])[: space.dims]
    neighbours = [nearest_entries(colors, entry)[: 12 if space.alpha else 6] for entry in range(len(colors))]
    side = len(mask)
    chosen = first.copy()
    for i, a in enumerate(first):
        t = int(mask[i // width % side, i % width % side])
        if spread and (values[i][3] == space.white or all(is_opaque)):
            towards = colors[a] + ((point[i] - colors[a]) * strength + 128 >> 8)
            entries_of, ends = simplex_mixture(tuple(towards[:3]), palette, space, side * side)
            chosen[i] = entries_of[sum(t >= end for end in ends)]
            continue
        a = chosen[i] = in_reach(a, point[i], values[i], colors, entries, most, added, space)
        far = gaps(values[i], entries, space) > most
        specks = set() if far[a] else set(np.flatnonzero(far))
        taken = np.flatnonzero(~barred(values[i], entries, space.white))
        others = neighbours[a] if entries[a, 3] < space.white else [b for b in neighbours[a] if b in taken]
        weights = np.array([*light[:3], 0][: space.dims])
        second, share = mixed(point[i] - colors[a], colors - colors[a], others, weights, space.extent[0], specks, added)
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


def spans(palette):
    """Whether entries are mixed from afar."""
    opaque = np.array(sorted({tuple(color[:3]) for color in palette.rgba() if color[3] == 255}))
    if len(opaque) < 3 or len(palette) > 256:
        return False
    if all(len(set(color)) == 1 for color in opaque.tolist()):
        return True
    spacing = seen_colors(opaque, False)
    if len(opaque) > 16 and spacing.min() >= 0.9 * spacing.mean():
        return True
    return spacing.mean() * len(opaque) ** (1 / 3) >= (110 if len(opaque) <= 7 else 152)


def lifted(palette, name, alpha):
    """Entries (-1 for six outer corners), and the points of both from mid-gray with their heights and lightness."""
    light, extent = np.array(LIGHTNESS[name][:3]), {"srgb": 510 if alpha else 255, "linear": 2047, "oklab": 2048}[name]
    opponent = name == "oklab"
    middle = np.array([1024, 480, 640]) if opponent else np.full(3, extent // 2)
    gray, chroma = (np.array([1, 0, 0]), 24) if opponent else (np.ones(3, int), 3)
    corners = []
    for entry, color in enumerate(palette.rgba()):
        point = coordinates(name, alpha, color[None])[0, :3] - middle
        if color[3] < 255 or any(np.array_equal(point, other) for _, other, _ in corners):
            continue
        own = (len(corners) + 1) * 0x9E3779B1 % 2**32
        own = (own ^ own >> 15) * 0x5EBCA77 % 2**32 >> 16
        squares = 65536 * int(point @ point)
        corners.append(
            (entry, point, squares + chroma * int(((256 * point - (point @ light) * gray) ** 2).sum()) + own)
        )
    axes = [
        64 * gray,
        *(256 * np.eye(3, dtype=int)[k] - (0 if opponent else light[k]) for k in ((1, 2) if opponent else (0, 2))),
    ]
    for axis in (*axes, *(-axis for axis in axes)):
        corners.append((-1, axis * 16 * extent // 256, 65536 * 64 * 16 * extent**2))
    return corners, middle, light


@functools.cache
def simplex_mixture(point, palette, space, values):
    """Entries in the order of the mask's numbers, and where each but the last ends: of all simplices around a point the
    one whose mean of heights is least."""
    corners, middle, light = lifted(palette, space.name, space.alpha)
    scale = space.scale
    point = (np.array(point) + scale // 2) // scale - middle
    places = np.array([place for _, place, _ in corners])
    subsets = np.array(list(itertools.combinations(range(len(corners)), 4)))
    four = places[subsets]
    whole = volumes(four)
    weights = (
        np.stack([volumes(np.insert(np.delete(four, k, 1), k, point, 1)) for k in range(4)], axis=1)
        * np.sign(whole)[:, None]
    )
    around = np.flatnonzero((whole != 0) & (weights >= 0).all(axis=1))
    mean = {
        s: sum(
            Fraction(int(w) * corners[c][2], abs(int(whole[s]))) for w, c in zip(weights[s], subsets[s], strict=True)
        )
        for s in around
    }
    best = min(mean, key=mean.get)
    shown = sorted(
        (-int(corners[c][1] @ light), corners[c][0], int(w))
        for w, c in zip(weights[best], subsets[best], strict=True)
        if w and corners[c][0] >= 0
    )
    total, shares = sum(w for *_, w in shown), list(itertools.accumulate(w for *_, w in shown))
    found = [entry for _, entry, _ in shown]
    found += found[-1:] * (4 - len(found))
    shares += [total] * (4 - len(shares))
    colors = space.coordinates(palette.rgba()).astype(int)
    if values >= 1024:
        return found, [min((share * values + total // 2) // total, values) for share in shares[:3]]
    least = None
    for way in range(8):
        ups = [way >> i & 1 for i in range(3)]
        ends = [share * values // total + up for share, up in zip(shares, ups, strict=False)]
        parts = [share * values * 256 // total % 256 - 256 * up for share, up in zip(shares, ups, strict=False)]
        off = sum(part * (colors[found[i]] - colors[found[i + 1]])[:3] for i, part in enumerate(parts))
        error = max(abs(off))
        if 0 <= ends[0] <= ends[1] <= ends[2] <= values and (least is None or error < least):
            least, chosen = error, ends
    return found, chosen


def volumes(four):
    """(n,) six times the signed volumes of simplices (n, 4, 3)."""
    one, two, three = (four[:, k] - four[:, 0] for k in (1, 2, 3))
    return (np.cross(one, two) * three).sum(axis=1)
