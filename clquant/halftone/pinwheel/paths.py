"""Scan paths of a block and the table of where each pixel's error goes.

Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin and Owens, "A Parallel Error Diffusion Implementation on a GPU",
section 2 and figures 1 to 3: outward blocks scan from their centre to their rim and diffuse into the inward blocks
around them, which scan from rim to centre; four weights per pixel, fewer toward an inward centre.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

OUTWARD, INWARD = 0, 1
SCANS = ("spiral", "serpentine")
ANGLES = (0, 45, 90, 135, 180)
FLOYD_STEINBERG = {0: 7, 45: 1, 90: 5, 135: 3, 180: 5}
NO_ANGLE = -1
EXTRA = 3

_STEPS = np.array([(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)], np.int32)
_TURNS = np.array([1, 2, 3, 4, -3, -2, -1])  # eighths, off the scan's direction


@dataclass(frozen=True)
class Path:
    """The scan of one phase of an N x N block."""

    # Where the error that reached pixel k waits is its slot: about 4 N slots at most, not N * N, because an error waits
    # one turn of the spiral. `forward` is (dy, dx) of the receiver of the last pixel's forward share: a pixel of a
    # neighbouring inward block for an outward block; (0, 0), none, for an inward block. Every other pixel's goes to
    # pixel k + 1. The last slot of all takes the shares of receivers that do not exist (always zero) and stands for
    # pixels that nobody feeds. `rim_slots`, outward: where the error for the pixel beyond side s at coordinate i waits
    # at the end, at index s * N + i (sides: above, right, below, left). Inward: the slot of the block's own rim pixel
    # on that side.

    block_size: int  # N, 2 to 64
    phase: int  # `OUTWARD` or `INWARD`
    y: NDArray[np.int32]  # (N * N,), of the k-th pixel within the block
    x: NDArray[np.int32]  # likewise
    forward: NDArray[np.int32]  # (2,)
    offsets: NDArray[np.int32]  # (N * N, 3, 2), (dy, dx) of the three further receivers; (0, 0) where there is none
    kinds: tuple[tuple[int, int, int], ...]  # distinct triples of receiver angles, degrees off the scan, or `NO_ANGLE`
    kind: NDArray[np.int32]  # (N * N,), which of `kinds` a pixel has
    slot: NDArray[np.int32]  # (N * N,)
    receiver_slots: NDArray[np.int32]  # (N * N, 3), where the three further shares are added
    rim_slots: NDArray[np.int32]  # (4 * N,)
    slots: int


def _spiral(size: int) -> NDArray[np.int64]:
    """Number of each pixel on the way clockwise from the upper left corner to the centre, (N, N)."""
    y, x = np.indices((size, size))
    ring = np.minimum(np.minimum(y, x), size - 1 - np.maximum(y, x))
    side = size - 1 - 2 * ring  # steps along a side of the ring
    down, across = y - ring, x - ring
    there = down + across  # on the upper and the right side
    is_back = (there > side) & (across < side) | (across == 0) & (down > 0)
    return np.asarray(size**2 - (side + 1) ** 2 + np.where(is_back, 4 * side - there, there))


def _serpentine(size: int) -> NDArray[np.int64]:
    """Number of each pixel in rows from the last to the first, alternately to the left and to the right, (N, N)."""
    y, x = np.indices((size, size))
    return np.asarray((size - 1 - y) * size + np.where(y % 2 == 0, x, size - 1 - x))


def _numbers(size: int, scan: str, phase: int) -> NDArray[np.int64]:
    """When a pixel is scanned, (N + 2, N + 2) with a rim: pixels that are given nothing have -1."""
    # An outward block gives to the inward blocks beyond its sides, whose pixels come later, but not beyond its corners.
    inward = _spiral(size) if scan == "spiral" else _serpentine(size)
    number = np.full((size + 2, size + 2), -1)
    if phase == OUTWARD:
        number[1:-1] = number[:, 1:-1] = size**2
    number[1:-1, 1:-1] = inward if phase == INWARD else size**2 - 1 - inward
    if phase == OUTWARD:
        number[[0, 0, -1, -1], [0, -1, 0, -1]] = -1
    return number


def _receivers(
    y: NDArray[np.int32], x: NDArray[np.int32], direction: NDArray[np.int64], number: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the angles of up to three receivers besides the forward one, (N * N, 3), and their (dy, dx)."""
    # The later neighbours of the greatest Floyd-Steinberg weight; ties go to the side of the scan with more weight,
    # then to the smaller angle.
    step = (direction[:, None] + _TURNS) % 8
    where = np.stack([y, x], axis=1)[:, None] + 1 + _STEPS[step]
    permitted = number[where[..., 0], where[..., 1]] > np.arange(y.size)[:, None]
    angle = 45 * np.abs(_TURNS)
    weight = np.array([FLOYD_STEINBERG[a] for a in angle.tolist()])
    of_side = np.where(permitted & (angle < 180), weight, 0)
    is_main = of_side[:, _TURNS > 0].sum(axis=1) >= of_side[:, _TURNS < 0].sum(axis=1)
    is_minor = (_TURNS > 0) != is_main[:, None]
    rank = (16 * (16 - weight) + is_minor) * 16 + angle // 45
    chosen = np.argsort(np.where(permitted, rank, 1 << 16), axis=1, kind="stable")[:, :EXTRA]
    order = np.where(permitted, 2 * angle + is_minor, 1 << 16)
    chosen = np.take_along_axis(chosen, np.argsort(np.take_along_axis(order, chosen, 1), axis=1, kind="stable"), 1)
    is_there = np.take_along_axis(permitted, chosen, 1)
    angles = np.where(is_there, angle[chosen], NO_ANGLE)
    return angles, np.where(is_there[..., None], _STEPS[np.take_along_axis(step, chosen, 1)], np.int32(0))


def _kinds(angles: NDArray[np.int64]) -> tuple[tuple[tuple[int, int, int], ...], NDArray[np.int32]]:
    """Distinct triples of angles in the order of their first pixels, and each pixel's."""
    triples, first, kind = np.unique(angles, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    kinds = tuple((int(a), int(b), int(c)) for a, b, c in triples[order])
    return kinds, np.argsort(order)[kind.reshape(-1)].astype(np.int32)


def _assign_slots(cells: list[int], givers: NDArray[np.int64], waiting: list[int], count: int) -> NDArray[np.int32]:
    """The slot in which each cell's error waits, from its first share to its reading; -1 if nothing reaches it.

    `cells` are the path's, `givers` each pixel's receivers, `waiting` those whose errors wait at first.
    """
    new = np.unique(givers[givers >= 0], return_index=True)
    giver = np.nonzero(givers >= 0)[0][new[1]]
    order = np.argsort(new[1])
    begins = np.searchsorted(giver[order], np.arange(len(cells) + 1)).tolist()
    fresh = new[0][order].tolist()
    slots, free, made = [-1] * count, list[int](), len(waiting)
    for slot, cell in enumerate(waiting):
        slots[cell] = slot
    for k, cell in enumerate(cells):
        if slots[cell] >= 0:
            heapq.heappush(free, slots[cell])
        for receiver in fresh[begins[k] : begins[k + 1]]:
            if slots[receiver] < 0:
                slots[receiver] = heapq.heappop(free) if free else made
                made += slots[receiver] == made
    return np.array(slots, np.int32)


def _rim(size: int, beyond: bool) -> NDArray[np.int64]:
    """Cells along the sides, (4 N,): those beyond the block, or its own there; above, right, below, left."""
    cell = np.arange((size + 2) ** 2).reshape(size + 2, size + 2)
    first, last = (0, size + 1) if beyond else (1, size)
    return np.concatenate([cell[first, 1:-1], cell[1:-1, last], cell[last, 1:-1], cell[1:-1, first]])


@lru_cache(maxsize=64)
def make_path(block_size: int, scan: str, phase: int) -> Path:
    """Build the path of one phase, cached with read-only arrays; the inward path is the outward one backwards."""
    number, pitch = _numbers(block_size, scan, phase), block_size + 2
    cells = np.argsort(number[1:-1, 1:-1], axis=None)
    y, x = (a.astype(np.int32) for a in np.divmod(cells, block_size))
    moves = np.stack([np.diff(y), np.diff(x)], axis=1)
    direction = (moves[:, None] == _STEPS).all(axis=2).argmax(axis=1)
    direction = np.append(direction, direction[-1])
    forward = _STEPS[direction[-1]] if phase == OUTWARD else np.zeros(2, np.int32)
    angles, offsets = _receivers(y, x, direction, number)
    kinds, kind = _kinds(angles)
    at = (y + 1) * pitch + x + 1
    givers = np.where(angles == NO_ANGLE, -1, at[:, None] + offsets @ np.array([pitch, 1]))
    last = at[-1] + forward @ np.array([pitch, 1])
    rim = _rim(block_size, phase == OUTWARD)
    waiting = at[np.isin(at, rim)] if phase == INWARD else at[:0]
    ends = np.append(givers, [[last if phase == OUTWARD else -1, -1, -1]], axis=0)
    slots = _assign_slots([*at.tolist(), 0], ends, waiting.tolist(), pitch**2)
    made = int(slots.max()) + 1
    slots[slots < 0] = made
    path = Path(
        block_size=block_size,
        phase=phase,
        y=y,
        x=x,
        forward=forward.copy(),
        offsets=offsets,
        kinds=kinds,
        kind=kind,
        slot=slots[at],
        receiver_slots=np.where(givers < 0, made, slots[givers]).astype(np.int32),
        rim_slots=slots[rim],
        slots=made + 1,
    )
    for value in vars(path).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return path
