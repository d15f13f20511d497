"""Starting centers for k-means: D^2 sampling on the device (`cl/kmeans/seeding.cl`, with its source)."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from clquant.kmeans.lloyd import Lloyd
from clquant.runtime import LocalMemory, Session, philox4x32, seed_key

BLOCK = 128
SEED_ROUNDS = 16


def random_points(n: int, k: int, seed: int) -> npt.NDArray[np.int64]:
    """Return k differing random indices of n points, (k,) int64."""
    # Where 2 k <= n: the first k differing values of floor(r_i n / 2^32), i = 0, 1, ...; else the k points of the
    # lowest r_i, ties to the lowest. r_i is the first word of Philox at (i, 0, 1, 0).
    if 2 * k > n:
        return np.argsort(_random_words(0, n, seed), kind="stable")[:k].astype(np.int64)
    chosen: dict[int, None] = {}
    drawn = 0
    while len(chosen) < k:
        numbers = _random_words(drawn, 2 * k, seed).astype(np.uint64) * np.uint64(n) >> np.uint64(32)
        chosen.update(dict.fromkeys(numbers.tolist()))
        drawn += 2 * k
    return np.array(list(chosen)[:k], np.int64)


def _random_words(first: int, n: int, seed: int) -> npt.NDArray[np.uint32]:
    counter = np.zeros((n, 4), np.uint32)
    counter[:, 0] = np.arange(first, first + n)
    counter[:, 2] = 1
    return philox4x32(counter, seed_key(seed))[:, 0]


def sample_centers(session: Session, lloyd: Lloyd, seed: int) -> None:
    """Draw starting centers by k-means++, in `SEED_ROUNDS` rounds of equally many after the first center."""
    points, k = lloyd.points, lloyd.k
    a_round = max(1, -(-(k - 1) // SEED_ROUNDS))
    program = session.program("kmeans/seeding.cl", DIMS=points.space.dims, **points.weight_constants)
    lower, draw = program.kernel("lower_distances"), program.kernel("draw_centers")
    most = session.tuned("kmeans.swap_group")
    lower_group = session.work_group_size(lower, min(BLOCK // 4, most), 8)
    draw_group = session.work_group_size(draw, most, 8)
    blocks = -(-points.n // BLOCK)
    # First center and count of the rounds, none before the first.
    rounds = [(0, 0), (0, 1), *((first, min(k - first, a_round)) for first in range(1, k, a_round))]
    with session.scope() as inner:
        given = {
            **points.arguments,
            "n": np.uint32(points.n),
            "centers": lloyd.centers,
            "k_stride": np.uint32(lloyd.k_stride),
            "drawn": np.zeros(2, np.uint32),
            "distances": inner.empty(4 * blocks * BLOCK),
            "block_sums": inner.empty(8 * blocks),
        }
        local = LocalMemory(8 * lower_group)
        lowering = session.prepare(inner, lower, blocks * lower_group, lower_group, **given, partial=local)
        own = {"blocks": np.uint32(blocks), "prefix": inner.empty(8 * (blocks + 1)), "key": seed_key(seed)}
        local = LocalMemory(8 * draw_group)
        drawing = session.prepare(inner, draw, draw_group, draw_group, **given, **own, partial=local)
        for before, drawn in itertools.pairwise(np.array(rounds, np.uint32)):
            lowering.set(drawn=before)
            lowering.queue()
            drawing.set(drawn=drawn)
            drawing.queue()
