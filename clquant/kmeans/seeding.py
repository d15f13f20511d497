"""Starting centers for k-means: D^2 sampling on the device, then swaps of badly placed centers.

The kernels are in `cl/kmeans/seeding.cl` and `cl/kmeans/swaps.cl`, with their sources.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.kmeans.lloyd import Lloyd
from clquant.kmeans.points import GROUP
from clquant.runtime import Buffer, LocalMemory, PreparedLaunch, Scope, Session, philox4x32, seed_key

BLOCK = 256
SEED_ROUNDS = 16
# Swaps compare every center with every other.
MOST_SWAPPED = 4096
# Up to so many centers a round of swaps is one launch of one work-group.
MOST_AT_ONCE = 512
# Part of the centers that the first round of swaps moves.
SWAPPED_PART = 3


def random_points(n: int, k: int, seed: int) -> npt.NDArray[np.int64]:
    """k of n points at random, all differing.

    Parameters
    ----------
    n, k : int
        1 <= k <= n.
    seed : int
        0 to 2^64 - 1.

    Returns
    -------
    ndarray
        (k,) int64, 0 to n - 1. Where 2 k <= n: the first k differing values of floor(r_i n / 2^32), i = 0, 1, ...;
        else the k points of the lowest r_i, ties to the lowest. r_i is the first word of Philox at (i, 0, 1, 0).
    """
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
    """Draw starting centers by k-means++, in `SEED_ROUNDS` rounds of equally many after the first center.

    Parameters
    ----------
    session : Session
    lloyd : Lloyd
        Its centers are set.
    seed : int
        0 to 2^64 - 1.
    """
    points, k = lloyd.points, lloyd.k
    a_round = max(1, -(-(k - 1) // SEED_ROUNDS))
    if lloyd.grid is not None:
        lloyd.grid.seed(a_round, seed_key(seed))
        return
    program = session.program("kmeans/seeding.cl", DIMS=points.space.dims, **points.weight_constants)
    lower, draw = program.kernel("lower_distances"), program.kernel("draw_centers")
    most = session.tuned("kmeans.swap_group")
    lower_group = session.work_group_size(lower, min(GROUP, most), 8)
    draw_group = session.work_group_size(draw, min(BLOCK, most), 8)
    blocks = -(-points.n // BLOCK)
    given = (points.coordinates, np.uint32(points.stride), points.weights, np.uint32(points.n))
    with session.scope() as inner:
        distances = inner.empty(4 * blocks * BLOCK)
        sums, prefix = inner.empty(8 * blocks), inner.empty(8 * (blocks + 1))
        stride, none = np.uint32(lloyd.k_stride), np.uint32(0)
        found = (lloyd.centers, stride, none, none)
        local = LocalMemory(8 * lower_group)
        lowering = session.prepare(
            inner, lower, blocks * lower_group, lower_group, *given, *found, distances, sums, local
        )
        read = (distances, sums, np.uint32(blocks), prefix)
        local = LocalMemory(8 * draw_group)
        drawing = session.prepare(inner, draw, draw_group, draw_group, *given, *read, *found, seed_key(seed), local)
        first = count = 0
        while first + count < k:
            lowering.set(len(given) + 2, np.uint32(first), np.uint32(count))
            lowering.queue()
            first += count
            count = min(k - first, a_round) if first else 1
            drawing.set(len(given) + len(read) + 2, np.uint32(first), np.uint32(count))
            drawing.queue()


def swap_centers(session: Session, scope: Scope, lloyd: Lloyd, rounds: int, steps: int) -> None:
    """Lloyd's algorithm with rounds of swaps in between; the centers of the lowest inertia stay.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the buffers that queued work needs.
    lloyd : Lloyd
        At most `MOST_SWAPPED` centers.
    rounds : int
        Rounds of swaps; with 0 only Lloyd's algorithm runs.
    steps : int
        Steps of Lloyd's algorithm before every round and after the last one.
    """
    if lloyd.grid is not None:
        lloyd.grid.swap(rounds, steps, max(1, lloyd.k // SWAPPED_PART))
        return
    swap = _Swap(session, scope, lloyd)
    lloyd.restart()
    for remaining in range(rounds, -1, -1):
        for _ in range(steps - 1):
            lloyd.step()
        lloyd.step(by_axis=True)  # done in any case: it has the statistics that swaps need
        for launch in swap.change if remaining else swap.keep:
            launch.queue()


class _Swap:
    """The buffers of a series of swaps, and its launches.

    Attributes
    ----------
    keep : list of PreparedLaunch
        Keeps the present centers, or goes back to better ones.
    change : list of PreparedLaunch
        Does so too, and then moves centers of the best set.
    """

    def __init__(self, session: Session, scope: Scope, lloyd: Lloyd) -> None:
        self._session = session
        self._scope = scope
        self._lloyd = lloyd
        dims, stride = lloyd.points.space.dims, lloyd.k_stride
        wanted = session.tuned("kmeans.swap_group")
        group_bytes = 8 * wanted + (4 * dims + 40) * stride
        apart = lloyd.k > MOST_AT_ONCE or group_bytes > session.limits.local_memory
        place = "__global" if apart else "__local"
        self._program = session.program("kmeans/swaps.cl", DIMS=dims, PLACE=place, APART=int(apart))
        best_centers = scope.empty(4 * dims * stride)
        best_totals = scope.empty(8 * (1 + 2 * dims) * lloyd.k)
        swaps = scope.copy_of(np.array([max(1, lloyd.k // SWAPPED_PART), 0], np.uint32))
        lowest = scope.copy_of(np.array([2**64 - 1], np.uint64))
        best = (best_centers, best_totals, swaps, lowest, lloyd.state)
        given = (lloyd.centers, lloyd.totals, np.uint32(lloyd.k), np.uint32(stride))
        extents = np.array((*lloyd.points.extent, 0)[:4], np.int32)
        self.keep = [self._alone("keep_best", min(BLOCK, wanted), *given, *best)]
        if apart:
            self.change = [*self.keep, *self._steps(best_centers, best_totals, swaps, extents)]
            return
        kernel = self._program.kernel("swap_round")
        group = session.work_group_size(kernel, wanted)
        parts = np.uint32(1 << (max(1, group // lloyd.k).bit_length() - 1))
        room = LocalMemory(8 * group + (4 * dims + 40) * stride)
        self.change = [self._alone("swap_round", group, *given, extents, *best, parts, room)]

    def _steps(
        self, best_centers: Buffer, best_totals: Buffer, swaps: Buffer, extents: npt.NDArray[np.int32]
    ) -> list[PreparedLaunch]:
        """What `swap_round` does after it kept the best, in launches of a work-item a center."""
        lloyd, scope = self._lloyd, self._scope
        k, stride = np.uint32(lloyd.k), np.uint32(lloyd.k_stride)
        # Filled up to whole vectors with what ranks last.
        costs, gains = self._filled(8, 0xFF), self._filled(8, 0)
        by_cost, by_gain = self._filled(4, 0xFF), self._filled(4, 0xFF)
        neighbours, merges = self._filled(4, 0xFF), self._filled(4, 0xFF)
        turns, untouched = scope.empty(4 * lloyd.k), scope.empty(4 * lloyd.k)
        chosen = (neighbours, merges, turns, untouched)
        return [
            self._each("weigh_centers", best_centers, best_totals, k, stride, neighbours, costs, gains),
            self._each("rank_centers", costs, gains, k, by_cost, by_gain, merges),
            self._each("choose_merges", neighbours, by_cost, k, swaps, merges),
            self._each("take_turns", by_cost, by_gain, merges, k, turns, untouched),
            self._each("swap_centers", best_totals, k, stride, extents, *chosen, swaps, lloyd.centers),
        ]

    def _filled(self, item: int, byte: int) -> Buffer:
        nbytes = item * self._lloyd.k_stride
        buffer = self._scope.empty(nbytes)
        self._session.fill(buffer, np.full(1, byte, np.uint8), nbytes)
        return buffer

    def _alone(self, name: str, wanted: int, *args: object) -> PreparedLaunch:
        """A launch of one work-group."""
        kernel = self._program.kernel(name)
        group = self._session.work_group_size(kernel, wanted)
        return self._session.prepare(self._scope, kernel, group, group, *args)

    def _each(self, name: str, *args: object) -> PreparedLaunch:
        """A launch of a work-item a center."""
        kernel = self._program.kernel(name)
        return self._session.prepare(
            self._scope, kernel, self._lloyd.k, self._session.work_group_size(kernel, GROUP), *args
        )
