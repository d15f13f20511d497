"""Training on parts that workers hold: each step is a reduction over the parts, which stay where they are.

A part that is lost with its worker is made anew from its graph. Nothing of a codebook depends on how blocks are shared
out (see `clquant.training.parted`). Steps on samples are made by the process that trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed, persist

from clquant.dask.work import held, named, release, tree
from clquant.runtime import Progress, Session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.part import MERGES, Part, Rows
from clquant.training.parted import PartedBlocks, Parts, steps_on


class RemoteParts(Parts):
    """`Part` objects that delayed calls make, in order; closing releases them."""

    def __init__(self, shape: BlockShape, counts: Sequence[int], made: Sequence[Any]) -> None:
        super().__init__(shape, counts)
        self._parts = persist(*made)

    def close(self) -> None:
        """Release the parts."""
        for part in self._parts:
            release(held(part))

    def train(
        self, session: Session, weights: npt.NDArray[np.uint16] | None, plan: training.Plan, progress: Progress
    ) -> training.Trained:
        """Train like `training.train`; the session runs steps on samples."""
        with session.scope() as scope:
            blocks = PartedBlocks(session, scope, self.shape, self.count, weights, self)
            return training.train_on(session, scope, blocks, plan, progress, steps_on)

    def reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each part on its worker, and merge the results as a tree."""
        common = [delayed(one, pure=False) if isinstance(one, np.ndarray) else one for one in args]
        work = delayed(named(getattr(Part, method)), pure=False)
        return compute(tree(MERGES[method], [work(part, *common) for part in self._parts]))[0]

    def picked(self, wanted: dict[int, npt.NDArray[np.int64]]) -> Sequence[Rows]:
        """Return blocks of some parts by their places in these."""
        work = delayed(named(Part.rows), pure=False)
        found: Sequence[Rows] = compute(*[work(self._parts[i], places) for i, places in wanted.items()])
        return found
