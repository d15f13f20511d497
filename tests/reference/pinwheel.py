"""The pinwheel's scan and its numbers, pixel by pixel, from section 2 and figures 1 to 3 of Zhang, Recker, Ulichney,
Beretta, Tastl, Lin and Owens, "A Parallel Error Diffusion Implementation on a GPU", and from docs/halftone.md."""

from __future__ import annotations

import functools
import itertools
import math

FLOYD_STEINBERG = {0: 7, 45: 1, 90: 5, 135: 3, 180: 5}
ANGLES = tuple(FLOYD_STEINBERG)
OUTWARD, INWARD = 0, 1
WHITE = 16 * 255
AROUND = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]


def cells(size, scan, phase):
    """A block's pixels in the order of the scan: from the upper left corner clockwise to the centre, or in rows from
    the last to the first; outward blocks the other way round."""
    if scan == "spiral":
        walked, at, step = {(0, 0): None}, (0, 0), (0, 1)
        while len(walked) < size * size:
            to = at[0] + step[0], at[1] + step[1]
            if to in walked or not (0 <= to[0] < size and 0 <= to[1] < size):
                step = step[1], -step[0]  # to the right
                continue
            walked[to], at = None, to
        found = list(walked)
    else:
        found = [(y, x if y % 2 == 0 else size - 1 - x) for y in reversed(range(size)) for x in range(size)]
    return found if phase == INWARD else found[::-1]


def turn(direction, offset):
    """Degrees from one to the other, clockwise above 0."""
    (a, b), (y, x) = direction, offset
    return round(math.degrees(math.atan2(b * y - a * x, a * y + b * x)))


class Scan:
    """The path of a phase: for each pixel (cell, whether it is of the core, [(offset, angle)] of further receivers)."""

    def __init__(self, size, scan, phase):
        self.size, self.phase, path = size, phase, cells(size, scan, phase)
        order = {cell: k for k, cell in enumerate(path)}
        steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(path)]
        steps.append(steps[-1])
        self.forward = steps[-1] if phase == OUTWARD else (0, 0)
        core = size * size - size * size // 8 if phase == INWARD else size * size
        self.pixels = [(c, k >= core, self._receivers(c, k, steps[k], order)) for k, c in enumerate(path)]

    def _is_later(self, cell, k, order):
        """Whether a pixel of this block or, beyond a side of an outward one, of an inward block comes later."""
        sides = sum(not 0 <= place < self.size for place in cell)
        return order[cell] > k if sides == 0 else sides == 1 and self.phase == OUTWARD

    def _receivers(self, cell, k, step, order):
        """The three later neighbours of most weight; then those on the side with more weight, then of less angle."""
        found = []
        for offset in AROUND:
            angle = turn(step, offset)
            if angle != 0 and self._is_later((cell[0] + offset[0], cell[1] + offset[1]), k, order):
                found.append((abs(angle), angle > 0 or angle == -180, offset))
        right, left = (sum(FLOYD_STEINBERG[a] for a, r, _ in found if r is side and a < 180) for side in (True, False))
        is_main = right >= left
        best = sorted(found, key=lambda f: (-FLOYD_STEINBERG[f[0]], f[1] is not is_main, f[0]))[:3]
        return [(offset, a) for a, r, offset in sorted(best, key=lambda f: (f[0], f[1] is not is_main))]


@functools.lru_cache(maxsize=64)
def both_scans(size, scan):
    """Those of outward and of inward blocks."""
    return Scan(size, scan, OUTWARD), Scan(size, scan, INWARD)


def light(value):
    """Linear light of an encoded value, 0 to 1."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def worth(level, linear):
    """Of an 8-bit value, in 1/16 gray."""
    return math.floor(light(level / 255) * WHITE + 0.5) if linear else 16 * level


class Tones:
    """Numbers by input level: worths, and the place between the two output levels around it, 0 to 255."""

    def __init__(self, levels, linear):
        self.value = [worth(level, linear) for level in range(256)]
        self.worth = [self.value[(510 * j + levels - 1) // (2 * (levels - 1))] for j in range(levels)]
        below = [max(j for j in range(levels) if self.worth[j] <= v) for v in self.value]
        low = [min(j, levels - 2) for j in below]
        self.gap = [self.worth[j + 1] - self.worth[j] for j in low]
        places = [510 * (v - self.worth[j]) for v, j in zip(self.value, low, strict=True)]
        self.tone = [(p + gap) // (2 * gap) for p, gap in zip(places, self.gap, strict=True)]
        middles = [(a + b) / 2 for a, b in itertools.pairwise(self.worth)]
        self.nearest = [sum(middle <= 8 * i for middle in middles) for i in range(512)]
        # Decisions are made in half levels, and none so low that it takes the level below the two around.
        self.most_moved = [
            max(v - 8 * math.ceil(middles[j - 1] / 8), 0) if j else WHITE
            for v, j in zip(self.value, below, strict=True)
        ]

    def shift(self, threshold, level):
        """How far a decision is moved: the threshold less half white, scaled from white to the gap."""
        moved = math.floor((threshold - WHITE // 2) * self.gap[level] / WHITE + 0.5)
        return min(moved, self.most_moved[level])

    def half_spread(self, spread, noise, level):
        """Half the distance of the two thresholds."""
        added = int(spread) + math.floor(noise * (WHITE // 2) + 0.5)
        return min(math.floor(added * self.gap[level] / WHITE + 0.5), WHITE)

    def start(self, most, level):
        """Amplitude of an outward block's first error."""
        return most * self.gap[level] // 255 if 0 < self.tone[level] < 255 else 0


def weights(tables, phase, is_core, receivers, tone):
    """Sixteenths for the further receivers, rounded half up; what they have over 16 is taken off the first largest."""
    relative = tables[phase + is_core][tone]
    given = [int(relative[ANGLES.index(angle)]) for _, angle in receivers]
    total = int(relative[0]) + sum(given)
    found = [(32 * g + total) // (2 * total) for g in given]
    if sum(found) > 16:
        found[found.index(max(found))] -= sum(found) - 16
    return found


def inflow(scans, given, last):
    """Sixteenths that reach each pixel of both phases: `given(scan, k)` of its further receivers, `last(scan)` of an
    outward block's last pixel forward. An inward block has outward ones on all sides."""
    found = [dict.fromkeys((cell for cell, _, _ in scan.pixels), 0) for scan in scans]
    for scan in scans:
        for k, (cell, _, receivers) in enumerate(scan.pixels):
            shares = list(zip([offset for offset, _ in receivers], given(scan, k), strict=True))
            if scan.phase == OUTWARD and k == scan.size**2 - 1:
                shares.append((scan.forward, last(scan)))
            for (dy, dx), share in shares:
                to = cell[0] + dy, cell[1] + dx
                phase = scan.phase if to in found[scan.phase] else INWARD
                found[phase][to[0] % scan.size, to[1] % scan.size] += share
    return found


def error_limit(scans, tables, tones):
    """The clamp under which 16 bits hold a worth, an error, and all that can wait for a pixel, each share of which is
    rounded by less than one unit, 32 in all."""

    def heaviest(scan, k):
        _, is_core, receivers = scan.pixels[k]
        of_tones = [weights(tables, scan.phase, is_core, receivers, tone) for tone in tones]
        return [max(column) for column in zip(*of_tones, strict=True)]

    most = max(max(found.values()) for found in inflow(scans, heaviest, lambda _: 16))
    return min(8191, 16 * (32767 - WHITE - 32) // (16 + most))


def error_shares(scans, tables, phase, fade):
    """In 1/256: what of an error counts at each pixel, so that equal errors of all pixels count everywhere as `fade`
    does where they arrive whole; at most twice as much, and `fade` where nothing arrives."""

    def given(scan, k):
        _, is_core, receivers = scan.pixels[k]
        return weights(tables, scan.phase, is_core, receivers, 0)

    found = inflow(scans, given, lambda scan: 16 - sum(given(scan, scan.size**2 - 1)))[phase]
    made = []
    for k, (cell, _, _) in enumerate(scans[phase].pixels):
        reached = found[cell] + (16 - sum(given(scans[phase], k - 1)) if k else 0)
        sixteenths = max(reached, 8) if reached else 16
        made.append((32 * fade + sixteenths) // (2 * sixteenths))
    return made


def fade(palette):
    """In 1/256, what counts of an error: three quarters, up to all where entries are 112 or more from each other."""
    colors = sorted({tuple(int(v) for v in color[:3]) for color in palette.rgba() if color[3] > 0})
    if len(colors) > 512:
        return 192
    if len(colors) < 2:
        return 256
    nearest = [min(sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for q in colors if q != p) for p in colors]
    return min(max(144 + math.isqrt(sum(nearest) // len(colors)), 192), 256)


def codes(values):
    """The 8-bit value whose worth is nearest to each worth, 0 to white, ties up."""
    return [sum(2 * at >= a + b for a, b in itertools.pairwise(values)) for at in range(WHITE + 1)]


def bayer(order):
    """Bayer's thresholds of a side of 2^order."""
    if order == 0:
        return [[0]]
    inner = bayer(order - 1)
    side = len(inner)
    within = [[0, 2], [3, 1]]
    return [
        [4 * inner[y % side][x % side] + within[y // side][x // side] for x in range(2 * side)] for y in range(2 * side)
    ]
