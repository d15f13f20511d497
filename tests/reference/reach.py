"""How far dithers go from a pixel's colour, and what of an error they pass on."""

from __future__ import annotations

import numpy as np

from clquant.color.spaces import luma_chroma

SPECK = 60
FREE = 1 << 20


def distances(points):
    """(k, k): from each point to those that differ, ascending."""
    far = np.array([[np.sqrt(((p - q) ** 2).sum()) for q in points] for p in points])
    return np.sort(np.where(far == 0, FREE, far), axis=1)


def bounds(palette, space, plain):
    """Of each entry the most of an error's first component, of others, its reach, the most in the pinwheel."""
    colors = palette.rgba()
    translucent = any(colors[:, 3] < 255)
    seen = distances(luma_chroma(space.alpha).coordinates(colors).astype(int)) / 4
    own = distances((space.values(colors) if plain else space.coordinates(colors)).astype(int))
    luma_first = not plain and space.name in ("oklab", "ycbcr")
    if len(colors) < 2 or seen[:, 0].mean() >= 64:
        return [(FREE,) * 4] * len(colors)
    made = []
    for i in range(len(colors)):
        first = other = reach = pinwheel = FREE
        if len(colors) > 1:
            spacing = max(seen[i, 0], 1)
            first = int(min((2 if luma_first else max(0.75, 12 / spacing)) * own[i, 0], FREE))
            pinwheel = int(min(20 * own[i, 0], FREE))
            other = int(min(own[i, 0] * min(max(6 if translucent else 12, 2 * (spacing - 64)) / spacing, 1), FREE))
        if len(colors) > 2:
            reach = int(min(max((1.4 if translucent else 1) * seen[i, 1], SPECK) * (space.white / 255), FREE))
        made.append((first, other if luma_first else first, reach, pinwheel))
    return made


def gap(a, b, white, alpha):
    """The largest difference in a channel, over black or white where colours have alpha."""
    if alpha:
        a, b = (np.append(c[:3] * c[3] // white, c[3]) for c in (a, b))
        a, b = (np.append(c, c[:3] - c[3]) for c in (a, b))
    return np.abs(a - b).max()


def within_reach(entry, own, colour, entries, limits, space):
    """The entry that a pixel shows whose nearest one is `own`."""
    gaps = [gap(colour, e, space.white, space.alpha) for e in entries]
    speck, reach = SPECK * space.white // 255, limits[own][2]
    if gaps[entry] <= max(speck, reach):
        return entry
    if space.name in ("linear", "oklab") and gaps[own] > speck:
        own = int(np.argmin(gaps))
    return entry if gaps[own] > speck and gaps[entry] <= reach + gaps[own] else own
