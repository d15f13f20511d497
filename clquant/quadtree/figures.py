"""Figures of a list of leaves: nodes by level, the squared error of the picture that they paint, what they save."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.images import buffer_of
from clquant.quadtree.geometry import Integers, root_level
from clquant.quadtree.leaf_list import LeafList, square_side

LEVELS = 17
GROUP = 64
ITEMS_PER_UNIT = 256


def squared_error(session: runtime.Session, leaves: LeafList, pixels: npt.NDArray[np.uint8]) -> int:
    """Sum of squared differences between pixels (H, W, C) and the means of their leaves; exact."""
    kernel, side = _error_kernel(session, leaves.channels)
    error = 0
    for piece in leaves.pieces(session, leaves.channels):
        with session.scope() as scope:
            total = runtime.Total(session, scope)
            part = pixels[piece.top : piece.top + piece.height, piece.left : piece.left + piece.width]
            sent = scope.upload(np.ascontiguousarray(part))
            total.launch(kernel, piece.squares(side), *piece.arguments(scope), sent, np.uint64(0))
            error += total.value()
    return error


def squared_error_on_device(session: runtime.Session, pixels: runtime.Array, leaves: runtime.Array) -> int:
    """Return `squared_error` of device arrays: pixels (H, W, C) and all of their leaves."""
    height, width, channels = pixels.shape
    kernel, side = _error_kernel(session, channels)
    squares = -(-height // side) * -(-width // side)
    numbers = [np.uint32(number) for number in (leaves.shape[0], 0, 0, width, height)]
    with session.scope() as scope:
        total = runtime.Total(session, scope)
        total.launch(kernel, squares, buffer_of(leaves), *numbers, buffer_of(pixels), np.uint64(pixels.offset))
        return total.value()


def _error_kernel(session: runtime.Session, channels: int) -> tuple[runtime.Kernel, int]:
    """The kernel, and the side of its squares."""
    side = square_side(session)
    constants = {"CHANNELS": channels, "SQUARE": side, "LEVELS": LEVELS}
    return session.program("quadtree/figures.cl", **constants).kernel("quadtree_error"), side


def node_counts(session: runtime.Session, leaves: LeafList) -> tuple[Integers, Integers]:
    """Leaves and forks by level, counted from the pixels, as far as the root's."""
    root, count = root_level(leaves.height, leaves.width), len(leaves.records)
    constants = {"CHANNELS": leaves.channels, "SQUARE": 1, "LEVELS": LEVELS}
    kernel = session.program("quadtree/figures.cl", **constants).kernel("quadtree_counts")
    record = leaves.records.dtype.itemsize
    most = max(1, min(session.limits.max_alloc // record - 1, 1 << 28))
    found = np.zeros(2 * LEVELS + 1, np.int64)
    for first in range(0, count, most):
        # The leaf before the first of a part says where the part's first forks begin.
        begin = max(first - 1, 0)
        part = leaves.records[begin : first + most]
        found += _counts(session, kernel, part.view(np.uint8), len(part), root)
        if begin < first:
            found -= _counts(session, kernel, part[:1].view(np.uint8), 1, root)
    return found[: root + 1], np.cumsum(found[LEVELS:-1])[: root + 1]


def _counts(
    session: runtime.Session, kernel: runtime.Kernel, records: npt.NDArray[np.uint8], count: int, root: int
) -> Integers:
    wanted = max(
        1, min(-(-count // 64), session.limits.compute_units * (16 if session.limits.is_cpu else ITEMS_PER_UNIT))
    )
    group = 1 if session.limits.is_cpu else min(session.work_group_size(kernel, GROUP), 1 << (wanted - 1).bit_length())
    items = -(-wanted // group) * group
    with session.scope() as scope:
        counts = scope.empty(4 * items * (2 * LEVELS + 1))
        session.launch(kernel, items, group, scope.upload(records), np.uint32(count), np.uint32(root), counts)
        made = session.download(counts, (items, 2 * LEVELS + 1), np.int32)
    return np.asarray(made.sum(axis=0, dtype=np.int64))


def savings(leaves: LeafList, forks: int, stored: int, error: int | None) -> dict[str, float | int]:
    """Compute the figures of `Quadtree.compression`; `stored` is in bytes, `error` None for an unknown picture."""
    pixels, count = leaves.height * leaves.width, len(leaves.records)
    raw = pixels * leaves.channels
    found: dict[str, float | int] = {
        "pixels": pixels,
        "leaves": count,
        "forks": forks,
        "pixels_per_leaf": pixels / count,
        "raw_bytes": raw,
        "file_bytes": stored,
        "ratio": raw / stored,
    }
    if error is not None:
        found["psnr"] = 10 * math.log10(255**2 * raw / error) if error else math.inf
    return found
