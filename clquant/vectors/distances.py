"""What is found of rows by a codebook: nearest codewords, squared distances to them and to all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.runtime import Session
from clquant.training.blocks import BlockShape
from clquant.training.part import Rows
from clquant.training.search import index_dtype, open_search

_GROUP = 64


def nearest(session: Session, codebook: Rows, rows: Rows, shape: BlockShape) -> npt.NDArray[np.int32]:
    """The index of the nearest codeword of each row, the lowest on ties."""
    made = np.empty(len(rows), np.int32)
    most = max(1, session.limits.max_alloc // max(shape.nbytes, 2))
    dtype = index_dtype(len(codebook))
    with open_search(session, codebook, shape) as search:
        for first in range(0, len(rows), most):
            part = rows[first : first + most]
            with session.scope() as scope:
                indices = scope.empty(dtype.itemsize * len(part))
                search.run(scope.copy_of(part), len(part), shape.columns, indices)
                made[first : first + most] = session.download(indices, len(part), dtype)
    return made


def squared_errors(codebook: Rows, rows: Rows, labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The squared distance of each row to the codeword of its label."""
    errors: npt.NDArray[np.int64] = ((rows.astype(np.int64) - codebook[labels]) ** 2).sum(1)
    return errors


def all_distances(session: Session, codebook: Rows, rows: Rows, shape: BlockShape) -> npt.NDArray[np.uint64]:
    """Squared distances of each row to each codeword, (n, k)."""
    size = len(codebook)
    made = np.empty((len(rows), size), np.uint64)
    most = max(1, session.limits.max_alloc // max(shape.nbytes, 8 * size))
    kernel = session.program("vectors/distances.cl", **shape.constants()).kernel("row_distances")
    group = session.work_group_size(kernel, _GROUP)
    with session.scope() as scope:
        words = scope.copy_of(codebook)
        for first in range(0, len(rows), most):
            part = rows[first : first + most]
            with session.scope() as inner:
                found = inner.empty(8 * len(part) * size)
                sizes = np.uint32(len(part)), np.uint32(size)
                session.launch(kernel, len(part) * size, group, inner.copy_of(part), sizes[0], words, sizes[1], found)
                made[first : first + most] = session.download(found, (len(part), size), np.uint64)
    return made
