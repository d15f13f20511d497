"""Rows on the device: their ends, and the whole numbers that they are searched and trained as.

The kernels are in `cl/vectors/device_rows.cl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from clquant.flow.source import ReadAhead
from clquant.runtime import Array, Buffer, InvalidArgument, Scope, Session
from clquant.vectors.fixed_point import FINE_BITS, Ends, FixedPoint, join_ends, source_ends
from clquant.vectors.rows import RowSource, finite

_TYPES = {"u1": "uchar", "i1": "char", "u2": "ushort", "i2": "short", "f2": "ushort", "f4": "float"}  # in OpenCL C
_MOST_EXPONENT = 100  # of scales by which products are exact in fp32, or round to 0
_END_ITEMS, _GROUP = 1 << 14, 64
_NONE = np.uint32(2**32 - 1)


class FarRows(NamedTuple):
    """Rows of a run of which a number is beyond those that fit: their places in it, and themselves, on the host."""

    places: npt.NDArray[np.int64]
    rows: npt.NDArray[Any]


class DeviceRows:
    """Rows of a source that the device turns into whole numbers, as far as it can; the host does others."""

    def __init__(self, session: Session, scope: Scope, source: RowSource, keep: bool, most: int) -> None:
        self.session = session
        self.source = source
        self.most = most  # rows at once
        self._scope = scope
        self._keep = keep and not source.is_on_device
        self._kept: dict[int, Buffer] = {}
        self._is_finite = source.dtype.kind != "f"
        self._bad = scope.empty(8)  # the first row that is not finite, and the first that is cut
        self._has_far = False  # whether the last words that were written have rows that are cut
        self._origins: tuple[npt.NDArray[np.float32], Buffer] | None = None
        self._portion: tuple[int, npt.NDArray[Any]] | None = None  # the number of its first row; its rows
        self._ahead = ReadAhead(source.fetch)

    def steps(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut rows into runs of at most `most`, at its multiples."""
        while first < end:
            stop = min((first // self.most + 1) * self.most, end)
            yield first, stop
            first = stop

    def ends(self) -> Ends:
        """The least and the largest number of each column, (2, d); raises where one is not finite."""
        source, components = self.source, self.source.components
        if source.dtype.str[1:] not in _TYPES:
            return source_ends(source)
        kernel = self._program(np.dtype(np.uint8), 0).kernel("row_ends")
        group = self.session.work_group_size(kernel, _GROUP)
        stride = min(-(-_END_ITEMS // components), source.count, self.most) * components
        found = self._scope.empty(8 * stride)
        self._begin_check()
        for first, stop in self.steps(0, source.count):
            with self.session.scope() as scope:
                raw, place = self._raw(scope, first, stop)
                sizes = np.uint64(place), np.uint64((stop - first) * components), np.uint32(components)
                given = np.uint32(stride), np.uint32(first == 0), found, self._bad, np.uint32(0)
                self.session.launch(kernel, stride, group, raw, *sizes, *given)
            self._end_check(first)
        ends = self.session.download(found, (stride // components, components, 2), np.float32)
        self._is_finite = True
        return join_ends([own.T for own in ends]).astype(source.dtype)

    def write(self, fixed: FixedPoint, first: int, end: int, target: Buffer) -> None:
        """Fill a buffer with rows as whole numbers."""
        session, components = self.session, self.source.components
        row_bytes = fixed.shape(components).nbytes
        self._begin_check()
        self._has_far = False
        for begin, stop in self.steps(first, end):
            offset = (begin - first) * row_bytes
            if not self._is_converted(fixed):
                words, cut = fixed.encode_cut(finite(self.read(begin, stop), begin), begin)
                self._has_far |= cut
                session.write(target, words, offset)
                continue
            with session.scope() as scope:
                raw, place = self._raw(scope, begin, stop)
                if fixed.keeps(self.source.dtype):
                    session.copy(target, raw, (stop - begin) * row_bytes, place, offset)
                    continue
                kernel = self._program(fixed.shape(components).dtype, fixed.top).kernel("row_words")
                count, at = (stop - begin) * components, offset // fixed.shape(components).dtype.itemsize
                given = {"rows": raw, "first": np.uint64(place), "count": np.uint64(count)}
                given |= self._measure_arguments(fixed)
                given |= {"bad": self._bad, "row0": np.uint32(begin - first)}
                group = session.work_group_size(kernel, _GROUP)
                session.launch(kernel, count, group, **given, words=target, offset=np.uint64(at))
        self._end_check(first)

    def far_rows(self, fixed: FixedPoint, first: int, end: int) -> FarRows | None:
        """Rows of a run, whose words were written last, of which a number is cut."""
        if not self._has_far:
            if (fixed.is_exact and fixed.dtype == self.source.dtype) or not self._is_converted(fixed):
                return None
            if int(self.session.download(self._bad, 2, np.uint32)[1]) == _NONE:
                return None
        rows = self.read(first, end)
        whole = fixed.measure(rows, first)
        places = np.flatnonzero(((whole < 0) | (whole > fixed.top)).any(1))
        return FarRows(places, rows[places])

    def errors(
        self, scope: Scope, fixed: FixedPoint, run: tuple[int, int], codebook: npt.NDArray[Any], labels: Buffer
    ) -> npt.NDArray[np.uint64]:
        """Squared errors of rows by their labels, in squares of 2^-8 of the scale; not of rows that are cut."""
        (first, end), components = run, self.source.components
        if not self._is_converted(fixed):
            own = self.session.download(labels, end - first, np.int32)
            whole = fixed.finer().measure(finite(self.read(first, end), first), first)
            off = np.clip(whole - np.ldexp(codebook[own].astype(np.float64), FINE_BITS), -(2.0**26), 2.0**26)
            found: npt.NDArray[np.uint64] = (off.astype(np.int64) ** 2).sum(1).astype(np.uint64)
            return found
        kernel = self._program(fixed.shape(components).dtype, fixed.top).kernel("row_errors")
        raw, place = self._raw(scope, first, end)
        made = scope.empty(8 * (end - first))
        given = {"rows": raw, "first": np.uint64(place), "count": np.uint32(end - first), "labels": labels}
        given |= {**self._measure_arguments(fixed.finer()), "codebook": scope.copy_of(np.ascontiguousarray(codebook))}
        group = self.session.work_group_size(kernel, _GROUP)
        self.session.launch(kernel, end - first, group, **given, errors=made)
        return self.session.download(made, end - first, np.uint64)

    def _measure_arguments(self, fixed: FixedPoint) -> dict[str, Any]:
        """Arguments of kernels that measure rows."""
        components = self.source.components
        origins = np.broadcast_to(fixed.origins, components).astype(np.float32)
        if self._origins is None or not np.array_equal(self._origins[0], origins):
            self._origins = origins, self._scope.copy_of(np.ascontiguousarray(origins))
        numbers = {"factor": np.float32(1 / fixed.scale), "zero": np.float32(fixed.offset)}
        return {**numbers, "columns": np.uint32(components), "origins": self._origins[1]}

    def words(self, scope: Scope, fixed: FixedPoint, first: int, end: int) -> Buffer:
        """Rows as whole numbers, in a buffer of the scope."""
        target = scope.empty((end - first) * fixed.shape(self.source.components).nbytes)
        self.write(fixed, first, end, target)
        return target

    def whole(self, fixed: FixedPoint) -> Buffer | None:
        """All rows, if they are a buffer of whole numbers as they are."""
        array = self.source.source
        return array.base_data if self.source.is_on_device and fixed.keeps(array.dtype) and not array.offset else None

    def _is_converted(self, fixed: FixedPoint) -> bool:
        """Whether the device makes the whole numbers."""
        fits = 2.0**-_MOST_EXPONENT <= fixed.scale <= 2.0**_MOST_EXPONENT
        fits = fits and bool(np.array_equal(fixed.origins, fixed.origins.astype(np.float32)))
        return fits and not fixed.is_normalized and self.source.dtype.str[1:] in _TYPES

    def _program(self, word: np.dtype[Any], top: int) -> Any:
        kind, is_half = _TYPES[self.source.dtype.str[1:]], int(self.source.dtype.str[1:] == "f2")
        words = "uchar" if word.itemsize == 1 else "ushort"
        constants: dict[str, int | str] = {"SOURCE": kind, "IS_HALF": is_half, "WORD": words, "TOP": top}
        constants["SHIFT"] = FINE_BITS
        return self.session.program("vectors/device_rows.cl", **constants)

    def _raw(self, scope: Scope, first: int, end: int) -> tuple[Buffer, int]:
        """A buffer with rows as they are, and the place of the first number in it."""
        if self.source.is_on_device:
            array: Array = self.source.source
            return cast(Buffer, array.base_data), array.offset // array.dtype.itemsize + first * self.source.components
        begin = first // self.most * self.most
        if begin not in self._kept:
            own = np.ascontiguousarray(self.read(first, end))
            own = own.astype(own.dtype.newbyteorder("="), copy=False)
            if not self._keep or first != begin:
                return scope.copy_of(own), 0
            self._kept[begin] = self._scope.copy_of(own)
        return self._kept[begin], (first - begin) * self.source.components

    def read(self, first: int, end: int) -> npt.NDArray[Any]:
        """Rows of the host within one step; what is lazy is read a whole step at once, while the next one is read."""
        if not self.source.is_stored:
            return self.source.fetch(first, end)
        begin = first // self.most * self.most
        if self._portion is None or self._portion[0] != begin:
            end_of, count = begin + self.most, self.source.count
            after = (end_of, min(end_of + self.most, count)) if end_of < count else None
            self._portion = None
            self._portion = begin, self._ahead.get(begin, min(end_of, count), after)
        return self._portion[1][first - begin : end - begin]

    def pick(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows of the host by their increasing numbers; of a store within one step."""
        if not self.source.is_stored:
            return self.source.pick(places)
        first = int(places.min())
        return self.read(first, int(places.max()) + 1)[places - first]

    def _begin_check(self) -> None:
        self.session.fill(self._bad, _NONE, 8)

    def _end_check(self, first: int) -> None:
        """Raise if a kernel met a row that is not finite; `first` is the row from which it counts."""
        if self._is_finite:
            return
        bad = int(self.session.download(self._bad, 1, np.uint32)[0])
        if bad != _NONE:
            raise InvalidArgument(f"X holds NaN or infinity in row {first + bad}; allowed: finite numbers")
