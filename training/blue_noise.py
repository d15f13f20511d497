"""Makes the blue-noise mask that the package ships: `python -m training.blue_noise`."""

from __future__ import annotations

import pathlib

import numpy as np
import numpy.typing as npt

import clquant
from clquant.dithering.threshold_maps import Mask

SHIPPED = pathlib.Path(clquant.__file__).parent / "dithering" / "blue_noise.npz"
SIDE = 64
SEED = 1
SIGMA = 1.5  # Ulichney's width of the filter
FIRST_SHARE = 10  # one pixel in this many is set at first


def void_and_cluster(side: int, seed: int) -> Mask:
    """A blue-noise mask, (side, side) int32, each of 0..side^2 - 1 once: every level set is spread evenly.

    The filter is in integers, so a seed gives the same mask everywhere; ties go to the first pixel in reading order.
    R. Ulichney, "The void-and-cluster method for dither array generation", Proc. SPIE 1913 (1993). His phase III looks
    for the tightest cluster of zeros; with a filter whose sum is constant that is the largest void of ones.
    """
    pattern = _Pattern(side)
    first = np.random.Generator(np.random.Philox(seed)).permutation(side * side)[: side * side // FIRST_SHARE]
    for place in first:
        pattern.put(int(place))
    while True:  # phase 0: move pixels from the tightest cluster into the largest void until nothing changes
        cluster = pattern.tightest_cluster()
        pattern.take(cluster)
        void = pattern.largest_void()
        pattern.put(void)
        if void == cluster:
            break
    rank = np.empty(side * side, np.int32)
    initial = pattern.copy()
    ones = int(pattern.set.sum())
    for value in range(ones - 1, -1, -1):
        cluster = initial.tightest_cluster()
        initial.take(cluster)
        rank[cluster] = value
    for value in range(ones, side * side):
        void = pattern.largest_void()
        pattern.put(void)
        rank[void] = value
    return rank.reshape(side, side)


class _Pattern:
    """Set pixels on a torus, and how crowded each place is."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.set = np.zeros(side * side, bool)
        self.energy = np.zeros((side, side), np.int64)
        apart = np.minimum(np.arange(side), side - np.arange(side)).astype(np.float64)
        bell = np.exp(-(apart[:, None] ** 2 + apart[None] ** 2) / (2 * SIGMA**2))
        self._bell = np.tile(np.rint(bell * 2**40).astype(np.int64), (2, 2))

    def copy(self) -> _Pattern:
        twin = _Pattern(self.side)
        twin.set, twin.energy = self.set.copy(), self.energy.copy()
        return twin

    def _around(self, place: int) -> npt.NDArray[np.int64]:
        row, column = divmod(place, self.side)
        return self._bell[self.side - row : 2 * self.side - row, self.side - column : 2 * self.side - column]

    def put(self, place: int) -> None:
        self.set[place] = True
        self.energy += self._around(place)

    def take(self, place: int) -> None:
        self.set[place] = False
        self.energy -= self._around(place)

    def tightest_cluster(self) -> int:
        return int(np.where(self.set, self.energy.ravel(), -1).argmax())

    def largest_void(self) -> int:
        return int(np.where(self.set, np.iinfo(np.int64).max, self.energy.ravel()).argmin())


if __name__ == "__main__":
    np.savez_compressed(SHIPPED, mask=void_and_cluster(SIDE, SEED).astype(np.uint16))
