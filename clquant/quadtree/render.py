"""Pictures of a tree: leaves in their means, outlines, one frame per level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params, runtime
from clquant.quadtree.geometry import MAX_CHANNELS
from clquant.quadtree.leaf_list import LeafList, LeafRun, square_side
from clquant.runtime import InvalidArgument, InvalidType

Pixels = npt.NDArray[np.uint8]
GROUP = 64


def outlined(session: runtime.Session, leaves: LeafList, image: Any, color: Any) -> Pixels:
    """Return the borders over a picture, or with None over the leaves' means; (H, W, 3)."""
    base = None
    if image is not None:
        base = images.read(image, max_channels=MAX_CHANNELS, takes_rows=True).array
        if base is None:
            raise InvalidType(f"image is {params.shown(image)}; allowed: a picture on the host")
        if base.shape[:2] != (leaves.height, leaves.width):
            raise InvalidArgument(f"image has the shape {base.shape}; allowed: {leaves.height} x {leaves.width} pixels")
    if not isinstance(color, tuple | list) or len(color) != 3:
        raise InvalidArgument(f"color is {params.shown(color)}; allowed: three integers from 0 to 255")
    ink = [params.integer(f"color[{i}]", value, 0, 255) for i, value in enumerate(color)]
    return paint(session, leaves, ink, base)


def paint(
    session: runtime.Session, leaves: LeafList, ink: list[int] | None = None, base: Pixels | None = None
) -> Pixels:
    """Return the leaves' picture, (H, W, C); with RGB ink (H, W, 3) with borders, over `base` if it is given."""
    out = leaves.channels if ink is None else 3
    under = 0 if base is None else base.shape[2]
    pieces = list(leaves.pieces(session, out + under))
    if len(pieces) == 1:
        whole = runtime.HostResult(session, (leaves.height, leaves.width, out), np.uint8)
        with session.scope() as scope:
            target = whole.room(scope, 0, leaves.height)
            _launch(session, scope, pieces[0], leaves.channels, ink, base, target)
            whole.store(scope, 0, leaves.height, target)
        return whole.array()
    picture = np.empty((leaves.height, leaves.width, out), np.uint8)
    for piece in pieces:
        place = np.s_[piece.top : piece.top + piece.height, piece.left : piece.left + piece.width]
        picture[place] = paint_piece(session, piece, leaves.channels, ink, None if base is None else base[place])
    return picture


def paint_piece(
    session: runtime.Session,
    piece: LeafRun,
    channels: int,
    ink: Sequence[int] | None = None,
    base: Pixels | None = None,
) -> Pixels:
    """Return a piece of the leaves' picture, as `paint`."""
    out = channels if ink is None else 3
    with session.scope() as scope:
        target = scope.empty(piece.height * piece.width * out)
        _launch(session, scope, piece, channels, ink, base, target)
        return session.download(target, (piece.height, piece.width, out), np.uint8)


def _launch(
    session: runtime.Session,
    scope: runtime.Scope,
    piece: LeafRun,
    channels: int,
    ink: Sequence[int] | None,
    base: Pixels | None,
    target: runtime.Buffer,
) -> None:
    side, under = square_side(session), 0 if base is None else base.shape[2]
    constants = {"CHANNELS": channels, "OUT": channels if ink is None else 3, "OUTLINE": int(ink is not None)}
    kernel = session.program("quadtree/render.cl", **constants, BASE=under, SQUARE=side).kernel("quadtree_paint")
    packed = sum(value << 8 * c for c, value in enumerate(ink or ()))
    below = scope.empty(1) if base is None else scope.upload(np.ascontiguousarray(base))
    group = 1 if session.limits.is_cpu else session.work_group_size(kernel, GROUP)
    given = (below, np.uint32(packed), target)
    session.launch(kernel, piece.squares(side), group, *piece.arguments(scope), *given)
