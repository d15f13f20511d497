"""Rows and columns of index tables that repeat the one before (docs/clvq-format.md, "Repeats")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, FormatError, Scope, Session, bound
from clquant.training.search import Table, index_type

MOST_BYTES_PER_LINE = 3  # of a row or column: their numbers are at most 2^20
_LOOKED_AT = 16  # places of a line that are compared before all are
_LEAST_SAVED = 64  # blocks for every byte that repeats take in a file
_COLUMNS_OF_ITEM = 256  # of CPUs

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Repeats:
    """The rows and columns of a table that are coded; those after one repeat it."""

    table_shape: tuple[int, int]  # (rows, columns) of the whole table
    rows: Places  # the coded ones, ascending, 0 first
    columns: Places

    @classmethod
    def none(cls, table_shape: tuple[int, int]) -> Repeats:
        """Return the repeats of a table whose rows and columns are all coded."""
        return cls(table_shape, np.arange(table_shape[0]), np.arange(table_shape[1]))

    @classmethod
    def of(cls, table: Table) -> Repeats:
        """Find a table's repeats, where leaving them out saves more than the section takes."""
        shape = table.shape[0], table.shape[1]
        rows = _first_lines(table)
        found = cls(shape, rows, _first_lines(table[rows].T if len(rows) < shape[0] else table.T))
        saved = table.size - len(found.rows) * len(found.columns)
        return found if saved >= _LEAST_SAVED * len(found.to_bytes()) > 0 else cls.none(shape)

    @property
    def coded_shape(self) -> tuple[int, int]:
        """(rows, columns) of the table that is coded."""
        return len(self.rows), len(self.columns)

    @property
    def any(self) -> bool:
        """Whether something repeats."""
        return self.coded_shape != self.table_shape

    def coded(self, table: Table) -> Table:
        """Return a table without the rows and columns that repeat."""
        return table[np.ix_(self.rows, self.columns)] if self.any else table

    def end_of(self, row: int) -> int:
        """The row of the whole table that the coded rows before `row`, with what repeats them, end before."""
        return int(self.rows[row]) if row < len(self.rows) else self.table_shape[0]

    def coded_row(self, row: int) -> int:
        """The coded row that a row of the whole table is, or repeats."""
        return int(np.searchsorted(self.rows, row, side="right")) - 1

    def to_bytes(self) -> bytes:
        """Lengths of runs, in turn coded and repeating, of the rows and of the columns."""
        lines = zip((self.rows, self.columns), self.table_shape, strict=True)
        return b"".join(_number(run) for places, count in lines for run in _runs(places, count))

    @staticmethod
    def from_bytes(data: bytes, table_shape: tuple[int, int]) -> Repeats:
        """The repeats of the bytes that `to_bytes` made."""
        runs, at = [], 0
        for count in table_shape:
            own, left = [], count
            while left:
                run, at = _number_at(data, at)
                if not 0 < run <= left:
                    raise FormatError("the repeats of a .clvq file do not fit its table")
                own.append(run)
                left -= run
            runs.append(own)
        if at != len(data):
            raise FormatError("the repeats of a .clvq file have the wrong length")
        rows, columns = (np.flatnonzero(np.repeat(np.arange(len(own)) % 2 == 0, own)) for own in runs)
        return Repeats(table_shape, rows, columns)


class Repeater:
    """Writes whole tables from what was coded of them; device memory belongs to a scope."""

    def __init__(self, session: Session, scope: Scope, repeats: Repeats, size: int) -> None:
        self._session = session
        self._repeats = repeats
        self._own = _COLUMNS_OF_ITEM if session.limits.is_cpu else 1
        program = session.program("vq/coding/repeats.cl", INDEX=index_type(size), OWN=self._own)
        self._kernel = program.kernel("vq_repeat")
        self._rows = scope.copy_of(_sources(repeats.rows, repeats.table_shape[0]))
        self._columns = scope.copy_of(_sources(repeats.columns, repeats.table_shape[1]))

    def write(self, coded: Buffer, first: int, rows: tuple[int, int], whole: Buffer) -> None:
        """Queue the writing of some rows of the whole table."""
        columns = self._repeats.table_shape[1]
        sizes = (np.uint32(n) for n in (len(self._repeats.columns), first, rows[0], rows[1] - rows[0], columns))
        items = -(-columns // self._own), rows[1] - rows[0]
        group = 1 if self._session.limits.is_cpu else self._session.work_group_size(self._kernel, 64)
        self._session.launch(self._kernel, items, (group, 1), coded, self._rows, self._columns, *sizes, whole)


def _first_lines(table: Table) -> Places:
    """The rows that differ from the one above."""
    few = table[:, :: max(1, table.shape[1] // _LOOKED_AT)]
    alike = np.flatnonzero((few[1:] == few[:-1]).all(1)) + 1
    is_first = np.ones(len(table), bool)
    for part in np.array_split(alike, 1 + len(alike) * table.shape[1] // bound("repeats.compared")):
        is_first[part] = (table[part] != table[part - 1]).any(1)
    return np.flatnonzero(is_first)


def _sources(places: Places, count: int) -> npt.NDArray[np.uint32]:
    """For each line of a table which of the coded ones it is, or repeats."""
    return np.repeat(np.arange(len(places)), np.diff(places, append=count)).astype(np.uint32)


def _runs(places: Places, count: int) -> list[int]:
    """Return lengths of runs of lines: coded, repeated, coded, ..."""
    coded = np.zeros(count, np.int8)
    coded[places] = 1
    changes = np.flatnonzero(np.diff(coded)) + 1
    runs: list[int] = np.diff(changes, prepend=0, append=count).tolist()
    return runs


def _number(number: int) -> bytes:
    """Seven bits a byte, the low ones first; the highest bit of all but the last is set."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    """A number of `_number` and where it ends."""
    number = shift = 0
    while at < len(data) and shift < 28:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise FormatError("the repeats of a .clvq file end in the middle")
