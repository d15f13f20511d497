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
from clquant.vectors.distances import nearest
from clquant.vectors.fixed_point import FixedPoint
from clquant.vectors.lazy_training import LazyTraining, PortionSteps, Weights
from clquant.vectors.rows import RowSource

_DEVICE_SHARE = 3  # rows take at most a third of a device's memory, beside samples and what steps need


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a training gives: codewords as whole numbers, the labels of the rows, their error and the steps."""

    fixed: FixedPoint
    words: npt.NDArray[np.integer[Any]]
    labels: npt.NDArray[np.int32]
    inertia: float
    n_iter: int

    def weighing(self, unit: float) -> Fitted:
        """The same, with a unit of the weights."""
        return dataclasses.replace(self, inertia=self.inertia * unit)


def train_rows(
    session: Session,
    source: RowSource,
    fixed: FixedPoint,
    weights: Weights,
    plans: Sequence[training.Plan],
    progress: Progress,
    memory: int,
) -> Fitted:
    """The codewords of the plan that gives the least error, the first of equals."""
    shape = fixed.shape(source.components)
    room = session.limits.global_memory // _DEVICE_SHARE
    in_portions = source.count * shape.nbytes > room or (source.is_lazy and source.nbytes > memory)
    rows = None if in_portions else _encoded(source, fixed)
    best: training.Trained | None = None
    with session.scope() as scope:
        steps = LazyTraining(session, scope, source, fixed, weights) if rows is None else None
        blocks = None if rows is None else BlockSet.of_rows(session, scope, shape, rows, weights)
        for number, plan in enumerate(plans):
            stages = 2 + plan.refine
            part = progress.part(number * stages, len(plans) * stages)
            if steps is not None:
                found = steps.train(plan, part)
            else:
                with session.scope() as inner:
                    found = training.train_on(session, inner, blocks, plan, part, Lloyd)
            best = found if best is None or found.mse < best.mse else best
    assert best is not None, "there is a plan"
    portions = source.portions() if rows is None else [(0, rows)]
    encode = fixed.encode if rows is None else (lambda whole: whole)
    labels = np.concatenate([nearest(session, best.codebook, encode(each), shape) for _, each in portions])
    total = source.count if weights is None else int(weights.sum(dtype=np.int64))
    inertia = best.mse * total * source.components * fixed.scale**2
    return Fitted(fixed, best.codebook, labels, inertia, best.n_iter)


def batch_totals(
    session: Session, fixed: FixedPoint, source: RowSource, weights: Weights, words: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.uint64]:
    """Sums of the rows of each codeword, (k, d + 1), the last column their weights."""
    shape, total = fixed.shape(source.components), np.zeros((len(words), source.components + 1), np.uint64)
    for first, rows in source.portions():
        own = None if weights is None else weights[first : first + len(rows)]
        with session.scope() as scope:
            blocks = BlockSet.of_rows(session, scope, shape, fixed.encode(rows), own)
            total += PortionSteps(session, scope, blocks, len(words)).totals(words)
    return total


def _encoded(source: RowSource, fixed: FixedPoint) -> npt.NDArray[np.integer[Any]]:
    """All rows as whole numbers."""
    return np.concatenate([fixed.encode(rows) for _, rows in source.portions()])
