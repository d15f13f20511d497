"""Training on parts of pictures that are on workers: whoever trains asks them by messages, or by tasks.

Steps on all blocks ask each part for sums per codeword. Samples are brought to the one who trains, whose device makes
the steps on these; large ones stay where they are if their steps take longer there than asking does.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed, persist

from clquant.dask.actors import Actors
from clquant.dask.work import held, named, release, tree
from clquant.runtime import Progress, Session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.lines import Tile
from clquant.training.part import Part, Positions, Rows, Worst
from clquant.training.parted import Elsewhere, PartedBlocks, steps_on
from clquant.training.spacing import Spacing


@dataclass(frozen=True)
class Placement:
    """Which blocks of all pictures each part has."""

    shape: BlockShape
    count: int  # of all blocks
    weights: npt.NDArray[np.uint16] | None  # (count,)
    tiles: list[list[Tile]]  # by part, of each of its pieces
    share: float  # of the calls that are verified
    alone: tuple[int, int]  # products of a step that one CPU, and one GPU, makes in the time of one call to two workers
    workers: int  # among which the parts are


def train(
    session: Session, placement: Placement, parts: Sequence[Any], plan: training.Plan, progress: Progress
) -> training.Trained:
    """Train on the blocks of all parts like `clquant.training.training.train`; `session` runs steps on samples."""
    products, count = placement.shape.components * plan.size, min(placement.workers, len(parts))
    alone = placement.alone[not session.limits.is_cpu] * count // (2 * products) if count > 1 else placement.count
    with session.scope() as scope, contextlib.closing(_Asked(placement, parts, alone)) as asked:
        given = placement.shape, placement.count, placement.weights, asked.elsewhere()
        return training.train_on(session, scope, PartedBlocks(session, scope, *given), plan, progress, steps_on)


class _Asked:
    """Calls methods of all parts and merges the results; samples of more than `alone` blocks stay with the parts."""

    def __init__(self, placement: Placement, parts: Sequence[Any], alone: int) -> None:
        self._placement = placement
        self._parts = parts
        self._alone = alone
        self._actors = Actors.of(parts, placement.share)
        self._samples: list[_Asked] = []

    def close(self) -> None:
        """Release the actors and the samples."""
        for sample in self._samples:
            sample.close()
            for part in sample._parts:
                release(held(part))
        if self._actors is not None:
            self._actors.close()

    def elsewhere(self) -> Elsewhere:
        """Return callables that compute over all parts."""
        return Elsewhere(self._sums, self._worst, self._squares, self._rows, self._in_turn)

    def _each(self, method: str, shared: Sequence[Any], own: Sequence[Any] | None) -> Any:
        """Call a method of each part; returns the results, or delayed tasks without actors."""
        each: list[tuple[Any, ...]] = [()] * len(self._parts) if own is None else [(mine,) for mine in own]
        if self._actors is not None:
            return self._actors.ask(method, shared, each)
        common = [delayed(one, pure=False) if isinstance(one, np.ndarray) else one for one in shared]
        work = delayed(named(getattr(Part, method), self._placement.share), pure=False)
        return [work(part, *common, *mine) for part, mine in zip(self._parts, each, strict=True)]

    def _merged(self, method: str, merge: Callable[..., Any], *shared: Any) -> Any:
        """Call a method of each part and merge the results."""
        found = self._each(method, shared, None)
        return merge(found) if self._actors is not None else compute(tree(merge, found))[0]

    def _sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        found: npt.NDArray[np.uint64] = self._merged("statistics", _added, codebook, capacity)
        return found

    def _squares(self, capacity: int) -> int:
        return int(self._merged("squares", _added, capacity))

    def _worst(self, codebook: Rows, capacity: int) -> Worst:
        found: Worst = self._merged("worst", functools.partial(functools.reduce, Worst.worse), codebook, capacity)
        return found

    def _rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Return blocks by their increasing numbers among all, each from the part that has it."""
        wanted = [_within(numbers, tiles) for tiles in self._placement.tiles]
        found = self._each("sample", (), [np.concatenate(own) for _, own in wanted])
        samples = found if self._actors is not None else compute(*found)
        rows = np.empty((len(numbers), self._placement.shape.components), np.uint8)
        for (targets, own), sample in zip(wanted, samples, strict=True):
            ends = itertools.accumulate(map(len, own))
            for target, of_tile, end in zip(targets, own, ends, strict=True):
                rows[target] = sample[end - len(of_tile) : end]
        return rows

    def _in_turn(self, spacings: Sequence[Spacing], size: int) -> Sequence[Rows | Elsewhere]:
        if size > self._alone:
            return [self._apart(spacing, size) for spacing in spacings]
        found = self._each("spaced", (spacings, size), None)
        samples = found if self._actors is not None else compute(*found)
        made = [np.empty((size, self._placement.shape.components), np.uint8) for _ in spacings]
        for of_part in samples:
            for rows, (which, own) in zip(made, of_part, strict=True):
                rows[which] = own
        return made

    def _apart(self, spacing: Spacing, size: int) -> Elsewhere:
        """Leave a sample on the parts' workers and return callables that compute over it."""
        chosen = delayed(named(Part.every, self._placement.share), pure=False)
        parts = persist(*[chosen(part, spacing, size) for part in self._parts])
        self._samples.append(_Asked(self._placement, parts, self._alone))
        return self._samples[-1].elsewhere()


def _within(
    numbers: npt.NDArray[np.int64], tiles: Sequence[Tile]
) -> tuple[list[Positions], list[npt.NDArray[np.int64]]]:
    """Return where each tile's blocks are among increasing numbers, and their numbers within the part."""
    targets: list[Positions] = []
    places, start = [], 0
    for tile in tiles:
        end = tile.first + (tile.rows - 1) * tile.stride + tile.columns
        low, high = np.searchsorted(numbers, [tile.first, end])
        if tile.columns == tile.stride:
            targets.append(slice(low, high))
            places.append(numbers[low:high] + (start - tile.first))
        else:
            row, column = np.divmod(numbers[low:high] - tile.first, tile.stride)
            mine = column < tile.columns
            targets.append(low + np.flatnonzero(mine))
            places.append(start + (row * tile.columns + column)[mine])
        start += tile.rows * tile.columns
    return targets, places


def _added(parts: Sequence[Any]) -> Any:
    return sum(parts[1:], start=parts[0])
