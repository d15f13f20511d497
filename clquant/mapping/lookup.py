"""The colours of palette indices, looked up on the device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow
from clquant.color.palette import Palette
from clquant.images import Picture
from clquant.images.dark_values import warned_once
from clquant.runtime import Array, Buffer, CommandQueue, Scope, Session, bound

INDEX_TYPES = {1: "uchar", 2: "ushort"}
PIXELS_PER_ITEM = 4


class ColorLookup:
    """A palette's colours on the device."""

    def __init__(self, session: Session, scope: Scope, palette: Palette) -> None:
        self._session = session
        self._colors = scope.copy_of(np.ascontiguousarray(palette.rgba()).view(np.uint32))
        program = session.program(
            "mapping/lookup.cl",
            INDEX=INDEX_TYPES[palette.index_dtype.itemsize],
            OUT_CHANNELS=palette.colors.shape[1],
        )
        self._kernel = program.kernel("apply_palette")

    def apply(self, indices: Buffer, count: int, out: Buffer) -> None:
        """Queue the lookup of (count) indices into (count, 3) or (count, 4) uint8."""
        items = -(-count // PIXELS_PER_ITEM)
        group = self._session.work_group_size(self._kernel, self._session.tuned("mapping.group"))
        self._session.launch(self._kernel, items, group, indices, self._colors, out, np.uint64(count))


@dataclass(frozen=True)
class Looked(flow.Map):
    """Colours (H, W, 3 or 4) uint8 of a picture of indices."""

    palette: Palette
    takes_rows = True

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Colours (H, W, 3 or 4)."""
        return (picture.height, picture.width, self.palette.colors.shape[1]), np.uint8

    def open(self, session: Session, scope: Scope, picture: Picture) -> AbstractContextManager[flow.Steps]:  # noqa: ARG002
        """Bring the colours to the device."""
        lookup = ColorLookup(session, scope, self.palette)
        return nullcontext(
            flow.Steps(lambda _session, _scope, portion: lookup.apply(portion.pixels, portion.count, portion.out))
        )


def applied(chosen: Any, palette: Palette, queue: CommandQueue | None) -> Any:
    """Return the colours (H, W, 3 or 4) uint8 of indices (H, W) of the palette's dtype; on the device like these."""
    if not isinstance(chosen, Array) and chosen.size < bound("lookup.host"):
        return np.take(palette.colors, chosen, axis=0)
    with warned_once(before=True):  # indices are no picture of 16 bits
        return flow.run(Looked(palette), chosen, queue=queue)
