"""Figures of a list of leaves: nodes by level, the squared error of the picture that they paint, what they save."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.images import buffer_of
from clquant.quadtree.geometry import Integers, root_level
from clquant.quadtree.leaf_list import LeafList, LeafRun, square_side


def squared_error(session: runtime.Session, leaves: LeafList, pixels: npt.NDArray[np.uint8]) -> int:
    """Sum of squared differences between pixels (H, W, C) and the means of their leaves; exact."""
    error = 0
    for piece in leaves.pieces(session, leaves.channels):
        part = pixels[piece.top : piece.top + piece.height, piece.left : piece.left + piece.width]
        error += piece_error(session, piece, part)
    return error


def piece_error(session: runtime.Session, piece: LeafRun, pixels: npt.NDArray[np.uint8]) -> int:
    """Return the `squared_error` of a piece's own pixels."""
    kernel, side = _error_kernel(session, pixels.shape[2])
    with session.scope() as scope:
        total = runtime.Total(session, scope)
        sent = scope.upload(np.ascontiguousarray(pixels))
        total.launch(kernel, piece.squares(side), *piece.arguments(scope), sent, np.uint64(0))
        return total.value()


def decibels(error: int, values: int) -> float:
    """PSNR of a squared error over so many values; infinite for none."""
    return 10 * math.log10(255**2 * values / error) if error else math.inf


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
    constants = {"CHANNELS": channels, "SQUARE": side}
    return session.program("quadtree/figures.cl", **constants).kernel("quadtree_error"), side


def node_counts(leaves: LeafList) -> tuple[Integers, Integers]:
    """Leaves and forks by level, counted from the pixels, as far as the root's."""
    root, records = root_level(leaves.height, leaves.width), leaves.records
    # A fork begins where a leaf below its level has a corner that is a multiple of its side.
    corners = records["x"] | records["y"] | np.int32(1 << root)
    powers = 1 << np.arange(root + 1)
    own, begun = (np.bincount(side, minlength=powers[-1] + 1)[powers] for side in (records["size"], corners & -corners))
    forks = (np.cumsum(own) - own) - (np.cumsum(begun) - begun)
    return own, forks


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
        found["psnr"] = decibels(error, raw)
    return found
