"""Statistics of all levels of a quadtree: ours, and the way one writes them with NumPy and with Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl.array

from benchmarks.harness import Picture, peer
from clquant import images, runtime
from clquant.quadtree import criteria, geometry
from clquant.quadtree.plan import Plan, Region
from clquant.quadtree.subtree import Subtree

NUMBA = peer("numba")
THRESHOLD = 13
Level = tuple[Any, Any, Any]  # sums, squares, whether uniform


def reduction(queue: runtime.CommandQueue, picture: Picture) -> Callable[[], int]:
    """Exact statistics of all levels of a picture that is on the device; gives the bytes that they take there."""
    session = runtime.open_session(queue)
    height, width, channels = picture.shape
    on_device = pyopencl.array.to_device(queue, picture)
    criterion = criteria.check(THRESHOLD, "deviation", None, 1, None, picture.shape)
    level = geometry.root_level(height, width)
    region = Region(images.buffer_of(on_device), 0, width * channels, height, width, 0, 0, level)

    def call() -> int:
        with session.scope() as scope:
            subtree = Subtree(Plan(session, region, channels, criterion), scope, store_low=True)
            subtree.reduce()
            session.finish()
            assert on_device.size  # the pixels outlive the kernels
            return sum(buffer.size for buffer in subtree.buffers.values())

    return call


def with_numpy(picture: Picture, threshold: int) -> list[Level]:
    """Every level above the pixels, of a square picture whose side is a power of two."""
    sums, squares, levels, n = picture.astype(np.uint64), picture.astype(np.uint64) ** 2, [], 1
    while len(sums) > 1:
        n *= 4
        sums, squares = (a[::2, ::2] + a[::2, 1::2] + a[1::2, ::2] + a[1::2, 1::2] for a in (sums, squares))
        uniform = (np.uint64(n) * squares - sums * sums <= threshold**2 * n * n).all(-1)
        levels.append((sums, squares, uniform))
    return levels


def with_numba(keep: bool = True) -> Callable[[Picture, int], list[Level]]:
    """The same on all cores: one fused pass a level; its arrays are kept from call to call, or new ones as ours are."""
    assert NUMBA is not None
    numba = NUMBA

    @numba.njit(parallel=True)
    def first(image, sums, squares, uniform, limit):
        for y in numba.prange(uniform.shape[0]):
            above, below, sum_row, square_row = image[2 * y], image[2 * y + 1], sums[y], squares[y]
            for x in range(uniform.shape[1]):
                within = True
                for c in range(3):
                    a, b = np.uint32(above[2 * x, c]), np.uint32(above[2 * x + 1, c])
                    d, e = np.uint32(below[2 * x, c]), np.uint32(below[2 * x + 1, c])
                    s, q = a + b + d + e, a * a + b * b + d * d + e * e
                    sum_row[x, c], square_row[x, c] = s, q
                    within &= np.uint32(4) * q - s * s <= limit
                uniform[y, x] = within

    @numba.njit(parallel=True)
    def merge(from_sums, from_squares, sums, squares, uniform, n, limit):
        for y in numba.prange(uniform.shape[0]):
            for x in range(uniform.shape[1]):
                within = True
                for c in range(3):
                    s = from_sums[2 * y, 2 * x, c] + from_sums[2 * y, 2 * x + 1, c]
                    s += from_sums[2 * y + 1, 2 * x, c] + from_sums[2 * y + 1, 2 * x + 1, c]
                    q = from_squares[2 * y, 2 * x, c] + from_squares[2 * y, 2 * x + 1, c]
                    q += from_squares[2 * y + 1, 2 * x, c] + from_squares[2 * y + 1, 2 * x + 1, c]
                    sums[y, x, c], squares[y, x, c] = s, q
                    within &= n * np.uint64(q) - np.uint64(s) * np.uint64(s) <= limit
                uniform[y, x] = within

    kept: dict[int, list[Level]] = {}

    def build(picture: Picture, threshold: int) -> list[Level]:
        side = len(picture)
        if side not in kept or not keep:
            kept.clear()
            kept[side] = [
                (
                    np.empty((side >> k, side >> k, 3), np.uint32),
                    np.empty((side >> k, side >> k, 3), np.uint32 if k <= 8 else np.uint64),
                    np.empty((side >> k, side >> k), np.bool_),
                )
                for k in range(1, side.bit_length())
            ]
        levels = kept[side]
        first(picture, *levels[0], np.uint32(16 * threshold**2))
        for k in range(1, len(levels)):
            n = 4 ** (k + 1)
            merge(*levels[k - 1][:2], *levels[k], np.uint64(n), np.uint64(threshold**2 * n * n))
        return levels

    return build
