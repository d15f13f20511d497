"""Rows against a codebook: nearest codewords, squared distances to them and to all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from clquant.runtime import Array, Buffer, Scope, Session
from clquant.training.blocks import BlockShape, Rows, Weights
from clquant.training.search import Search, open_search
from clquant.vectors.device_rows import DeviceRows, FarRows
from clquant.vectors.far import find_nearest, measure_distances, square_sums, weighted_sum
from clquant.vectors.fixed_point import FINE_BITS, FixedPoint

_GROUP = 64
_TRANSFORMED_BYTES = 1 << 26  # of distances at once

# The number of a run's first row, a buffer with its rows as whole numbers, how many they are, and those that are cut.
Run = tuple[int, Buffer, int, FarRows | None]
Labels = npt.NDArray[np.int32] | Array


def runs_of(rows: DeviceRows, fixed: FixedPoint) -> Iterator[Run]:
    """All rows in runs that the device holds, each until the next is asked for."""
    count, whole = rows.source.count, rows.whole(fixed)
    if whole is not None:
        yield 0, whole, count, None
        return
    for first, end in rows.steps(0, count):
        with rows.session.scope() as scope:
            words = rows.words(scope, fixed, first, end)
            yield first, words, end - first, rows.far_rows(fixed, first, end)


def nearest(
    session: Session, codebook: Rows, fixed: FixedPoint, runs: Iterable[Run], count: int, on_device: bool
) -> Labels:
    """The index of the nearest codeword of each row, the lowest on ties."""
    made = session.new_array(count, np.int32) if on_device else np.empty(count, np.int32)
    shape = fixed.shape(codebook.shape[1])
    with open_search(session, codebook, shape) as search:
        for first, words, number, far in runs:
            if isinstance(made, Array) and far is None:
                search.run(words, number, shape.columns, cast(Buffer, made.data), first, index="int")
            else:
                with session.scope() as scope:
                    labels = _labels(scope, search, words, number, shape)
                    own = session.download(labels, number, np.int32)
                if far is not None:
                    own[far.places] = far_labels(far, codebook, fixed)
                if isinstance(made, Array):
                    session.write(cast(Buffer, made.data), own, 4 * first)
                else:
                    made[first : first + number] = own
    return session.hand_over(made) if isinstance(made, Array) else made


def far_distances(far: FarRows, codebook: Rows, fixed: FixedPoint) -> npt.NDArray[np.float64]:
    """Squared distances of each row that is cut to each codeword."""
    return measure_distances(fixed.measure(far.rows), codebook.astype(np.float64), fixed.scale)


def far_labels(far: FarRows, codebook: Rows, fixed: FixedPoint) -> npt.NDArray[np.int32]:
    """The index of the nearest codeword of each row that is cut."""
    return find_nearest(fixed.measure(far.rows) - fixed.offset, codebook.astype(np.float64) - fixed.offset)


def _labels(scope: Scope, search: Search, words: Buffer, number: int, shape: BlockShape) -> Buffer:
    """The index of the nearest codeword of each row of a run."""
    labels = scope.empty(4 * number)
    search.run(words, number, shape.columns, labels, index="int")
    return labels


def squared_error(
    rows: DeviceRows, codebook: Rows, fixed: FixedPoint, weights: Weights, labels: Labels | None = None
) -> int:
    """The weighted sum of squared distances of rows to their nearest codewords, or to those of their labels.

    In squares of the scale, where all numbers are exact, else of 2^-8 of it.
    """
    session, source, total, fine = rows.session, rows.source, 0, fixed.finer()
    shape, exact = fixed.shape(source.components), fixed.is_exact and fixed.dtype == source.dtype
    kernel = session.program("vectors/distances.cl", **shape.constants()).kernel("row_errors")
    group = session.work_group_size(kernel, _GROUP)
    with open_search(session, codebook, shape) as search, session.scope() as outer:
        words = outer.copy_of(np.ascontiguousarray(codebook))
        for first, whole, number, far in runs_of(rows, fixed):
            with session.scope() as scope:
                if labels is None:
                    own = _labels(scope, search, whole, number, shape)
                elif isinstance(labels, Array):
                    own = scope.empty(4 * number)
                    session.copy(own, cast(Buffer, labels.base_data), 4 * number, labels.offset + 4 * first)
                else:
                    own = scope.copy_of(np.ascontiguousarray(labels[first : first + number]))
                if exact:
                    errors = scope.empty(8 * number)
                    session.launch(kernel, number, group, whole, np.uint32(number), words, own, errors)
                    found = session.download(errors, number, np.uint64)
                else:
                    found = rows.errors(scope, fixed, (first, first + number), codebook, own)
            heavy = None if weights is None else weights[first : first + number]
            if far is not None:
                found[far.places] = 0
                near = np.ldexp(codebook[far_labels(far, codebook, fixed)].astype(np.float64), FINE_BITS)
                sums = square_sums(fine.measure(far.rows) - near)
                total += sum(sums if heavy is None else map(int.__mul__, sums, heavy[far.places].tolist()))
            total += weighted_sum(found, heavy)
    return total


def all_distances(
    session: Session, codebook: Rows, fixed: FixedPoint, runs: Iterable[Run], count: int, on_device: bool
) -> npt.NDArray[np.float64] | Array:
    """Squared distances of each row to each codeword, (n, k)."""
    size, exponent, shape = len(codebook), np.int32(2 * math.frexp(fixed.scale)[1] - 2), fixed.shape(codebook.shape[1])
    made = session.new_array((count, size), np.float64) if on_device else np.empty((count, size))
    kernel = session.program("vectors/distances.cl", **shape.constants()).kernel("row_distances")
    group = session.work_group_size(kernel, _GROUP)
    most = max(1, min(_TRANSFORMED_BYTES, session.limits.max_alloc) // (8 * size))
    with session.scope() as outer:
        words = outer.copy_of(np.ascontiguousarray(codebook))
        for first, rows, number, far in runs:
            distances = None if far is None else far_distances(far, codebook, fixed)
            if isinstance(made, Array):
                sizes = np.uint32(number), words, np.uint32(size), exponent
                session.launch(kernel, number * size, group, rows, *sizes, made.data, np.uint64(first * size))
                for place, own in zip(
                    () if far is None else first + far.places, () if distances is None else distances, strict=True
                ):
                    session.write(cast(Buffer, made.data), own, 8 * size * int(place))
                continue
            for begin in range(0, number, most):
                share = min(most, number - begin)
                with session.scope() as scope:
                    found, own = scope.empty(8 * share * size), scope.empty(share * shape.nbytes)
                    session.copy(own, rows, share * shape.nbytes, begin * shape.nbytes)
                    sizes = np.uint32(share), words, np.uint32(size), exponent
                    session.launch(kernel, share * size, group, own, *sizes, found, np.uint64(0))
                    target = made[first + begin : first + begin + share]
                    session.download_into(target, found)
            if far is not None:
                made[first + far.places] = distances
    return session.hand_over(made) if isinstance(made, Array) else made
