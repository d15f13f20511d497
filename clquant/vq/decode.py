"""Indices back to pixels on the device."""

from __future__ import annotations

import math

import numpy as np

from clquant.runtime import Buffer, Scope, Session
from clquant.training.blocks import BlockShape, Codebook
from clquant.training.search import index_type

MOST_BYTES = 256  # of the pixels that a work-item writes, which it holds in registers
_RUN = 256  # blocks that a work-item of a CPU copies


class Decoder:
    """Decodes index tables by one codebook; device memory belongs to a scope."""

    def __init__(
        self, session: Session, scope: Scope, codebook: Codebook, shape: BlockShape, trusted: bool = False
    ) -> None:
        self._session = session
        self._size = len(codebook)
        self.block = shape
        self._codebook = scope.upload(codebook)
        # Every number of a table's type is a codeword's where there are as many.
        self._checked = not trusted and self._size not in (256, 65536)
        self._wrong = scope.zeros(4) if self._checked else scope.empty(4)

    def decode(self, indices: Buffer, height: int, width: int, image: Buffer) -> None:
        """Queue the decoding of an index table, or of a band of one."""
        session, shape = self._session, self.block
        row_bytes = width * shape.channels
        pieces = _pieces(shape, row_bytes, session.limits.is_cpu)
        constants = {**shape.sides, **pieces, "CHECKED": int(self._checked)}
        kernel = session.program("vq/decode.cl", **constants, INDEX=index_type(self._size)).kernel("vq_decode")
        group = session.work_group_size(kernel, session.tuned("vq.decode_group"))
        across = min(group, 64)
        table = shape.table_shape(height, width)
        if pieces["RUN"]:
            across, items = 1, (-(-table[1] // pieces["RUN"]), table[0])
        else:
            items = -(-row_bytes // pieces["PIECE"]), table[0] if pieces["WHOLE"] else height
        sizes = (np.uint32(n) for n in (row_bytes, height, table[1], self._size - 1))
        given = (indices, self._codebook, image, *sizes, self._wrong)
        session.launch(kernel, items, (across, group // across), *given)

    def all_right(self) -> bool:
        """Whether every index decoded so far was a codeword's; waits for the decoding."""
        return not self._checked or not self._session.download(self._wrong, 1, np.uint32)[0]


def _pieces(shape: BlockShape, row_bytes: int, is_cpu: bool) -> dict[str, int]:
    """The kernel's PIECE, WHOLE, WIDE, CUT and RUN."""
    # Where rows begin anywhere, neighbouring work-items of GPUs write neighbouring bytes: measured on an NVIDIA H200,
    # 0.55 ms for 8190 x 8190 RGB, against 0.77 by whole blocks.
    across = shape.columns * shape.channels
    wide = next(n for n in (16, 4, 1) if row_bytes % n == 0)
    if is_cpu and (wide < 16 or across % 4):
        return {"PIECE": 1, "WHOLE": 0, "WIDE": 4, "CUT": 0, "RUN": _RUN}
    if across % 4 or shape.components % 16 or shape.components > MOST_BYTES or wide == 1:
        return {"PIECE": 1 if across % 4 else wide, "WHOLE": 0, "WIDE": 4, "CUT": 0, "RUN": 0}
    piece = math.lcm(16, across)
    if wide < 16 or piece * shape.rows > MOST_BYTES:
        piece, wide = across, min(wide, 4)
    return {"PIECE": piece, "WHOLE": 1, "WIDE": wide, "CUT": int(row_bytes % piece > 0), "RUN": 0}
