"""Pinwheel error diffusion, pixel by pixel, in plain integers.

Source: Zhang et al., "A Parallel Error Diffusion Implementation on a GPU", section 2: all outward blocks of the
checkerboard first, then all inward ones; threshold a pixel, pass its error to the pixels that come later.
"""

from __future__ import annotations

import functools

import numpy as np

from tests.reference import pinwheel
from tests.reference.philox import philox4x32, seed_key
from tests.reference.pinwheel import INWARD, OUTWARD, Tones, bayer, both_scans, worth
from tests.reference.reach import barred, bounds, in_reach, penalty, speck


def random_words(bx, by, channel, use, seed):
    return philox4x32([bx, by, channel, use], seed_key(seed))


def clamp(value, limit):
    return max(-limit, min(limit, value))


def deep_units(plane, linear):
    """(H, W) uint16 -> (H, W) 1/16 gray levels."""
    v = plane / 65535
    if linear:
        v = np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
    fine = np.floor(v * 4080 * 256 + 0.5).astype(int)
    y, x = np.indices(plane.shape) % 16
    return (fine + np.array(bayer(4))[y, x]) // 256


def halftone_plane(plane, block, scan, tables, levels=2, linear=False, noise=0.0, seed=0, channel=0, limit=8191):
    """(H, W) uint8 or uint16 -> (H, W) level numbers; `tables` as `WeightTables` describes them.

    A 16-bit value is worth its 1/16 gray levels, with what is below one dithered by Bayer's 16 x 16 thresholds; all
    else is that of the nearest 8-bit level.
    """
    deep = deep_units(plane, linear) if plane.dtype == np.uint16 else None
    plane = plane if deep is None else (plane.astype(int) + 128) // 257
    height, width = plane.shape
    tones, scans = Tones(levels, linear), both_scans(block, scan)
    limit = min(limit, pinwheel.error_limit(scans, tables.weights, sorted(set(tones.tone))))
    noisy = bool(noise) or bool(np.asarray(tables.spread).any())

    @functools.cache
    def given(phase, k, tone):
        return pinwheel.weights(tables.weights, phase, *scans[phase].pixels[k][1:], tone)

    rows, columns = -(-height // block), -(-width // block)
    # One pixel more on each side; what lies beyond the blocks of the picture is never read.
    waiting = np.zeros((rows * block + 2, columns * block + 2), int)
    out = np.zeros((height, width), np.uint8)

    def inside(y, x):
        return 0 <= y < height and 0 <= x < width

    for phase in (OUTWARD, INWARD):
        for by in range(rows):
            for bx in range(columns):
                if (by + bx) % 2 != phase:
                    continue
                carry = 0
                for k, (cell, is_core, receivers) in enumerate(scans[phase].pixels):
                    y, x = by * block + cell[0], bx * block + cell[1]
                    error = carry + int(waiting[y + 1, x + 1])
                    if not inside(y, x):  # a pixel outside the picture passes everything on
                        carry = clamp(error, limit)
                        continue
                    level = int(plane[y, x])
                    tone = tones.tone[level]
                    if phase == OUTWARD and k == 0:
                        amplitude = tones.start(tables.start, level)
                        word = random_words(bx, by, channel, 0, seed)[0]
                        error += ((word >> 16) * 2 * amplitude >> 16) - amplitude
                    error += int(tones.value[level] if deep is None else deep[y, x])
                    decision = error - tones.shift(int(tables.threshold[phase + is_core][tone]), level)
                    if noisy:
                        spread = tones.half_spread(tables.spread[phase][tone], noise, level)
                        words = random_words(bx, by, channel, 1 + k // 128, seed)
                        bit = words[k % 128 // 32] >> (k % 32) & 1
                        decision += spread if bit else -spread
                    number = decision >= 2040 if levels == 2 else tones.nearest[max(0, min(511, decision >> 3))]
                    out[y, x] = number
                    error = clamp(error - tones.worth[int(number)], limit)
                    carry = error
                    for ((dy, dx), _), weight in zip(receivers, given(phase, k, tone), strict=True):
                        if inside(y + dy, x + dx):  # the share of a receiver outside the picture goes forward
                            share = error * weight >> 4
                            waiting[y + dy + 1, x + dx + 1] += share
                            carry -= share
                if phase == OUTWARD:
                    waiting[y + scans[phase].forward[0] + 1, x + scans[phase].forward[1] + 1] += carry
    return out


def nearest_entry(colour, palette, space):
    """Index of the entry nearest in the space, ties nearer in 8-bit values, then the lowest."""
    points = space.coordinates(palette.rgba()).astype(int)
    point = space.coordinates(np.array([colour], np.uint8)).astype(int)[0]
    far = ((points - point) ** 2).sum(axis=1)
    plain = ((palette.rgba().astype(int) - np.array(colour)) ** 2).sum(axis=1)
    far[barred(colour, palette.rgba(), 255)] += 1 << 40
    return min(range(len(palette)), key=lambda i: (far[i], plain[i], i))


def as_rgba(image, opaque=255):
    """(H, W[, C]) uint8 -> (H, W, 4) int."""
    colours = np.stack([image] * 3, axis=-1) if image.ndim == 2 else image
    alpha = colours[..., 3:] if colours.shape[2] == 4 else np.full((*colours.shape[:2], 1), opaque)
    return np.concatenate([colours[..., :3], alpha], axis=2).astype(int)


def halftone_to_palette(image, block, scan, palette, space, linear=False, seed=0, limit=180 * 16, gain=32, start=32):
    """Vector error diffusion by the pinwheel's scan -> (H, W) indices."""
    pixels = as_rgba(image)
    height, width = pixels.shape[:2]
    light = np.array([worth(level, linear) for level in range(256)])
    codes = np.array(pinwheel.codes(light.tolist()))
    scans, constant = both_scans(block, scan), np.tile(list(pinwheel.FLOYD_STEINBERG.values()), (3, 1, 1))
    limit = min(limit, pinwheel.error_limit(scans, constant, [0]))
    down, across = -(-height // block), -(-width // block)
    waiting = np.zeros((down * block + 2, across * block + 2, 4), int)
    out = np.zeros((height, width), int)
    entries = palette.rgba().astype(int)
    points = space.coordinates(palette.rgba()).astype(int)
    limits, most_gap = bounds(palette, space, True), speck(palette, space)
    added = penalty(space, 1.7 if palette.has_alpha else 2)

    def worth_of(colour):
        return np.array([*light[colour[:3]], 16 * colour[3]])

    def colour_of(worths):
        wanted = np.clip(worths, 0, 4080)
        return [*codes[wanted[:3]], (wanted[3] + 8) >> 4]

    for phase in (OUTWARD, INWARD):
        shares = pinwheel.error_shares(scans, constant, phase, pinwheel.fade(palette))
        for by in range(down):
            for bx in range(across):
                if (by + bx) % 2 != phase:
                    continue
                carry = np.zeros(4, int)
                for k, (cell, _, receivers) in enumerate(scans[phase].pixels):
                    y, x = by * block + cell[0], bx * block + cell[1]
                    error = carry + waiting[y + 1, x + 1]
                    if not (0 <= y < height and 0 <= x < width):
                        carry = np.clip(error, -limit, limit)
                        continue
                    colour = pixels[y, x]
                    if colour[3] == 0:
                        out[y, x] = palette.transparent_index
                        carry = np.zeros(4, int)
                        continue
                    if phase == OUTWARD and k == 0 and (colour != entries[nearest_entry(colour, palette, space)]).any():
                        words = random_words(bx, by, 0, 0, seed)[:3]
                        error = np.array([((w >> 16) * 32 * start >> 16) - 16 * start for w in words] + [0])
                    error = error * int(shares[k]) >> 8
                    error[3] = 0 if colour[3] == 255 else error[3]
                    entry = nearest_entry(colour_of(worth_of(colour) + (error * gain >> 4)), palette, space)
                    plain = space.coordinates(np.array([colour_of(worth_of(colour) + error)], np.uint8))[0].astype(int)
                    entry = in_reach(entry, plain, colour, points, entries, most_gap, added, space)
                    out[y, x] = entry
                    most = min(limit, limits[entry][2])
                    error = np.clip(worth_of(colour) + error - worth_of(entries[entry]), -most, most)
                    carry = error
                    own = pinwheel.weights(constant, phase, False, receivers, 0)
                    for ((dy, dx), _), weight in zip(receivers, own, strict=True):
                        if 0 <= y + dy < height and 0 <= x + dx < width:
                            share = error * int(weight) >> 4
                            waiting[y + dy + 1, x + dx + 1] += share
                            carry = carry - share
                if phase == OUTWARD:
                    waiting[y + scans[phase].forward[0] + 1, x + scans[phase].forward[1] + 1] += carry
    return out
