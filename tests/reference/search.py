"""Dithering by search, slow: every pixel's gathered error is a sum over the whole kernel, in 64-bit integers.

M. Analoui, J. P. Allebach, "Model-based halftoning using direct binary search", 1992, with toggles among all entries.
"""

from __future__ import annotations

import math

import numpy as np

from tests.reference.reach import gaps, search_penalty, speck

# The order in which the places of a 4x4 cell, counted row by row, are decided: Bayer's mask is 0 2, 3 1 in both sizes.
ORDER = [0, 10, 2, 8, 5, 15, 7, 13, 1, 11, 3, 9, 4, 14, 6, 12]


def kernel(reach, width, sharpness, most_error):
    """Whole weights: the eye's kernel tapered by a cosine, as large as 2^24 / most_error allows."""
    shares = np.zeros((2 * reach + 1, 2 * reach + 1))
    for y in range(-reach, reach + 1):
        for x in range(-reach, reach + 1):
            r = math.sqrt(x * x + y * y)
            if r < reach + 1:
                seen = (1 + r * r / (4 * width * width)) ** -1.5
                shares[y + reach, x + reach] = seen * math.cos(math.pi * r / (2 * reach + 2))
    shares[reach, reach] += sharpness
    shares /= 1 + sharpness
    scale = 1024
    while np.floor(shares * scale + 0.5).sum() * most_error >= 2**24:
        scale //= 2
    return np.floor(shares * scale + 0.5).astype(np.int64)


def gather(errors, weights, y, x):
    """The sum of weighted errors around a pixel."""
    reach = len(weights) // 2
    total = np.zeros(errors.shape[2], np.int64)
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if 0 <= y + dy < errors.shape[0] and 0 <= x + dx < errors.shape[1]:
                total += weights[dy + reach, dx + reach] * errors[y + dy, x + dx]
    return total


def nearest(point, points, allowed):
    """The allowed entry nearest to a point, the lowest index of equals."""
    distances = ((points - point) ** 2).sum(axis=1)
    distances[~allowed] = np.iinfo(np.int64).max
    return int(np.argmin(distances))


def dither(wanted, pixels, points, palette, space, weights, passes, is_bounded=True):
    """Indices (H, W) of a picture (H, W, dims) and entries (n, dims) in the space of the search.

    pixels (H, W, 4) are 8-bit values; those of alpha 0 have the first entry of alpha 0.
    """
    alpha, entries = pixels[..., 3], palette.rgba().astype(int)
    entry_alpha, most, penalty = entries[:, 3], speck(palette, space), search_penalty(palette, space)
    height, width = alpha.shape
    clear = np.flatnonzero(entry_alpha == 0)
    some = np.ones(len(points), bool)
    some[clear[1:]] = False
    opaque = some & (entry_alpha == 255 if (entry_alpha == 255).any() else entry_alpha > 0)
    indices = np.zeros((height, width), np.int64)
    errors = np.zeros(wanted.shape, np.int64)
    middle = weights[len(weights) // 2, len(weights) // 2]

    def allowed(y, x):
        return opaque if alpha[y, x] == 255 and opaque.any() else some

    def chosen(point, y, x):
        """The entry of a pixel: the nearest to a point or, if that is a speck, the nearest with the penalty."""
        distances = ((points - point) ** 2).sum(axis=1)
        distances[~allowed(y, x)] = np.iinfo(np.int64).max // 2
        far = gaps(pixels[y, x], entries, space) > most
        entry = int(np.argmin(distances))
        return int(np.argmin(distances + penalty * far)) if is_bounded and far[entry] else entry

    for y in range(height):
        for x in range(width):
            if alpha[y, x] == 0:
                indices[y, x] = clear[0]
            else:
                indices[y, x] = chosen(wanted[y, x], y, x)
                errors[y, x] = points[indices[y, x]] - wanted[y, x]
    for _ in range(passes):
        for place in ORDER:
            decided = []
            for y in range(place // 4, height, 4):
                for x in range(place % 4, width, 4):
                    if alpha[y, x] > 0:
                        moved = (gather(errors, weights, y, x) + middle // 2) // middle
                        point = np.clip(points[indices[y, x]] - moved, -2048, 2048)
                        decided.append((y, x, chosen(point, y, x)))
            for y, x, entry in decided:
                errors[y, x] += points[entry] - points[indices[y, x]]
                indices[y, x] = entry
    return indices
