"""How far dithers go from a pixel's colour, and what of an error they pass on."""

from __future__ import annotations

import numpy as np

from tests.reference.spaces import coordinates

SPECK = 60
FREE = 1 << 20
PENALTY = {"srgb": 38, "ycbcr": 38, "linear": 90, "oklab": 50}


def spacings(points):
    """(k,): from each point to the nearest that differs."""
    far = np.array([[np.sqrt(((p - q) ** 2).sum()) for q in points] for p in points])
    return np.where(far == 0, FREE, far).min(axis=1)


def seen_colors(colors, alpha):
    """`spacings` of colours in luma and chroma, in levels."""
    return spacings(coordinates("ycbcr", alpha, colors)) / 4


def seen(palette, space):
    """Those of a palette."""
    return seen_colors(palette.rgba(), space.alpha)


def coarse(palette):
    """The mean spacing of palettes that are dithered freely."""
    return 96 if any(0 < alpha < 255 for alpha in palette.rgba()[:, 3]) else 64


def search_penalty(palette, space):
    """What the search adds to a speck's squared distance."""
    ratio = seen(palette, space).mean() / (34 if palette.has_alpha else 40)
    return int(8 * PENALTY[space.name] * min(max(np.sqrt(ratio * np.sqrt(ratio)), 0.75), 2)) ** 2


def speck(palette, space):
    """The largest gap of an entry that is no speck."""
    free = not 2 < len(palette) <= 1024 or seen(palette, space).mean() >= coarse(palette)
    return space.white if free else SPECK * space.white // 255


def bounds(palette, space, plain):
    """Of each entry the most of an error's first component, of others, in the pinwheel."""
    colors = palette.rgba()
    luma_first = not plain and space.name in ("oklab", "ycbcr")
    if len(colors) < 2 or seen(palette, space).mean() >= coarse(palette):
        return [(FREE,) * 3] * len(colors)
    own = spacings((space.values(colors) if plain else space.coordinates(colors)).astype(int))
    made = []
    for spacing, step in zip(np.maximum(seen(palette, space), 1), own, strict=True):
        first = other = max(0.75, 12 / spacing)
        if luma_first:
            first = 4 if any(colors[:, 3] < 255) else 2
            other = min(max(12, 2 * (spacing - 64)) / spacing, 1)
        made.append(tuple(int(min(part * step, FREE)) for part in (first, other, max(20, 640 / step))))
    return made


def gap(a, b, white, alpha):
    """The largest difference in a channel, over black or white where colours have alpha."""
    if alpha:
        a, b = (np.append(c[:3] * c[3] // white, c[3]) for c in (a, b))
        a, b = (np.append(c, c[:3] - c[3]) for c in (a, b))
    return np.abs(a - b).max()


def gaps(colour, entries, space):
    """(k,): of a colour to each entry."""
    return np.array([gap(colour, e, space.white, space.alpha) for e in entries])


def penalty(space, share):
    """What is added to a speck's squared distance."""
    return int(share * PENALTY[space.name] * space.extent[0] / 255) ** 2


def barred(colour, entries, white):
    """(k,): entries that a colour does not take, as it is opaque and they are not, unless all are such."""
    soft = (np.asarray(colour)[3] == white) & (np.asarray(entries)[:, 3] < white)
    return soft & ~soft.all()


def in_reach(entry, point, colour, points, entries, most, added, space):
    """What a pixel shows whose point an entry is nearest to: if that is a speck, the nearest with the penalty."""
    far = gaps(colour, entries, space) > most
    if not far[entry]:
        return entry
    is_last = barred(colour, entries, space.white) & space.alpha
    return int(np.argmin(((points - point) ** 2).sum(axis=1) + far * added + is_last * (1 << 40)))
