"""The training blocks of many pictures on the device, in pieces that respect its limits, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Buffer, Program, Scope, Session, Variant
from clquant.vq.blocks import BlockShape
from clquant.vq.encode import Search, index_dtype, index_type

MAX_WEIGHT = 4095
RUN = 32
SUMS = (Variant("parts", "vq/blockset.cl", lambda limits: limits.is_cpu), Variant("portable", "vq/blockset.cl"))
_PIECE_BLOCKS = 1 << 22  # keeps 32-bit sums of cl/vq/blockset.cl exact


def block_rows(session: Session, scope: Scope, image: Buffer, height: int, width: int, shape: BlockShape) -> Buffer:
    """A picture's blocks as rows of K bytes, in raster order.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds the result.
    image : pyopencl.Buffer
        height x width x C bytes.
    height, width : int
    shape : BlockShape

    Returns
    -------
    pyopencl.Buffer
    """
    rows, columns = shape.table_shape(height, width)
    program = session.program("vq/blockset.cl", **shape.constants(width), INDEX="ushort", RUN=RUN, WEIGHTED=0)
    kernel = program.kernel("vq_blocks")
    blocks = scope.empty(rows * columns * shape.components)
    sizes = np.uint32(height), np.uint32(width), np.uint32(columns), np.uint32(rows * columns)
    group = session.work_group_size(kernel, session.tuned("vq.train_group"))
    session.launch(kernel, rows * columns * shape.words, group, image, *sizes, blocks)
    return blocks


@dataclass
class _Piece:
    """Up to 2^22 blocks: a buffer of rows, its length, weights, and working memory."""

    blocks: Buffer
    weights: Buffer
    indices: Buffer
    own: Buffer
    distances: Buffer
    capacity: int
    count: int = 0


class BlockSet:
    """Every block of the training pictures, numbered through them in raster order.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds the blocks.
    pictures : sequence of Picture
    weights : list of ndarray of uint16 or None
        One array (block rows, block columns) a picture of 0..4095, or None for equal weights.
    shape : BlockShape
    """

    def __init__(
        self,
        session: Session,
        scope: Scope,
        pictures: Sequence[Picture],
        weights: list[npt.NDArray[np.uint16]] | None,
        shape: BlockShape,
    ) -> None:
        self._session = session
        self._scope = scope
        self.shape = shape
        self.count = sum(int(np.prod(shape.table_shape(p.height, p.width))) for p in pictures)
        self.weights = None if weights is None else np.concatenate([w.ravel() for w in weights])
        self._most = max(1, min(_PIECE_BLOCKS, session.limits.max_alloc // max(shape.components, 4)))
        self._pieces: list[_Piece] = []
        left = self.count
        while left:
            self._pieces.append(self._new_piece(min(left, self._most)))
            left -= self._pieces[-1].capacity
        for picture in pictures:
            self._add(picture)
        self._write_weights()

    def _new_piece(self, capacity: int) -> _Piece:
        scope = self._scope
        weights = scope.empty(2 * capacity if self.weights is not None else 1)
        indices, own, distances = (scope.empty(n * capacity) for n in (2, 2, 4))
        return _Piece(scope.empty(capacity * self.shape.components), weights, indices, own, distances, capacity)

    def _write_weights(self) -> None:
        first = 0
        for piece in self._pieces:
            if self.weights is not None:
                self._session.write(piece.weights, self.weights[first : first + piece.count])
            first += piece.count

    def _add(self, picture: Picture) -> None:
        """Copy a picture's blocks to the pieces, in bands of block rows that fit what is left of a piece."""
        session, shape = self._session, self.shape
        columns = shape.table_shape(picture.height, picture.width)[1]
        padded_bytes = -(-columns * shape.columns * shape.channels // picture.width)
        for row0, row1 in picture.bands(session, padded_bytes, shape.rows):
            with session.scope() as scope:
                band = picture.upload(session, scope, row0, row1)
                rows = block_rows(session, scope, band, row1 - row0, picture.width, shape)
                self._append(rows, shape.table_shape(row1 - row0, picture.width)[0] * columns)

    def _append(self, rows: Buffer, count: int) -> None:
        components = self.shape.components
        taken = 0
        for piece in self._pieces:
            share = min(count - taken, piece.capacity - piece.count)
            if share:
                places = taken * components, piece.count * components
                self._session.copy(piece.blocks, rows, share * components, *places)
                piece.count += share
                taken += share

    def _program(self, **constants: Any) -> Program:
        shape = self.shape
        every = {"P": shape.rows, "Q": shape.columns, "C": shape.channels, "ALIGNED": 0, "INDEX": "ushort", "RUN": RUN}
        return self._session.program(
            "vq/blockset.cl", **{**every, "WEIGHTED": int(self.weights is not None), **constants}
        )

    def assign(self, codebook: npt.NDArray[np.uint8], *, second: bool = False) -> None:
        """Find every block's nearest codeword.

        Parameters
        ----------
        codebook : ndarray of uint8, shape (N, K)
        second : bool
            Find the nearest besides the one that was found by the last call, which had the same codebook.
        """
        height, width = self.shape.rows, self.shape.columns
        with self._session.scope() as scope:
            search = Search(self._session, scope, codebook, self.shape, excluding=second)
            for piece in self._pieces:
                if second:
                    piece.indices, piece.own = piece.own, piece.indices
                own = piece.own if second else None
                search.run(piece.blocks, piece.count * height, width, piece.indices, own=own)

    def sums(self, size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Weighted sums of clusters, by the last `assign`; exact.

        Parameters
        ----------
        size : int
            N.

        Returns
        -------
        sums : ndarray of int64, shape (N, K)
        weights : ndarray of int64, shape (N,)
        """
        session, columns = self._session, self.shape.components + 1
        halves = 1 if self.weights is None else 2
        in_parts = session.choose(SUMS).name == "parts"
        room = session.limits.max_alloc // (4 * halves * size * columns)
        parts = max(1, min(session.limits.compute_units, room)) if in_parts else 1
        kernel = self._program(INDEX=index_type(size)).kernel("vq_accumulate_parts" if in_parts else "vq_accumulate")
        group = 1 if in_parts else session.work_group_size(kernel, session.tuned("vq.train_group"))
        total = np.zeros((size, columns), np.int64)
        for piece in self._pieces:
            with session.scope() as scope:
                sums = scope.zeros(4 * parts * halves * size * columns)
                arguments = piece.blocks, piece.indices, np.uint32(piece.count), piece.weights, np.uint32(size), sums
                if in_parts:
                    session.launch(kernel, parts, group, *arguments, np.uint32(-(-piece.count // parts)))
                else:
                    session.launch(kernel, piece.count * self.shape.components, group, *arguments)
                read = session.download(sums, (parts, halves, size, columns), np.uint32).sum(0, dtype=np.int64)
            total += read[0] if halves == 1 else read[0] + (read[1] << 10)
        return total[:, :-1], total[:, -1]

    def nearest(self, codebook: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What the last `assign` found.

        Parameters
        ----------
        codebook : ndarray of uint8, shape (N, K)
            The one that was given to it.

        Returns
        -------
        indices, distances : ndarray of int64, shape (blocks,)
            Distances are squared.
        """
        size = len(codebook)
        kernel = self._program(INDEX=index_type(size)).kernel("vq_distances")
        group = self._session.work_group_size(kernel, self._session.tuned("vq.train_group"))
        indices, distances = [], []
        with self._session.scope() as scope:
            rows = scope.copy_of(codebook)
            for piece in self._pieces:
                arguments = piece.blocks, piece.indices, np.uint32(piece.count), rows, piece.distances
                self._session.launch(kernel, piece.count, group, *arguments)
                indices.append(self._session.download(piece.indices, piece.count, index_dtype(size)))
                distances.append(self._session.download(piece.distances, piece.count, np.uint32))
        return np.concatenate(indices).astype(np.int64), np.concatenate(distances).astype(np.int64)

    def assign_all_to_first(self) -> None:
        """Give every block the index 0."""
        for piece in self._pieces:
            self._session.fill(piece.indices, np.zeros(1, np.uint8), 2 * piece.count)

    def take(self, numbers: Sequence[int] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint8]:
        """Some blocks.

        Parameters
        ----------
        numbers : sequence of int

        Returns
        -------
        ndarray of uint8, shape (len(numbers), K)
        """
        components = self.shape.components
        rows = []
        for number in map(int, numbers):
            piece, place = self._pieces[number // self._most], number % self._most
            rows.append(self._session.download(piece.blocks, components, np.uint8, place * components))
        return np.array(rows, np.uint8).reshape(-1, components)

    def restart_seeding(self) -> None:
        """Forget the codewords drawn so far: every block is farther than any distance."""
        for piece in self._pieces:
            self._session.fill(piece.distances, np.full(1, 255, np.uint8), 4 * piece.count)

    def seed_totals(self, drawn: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint64]]:
        """Lower the distances to the codewords drawn so far by new ones.

        Parameters
        ----------
        drawn : ndarray of uint8, shape (n, K)

        Returns
        -------
        list of ndarray of uint64
            Per piece: weighted sums of the distances over runs of RUN blocks.
        """
        kernel = self._program().kernel("vq_seed")
        group = self._session.work_group_size(kernel, 64)
        totals = []
        with self._session.scope() as scope:
            rows = scope.copy_of(drawn)
            for piece in self._pieces:
                runs = -(-piece.count // RUN)
                out = scope.empty(8 * runs)
                arguments = piece.weights, rows, np.uint32(len(drawn)), piece.distances, out
                self._session.launch(kernel, runs, group, piece.blocks, np.uint32(piece.count), *arguments)
                totals.append(self._session.download(out, runs, np.uint64))
        return totals

    def seed_run(self, piece: int, run: int) -> npt.NDArray[np.int64]:
        """Weighted distances of one run's blocks to the codewords drawn so far.

        Parameters
        ----------
        piece, run : int
            Places in what `seed_totals` gave.
        """
        part = self._pieces[piece]
        first = run * RUN
        length = min(RUN, part.count - first)
        distances = self._session.download(part.distances, length, np.uint32, 4 * first).astype(np.int64)
        if self.weights is None:
            return distances
        start = piece * self._most + first
        return distances * self.weights[start : start + length].astype(np.int64)

    def number(self, piece: int, run: int, place: int) -> int:
        """The number of a block.

        Parameters
        ----------
        piece, run, place : int
            Its piece, the run in it, and the place in the run.
        """
        return piece * self._most + run * RUN + place
