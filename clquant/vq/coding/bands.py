"""Bands of index tables to words of rANS streams and back (docs/clvq-format.md, "Bands")."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Program, Scope, Session, Variant, bound
from clquant.training.search import Table, index_dtype, index_type
from clquant.vq.coding.contexts import ContextTables
from clquant.vq.coding.streams import Words, join_streams, sent_streams

MAX_LANES = 32
_LANE_BLOCKS = 1 << 11  # a lane costs about three bytes
_PAIRS_KNOWN, _PAIRS_FOUND = 1, 2  # as in cl/vq/coding/band_model.h

VARIANTS = (
    Variant("serial", "vq/coding/bands.cl", lambda limits: limits.is_cpu, gain=1.44),
    Variant("group", "vq/coding/bands_group.cl", lambda limits: limits.work_group >= MAX_LANES, gain=2.03),
    Variant("portable", "vq/coding/bands.cl"),
)


@dataclass(frozen=True)
class BandLayout:
    """Bands of a table of indices, and the rANS states that share a band."""

    table_rows: int
    columns: int

    @functools.cached_property
    def rows(self) -> int:
        """Rows of every band but the last, which may have fewer."""
        wanted = max(bound("bands.rows"), -(-bound("bands.narrow") // self.columns))
        most = min(wanted, max(1, bound("bands.blocks") // self.columns), self.table_rows)
        count = -(-self.table_rows // most)
        return -(-self.table_rows // count)

    @functools.cached_property
    def lanes(self) -> int:
        """States of a band: a power of two up to 32 and up to its rows."""
        most = min(MAX_LANES, self.rows, max(1, self.rows * self.columns // _LANE_BLOCKS))
        return int(1 << (most.bit_length() - 1))

    @functools.cached_property
    def count(self) -> int:
        """Bands."""
        return -(-self.table_rows // self.rows)

    def rows_of(self, band: int) -> int:
        """Rows of one band."""
        return min(self.rows, self.table_rows - band * self.rows)


@dataclass(frozen=True)
class CodedBand:
    """A band as a file holds it."""

    states: npt.NDArray[np.uint32]  # (lanes,)
    words: Words

    def to_bytes(self) -> bytes:
        """States, then words, little-endian."""
        return self.states.astype("<u4").tobytes() + self.words.astype("<u2").tobytes()

    @staticmethod
    def from_bytes(data: bytes, lanes: int) -> CodedBand:
        """The band of the bytes that `to_bytes` made."""
        states = np.frombuffer(data, "<u4", lanes).astype(np.uint32, copy=False)
        return CodedBand(states, np.frombuffer(data, "<u2", offset=4 * lanes).astype(np.uint16, copy=False))


class BandCoder:
    """Codes bands by tables of contexts."""

    def __init__(self, session: Session, tables: ContextTables, layout: BandLayout) -> None:
        self._session = session
        self._tables = tables
        self._layout = layout
        self._variant = session.choose(VARIANTS)

    def encode(self, table: Table, ranks: npt.NDArray[np.uint16] | None = None) -> list[CodedBand]:
        """Code some rows of the table of a picture."""
        session, layout = self._session, self._layout
        rows, columns = table.shape
        bands = -(-rows // layout.rows)
        capacity = 2 * layout.rows * columns
        dtype = index_dtype(self._tables.shape.size)
        with session.scope() as scope:
            indices = scope.copy_of(np.ascontiguousarray(table, dtype))
            if ranks is not None:
                kernel = self._program().kernel("vq_rank_indices")
                places = indices, np.uint32(rows * columns), scope.copy_of(ranks)
                session.launch(kernel, rows * columns, session.work_group_size(kernel, 64), *places)
            ranges = scope.empty(8 * rows * columns)
            kernel = self._program().kernel("vq_block_ranges")
            group = session.work_group_size(kernel, 64)
            model, place = self._tables.arguments, self._place(rows)
            session.launch(kernel, rows * columns, group, indices=indices, **model, **place, ranges=ranges)
            words, states = scope.empty(2 * bands * capacity), scope.empty(4 * bands * layout.lanes)
            counts = scope.empty(4 * bands)
            self._launch("vq_bands_encode", bands, ranges=ranges, **place, words=words, states=states, counts=counts)
            count = session.download(counts, bands, np.uint32)
            of_lanes = session.download(states, (bands, layout.lanes), np.uint32)
            streams = join_streams(session, scope, words, count, capacity)
        return [CodedBand(*both) for both in zip(of_lanes, streams, strict=True)]

    def decode(self, scope: Scope, coded: Sequence[CodedBand], rows: int, indices: Buffer, wrong: Buffer) -> None:
        """Queue the decoding of some bands."""
        sent = sent_streams(scope, [band.words for band in coded], np.stack([band.states for band in coded]))
        given = {**sent, **self._tables.arguments, **self._place(rows), "indices": indices, "wrong": wrong}
        self._launch("vq_bands_decode", len(coded), **given)

    def _place(self, rows: int) -> dict[str, np.uint32]:
        """Kernel arguments of a table of so many rows, by name."""
        place = {"rows": rows, "columns": self._layout.columns, "band_rows": self._layout.rows}
        return {name: np.uint32(number) for name, number in place.items()}

    def _program(self) -> Program:
        shape = self._tables.shape
        pairs = 0 if not shape.by_pairs else _PAIRS_KNOWN if self._tables.has_pairs else _PAIRS_FOUND
        return self._session.program(self._variant.file, **shape.constants, INDEX=index_type(shape.size), PAIRS=pairs)

    def _launch(self, name: str, bands: int, /, **named: object) -> None:
        """A group of as many work-items as lanes for each band, or a work-item."""
        kernel, lanes = self._program().kernel(name), self._layout.lanes
        group = lanes if self._variant.name == "group" else 1
        self._session.launch(kernel, bands * group, group, **named, lanes=np.uint32(lanes), bands=np.uint32(bands))
