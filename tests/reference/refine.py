"""Direct binary search over a halftone, slow: every change's effect from the gathered errors, in 64-bit integers.

M. Analoui, J. P. Allebach, 1992; D. Lieberman, J. P. Allebach, 2000. Toggles among all levels and swaps with the eight
neighbours, decided for all pixels of a phase (the places of a 4x4 cell in Bayer's order) before any is carried out.
"""

from __future__ import annotations

import numpy as np

from tests.reference.search import ORDER, gather


def best_action(errors, shown, values, weights, y, x):
    """The change that lowers the visible error most, the first of equals: (new value,) or the place to swap with."""
    reach = len(weights) // 2
    here = int(gather(errors, weights, y, x)[0])
    least, best = 0, None
    for value in values:
        step = int(value - shown[y, x])
        change = 2 * step * here + step * step * int(weights[reach, reach])
        if change < least:
            least, best = change, (value,)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            v, u = y + dy, x + dx
            if 0 <= v < shown.shape[0] and 0 <= u < shown.shape[1] and (dy or dx):
                step = int(shown[v, u] - shown[y, x])
                apart = here - int(gather(errors, weights, v, u)[0])
                own = int(weights[reach, reach] - weights[reach + dy, reach + dx])
                change = 2 * step * apart + 2 * step * step * own
                if change < least:
                    least, best = change, (v, u)
    return best


def refine(wanted, shown, values, weights, passes):
    """(H, W) values of a halftone `shown` of the values `wanted`, after some passes."""
    shown = shown.astype(np.int64).copy()
    for _ in range(passes):
        for place in ORDER:
            errors = (shown - wanted)[..., None]
            decided = [
                (y, x, best_action(errors, shown, values, weights, y, x))
                for y in range(place // 4, shown.shape[0], 4)
                for x in range(place % 4, shown.shape[1], 4)
            ]
            for y, x, action in decided:
                if action is not None and len(action) == 1:
                    shown[y, x] = action[0]
                elif action is not None:
                    shown[y, x], shown[action] = shown[action], shown[y, x]
    return shown
