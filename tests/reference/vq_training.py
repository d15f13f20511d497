"""Training of VQ codebooks in whole numbers: LBG (Linde, Buzo and Gray 1980) from k-means++ (Arthur and Vassilvitskii
2007) or from splitting, annealed by noise on the codewords (Zeger, Vaisey and Gersho, "Globally optimal vector
quantizer design by stochastic relaxation", 1992) while the nearest pairs merge (Equitz, "A new vector quantization
clustering algorithm", 1989)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.reference.philox import philox4x32, seed_key

Rows = npt.NDArray[np.int64]
LEVEL_STEPS, LAST_STEPS, MOST_TURN_BYTES = 10, 10, 1 << 26
# docs/vq.md and docs/vectors.md: samples of 64 (48), 256 and 1024 (256) blocks per codeword, steps of early and late
# rounds. A whole number, a pair or a triple as the names of `clquant.training.schedule.Rule` have it.
BLOCKS = {
    "first": 64,
    "second": 256,
    "turn": 1024,
    "least_first": 8192,
    "least_second": 32768,
    "least_turn": 131072,
    "turns": (4, 16),
    "halved": 1 << 22,
    "round_steps": 5,
    "few_steps": 4,
    "whole_steps": ((24, 32), (16, 64)),
    "many": 512,
    "turn_steps": (60, 120, 240),
    "many_in_turn": 256,
    "many_turns": 8,
    "surplus": (4, 8),
}
ROWS = {
    **BLOCKS,
    "first": 48,
    "turn": 256,
    "least_turn": 32768,
    "halved": 1 << 62,
    "few_steps": 3,
    "whole_steps": ((16, 16), (16, 16)),
    "turn_steps": (24, 24, 24),
    "surplus": (4, 4),
}
DRAWING, NOISE, SAMPLING = 1, 2, 3


@dataclass
class Statistics:
    """What a Lloyd step finds out: the index of each row, sums and weights of codewords, the squared error."""

    indices: Rows
    sums: Rows
    counts: Rows
    error: int


@dataclass
class Blocks:
    rows: Rows
    weights: Rows

    @property
    def total(self) -> int:
        return int(self.weights.sum())

    def squares(self, codebook: Rows) -> Rows:
        return np.stack([((self.rows - c) ** 2).sum(1) for c in codebook], 1)

    def statistics(self, codebook: Rows) -> Statistics:
        squares = self.squares(codebook)
        indices = squares.argmin(1)
        sums, counts = np.zeros_like(codebook), np.zeros(len(codebook), np.int64)
        np.add.at(sums, indices, self.rows * self.weights[:, None])
        np.add.at(counts, indices, self.weights)
        error = int((squares[np.arange(len(indices)), indices] * self.weights).sum())
        return Statistics(indices, sums, counts, error)

    def worst(self, codebook: Rows, indices: Rows) -> tuple[Rows, Rows]:
        """Of each codeword, the level of its row of largest weighted error and the first row of that level."""
        errors = ((self.rows - codebook[indices]) ** 2).sum(1) * self.weights
        levels = np.array([level(int(e)) for e in errors])
        of, row = np.zeros(len(codebook), np.int64), np.zeros(len(codebook), np.int64)
        for i in range(len(levels) - 1, -1, -1):
            if levels[i] and levels[i] >= of[indices[i]]:
                of[indices[i]], row[indices[i]] = levels[i], i
        return of, row


def level(error: int) -> int:
    """Errors in steps of a sixteenth of their power of two, from 0 for none."""
    if error == 0:
        return 0
    bits = error.bit_length()
    return bits << 4 | ((error << 4) >> (bits - 1)) & 15


def sample(blocks: Blocks, size: int, stage: int, seed: int) -> Blocks:
    """One row of each of `size` runs of rows with weight, or all."""
    able = np.flatnonzero(blocks.weights)
    if len(able) <= size:
        return blocks
    places = []
    for i in range(size):
        first, end = i * len(able) // size, (i + 1) * len(able) // size
        places.append(
            able[first + int(philox4x32([i // 4, 0, stage, SAMPLING], seed_key(seed))[i % 4]) % (end - first)]
        )
    return Blocks(blocks.rows[places], blocks.weights[places])


def every(blocks: Blocks, size: int, turn: int) -> Blocks:
    """Rows with weight at regular distances."""
    able = np.flatnonzero(blocks.weights)
    distance = len(able) // size
    places = [able[i * distance + (i + turn) % distance] for i in range(size)]
    return Blocks(blocks.rows[places], blocks.weights[places])


def seeded(blocks: Blocks, size: int, seed: int) -> Rows:
    """k-means++, a quarter of the codewords so far at a time; the first codeword again where no row has an error."""
    errors = blocks.weights.copy()
    codebook = np.zeros((0, blocks.rows.shape[1]), np.int64)
    while len(codebook) < size:
        ends = np.cumsum(errors)
        new = []
        for t in range(min(max(1, len(codebook) // 4), size - len(codebook))):
            words = philox4x32([len(codebook) + t, 0, 0, DRAWING], seed_key(seed))
            target = (int(words[0]) | int(words[1]) << 32) * int(ends[-1]) >> 64
            drawn = int(np.searchsorted(ends, target, side="right"))
            new.append(blocks.rows[drawn] if ends[-1] else codebook[0])
        codebook = np.concatenate([codebook, new])
        errors = blocks.squares(codebook).min(1) * blocks.weights
    return codebook


def means(codebook: Rows, found: Statistics) -> Rows:
    """Rounded half up; codewords without rows stay."""
    weight = np.maximum(found.counts, 1)[:, None]
    return np.where(found.counts[:, None] > 0, (2 * found.sums + weight) // (2 * weight), codebook)


def annealed(
    codebook: Rows, found: Statistics, total: int, amplitude: int, step: int, seed: int, largest: int = 255
) -> Rows:
    """Seven quarters of the way to the means, and noise in proportion to the root of the mean squared error; in
    1/256. The noise is a sum of four random bytes."""
    rms = math.isqrt((found.error << 16) // (total * codebook.shape[1]))
    weight = np.maximum(found.counts, 1)[:, None]
    goal = (256 * found.sums + weight // 2) // weight
    moved = 256 * codebook + ((goal - 256 * codebook) * 7 >> 2)
    for j in range(len(codebook)):
        for k in range(codebook.shape[1]):
            word = int(philox4x32([j, k // 4, step, NOISE], seed_key(seed))[k % 4])
            noise = sum(word >> shift & 255 for shift in (0, 8, 16, 24)) - 510
            moved[j, k] += amplitude * rms * noise >> 16
    return np.where(found.counts[:, None] > 0, np.clip((moved + 128) >> 8, 0, largest), codebook)


def repaired(moved: Rows, codebook: Rows, blocks: Blocks, found: Statistics) -> Rows:
    """Codewords without rows, in order, go to the worst rows of the codewords whose worst row is worst, in order."""
    dead = np.flatnonzero(found.counts == 0)
    if len(dead) == 0:
        return moved
    levels, row = blocks.worst(codebook, found.indices)
    order = np.sort(np.argsort(-levels, kind="stable")[: len(dead)])
    moved = moved.copy()
    for j, giver in zip(dead, order, strict=True):
        if levels[giver]:
            moved[j] = blocks.rows[row[giver]]
    return moved


def survivors(codebook: Rows, counts: Rows, total: int, number: int, largest: int = 255) -> npt.NDArray[np.bool_]:
    """All but `number` codewords: first those for which a merge with the nearest other one costs least error, less than
    that one's own."""
    squares = np.stack([((codebook - c) ** 2).sum(1) for c in codebook], 1)
    np.fill_diagonal(squares, np.iinfo(np.int64).max)
    nearest = squares.argmin(1)
    light = counts >> max(0, total.bit_length() - 27)
    both = light + light[nearest]
    shares = 256 * light * light[nearest] // np.maximum(both, 1)
    distances = squares[np.arange(len(codebook)), nearest]
    shift = max(0, (largest**2 * codebook.shape[1]).bit_length() - 26) if largest > 255 else 0
    cost = np.array([int(a) * int(b) >> shift for a, b in zip(shares, distances, strict=True)])
    j = np.arange(len(codebook))
    behind = ~((cost < cost[nearest]) | ((cost == cost[nearest]) & (j < nearest)))
    stays = np.ones(len(codebook), bool)
    stays[np.lexsort((j, cost, behind))[:number]] = False
    return stays


def lloyd(blocks: Blocks, codebook: Rows, most: int) -> tuple[Rows, int]:
    """Plain steps with repairs until nothing changes, and how many they were."""
    for step in range(most):
        found = blocks.statistics(codebook)
        moved = repaired(means(codebook, found), codebook, blocks, found)
        if np.array_equal(moved, codebook):
            return codebook, step + 1
        codebook = moved
    return codebook, most


def split(blocks: Blocks, size: int, largest: int = 255) -> tuple[Rows, int]:
    """From the mean of all, codewords are doubled, at last only the heaviest; and the steps."""
    codebook, steps = np.zeros((1, blocks.rows.shape[1]), np.int64), 0
    codebook = means(codebook, blocks.statistics(codebook))
    while len(codebook) < size:
        counts = blocks.statistics(codebook).counts
        chosen = np.argsort(-counts, kind="stable")[: size - len(codebook)]
        codebook[chosen] = np.minimum(codebook[chosen], largest - 1)
        codebook, more = lloyd(blocks, np.concatenate([codebook, codebook[chosen] + 1]), LEVEL_STEPS)
        steps += more
    return codebook, steps


def plain_if_better(
    blocks: Blocks, codebook: Rows, size: int, init: str, most: int, seed: int, largest: int
) -> tuple[Rows, int]:
    """The codebook or that of plain training, of less error; and the latter's steps, which end when they gain so little
    that it cannot be reached any more."""
    bound, before = blocks.statistics(codebook).error, None
    first = sample(blocks, max(BLOCKS["least_first"], BLOCKS["first"] * size), 0, seed)
    plain, steps = (seeded(first, size, seed), 0) if init == "k-means++" else split(first, size, largest)
    for made in range(most):
        found = blocks.statistics(plain)
        moved = repaired(means(plain, found), plain, blocks, found)
        steps += 1
        if np.array_equal(moved, plain):
            break
        left = min(most - made, 3 * made + 3)
        if before is not None and found.error - left * (before - found.error) > bound:
            return codebook, steps
        before, plain = found.error, moved
    return plain if blocks.statistics(plain).error < bound else codebook, steps


def train(
    rows: Rows,
    weights: Rows,
    size: int,
    *,
    init: str = "k-means++",
    max_iter: int = 100,
    refine: int = 20,
    seed: int = 0,
    largest: int = 255,
    of_rows: bool = False,
    changes: dict[str, Any] | None = None,
) -> tuple[Rows, float, int]:
    """The codebook in order of brightness, its mean squared error, and the steps; components go up to `largest`.

    Of rows of numbers steps and noise have another rule, and the training without rounds is taken where it is better.
    `changes` replace numbers of the rule.
    """
    of_rows = of_rows and refine > 0
    whole = Blocks(rows, weights)
    if len(rows) <= size:
        codebook = np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])
        return codebook[np.lexsort((*codebook.T[::-1], codebook.sum(1)))], 0.0, 0
    rule = {**(ROWS if of_rows else BLOCKS), **(changes or {})}
    able, many = int(np.count_nonzero(weights)), max(rule["least_turn"], rule["turn"] * size)
    half = min(able // 2, MOST_TURN_BYTES // rows.shape[1])
    is_halved = able >= rule["halved"] and rule["second"] * size <= half < many
    many = half if is_halved else many
    large_set = refine > 0 and able >= 2 * many and many * rows.shape[1] <= MOST_TURN_BYTES
    large = min(size + size // rule["surplus"][large_set], 65536) if refine else size
    first = sample(whole, max(rule["least_first"], rule["first"] * large), 0, seed)
    several = max(rule["least_second"], rule["second"] * size)
    second = sample(whole, several, 1, seed)
    early = rule["round_steps"]
    late = rule["whole_steps"][size >= rule["many"]][int(able >= 2 * several)]
    if able < several:
        early = late = rule["few_steps"]
    fewest, most_turns = rule["turns"]
    turns = max(fewest, min(most_turns, able // many, MOST_TURN_BYTES // (many * rows.shape[1])))
    is_many = size >= rule["many_in_turn"] and not is_halved
    turn_steps = rule["turn_steps"][1 + int(turns >= rule["many_turns"]) if is_many else 0]
    most = math.isqrt(443**2 * 16 // max(16, rows.shape[1])) if of_rows else 443
    in_turn = [every(whole, many, i) for i in range(turns)] if large_set else []
    rounds = []
    for turn in range(refine):
        tenths = 10 * turn // refine
        if tenths < 5 or (large_set and tenths < 6):
            rounds.append(([first], early))
        elif tenths < 6:
            rounds.append(([second], early))
        elif large_set:
            rounds.append((in_turn, turn_steps) if tenths < 9 else ([whole], LAST_STEPS))
        else:
            rounds.append(([whole], late))
    codebook, steps = (seeded(first, large, seed), 0) if init == "k-means++" else split(first, large, largest)
    places = [(turn, place) for turn, (_, count) in enumerate(rounds) for place in range(count)]
    for step, (turn, place) in enumerate(places):
        sets, count = rounds[turn]
        blocks = sets[place % len(sets)]
        found = blocks.statistics(codebook)
        start, left = refine * count, (refine - turn) * count - place
        amplitude = most * left * (5 * left + start) // (10 * start**2)
        moved = annealed(codebook, found, blocks.total, amplitude, step, seed, largest)
        if place == 0:
            moved = repaired(moved, codebook, blocks, found)
        part = min(max(10 * (turn + 1) - 2 * refine, 0), 5 * refine)
        gone = len(codebook) - (large - (large - size) * part // (5 * refine))
        if place == count - 1 and gone:
            moved = moved[survivors(codebook, found.counts, blocks.total, gone, largest)]
        codebook, steps = moved, steps + 1
    codebook, more = lloyd(whole, codebook, max_iter)
    if of_rows:
        codebook, also = plain_if_better(whole, codebook, size, init, max_iter, seed, largest)
        more += also
    codebook = codebook[np.lexsort((*codebook.T[::-1], codebook.sum(1)))]
    return codebook, whole.statistics(codebook).error / (whole.total * rows.shape[1]), steps + more
