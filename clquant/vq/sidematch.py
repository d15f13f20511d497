"""Side-match vector quantization: ranks in state codebooks, one anti-diagonal of blocks after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, LocalMemory, Progress, Scope, Session
from clquant.vq.blocks import BlockShape
from clquant.vq.container import ESCAPE

_SCRATCH_BYTES = 1 << 28
_SQUARE = 255 * 255
_SILENT = Progress(None)
_TOLD_WORK = 1 << 20
"""Blocks times codewords from one report of progress to the next: a sixth of a second on a CPU of two cores."""


class SideMatch:
    """A codebook on the device with the size of its state codebooks.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds the codebook.
    codebook : ndarray of uint8, shape (N, K)
    shape : BlockShape
    state_size : int
        1..255, at most N.
    """

    def __init__(
        self, session: Session, scope: Scope, codebook: npt.NDArray[np.uint8], shape: BlockShape, state_size: int
    ) -> None:
        assert _SQUARE * (shape.rows + shape.columns) * shape.channels < 1 << 24
        self._session = session
        self._scope = scope
        self._size = len(codebook)
        self._shape = shape
        self._codebook = scope.copy_of(codebook)
        self._program = session.program(
            "vq/sidematch.cl", P=shape.rows, Q=shape.columns, C=shape.channels, STATE=state_size
        )

    def encode(
        self,
        blocks: Buffer,
        nearest: npt.NDArray[np.integer[Any]],
        tolerance: int,
        progress: Progress = _SILENT,
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
        """Ranks for the blocks of a picture or band, or of block rows of a band from the last of those before on.

        Parameters
        ----------
        blocks : pyopencl.Buffer
            rows x columns x K bytes.
        nearest : ndarray of int, shape (rows, columns)
            Index of each block's nearest codeword; in the first row and column, of the one that it is coded by.
        tolerance : int
            A block's squared error, summed over its components, grows by less than this.
        progress : Progress
            Told of blocks as they are coded, but not of the last ones.

        Returns
        -------
        symbols : ndarray of uint8, shape (rows, columns)
            Ranks below the state codebook's size, or ESCAPE; the first row and column are ESCAPEs.
        chosen : ndarray of uint16, shape (rows, columns)
            Index of the codeword that each block is coded by.
        """
        rows, columns = nearest.shape
        session = self._session
        kernel = self._program.kernel("vq_side_encode")
        group = session.work_group_size(kernel, 64, 8)
        with session.scope() as scope:
            chosen = scope.copy_of(np.ascontiguousarray(nearest, np.uint16))
            symbols = scope.empty(rows * columns)
            session.fill(symbols, np.full(1, ESCAPE, np.uint8), rows * columns)
            scratch = scope.empty(4 * self._size * self._groups(rows, columns))
            local = LocalMemory(4 * group), LocalMemory(4 * group)
            for first, count, diagonal in self._reported(rows, columns, progress):
                place = np.uint32(columns), np.uint32(first), np.uint32(diagonal), np.uint32(tolerance)
                arguments = self._codebook, np.uint32(self._size), blocks, *place, chosen, symbols, scratch
                session.launch(kernel, count * group, group, *arguments, *local)
            ranks = session.download(symbols, (rows, columns), np.uint8)
            return ranks, session.download(chosen, (rows, columns), np.uint16)

    def decode(
        self,
        symbols: npt.NDArray[np.integer[Any]],
        escapes: npt.NDArray[np.uint16],
        progress: Progress = _SILENT,
    ) -> npt.NDArray[np.uint16]:
        """The index table of a picture or band.

        Parameters
        ----------
        symbols : ndarray of int, shape (rows, columns)
            Ranks below the state codebook's size, or ESCAPE, as in the whole first row and column.
        escapes : ndarray of uint16
            As many codeword indices as there are ESCAPEs, in raster order.
        progress : Progress
            Told of blocks as they are decoded, but not of the last ones.

        Returns
        -------
        ndarray of uint16, shape (rows, columns)
        """
        rows, columns = symbols.shape
        table = np.zeros((rows, columns), np.uint16)
        table[symbols == ESCAPE] = escapes
        most = max(self._session.limits.max_alloc // (2 * columns), 2)
        for top in range(0, rows - 1, most - 1):  # a part begins with the last row of the one above, which is known
            part = slice(top, min(top + most, rows))
            table[part] = self._decode_part(symbols[part], table[part], progress.part(top * columns, rows * columns))
        return table

    def _decode_part(
        self, symbols: npt.NDArray[np.integer[Any]], table: npt.NDArray[np.uint16], progress: Progress
    ) -> npt.NDArray[np.uint16]:
        """A table where all but ESCAPEs and the first row are to be found."""
        rows, columns = table.shape
        session = self._session
        kernel = self._program.kernel("vq_side_decode")
        group = session.work_group_size(kernel, 64, 4)
        with session.scope() as scope:
            chosen = scope.copy_of(table)
            ranks = scope.copy_of(np.ascontiguousarray(symbols, np.uint8))
            scratch = scope.empty(4 * self._size * self._groups(rows, columns))
            for first, count, diagonal in self._reported(rows, columns, progress):
                place = np.uint32(columns), np.uint32(first), np.uint32(diagonal)
                arguments = self._codebook, np.uint32(self._size), *place, ranks, chosen, scratch
                session.launch(kernel, count * group, group, *arguments, LocalMemory(4 * group))
            return session.download(chosen, (rows, columns), np.uint16)

    def _groups(self, rows: int, columns: int) -> int:
        """Blocks a launch takes at most, for the scratch memory to stay within limits."""
        room = min(_SCRATCH_BYTES, self._session.limits.max_alloc) // (4 * self._size)
        return max(1, min(rows, columns, room))

    def _reported(self, rows: int, columns: int, progress: Progress) -> Iterator[tuple[int, int, int]]:
        """What `_launches` gives, with reports of the blocks that are done where somebody listens."""
        done = told = 0
        for first, count, diagonal in self._launches(rows, columns):
            if progress.wanted and (done - told) * self._size >= _TOLD_WORK:
                self._session.finish()
                progress.report(done, rows * columns)
                told = done
            yield first, count, diagonal
            done += count

    def _launches(self, rows: int, columns: int) -> Iterator[tuple[int, int, int]]:
        """(first block row, blocks, anti-diagonal) of every launch, in order."""
        most = self._groups(rows, columns)
        for diagonal in range(2, rows + columns - 1):
            top, bottom = max(1, diagonal - columns + 1), min(rows - 1, diagonal - 1)
            for first in range(top, bottom + 1, most):
                yield first, min(most, bottom + 1 - first), diagonal
