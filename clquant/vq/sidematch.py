"""Side-match vector quantization: ranks in state codebooks, one anti-diagonal of blocks after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, FormatError, LocalMemory, Scope, Session
from clquant.vq.blocks import BlockShape
from clquant.vq.container import ESCAPE

_SCRATCH_BYTES = 1 << 28
_SQUARE = 255 * 255


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
            "vq_sidematch.cl", P=shape.rows, Q=shape.columns, C=shape.channels, STATE=state_size
        )

    def encode(
        self, blocks: Buffer, nearest: npt.NDArray[np.integer[Any]], tolerance: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
        """Ranks for all blocks of a picture or band.

        Parameters
        ----------
        blocks : pyopencl.Buffer
            rows x columns x K bytes.
        nearest : ndarray of int, shape (rows, columns)
            Index of each block's nearest codeword.
        tolerance : int
            A block's squared error, summed over its components, grows by less than this.

        Returns
        -------
        symbols : ndarray of uint8, shape (rows, columns)
            Ranks below the state codebook's size, or ESCAPE; the first row and column are ESCAPEs.
        escapes : ndarray of uint16, shape (n,)
            Codeword indices of the ESCAPEs in raster order.
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
            for first, count, diagonal in self._launches(rows, columns):
                place = np.uint32(columns), np.uint32(first), np.uint32(diagonal), np.uint32(tolerance)
                arguments = self._codebook, np.uint32(self._size), blocks, *place, chosen, symbols, scratch
                session.launch(kernel, count * group, group, *arguments, *local)
            ranks = session.download(symbols, (rows, columns), np.uint8)
            indices = session.download(chosen, (rows, columns), np.uint16)
        return ranks, indices[ranks == ESCAPE]

    def decode(self, symbols: npt.NDArray[np.integer[Any]], escapes: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
        """The index table of a picture or band.

        Parameters
        ----------
        symbols : ndarray of int, shape (rows, columns)
            Ranks below the state codebook's size, or ESCAPE.
        escapes : ndarray of uint16
            As many codeword indices as there are ESCAPEs, in raster order.

        Returns
        -------
        ndarray of uint16, shape (rows, columns)

        Raises
        ------
        FormatError
            If a block without both neighbours has a rank.
        """
        if (symbols[0] != ESCAPE).any() or (symbols[:, 0] != ESCAPE).any():
            raise FormatError("a band of a .clvq file has ranks where blocks have no neighbours")
        rows, columns = symbols.shape
        session = self._session
        kernel = self._program.kernel("vq_side_decode")
        group = session.work_group_size(kernel, 64, 4)
        table = np.zeros((rows, columns), np.uint16)
        table[symbols == ESCAPE] = escapes
        with session.scope() as scope:
            chosen = scope.copy_of(table)
            ranks = scope.copy_of(np.ascontiguousarray(symbols, np.uint8))
            scratch = scope.empty(4 * self._size * self._groups(rows, columns))
            for first, count, diagonal in self._launches(rows, columns):
                place = np.uint32(columns), np.uint32(first), np.uint32(diagonal)
                arguments = self._codebook, np.uint32(self._size), *place, ranks, chosen, scratch
                session.launch(kernel, count * group, group, *arguments, LocalMemory(4 * group))
            return session.download(chosen, (rows, columns), np.uint16)

    def _groups(self, rows: int, columns: int) -> int:
        """Blocks a launch takes at most, for the scratch memory to stay within limits."""
        room = min(_SCRATCH_BYTES, self._session.limits.max_alloc) // (4 * self._size)
        return max(1, min(rows, columns, room))

    def _launches(self, rows: int, columns: int) -> Iterator[tuple[int, int, int]]:
        """(first block row, blocks, anti-diagonal) of every launch, in order."""
        most = self._groups(rows, columns)
        for diagonal in range(2, rows + columns - 1):
            top, bottom = max(1, diagonal - columns + 1), min(rows - 1, diagonal - 1)
            for first in range(top, bottom + 1, most):
                yield first, min(most, bottom + 1 - first), diagonal
