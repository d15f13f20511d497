"""Rows against a codebook: nearest codewords, squared distances to them and to all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from clquant.runtime import Array, Buffer, Scope, Session
from clquant.training.blocks import BlockShape, Rows
from clquant.training.search import Search, open_search
from clquant.vectors.device_rows import DeviceRows
from clquant.vectors.fixed_point import FixedPoint

_GROUP = 64
_TRANSFORMED_BYTES = 1 << 26  # of distances at once

# The number of a run's first row, a buffer with its rows as whole numbers, and how many they are.
Run = tuple[int, Buffer, int]
Labels = npt.NDArray[np.int32] | Array


def runs_of(rows: DeviceRows, fixed: FixedPoint) -> Iterator[Run]:
    """All rows in runs that the device holds, each until the next is asked for."""
    count, whole = rows.source.count, rows.whole(fixed)
    if whole is not None:
        yield 0, whole, count
        return
    for first, end in rows.steps(0, count):
        with rows.session.scope() as scope:
            yield first, rows.words(scope, fixed, first, end), end - first


def nearest(
    session: Session, codebook: Rows, shape: BlockShape, runs: Iterable[Run], count: int, on_device: bool
) -> Labels:
    """The index of the nearest codeword of each row, the lowest on ties."""
    made = session.new_array(count, np.int32) if on_device else np.empty(count, np.int32)
    with open_search(session, codebook, shape) as search:
        for first, words, number in runs:
            if isinstance(made, Array):
                search.run(words, number, shape.columns, cast(Buffer, made.data), first, index="int")
            else:
                with session.scope() as scope:
                    labels = _labels(scope, search, words, number, shape)
                    made[first : first + number] = session.download(labels, number, np.int32)
    return session.hand_over(made) if isinstance(made, Array) else made


def _labels(scope: Scope, search: Search, words: Buffer, number: int, shape: BlockShape) -> Buffer:
    """The index of the nearest codeword of each row of a run."""
    labels = scope.empty(4 * number)
    search.run(words, number, shape.columns, labels, index="int")
    return labels


def squared_errors(
    session: Session, codebook: Rows, shape: BlockShape, runs: Iterable[Run]
) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """The squared distance of each row to its nearest codeword, a run of rows at a time with its first row's number."""
    kernel = session.program("vectors/distances.cl", **shape.constants()).kernel("row_errors")
    group = session.work_group_size(kernel, _GROUP)
    with open_search(session, codebook, shape) as search, session.scope() as outer:
        words = outer.copy_of(np.ascontiguousarray(codebook))
        for first, rows, number in runs:
            with session.scope() as scope:
                labels = _labels(scope, search, rows, number, shape)
                errors = scope.empty(8 * number)
                session.launch(kernel, number, group, rows, np.uint32(number), words, labels, errors)
                found = session.download(errors, number, np.uint64)
            yield first, found


def all_distances(
    session: Session, codebook: Rows, shape: BlockShape, runs: Iterable[Run], count: int, scale: float, on_device: bool
) -> npt.NDArray[np.float64] | Array:
    """Squared distances of each row to each codeword, (n, k); whole numbers stand for multiples of `scale`."""
    size, exponent = len(codebook), np.int32(2 * math.frexp(scale)[1] - 2)
    made = session.new_array((count, size), np.float64) if on_device else np.empty((count, size))
    kernel = session.program("vectors/distances.cl", **shape.constants()).kernel("row_distances")
    group = session.work_group_size(kernel, _GROUP)
    most = max(1, min(_TRANSFORMED_BYTES, session.limits.max_alloc) // (8 * size))
    with session.scope() as outer:
        words = outer.copy_of(np.ascontiguousarray(codebook))
        for first, rows, number in runs:
            if isinstance(made, Array):
                sizes = np.uint32(number), words, np.uint32(size), exponent
                session.launch(kernel, number * size, group, rows, *sizes, made.data, np.uint64(first * size))
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
    return session.hand_over(made) if isinstance(made, Array) else made
