"""Indices back to pixels on the device."""

from __future__ import annotations

import numpy as np

from clquant.runtime import Buffer, InvalidArgument, Session
from clquant.vq.blocks import BlockShape
from clquant.vq.search import index_type


def decode(
    session: Session,
    indices: Buffer,
    codebook: Buffer,
    size: int,
    shape: BlockShape,
    height: int,
    width: int,
    image: Buffer,
) -> None:
    """Queue the decoding of an index table.

    Parameters
    ----------
    session : Session
    indices : pyopencl.Buffer
        Of `index_dtype(size)`, in raster order; each below `size`.
    codebook : pyopencl.Buffer
        size x K bytes.
    size : int
    shape : BlockShape
    height, width : int
        True size in pixels.
    image : pyopencl.Buffer
        Receives height x width x C bytes.
    """
    row_bytes = width * shape.channels
    words = shape.columns * shape.channels % 4 == 0
    piece = next(n for n in (16, 4, 1) if n == 1 or (words and row_bytes % n == 0))
    whole_blocks = piece == 16 and 16 % (shape.columns * shape.channels) == 0 and shape.components % 16 == 0
    constants = {"P": shape.rows, "Q": shape.columns, "C": shape.channels}
    program = session.program("vq_decode.cl", **constants, INDEX=index_type(size), PIECE=piece, WHOLE=int(whole_blocks))
    kernel = program.kernel("vq_decode")
    group = session.work_group_size(kernel, session.tuned("vq.decode_group"))
    across = min(group, 64)
    table = shape.table_shape(height, width)
    lines = table[0] if whole_blocks else height
    arguments = indices, codebook, image, np.uint32(row_bytes), np.uint32(height), np.uint32(table[1])
    session.launch(kernel, (row_bytes // piece, lines), (across, group // across), *arguments)


def check_indices(session: Session, indices: Buffer, count: int, size: int, argument: str) -> None:
    """Refuse an index table on the device that names a codeword beyond the codebook.

    Parameters
    ----------
    session : Session
    indices : pyopencl.Buffer
        `count` of `index_dtype(size)`.
    count, size : int
    argument : str
        For the message.

    Raises
    ------
    InvalidArgument
    """
    if size in (256, 65536):
        return
    program = session.program("vq_decode.cl", P=1, Q=1, C=1, INDEX=index_type(size), PIECE=1, WHOLE=0)
    kernel = program.kernel("vq_check")
    with session.scope() as scope:
        flag = scope.zeros(4)
        group = session.work_group_size(kernel, 128)
        session.launch(kernel, -(-count // 16), group, indices, np.uint32(count), np.uint32(size), flag)
        if session.download(flag, 1, np.uint32)[0]:
            raise InvalidArgument(f"{argument} holds an index of {size} or more; allowed: 0 to {size - 1}")
