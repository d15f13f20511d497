"""Eight pixels per byte, for printers and e-paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import flow
from clquant.images import Picture
from clquant.runtime import Scope, Session


@dataclass(frozen=True)
class Packed(flow.Map):
    """Level numbers 0 and 1 as (H, ceil(W / 8)) bytes, the leftmost pixel in the highest bit, padded with 0."""

    block = (1, 8)
    takes_rows = True

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Rows of bytes."""
        return (picture.height, -(-picture.width // 8)), np.uint8

    def step(self, session: Session, scope: Scope, portion: flow.Portion) -> None:  # noqa: ARG002
        """Queue the packing of a band."""
        width = portion.picture.width
        kernel, columns = session.program("halftone/pinwheel/packing.cl").kernel("halftone_pack_bits"), -(-width // 8)
        items = columns, portion.row1 - portion.row0
        session.launch(kernel, items, None, portion.pixels, portion.out, np.int32(width), np.int32(columns))
