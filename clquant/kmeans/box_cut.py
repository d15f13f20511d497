"""Starting centers by cutting boxes of weighted points in two, again and again: median cut, and Wu's least variance.

P. Heckbert, "Color image quantization for frame buffer display", SIGGRAPH 1982; X. Wu, "Efficient statistical
computations for optimal color quantization", Graphics Gems II, 1991. Sums are 64-bit integers and the rest are single
operations of IEEE doubles, so the result is the same on every host.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
_MANY = 1 << 12


@dataclass(frozen=True)
class _Box:
    """Some of the points.

    Attributes
    ----------
    orders : ndarray
        (dims, n): its points along each axis, those at the same place by their number.
    mass, squares : int
        Sums of weights, and of weights times squared coordinates over all axes.
    sums : tuple of int
        Sums of weights times coordinates.
    """

    orders: npt.NDArray[np.intp]
    mass: int
    sums: tuple[int, ...]
    squares: int

    @property
    def mean(self) -> tuple[int, ...]:
        """Rounded half up."""
        return tuple((2 * total + self.mass) // (2 * self.mass) for total in self.sums)

    @property
    def squared_differences(self) -> int:
        """From the rounded mean: below 2^63."""
        mean = self.mean
        moved = sum(m * (m * self.mass - 2 * s) for m, s in zip(mean, self.sums, strict=True))
        return self.squares + moved


class _Cutter:
    """Boxes of the same points.

    Parameters
    ----------
    points, weights : ndarray
        As `box_centers` takes them.
    by_variance : bool
        Whether boxes are cut by Wu's rule; else by Heckbert's.
    """

    def __init__(self, points: Int, weights: Int, by_variance: bool) -> None:
        self._places = np.ascontiguousarray(points.T)
        # Sums of these stay below 2^39 2^12, so they are exact in doubles; sums of squares need 63 bits.
        self._weights = weights.astype(np.float64)
        self._weighted = self._places * self._weights
        self._squares = (self._places**2 * weights).sum(axis=0)
        self._by_variance = by_variance
        self._is_first = np.zeros(len(points), np.bool_)

    def whole(self) -> _Box:
        """The box of all points."""
        # Of 16-bit numbers NumPy sorts digits, in a third of the time.
        return self._box(np.argsort(self._places.astype(np.uint16), axis=1, kind="stable"))

    def _box(self, orders: npt.NDArray[np.intp]) -> _Box:
        inside = orders[0]
        sums = tuple(int(weighted.take(inside).sum()) for weighted in self._weighted)
        return _Box(orders, int(self._weights.take(inside).sum()), sums, int(self._squares.take(inside).sum()))

    def urgency(self, box: _Box) -> float:
        """The box of the highest is cut next; one of a single point never, as there are enough points."""
        if box.orders.shape[1] == 1:
            return -1.0
        return float(box.squared_differences if self._by_variance else self._sides(box).max())

    def _sides(self, box: _Box) -> Int:
        axes = np.arange(len(self._places))
        sides: Int = self._places[axes, box.orders[:, -1]] - self._places[axes, box.orders[:, 0]]
        return sides

    def cut(self, box: _Box) -> tuple[_Box, _Box]:
        """The two parts of a box of several points."""
        axis, n = self._least_variance(box) if self._by_variance else self._median(box)
        first = box.orders[axis, :n]
        self._is_first[first] = True
        marks = self._is_first.take(box.orders)
        self._is_first[first] = False
        dims = len(box.orders)
        part = self._box(box.orders[marks].reshape(dims, -1))
        sums = tuple(whole - own for whole, own in zip(box.sums, part.sums, strict=True))
        rest = box.orders[~marks].reshape(dims, -1)
        return part, _Box(rest, box.mass - part.mass, sums, box.squares - part.squares)

    def _median(self, box: _Box) -> tuple[int, int]:
        """Along the longest side, ties to the lowest axis: the points up to the weighted median."""
        axis = int(np.argmax(self._sides(box)))
        passed = np.cumsum(self._weights.take(box.orders[axis]))
        n = int(np.searchsorted(2 * passed, passed[-1], side="left")) + 1
        return axis, min(max(n, 1), len(passed) - 1)

    def _least_variance(self, box: _Box) -> tuple[int, int]:
        """The axis and place where the least of the squared differences remains, ties to the lowest."""
        orders = box.orders[:, :-1]
        # Axis by axis, what is computed of many points stays in a cache; of few points calls take longest.
        parts = orders[:, None] if orders.shape[1] > _MANY else orders[None]
        best = [self._best_places(box, part) for part in parts]
        kept = np.concatenate([values for values, _ in best])
        axis = int(kept.argmax())
        return axis, int(np.concatenate([places for _, places in best])[axis]) + 1

    def _best_places(self, box: _Box, orders: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.float64], Int]:
        """For some orders of a box's points, (axes, n - 1): the most that a cut keeps, and after which point."""
        mass = self._weights.take(orders)
        np.cumsum(mass, axis=1, out=mass)
        rest = box.mass - mass
        # |sum|^2 / weight: what a part takes off the sum of squares when its mean stands for it.
        first = np.zeros(mass.shape)
        second = np.zeros(mass.shape)
        for weighted, total in zip(self._weighted, box.sums, strict=True):
            sums = weighted.take(orders)
            np.cumsum(sums, axis=1, out=sums)
            others = total - sums
            sums *= sums
            first += sums
            others *= others
            second += others
        first /= mass
        second /= rest
        first += second
        places = first.argmax(axis=1)
        return first[np.arange(len(places)), places], places


def box_centers(points: Int, weights: Int, k: int, rule: str) -> Int:
    """Means of k boxes.

    Parameters
    ----------
    points : ndarray
        (n, dims) int64, 0 to 2^12, with squared lengths below 2^24.
    weights : ndarray
        (n,) int64 above 0, adding up to at most 2^39.
    k : int
        1 to n.
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
    cutter = _Cutter(points, weights, by_variance=rule == "wu")
    boxes = [cutter.whole()]
    queue: list[tuple[float, int]] = [(-cutter.urgency(boxes[0]), 0)]
    while len(boxes) < k:
        _, index = heapq.heappop(queue)
        boxes[index], second = cutter.cut(boxes[index])
        boxes.append(second)
        for part in (index, len(boxes) - 1):
            heapq.heappush(queue, (-cutter.urgency(boxes[part]), part))
    return np.array([box.mean for box in boxes], np.int64)
