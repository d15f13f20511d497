"""Training as repeated reductions over parts of the blocks, which stay on the workers that have them.

A part that is lost with its worker is made anew from its graph. Nothing of a codebook depends on how blocks are shared
out (see `clquant.training.parts`). Steps on samples are made by the process that trains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dask import compute, delayed, is_dask_collection, persist

from clquant.dask.chunks import checked, placed
from clquant.dask.sums import tree
from clquant.dask.work import held, named, release, workers
from clquant.runtime import Session
from clquant.training.blocks import BlockShape, Places, Rows
from clquant.training.parts import MERGES, Part, Parts

# Pixels of a part, about.
MOST_PIXELS = 1 << 29


class RemoteParts(Parts):
    """`Part` objects that delayed calls make, in order; closing releases them."""

    def __init__(
        self, session: Session, shape: BlockShape, counts: Sequence[int], weights: Any, made: Sequence[Any]
    ) -> None:
        super().__init__(session, shape, counts, weights)
        self._parts = persist(*made)

    def __enter__(self) -> RemoteParts:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            release(held(part))

    def reduced(self, method: str, *args: Any) -> Any:
        """Call a method of each part on its worker, and merge the results as a tree."""
        common = [delayed(one, pure=False) if isinstance(one, np.ndarray) else one for one in args]
        work = delayed(named(getattr(Part, method)), pure=False)
        return compute(tree(MERGES[method], [work(part, *common) for part in self._parts]))[0]

    def picked(self, wanted: dict[int, Places]) -> Sequence[Rows]:
        """Return blocks of some parts by their places in these."""
        work = delayed(named(Part.rows), pure=False)
        found: Sequence[Rows] = compute(*[work(self._parts[i], places) for i, places in wanted.items()])
        return found


def bands_of(image: Any, name: str, rows: int, work: Callable[..., Any]) -> tuple[list[Any], int, tuple[int, ...]]:
    """Cut a picture into about as many bands as workers: `work` of each, its height (of some rows each), the shape."""
    # `work` gets what was given, or an array, and its name in errors. A picture that a worker reads is one band, whose
    # shape only the worker knows.
    call = delayed(named(work), pure=False)
    if not is_dask_collection(image):
        return [call(image, name)], 0, ()
    whole = placed(checked(image, name), name)
    height, width = whole.shape[:2]
    most = min(-(-height // workers()), max(MOST_PIXELS // width, 1))
    high = -(-most // rows) * rows
    heights = tuple(min(high, height - top) for top in range(0, height, high))
    pixels = whole if whole.ndim == 3 else whole[:, :, None]
    chunks = pixels.rechunk({0: heights, 1: width}).to_delayed().ravel()
    return [call(band, f"chunk at row {i * high}, column 0") for i, band in enumerate(chunks)], high, whole.shape
