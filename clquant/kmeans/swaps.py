"""Lloyd's algorithm with rounds of swaps, which move badly placed centers (`cl/kmeans/swaps.cl`, with its sources)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.kmeans.lloyd import Lloyd
from clquant.kmeans.points import GROUP
from clquant.runtime import Buffer, LocalMemory, PreparedLaunch, Scope, Session

# Swaps compare every center with every other.
MAX_SWAPPED = 4096
# Up to this many centers, a round of swaps is one launch of one work-group.
MAX_IN_ONE_GROUP = 512
# The first round of swaps moves one of this many centers.
CENTERS_PER_SWAP = 3
# Work-items that keep the best centers, or go back to them.
KEEP_GROUP = 256


def swap_centers(session: Session, scope: Scope, lloyd: Lloyd, rounds: int, steps: int) -> None:
    """Run Lloyd's algorithm with rounds of swaps in between; the centers of the lowest inertia stay."""
    # At most `MAX_SWAPPED` centers. `steps` are of Lloyd's algorithm, before every round and after the last one.
    if lloyd.grid is not None:
        lloyd.grid.swap(rounds, steps, max(1, lloyd.k // CENTERS_PER_SWAP))
        return
    swap = _SwapRounds(session, scope, lloyd)
    lloyd.restart()
    for remaining in range(rounds, -1, -1):
        for _ in range(steps - 1):
            lloyd.step()
        lloyd.step(by_axis=True)  # done in any case: it has the statistics that swaps need
        for launch in swap.change if remaining else swap.keep:
            launch.queue()


class _SwapRounds:
    """The buffers of a series of swaps, and its launches."""

    # `keep` keeps the present centers, or goes back to better ones; `change` does so too, and then moves centers of the
    # best set.

    def __init__(self, session: Session, scope: Scope, lloyd: Lloyd) -> None:
        self._session = session
        self._scope = scope
        self._lloyd = lloyd
        dims, stride = lloyd.points.space.dims, lloyd.k_stride
        wanted = session.tuned("kmeans.swap_group")
        group_bytes = 8 * wanted + (4 * dims + 40) * stride
        apart = lloyd.k > MAX_IN_ONE_GROUP or group_bytes > session.limits.local_memory
        place = "__global" if apart else "__local"
        self._program = session.program("kmeans/swaps.cl", DIMS=dims, PLACE=place, APART=int(apart))
        best_centers = scope.empty(4 * dims * stride)
        best_totals = scope.empty(8 * (1 + 2 * dims) * lloyd.k)
        swaps = scope.copy_of(np.array([max(1, lloyd.k // CENTERS_PER_SWAP), 0], np.uint32))
        lowest = scope.copy_of(np.array([2**64 - 1], np.uint64))
        given = {
            "centers": lloyd.centers,
            "totals": lloyd.totals,
            "k": np.uint32(lloyd.k),
            "k_stride": np.uint32(stride),
            "best_centers": best_centers,
            "best_totals": best_totals,
            "swaps": swaps,
            "lowest": lowest,
            "state": lloyd.state,
        }
        extents = np.array((*lloyd.points.extent, 0)[:4], np.int32)
        self.keep = [self._alone("keep_best", min(KEEP_GROUP, wanted), **given)]
        if apart:
            self.change = [*self.keep, *self._steps(best_centers, best_totals, swaps, extents)]
            return
        kernel = self._program.kernel("swap_round")
        group = session.work_group_size(kernel, wanted)
        parts = np.uint32(1 << (max(1, group // lloyd.k).bit_length() - 1))
        room = LocalMemory(8 * group + (4 * dims + 40) * stride)
        self.change = [self._alone("swap_round", group, **given, extents=extents, parts=parts, room=room)]

    def _steps(
        self, best_centers: Buffer, best_totals: Buffer, swaps: Buffer, extents: npt.NDArray[np.int32]
    ) -> list[PreparedLaunch]:
        """Prepare the steps of `swap_round` after keeping the best centers, with one work-item per center."""
        lloyd, scope = self._lloyd, self._scope
        k, stride = np.uint32(lloyd.k), np.uint32(lloyd.k_stride)
        # Filled up to whole vectors with what ranks last.
        costs, gains = self._filled(8, 0xFF), self._filled(8, 0)
        by_cost, by_gain = self._filled(4, 0xFF), self._filled(4, 0xFF)
        neighbours, merges = self._filled(4, 0xFF), self._filled(4, 0xFF)
        turns, untouched = scope.empty(4 * lloyd.k), scope.empty(4 * lloyd.k)
        swapped = self._each(
            "swap_centers",
            totals=best_totals,
            k=k,
            k_stride=stride,
            extents=extents,
            neighbours=neighbours,
            merges=merges,
            turns=turns,
            untouched=untouched,
            swaps=swaps,
            centers=lloyd.centers,
        )
        return [
            self._each("weigh_centers", best_centers, best_totals, k, stride, neighbours, costs, gains),
            self._each("rank_centers", costs, gains, k, by_cost, by_gain, merges),
            self._each("choose_merges", neighbours, by_cost, k, swaps, merges),
            self._each("take_turns", by_cost, by_gain, merges, k, turns, untouched),
            swapped,
        ]

    def _filled(self, item: int, byte: int) -> Buffer:
        nbytes = item * self._lloyd.k_stride
        buffer = self._scope.empty(nbytes)
        self._session.fill(buffer, np.full(1, byte, np.uint8), nbytes)
        return buffer

    def _alone(self, name: str, wanted: int, **named: object) -> PreparedLaunch:
        """A launch of one work-group."""
        kernel = self._program.kernel(name)
        group = self._session.work_group_size(kernel, wanted)
        return self._session.prepare(self._scope, kernel, group, group, **named)

    def _each(self, name: str, *args: object, **named: object) -> PreparedLaunch:
        """A launch with one work-item per center."""
        kernel = self._program.kernel(name)
        group = self._session.work_group_size(kernel, GROUP)
        return self._session.prepare(self._scope, kernel, self._lloyd.k, group, *args, **named)
