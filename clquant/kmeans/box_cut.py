"""Starting centers by cutting boxes of weighted points in two, again and again: median cut, and Wu's least variance.

The kernels, with the sources, are in `cl/kmeans/box_cut.cl`. A launch cuts all boxes that may be among the k - 1 that
the rule cuts; the order in which it cuts them is found on the host. Sums are 64-bit integers and the rest are single
operations of IEEE doubles, so the result is the same on every device.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from clquant.kmeans.points import GROUP, Points
from clquant.runtime import Buffer, LocalMemory, Scope, Session

Int = npt.NDArray[np.int64]

# As in `cl/kmeans/box_cut.cl`.
DIGITS = 64
STATISTICS = 5
KERNELS = {"wu": "cut_by_variance", "median-cut": "cut_at_median"}


class _Boxes:
    """All boxes that arose so far, by numbers in the order in which the device made them; box 0 has all points.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the buffers.
    points : Points
    rule : str

    Attributes
    ----------
    sizes : list of int
        Points of each.
    urgencies : list of float
        The box of the highest is cut next.
    parts : dict of int to (int, int)
        Both parts of each box that is cut.
    """

    def __init__(self, session: Session, scope: Scope, points: Points, rule: str) -> None:
        self._session, self._scope, self._rule = session, scope, rule
        self._dims, n = points.space.dims, points.n
        self._program = session.program("kmeans/box_cut.cl", DIMS=self._dims, **points.weight_constants)
        self._n, self._records, self._orders = np.uint32(n), scope.empty(16 * n), scope.empty(8 * self._dims * n)
        kernel = self._program.kernel("record_points")
        given = points.coordinates, np.uint32(points.stride), points.weights, self._n, self._records
        session.launch(kernel, n, session.work_group_size(kernel, GROUP), *given)
        names = ("order_points", KERNELS[rule], "divide_boxes")
        wanted, bytes_per_item = session.tuned("kmeans.box_group"), 8 * (1 + self._dims)
        kernels = [self._program.kernel(name) for name in names]
        self._group = min(session.work_group_size(each, wanted, bytes_per_item) for each in kernels)
        counts = scope.empty(4 * self._dims * DIGITS * self._group)
        self._launch("order_points", 1, self._orders, counts)
        self.sizes: list[int] = []
        self.urgencies: list[float] = []
        self.parts: dict[int, tuple[int, int]] = {}
        # Of each box: its first place, its points, and which table of orders they are in.
        self._places = np.zeros((0, 3), np.int64)
        # Its weight, weighted coordinates, and weighted squares of all axes.
        self._moments = np.zeros((0, 2 + self._dims), np.int64)
        everything = np.zeros((1, self._dims, 2), np.uint64)
        everything[0, 0] = 1, n  # before the cut; nothing is after it
        places = np.array([[0, n, 0]])
        first, sides, _ = self._divide(places, scope.copy_of(_padded(places)), scope.copy_of(everything))
        self._add(places ^ (0, 0, 1), first, sides[:, 0])

    def cut(self, numbers: list[int]) -> None:
        """Cut boxes of several points.

        Parameters
        ----------
        numbers : list of int
        """
        places, count = self._places[numbers], len(numbers)
        with self._session.scope() as scope:
            boxes, cuts = scope.copy_of(_padded(places)), scope.empty(16 * self._dims * count)
            self._launch(KERNELS[self._rule], count, self._orders, boxes, cuts)
            first, sides, sizes = self._divide(places, boxes, cuts)
        start, size, table = places.T
        ends = [(start, sizes, 1 - table), (start + sizes, size - sizes, 1 - table)]
        made = len(self.sizes)
        self._add(np.stack(ends[0], axis=1), first, sides[:, 0])
        self._add(np.stack(ends[1], axis=1), self._moments[numbers] - first, sides[:, 1])
        self.parts.update((box, (made + i, made + count + i)) for i, box in enumerate(numbers))

    def cut_most_urgent(self, count: int) -> None:
        """Cut boxes and their parts until the `count` most urgent ones of all are cut, the first of equals.

        These are what the rule cuts, if parts are less urgent than their box and no two boxes are as urgent.

        Parameters
        ----------
        count : int
        """
        while True:
            first = np.argsort(-np.array(self.urgencies), kind="stable")[:count].tolist()
            numbers = [box for box in first if box not in self.parts and self.sizes[box] > 1]
            if not numbers:
                return
            self.cut(numbers)

    def means(self, numbers: list[int]) -> Int:
        """(boxes, dims), rounded half up."""
        return _means(self._moments[numbers])

    def _launch(self, kernel: str, boxes: int, *args: Buffer) -> None:
        """Queue a kernel that has a work-group for each box and axis."""
        sizes, group = (boxes * self._group, self._dims), (self._group, 1)
        given = self._records, self._n, *args, LocalMemory(8 * (1 + self._dims) * self._group)
        self._session.launch(self._program.kernel(kernel), sizes, group, *given)

    def _divide(self, places: Int, boxes: Buffer, cuts: Buffer) -> tuple[Int, Int, Int]:
        """Move the points of boxes: moments of first parts, (boxes, 2) longest sides of both, sizes of first parts."""
        with self._session.scope() as scope:
            shape = len(places), self._dims, STATISTICS
            statistics = scope.empty(8 * int(np.prod(shape)))
            self._launch("divide_boxes", len(places), self._orders, boxes, cuts, statistics)
            found = self._session.download(statistics, shape, np.uint64).view(np.int64)
        moments = np.column_stack([found[:, 0, 1], found[:, :, 2], found[:, :, 3].sum(axis=1)])
        ends = found[:, :, 4:].copy().view(np.uint16).astype(np.int64)
        return moments, (ends[:, :, 1::2] - ends[:, :, ::2]).max(axis=1), found[:, 0, 0]

    def _add(self, places: Int, moments: Int, sides: Int) -> None:
        self._places = np.concatenate([self._places, places])
        self._moments = np.concatenate([self._moments, moments])
        urgencies = _squared_differences(moments) if self._rule == "wu" else sides
        self.sizes += places[:, 1].tolist()
        self.urgencies += np.where(places[:, 1] == 1, -1.0, urgencies.astype(np.float64)).tolist()


def _padded(places: Int) -> npt.NDArray[np.uint32]:
    """(boxes, 4), as kernels take them."""
    return np.pad(places, ((0, 0), (0, 1))).astype(np.uint32)


def _means(moments: Int) -> Int:
    mass = moments[:, :1]
    means: Int = (2 * moments[:, 1:-1] + mass) // (2 * mass)
    return means


def _squared_differences(moments: Int) -> Int:
    """From the rounded means: below 2^63, though terms may be more and wrap."""
    means = _means(moments)
    moved: Int = (means * (means * moments[:, :1] - 2 * moments[:, 1:-1])).sum(axis=1)
    return moments[:, -1] + moved


def box_centers(session: Session, points: Points, k: int, rule: str) -> Int:
    """Means of k boxes.

    Parameters
    ----------
    session : Session
    points : Points
        At least k.
    k : int
        From 1 up.
    rule : str
        ``"median-cut"``: the box of the longest side is cut there at its weighted median.
        ``"wu"``: the box of the largest sum of squared differences is cut across the axis, and at the place, where the
        least of it remains.

    Returns
    -------
    ndarray
        (k, dims) int64, rounded half up, in the order in which the boxes arose. Ties go to the lowest axis, the
        earliest box, and the lowest place.
    """
    with session.scope() as scope:
        made = _Boxes(session, scope, points, rule)
        made.cut_most_urgent(k - 1)
        boxes = [0]
        queue = [(-made.urgencies[0], 0)]
        while len(boxes) < k:
            if boxes[queue[0][1]] not in made.parts:
                # At most these are cut before any other box that is there.
                next_boxes = [boxes[index] for _, index in heapq.nsmallest(k - len(boxes), queue)]
                made.cut([box for box in next_boxes if box not in made.parts and made.sizes[box] > 1])
            _, index = heapq.heappop(queue)
            boxes[index], second = made.parts[boxes[index]]
            boxes.append(second)
            for place in (index, len(boxes) - 1):
                heapq.heappush(queue, (-made.urgencies[boxes[place]], place))
        return made.means(boxes)
