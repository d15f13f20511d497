"""Scan paths of a block and the table of where each pixel's error goes.

Source: Zhang, Recker, Ulichney, Beretta, Tastl, Lin and Owens, "A Parallel Error Diffusion Implementation on a GPU",
section 2 and figures 1 to 3: outward blocks scan from their centre to their rim and diffuse into the inward blocks
around them, which scan from rim to centre; four weights per pixel, fewer toward an inward centre.
"""

from __future__ import annotations

import heapq
import itertools
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

Cell = tuple[int, int]
_STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))


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


def _spiral(size: int) -> list[Cell]:
    """Clockwise from the upper left corner to the centre."""
    top, left, bottom, right = 0, 0, size - 1, size - 1
    cells: list[Cell] = []
    while top <= bottom and left <= right:
        cells += [(top, x) for x in range(left, right + 1)]
        cells += [(y, right) for y in range(top + 1, bottom + 1)]
        if top < bottom:
            cells += [(bottom, x) for x in range(right - 1, left - 1, -1)]
        if left < right:
            cells += [(y, left) for y in range(bottom - 1, top, -1)]
        top, left, bottom, right = top + 1, left + 1, bottom - 1, right - 1
    return cells


def _serpentine(size: int) -> list[Cell]:
    """Rows from the last to the first, alternately to the left and to the right."""
    rows = range(size - 1, -1, -1)
    return [(y, x) for y in rows for x in (range(size) if y % 2 == 0 else range(size - 1, -1, -1))]


def _side(y: int, x: int, size: int) -> int:
    """Rim index s * N + i of a pixel just outside the block, -1 where its block is of the same phase (or its own)."""
    if 0 <= x < size and (y == -1 or y == size):
        return x if y == -1 else 2 * size + x
    if 0 <= y < size and (x == -1 or x == size):
        return size + y if x == size else 3 * size + y
    return -1


def _receivers(cell: Cell, direction: int, permitted: set[Cell]) -> list[Cell]:
    """Return up to three (angle, step) receivers besides the forward one, in the order of their angles."""
    # The permitted neighbours of the greatest Floyd-Steinberg weight; ties go to the side of the scan with more weight,
    # then to the smaller angle.
    found: list[tuple[int, int, int]] = []
    for turn in (1, 2, 3, 4, -3, -2, -1):
        step = (direction + turn) % 8
        if (cell[0] + _STEPS[step][0], cell[1] + _STEPS[step][1]) in permitted:
            found.append((abs(turn) * 45, 1 if turn > 0 else -1, step))
    weight = {side: sum(FLOYD_STEINBERG[a] for a, s, _ in found if s == side and a < 180) for side in (1, -1)}
    main = 1 if weight[1] >= weight[-1] else -1
    best = sorted(found, key=lambda f: (-FLOYD_STEINBERG[f[0]], f[1] != main, f[0]))[:EXTRA]
    return [(a, step) for a, _, step in sorted(best, key=lambda f: (f[0], f[1] != main))]


def _give(
    size: int, phase: int, cells: list[Cell], steps: list[int]
) -> tuple[dict[tuple[int, ...], int], list[int], list[list[Cell]], list[list[Cell]]]:
    """Kinds of pixels, and each pixel's kind, receiver offsets (three) and receivers."""
    where = {cell: k for k, cell in enumerate(cells)}
    kinds: dict[tuple[int, ...], int] = {}
    kind, offsets, targets = [], [], []
    for k, (y, x) in enumerate(cells):
        around = {(y + dy, x + dx) for dy, dx in _STEPS}
        later = {c for c in around if where.get(c, -1) > k}
        if phase == OUTWARD:
            later |= {c for c in around if _side(*c, size) >= 0}
        chosen = _receivers((y, x), steps[k], later)
        angles = [a for a, _ in chosen] + [NO_ANGLE] * (EXTRA - len(chosen))
        kind.append(kinds.setdefault(tuple(angles), len(kinds)))
        moves = [_STEPS[step] for _, step in chosen]
        offsets.append(moves + [(0, 0)] * (EXTRA - len(moves)))
        targets.append([(y + dy, x + dx) for dy, dx in moves])
    return kinds, kind, offsets, targets


def _assign_slots(
    size: int,
    phase: int,
    cells: list[Cell],
    targets: list[list[Cell]],
    last: Cell,
) -> tuple[list[int], list[list[int]], list[int], int]:
    """Give each waiting error a slot from its first share to its reading (linear scan over the path)."""
    count = size * size
    free: list[int] = []
    made = 0
    held: dict[Cell, int] = {}

    def take(cell: Cell) -> int:
        nonlocal made
        if cell not in held:
            if free:
                held[cell] = heapq.heappop(free)
            else:
                held[cell] = made
                made += 1
        return held[cell]

    if phase == INWARD:
        for cell in cells:
            if cell[0] in (0, size - 1) or cell[1] in (0, size - 1):
                take(cell)
    rim_cells = [(-1, i) for i in range(size)] + [(i, size) for i in range(size)]
    rim_cells += [(size, i) for i in range(size)] + [(i, -1) for i in range(size)]
    inner = [(min(max(y, 0), size - 1), min(max(x, 0), size - 1)) for y, x in rim_cells]
    rim = [held[cell] for cell in inner] if phase == INWARD else []
    own: list[int] = []
    given: list[list[int]] = []
    for k in range(count):
        slot = held.pop(cells[k], -1)
        own.append(slot)
        if slot >= 0:
            heapq.heappush(free, slot)
        given.append([take(cell) for cell in targets[k]])
    if phase == OUTWARD:
        take(last)
        rim = [held.get(cell, -1) for cell in rim_cells]
    return own, given, rim, made


def _beyond(slots: list[int], unused: int) -> NDArray[np.int32]:
    return np.array([unused if s < 0 else s for s in slots], np.int32)


@lru_cache(maxsize=64)
def make_path(block_size: int, scan: str, phase: int) -> Path:
    """Build the path of one phase, cached with read-only arrays; the inward path is the outward one backwards."""
    inward = _spiral(block_size) if scan == "spiral" else _serpentine(block_size)
    cells = inward if phase == INWARD else inward[::-1]
    steps = [_STEPS.index((b[0] - a[0], b[1] - a[1])) for a, b in itertools.pairwise(cells)]
    steps.append(steps[-1])
    kinds, kind, offsets, targets = _give(block_size, phase, cells, steps)
    y, x = cells[-1]
    forward = _STEPS[steps[-1]] if phase == OUTWARD else (0, 0)
    own, given, rim, made = _assign_slots(block_size, phase, cells, targets, (y + forward[0], x + forward[1]))
    columns = np.array(cells, np.int32)
    path = Path(
        block_size=block_size,
        phase=phase,
        y=columns[:, 0].copy(),
        x=columns[:, 1].copy(),
        forward=np.array(forward, np.int32),
        offsets=np.array(offsets, np.int32),
        kinds=tuple((a[0], a[1], a[2]) for a in kinds),
        kind=np.array(kind, np.int32),
        slot=_beyond(own, made),
        receiver_slots=np.array([(g + [made] * EXTRA)[:EXTRA] for g in given], np.int32),
        rim_slots=_beyond(rim, made),
        slots=made + 1,
    )
    for value in vars(path).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return path
