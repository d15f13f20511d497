"""Pictures of a tree: leaves in their means, outlines, one frame per level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params, runtime
from clquant.quadtree.geometry import MAX_CHANNELS
from clquant.quadtree.leaf_list import LeafList, square_side
from clquant.runtime import InvalidArgument, InvalidType

Pixels = npt.NDArray[np.uint8]
GROUP = 64


@dataclass(frozen=True)
class Paint:
    """Colours to paint leaves with."""

    ink: tuple[int, ...] | None = None  # RGB of the leaves' borders; None paints no borders
    base: Pixels | None = None  # (H, W, C), under the borders; None: the leaves' means


_LEAVES_ALONE = Paint()


def outline_paint(image: Any, color: Any, height: int, width: int) -> Paint:
    """Check the arguments of an outline; `image` None paints the leaves' means under the borders."""
    base = None
    if image is not None:
        base = images.read(image, max_channels=MAX_CHANNELS).array
        if base is None:
            raise InvalidType(f"image is {params.shown(image)}; allowed: a picture on the host")
        if base.shape[:2] != (height, width):
            raise InvalidArgument(f"image has the shape {base.shape}; allowed: {height} x {width} pixels")
    if not isinstance(color, tuple | list) or len(color) != 3:
        raise InvalidArgument(f"color is {params.shown(color)}; allowed: three integers from 0 to 255")
    ink = [params.integer(f"color[{i}]", value, 0, 255) for i, value in enumerate(color)]
    return Paint(tuple(ink), base)


def paint(session: runtime.Session, leaves: LeafList, how: Paint = _LEAVES_ALONE) -> Pixels:
    """Return the leaves' picture, (H, W, C), or (H, W, 3) with borders."""
    out = leaves.channels if how.ink is None else 3
    under = 0 if how.base is None else how.base.shape[2]
    pieces = list(leaves.pieces(session, out + under))
    side = square_side(session)
    constants = {"CHANNELS": leaves.channels, "OUT": out, "OUTLINE": int(how.ink is not None), "BASE": under}
    kernel = session.program("quadtree/render.cl", **constants, SQUARE=side).kernel("quadtree_paint")
    ink = sum(value << 8 * c for c, value in enumerate(how.ink or ()))
    shape = (leaves.height, leaves.width, out)
    whole = runtime.HostResult(session, shape, np.uint8) if len(pieces) == 1 else None
    picture = np.empty(shape, np.uint8) if whole is None else np.empty(0, np.uint8)
    for piece in pieces:
        with session.scope() as scope:
            place = np.s_[piece.top : piece.top + piece.height, piece.left : piece.left + piece.width]
            nbytes = piece.height * piece.width * out
            target = scope.empty(nbytes) if whole is None else whole.room(scope, 0, leaves.height)
            base = scope.empty(1) if how.base is None else scope.upload(np.ascontiguousarray(how.base[place]))
            given = (base, np.uint32(ink), target)
            group = 1 if session.limits.is_cpu else session.work_group_size(kernel, GROUP)
            session.launch(kernel, piece.squares(side), group, *piece.arguments(scope), *given)
            if whole is None:
                picture[place] = session.download(target, (piece.height, piece.width, out), np.uint8)
            else:
                whole.store(scope, 0, leaves.height, target)
    return picture if whole is None else whole.array()
