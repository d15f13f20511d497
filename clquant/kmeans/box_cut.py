"""Starting centers by cutting boxes of weighted points in two, again and again: median cut, and Wu's least variance.

The kernels, with the sources, are in `cl/kmeans/box_cut.cl`. They cut all boxes that may be among the k - 1 that the
rule cuts, many at a time; the order in which the rule cuts them is found on the host afterwards. Sums are 64-bit
integers and the rest are single operations of IEEE doubles, so the result is the same on every device.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.kmeans.points import GROUP, Points
from clquant.runtime import LocalMemory, PreparedLaunch, Readback, Scope, Session, bound

Int = npt.NDArray[np.int64]

# As in `cl/kmeans/box_cut.cl`.
DIGITS, PASSES = 64, 2
KNOWN, CHOSEN, STATE_WORDS = 0, 1, 3
KERNELS = {"wu": "cut_by_variance", "median-cut": "cut_at_median"}
# Room for so many boxes per box that the rule cuts, and for a few.
BOXES_PER_CUT, FEW_BOXES = 8, 64
# Rounds that are queued before the host looks whether any box was left to cut: so many more than if all boxes were cut
# alike, then so many at a time.
MORE_ROUNDS, NEXT_ROUNDS = 4, 4


class _Cutter:
    """The launches that cut boxes: at least the `wanted` most urgent ones."""

    def __init__(self, session: Session, scope: Scope, points: Points, wanted: int, rule: str) -> None:
        self._session, self._scope, self._dims, self._rule = session, scope, points.space.dims, rule
        self._program = session.program("kmeans/box_cut.cl", DIMS=self._dims, **points.weight_constants)
        self._most_chosen = min(wanted, bound("box_cut.chosen"))
        n, most = points.n, min(2 * points.n - 1, BOXES_PER_CUT * wanted + FEW_BOXES)
        numbers = {"n": n, "wanted": wanted, "most": most, "most_chosen": self._most_chosen}
        sizes = {"records": 16 * n, "orders": 8 * self._dims * n, "state": 4 * STATE_WORDS, "chosen": 4 * most}
        sizes |= {"boxes": 16 * most, "moments": 8 * (1 + 2 * self._dims) * most, "sides": 4 * self._dims * most}
        sizes |= {"cuts": 16 * self._dims * most, "keys": 4 * most}
        sizes["counts"] = 4 * self._dims * DIGITS * self._group("order_points")
        self._known: dict[str, Any] = {name: scope.empty(nbytes) for name, nbytes in sizes.items()}
        self._known |= {name: np.uint32(number) for name, number in numbers.items()} | points.arguments
        self._known["by_variance"] = np.int32(rule == "wu")
        kernel = self._program.kernel("record_points")
        session.launch(kernel, n, session.work_group_size(kernel, GROUP), **kernel.among(self._known))
        for turn in range(PASSES):
            self._known["pass"] = np.uint32(turn)
            self._prepared("order_points", self._dims).queue()
        if wanted:
            self._cut(wanted.bit_length() + MORE_ROUNDS)

    def _group(self, kernel: str) -> int:
        """Work-items per group."""
        tuned, per_item = self._session.tuned("kmeans.box_group"), 8 * (1 + self._dims)
        return self._session.work_group_size(self._program.kernel(kernel), tuned, per_item)

    def _prepared(self, name: str, groups: int) -> PreparedLaunch:
        kernel, group = self._program.kernel(name), self._group(name)
        given = kernel.among({**self._known, "room": LocalMemory(8 * (1 + self._dims) * group)})
        return self._session.prepare(self._scope, kernel, groups * group, group, **given)

    def _cut(self, rounds: int) -> None:
        """Do rounds until nothing is left to cut, at first so many."""
        choose, most = self._prepared("choose_boxes", 1), self._most_chosen * self._dims
        parts = [self._prepared(name, most) for name in (KERNELS[self._rule], "divide_boxes")]
        done = 0
        while True:
            for number in range(done, done + rounds):
                choose.queue()
                for launch in parts:
                    launch.queue(self._dims * min(1 << number, self._most_chosen))
            if not Readback(self._session, self._known["state"], STATE_WORDS, np.uint32).array()[CHOSEN]:
                return
            done, rounds = done + rounds, NEXT_ROUNDS

    def means(self, k: int) -> Int | None:
        """The means of the rule's k boxes, (k, dims), in the order in which they arise; None if some are lacking."""
        session, dims, known = self._session, self._dims, self._known
        count = int(session.download(known["state"], STATE_WORDS, np.uint32)[KNOWN])
        boxes = session.download(known["boxes"], (count, 4), np.uint32)
        moments = session.download(known["moments"], (count, 1 + 2 * dims), np.uint64).view(np.int64)
        mass, sums, squares = np.split(moments, [1, 1 + dims], axis=1)
        means: Int = (2 * sums + mass) // (2 * mass)
        if self._rule == "wu":
            # From the rounded means: below 2^63, though terms may be more and wrap.
            urgencies = (squares + means * (means * mass - 2 * sums)).sum(axis=1)
        else:
            urgencies = session.download(known["sides"], (count, dims), np.uint32).max(axis=1)
        # A single point is never cut, as there are enough points.
        urgencies = np.where(boxes[:, 1] == 1, -1.0, urgencies.astype(np.float64))
        left = _left_boxes(urgencies.tolist(), boxes[:, 3].tolist(), k)
        return None if left is None else means[left]


def _left_boxes(urgencies: list[float], parts: list[int], k: int) -> list[int] | None:
    """The numbers of the k boxes that are left where the most urgent is cut each time; None if some are not cut yet."""
    # `parts` has the number of the first part of a box, which the other one follows; 0 where it is not cut.
    boxes = [0]
    queue = [(-urgencies[0], 0)]
    for place in range(1, k):
        _, index = queue[0]
        first = parts[boxes[index]]
        if first == 0:
            return None
        boxes[index] = first
        boxes.append(first + 1)
        heapq.heapreplace(queue, (-urgencies[first], index))
        heapq.heappush(queue, (-urgencies[first + 1], place))
    return boxes


def box_centers(session: Session, points: Points, k: int, rule: str) -> Int:
    """Return the means of k boxes, (k, dims) int64 rounded half up, in the order in which the boxes arose."""
    # "median-cut" cuts the box of the longest side there at its weighted median; "wu" cuts the box of the largest sum
    # of squared differences across the axis, and at the place, where the least of it remains. Ties go to the lowest
    # axis, the earliest box, and the lowest place.
    wanted = k - 1
    while True:
        with session.scope() as scope:
            means = _Cutter(session, scope, points, wanted, rule).means(k)
        if means is not None:
            return means
        # Room was short, or a part is more urgent than its box by rounding.
        wanted = min(2 * wanted, points.n)
