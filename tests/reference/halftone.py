"""Pinwheel error diffusion, pixel by pixel, in plain integers.

Source: Zhang et al., "A Parallel Error Diffusion Implementation on a GPU", section 2: all outward blocks of the
checkerboard first, then all inward ones; threshold a pixel, pass its error to the pixels that come later.
"""

from __future__ import annotations

import numpy as np

from clquant.halftone.layout import error_limit
from clquant.halftone.paths import INWARD, OUTWARD, make_path
from clquant.halftone.tables import WeightTables
from clquant.halftone.tones import make_tones, records, spreads, start_amplitudes
from clquant.runtime import philox4x32, seed_key


def random_words(bx, by, channel, use, seed):
    return [int(w) for w in philox4x32([bx, by, channel, use], seed_key(seed))]


def clamp(value, limit):
    return max(-limit, min(limit, value))


def halftone_plane(
    plane, block, scan, tables: WeightTables, levels=2, linear=False, noise=0.0, seed=0, channel=0, limit=8191
):
    """(H, W) uint8 -> (H, W) level numbers."""
    height, width = plane.shape
    tones = make_tones(levels, linear)
    row, record = zip(*(records(make_path(block, scan, p), tables, tones) for p in (OUTWARD, INWARD)), strict=True)
    limit = min(limit, error_limit(block, scan, row, record))
    rows, columns = -(-height // block), -(-width // block)
    # One pixel more on each side; what lies beyond the blocks of the picture is never read.
    waiting = np.zeros((rows * block + 2, columns * block + 2), int)
    out = np.zeros((height, width), np.uint8)

    def inside(y, x):
        return 0 <= y < height and 0 <= x < width

    for phase in (OUTWARD, INWARD):
        path = make_path(block, scan, phase)
        spread = spreads(phase, tables, tones, noise)
        for by in range(rows):
            for bx in range(columns):
                if (by + bx) % 2 != phase:
                    continue
                carry = 0
                for k in range(block * block):
                    y, x = by * block + int(path.y[k]), bx * block + int(path.x[k])
                    error = carry + int(waiting[y + 1, x + 1])
                    if not inside(y, x):  # a pixel outside the picture passes everything on
                        carry = clamp(error, limit)
                        continue
                    level = int(plane[y, x])
                    if phase == OUTWARD and k == 0:
                        amplitude = int(start_amplitudes(tables, tones)[level])
                        word = random_words(bx, by, channel, 0, seed)[0]
                        error += ((word >> 16) * 2 * amplitude >> 16) - amplitude
                    error += int(tones.value[level])
                    shift, *weights = (int(v) for v in record[phase][row[phase][k], level])
                    decision = error - shift
                    if spread.any():
                        words = random_words(bx, by, channel, 1 + k // 128, seed)
                        bit = words[k % 128 // 32] >> (k % 32) & 1
                        decision += int(spread[level]) if bit else -int(spread[level])
                    number = (
                        int(decision >= 2040) if levels == 2 else int(tones.nearest[max(0, min(511, decision >> 3))])
                    )
                    out[y, x] = number
                    error = clamp(error - int(tones.worth[number]), limit)
                    carry = error
                    for (dy, dx), weight in zip(path.offsets[k], weights, strict=True):
                        if inside(y + dy, x + dx):  # the share of a receiver outside the picture goes forward
                            share = error * weight >> 4
                            waiting[y + dy + 1, x + dx + 1] += share
                            carry -= share
                if phase == OUTWARD:
                    waiting[y + path.forward[0] + 1, x + path.forward[1] + 1] += carry
    return out
