"""The order in which codewords are numbered for coding (docs/clvq-format.md, "Contexts")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clquant.training.blocks import BlockShape

if TYPE_CHECKING:
    from clquant.vq.coding.contexts import ContextShape

_SIDE_COMPONENTS = 12  # at most, of a side, that are looked at


def coding_order(codebook: npt.NDArray[np.uint8], block: BlockShape, shape: ContextShape) -> npt.NDArray[np.int64]:
    """An order of codewords in which those of a bucket, and of a group, have similar sides."""
    # With `by_pairs` their own order; else they are halved again and again, each time by the component of their four
    # sides that varies most.
    order = np.arange(shape.size)
    if shape.by_pairs:
        return order
    book = codebook.reshape(shape.size, block.rows, block.columns, block.channels)
    edges = (edge.reshape(shape.size, -1) for edge in (book[:, 0], book[:, :, 0], book[:, -1], book[:, :, -1]))
    looked_at = [edge[:, :: _step(edge.shape[1])] for edge in edges]
    sides = np.concatenate(looked_at, axis=1)
    smallest = shape.smallest_part
    begins = np.zeros(1, np.int64)
    while True:
        counts = np.diff(begins, append=shape.size)
        split = counts > smallest
        if not split.any():
            return order
        order = order[_by_widest(sides[order], begins, counts, split)]
        unit = np.where(counts > shape.bucket, shape.bucket, smallest)
        middles = begins + (-(-counts // unit) + 1) // 2 * unit
        begins = np.sort(np.concatenate([begins, middles[split]]))


def _step(side: int) -> int:
    return -(-side // _SIDE_COMPONENTS)


def _by_widest(
    sides: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Where the rows of each chosen part go if it is sorted by its component of the greatest variance."""
    wide = sides.astype(np.int64)
    spread = counts[:, None] * np.add.reduceat(wide**2, begins) - np.add.reduceat(wide, begins) ** 2
    parts = np.repeat(np.arange(len(begins)), counts)
    keys = np.where(chosen[parts], sides[np.arange(len(sides)), spread.argmax(1)[parts]], np.uint8(0))
    by_key = np.argsort(keys, kind="stable")  # both by counting, as keys are short
    return by_key[np.argsort(parts.astype(np.uint16)[by_key], kind="stable")]
