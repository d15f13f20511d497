"""Pictures of a tree: leaves in their means, outlines, one frame per level."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params, runtime
from clquant.quadtree.geometry import MAX_CHANNELS
from clquant.quadtree.leaf_list import LeafList, square_side
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
    side = square_side(session)
    constants = {"CHANNELS": leaves.channels, "OUT": out, "OUTLINE": int(ink is not None), "BASE": under}
    kernel = session.program("quadtree/render.cl", **constants, SQUARE=side).kernel("quadtree_paint")
    packed = sum(value << 8 * c for c, value in enumerate(ink or ()))
    shape = (leaves.height, leaves.width, out)
    whole = runtime.HostResult(session, shape, np.uint8) if len(pieces) == 1 else None
    picture = np.empty(shape, np.uint8) if whole is None else np.empty(0, np.uint8)
    for piece in pieces:
        with session.scope() as scope:
            place = np.s_[piece.top : piece.top + piece.height, piece.left : piece.left + piece.width]
            nbytes = piece.height * piece.width * out
            target = scope.empty(nbytes) if whole is None else whole.room(scope, 0, leaves.height)
            below = scope.empty(1) if base is None else scope.upload(np.ascontiguousarray(base[place]))
            given = (below, np.uint32(packed), target)
            group = 1 if session.limits.is_cpu else session.work_group_size(kernel, GROUP)
            session.launch(kernel, piece.squares(side), group, *piece.arguments(scope), *given)
            if whole is None:
                picture[place] = session.download(target, (piece.height, piece.width, out), np.uint8)
            else:
                whole.store(scope, 0, leaves.height, target)
    return picture if whole is None else whole.array()
