"""Starting centers by cutting boxes of weighted points in two, again and again: median cut, and Wu's least variance.

The kernels, with the sources, are in `cl/kmeans/box_cut.cl`. They cut the boxes that may be among the k - 1 that the
rule cuts, many at a time; the order in which the rule cuts them is found afterwards. Sums are 64-bit integers and the
rest are single operations of IEEE doubles, so the result is the same on every device.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.kmeans.points import Points
from clquant.runtime import Kernel, LocalMemory, PreparedLaunch, Scope, Session

Int = npt.NDArray[np.int64]

# The kernel that finds where a rule cuts boxes.
KERNELS = {"wu": "cut_by_variance", "median-cut": "cut_at_median"}
# Numbers of a divided box and axis, as in `cl/kmeans/box_cut.cl`.
PART_NUMBERS = 5
# Most boxes of a round.
MOST_CHOSEN = 1 << 12


class _Boxes:
    """Boxes of points by number, 0 having all, and the halves of those that are cut."""

    def __init__(self, session: Session, scope: Scope, points: Points, rule: str) -> None:
        self._session, self._scope, self._rule = session, scope, rule
        coordinates, weights = points.to_host(session)
        n, self._dims = coordinates.shape
        places = coordinates.astype(np.uint16)
        records = np.zeros((n, 2 + 6), np.uint16)
        records[:, :4] = weights[:, None].view(np.uint16)
        records[:, 4 : 4 + self._dims] = places
        self._orders = scope.empty(8 * self._dims * n)
        session.write(self._orders, np.argsort(places.T, axis=1, kind="stable").astype(np.uint32))
        given = {"records": scope.copy_of(records), "n": np.uint32(n), "all_orders": self._orders}
        self._chosen, self._cut = scope.empty(16 * MOST_CHOSEN), scope.empty(40 * self._dims * MOST_CHOSEN)
        given |= {"boxes": self._chosen, "cuts": scope.empty(16 * self._dims * MOST_CHOSEN)}
        program = session.program("kmeans/box_cut.cl", DIMS=self._dims)
        self._find = self._prepared(program.kernel(KERNELS[rule]), given)
        self._divide = self._prepared(program.kernel("divide_boxes"), {**given, "parts": self._cut})
        # By box: its first place and points in the orders, and which of two tables these are in; the number of its
        # first half, which the second one follows, or 0; weight, weighted coordinates, weighted squares of each axis;
        # length along each axis.
        self._where: Int = np.array([[0, n, 0]])
        self._parts: Int = np.zeros(1, np.int64)
        self._moments: Int = np.concatenate([weights.sum()[None], weights @ coordinates, weights @ coordinates**2])[
            None
        ]
        self._sides: Int = np.ptp(coordinates, axis=0)[None]

    def _prepared(self, kernel: Kernel, given: dict[str, Any]) -> PreparedLaunch:
        per_item = 8 * (1 + self._dims)
        group = self._session.work_group_size(kernel, self._session.tuned("kmeans.box_group"), per_item)
        return self._session.prepare(self._scope, kernel, group, group, **given, room=LocalMemory(per_item * group))

    def means(self, numbers: list[int]) -> Int:
        """(numbers, dims), rounded half up."""
        return _means(*self._sums(self._moments[numbers])[:2])

    def _urgencies(self) -> npt.NDArray[np.float64]:
        """(boxes,): the box of the highest is cut next; one of a single point never, as there are enough points."""
        if self._rule == "wu":
            mass, sums, squares = self._sums(self._moments)
            means = _means(mass, sums)
            # From the rounded means: below 2^63, though terms may be more and wrap.
            found = (squares + means * (means * mass - 2 * sums)).sum(axis=1)
        else:
            found = self._sides.max(axis=1)
        return np.where(self._where[:, 1] == 1, -1.0, found.astype(np.float64))

    def _sums(self, moments: Int) -> tuple[Int, Int, Int]:
        return moments[:, :1], moments[:, 1 : 1 + self._dims], moments[:, 1 + self._dims :]

    def cut(self, wanted: int) -> None:
        """Cut boxes until the `wanted` most urgent ones, or all, are cut."""
        while True:
            urgent = np.argsort(-self._urgencies(), kind="stable")[:wanted]
            chosen = urgent[(self._parts[urgent] == 0) & (self._where[urgent, 1] > 1)][:MOST_CHOSEN]
            if not len(chosen):
                return
            self._halve(chosen)

    def _halve(self, chosen: npt.NDArray[np.intp]) -> None:
        """Cut some boxes in two."""
        count, dims = len(chosen), self._dims
        where, axes = self._where[chosen], self._sides[chosen].argmax(axis=1)
        self._session.write(self._chosen, np.column_stack([where, axes]).astype(np.uint32))
        self._find.queue(count * (dims if self._rule == "wu" else 1))
        self._divide.queue(count * dims)
        found = self._session.download(self._cut, (count, dims, PART_NUMBERS), np.int64)
        points, halves = found[:, 0, 0], np.arange(count) * 2 + len(self._parts)
        first = np.concatenate([found[:, 0, 1:2], found[:, :, 2], found[:, :, 3]], axis=1)
        sides = np.stack([found[:, :, 4] & 0xFFFFFFFF, found[:, :, 4] >> 32], axis=1)
        places = [where[:, 0], points, 1 - where[:, 2]], [where[:, 0] + points, where[:, 1] - points, 1 - where[:, 2]]
        self._parts[chosen] = halves
        self._parts = np.append(self._parts, np.zeros(2 * count, np.int64))
        both = np.stack([first, self._moments[chosen] - first], axis=1)
        self._moments = np.concatenate([self._moments, both.reshape(2 * count, -1)])
        self._sides = np.concatenate([self._sides, sides.reshape(2 * count, dims)])
        self._where = np.concatenate([self._where, np.array(places).transpose(2, 0, 1).reshape(2 * count, 3)])

    def by_rule(self, k: int) -> list[int] | None:
        """The numbers of the rule's k boxes, in the order in which they arise; None if some are lacking."""
        urgencies, parts = self._urgencies().tolist(), self._parts.tolist()
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


def _means(mass: Int, sums: Int) -> Int:
    means: Int = (2 * sums + mass) // (2 * mass)
    return means


def box_centers(session: Session, points: Points, k: int, rule: str) -> Int:
    """Return the means of k boxes, (k, dims) int64 rounded half up, in the order in which the boxes arose."""
    # "median-cut" cuts the box of the longest side there at its weighted median; "wu" cuts the box of the largest sum
    # of squared differences across the axis, and at the place, where the least of it remains. Ties go to the lowest
    # axis, the earliest box, and the lowest place.
    with session.scope() as scope:
        boxes, wanted = _Boxes(session, scope, points, rule), k - 1
        while True:
            boxes.cut(wanted)
            found = boxes.by_rule(k)
            if found is not None:
                return boxes.means(found)
            wanted = min(2 * wanted, points.n)  # a half is more urgent than its box by rounding
