"""The training of a quantizer of rows, in memory or by portions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Progress, Session
from clquant.training import training
from clquant.training.blockset import BlockSet
from clquant.training.lloyd import Lloyd
from clquant.vectors.device_rows import DeviceRows
from clquant.vectors.distances import Labels, nearest, runs_of
from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.lazy_training import LazySums, LazyTraining, Weights
from clquant.vectors.rows import RowSource

_DEVICE_SHARE = 3  # rows take at most a third of a device's memory, beside samples and what steps need
_MOST_AT_ONCE = 1 << 26  # bytes of rows in a portion, or a quarter of the host memory that they may take


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a training gives: codewords as whole numbers, the labels of the rows, their error and the steps."""

    fixed: FixedPoint
    words: npt.NDArray[np.integer[Any]]
    labels: Labels
    inertia: float
    n_iter: int

    def weighing(self, unit: float) -> Fitted:
        """The same, with a unit of the weights."""
        return dataclasses.replace(self, inertia=self.inertia * unit)


def portion_of(source: RowSource, memory: int) -> int:
    """Rows in a portion, by the host memory that lazy rows may take."""
    row_bytes = source.components * max(source.dtype.itemsize, 2)
    return max(1, min(_MOST_AT_ONCE, memory // 4) // row_bytes)


def is_kept(session: Session, source: RowSource) -> bool:
    """Whether the device has room for rows as they are, beside their whole numbers."""
    return not source.is_lazy and 2 * source.nbytes <= session.limits.global_memory // _DEVICE_SHARE


def train_rows(
    rows: DeviceRows,
    fixed: FixedPoint,
    weights: Weights,
    plans: Sequence[training.Plan],
    progress: Progress,
    memory: int,
) -> Fitted:
    """The codewords of the plan that gives the least error, the first of equals."""
    session, source = rows.session, rows.source
    shape = fixed.shape(source.components)
    room = session.limits.global_memory // _DEVICE_SHARE
    in_portions = source.count * shape.nbytes > room or (source.is_lazy and source.nbytes > memory)
    best: training.Trained | None = None
    with session.scope() as scope:
        blocks = None if in_portions else _blocks(rows, fixed, weights, scope)
        steps = LazyTraining(scope, rows, fixed, weights)
        for number, plan in enumerate(plans):
            stages = 2 + plan.refine
            part = progress.part(number * stages, len(plans) * stages)
            with session.scope() as inner:
                if blocks is None:
                    found = steps.train(plan, part)
                else:
                    found = training.train_on(session, inner, blocks, plan, part, Lloyd)
            best = found if best is None or found.mse < best.mse else best
        assert best is not None, "there is a plan"
        runs = runs_of(rows, fixed) if blocks is None else blocks.runs()
        labels = nearest(session, best.codebook, shape, runs, source.count, source.is_on_device)
    total = source.count if weights is None else int(weights.sum(dtype=np.int64))
    inertia = best.mse * total * source.components * fixed.scale**2
    return Fitted(fixed, best.codebook, labels, inertia, best.n_iter)


def batch_totals(
    rows: DeviceRows, fixed: FixedPoint, weights: Weights, words: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.uint64]:
    """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
    with rows.session.scope() as scope:
        return LazySums(scope, rows, fixed, weights, len(words)).totals(words)


def _blocks(rows: DeviceRows, fixed: FixedPoint, weights: Weights, scope: Any) -> BlockSet:
    """All rows on the device as whole numbers."""
    blocks = BlockSet(rows.session, scope, fixed.shape(rows.source.components), rows.source.count, weights)
    first = 0
    for piece in blocks.pieces:
        rows.write(fixed, first, first + piece.capacity, piece.blocks)
        piece.count = piece.capacity
        first += piece.count
    return blocks
