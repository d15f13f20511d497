"""Training of VQ codebooks: the LBG algorithm on whole-number codewords, its starts, and rounds that move codewords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import Picture
from clquant.runtime import InvalidArgument, InvalidType, Progress, Session, philox4x32, seed_key
from clquant.vq.blocks import BlockShape
from clquant.vq.blockset import MAX_WEIGHT, BlockSet
from clquant.vq.encode import MAX_CODEBOOK, Search, index_dtype

Codebook = npt.NDArray[np.uint8]
_LEVEL_STEPS = 10  # Lloyd steps between two splittings
_ROUND_STEPS = 6  # Lloyd steps after codewords were added or taken away
_DRAWS = 1024  # passes over the blocks in D^2 sampling; larger codebooks draw several a pass
_ONE_DRAW, _SEED_PURPOSE = 0, 1


@dataclass(frozen=True)
class Plan:
    """What to train: see `VQCodec` for each."""

    size: int
    init: str
    max_iter: int
    refine: int
    seed: int


@dataclass(frozen=True)
class Trained:
    """A codebook (N, K) uint8, its mean squared error per component, and the Lloyd steps it took."""

    codebook: Codebook
    mse: float
    n_iter: int


def check_weights(sample_weight: Any, tables: Sequence[tuple[int, int]]) -> list[npt.NDArray[np.uint16]] | None:
    """Weights as a person gave them, as whole numbers 0..4095 a block.

    Parameters
    ----------
    sample_weight : None, or a sequence with a number or an array of block weights per picture
    tables : sequence of (int, int)
        Block rows and columns of each picture.

    Returns
    -------
    list of ndarray of uint16, or None

    Raises
    ------
    InvalidArgument, InvalidType
        If there are too few or too many, of wrong shapes, negative, not finite, or all zero.
    """
    if sample_weight is None:
        return None
    several = isinstance(sample_weight, list | tuple) or (isinstance(sample_weight, np.ndarray) and sample_weight.ndim)
    if not several or len(sample_weight) != len(tables):
        raise InvalidType(
            f"sample_weight is {params.shown(sample_weight)}; allowed: one entry a picture ({len(tables)})"
        )
    weights = []
    for i, (entry, table) in enumerate(zip(sample_weight, tables, strict=True)):
        name = f"sample_weight[{i}]"
        values = params.array(name, entry, "a number or an array of numbers", "buif").astype(np.float64)
        if values.shape not in ((), table):
            raise InvalidArgument(f"{name} has the shape {values.shape}; allowed: a number, or blocks as {table}")
        if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
            raise InvalidArgument(f"{name} holds negative or infinite weights; allowed: finite numbers of at least 0")
        weights.append(np.broadcast_to(values, table))
    largest = max(float(w.max()) for w in weights)
    if largest == 0:
        raise InvalidArgument("sample_weight is zero everywhere; allowed: at least one positive weight")
    return [np.floor(w / largest * MAX_WEIGHT + 0.5).astype(np.uint16) for w in weights]


def train(
    session: Session,
    pictures: Sequence[Picture],
    weights: list[npt.NDArray[np.uint16]] | None,
    shape: BlockShape,
    plan: Plan,
    progress: Progress,
) -> Trained:
    """Train a codebook on every block of some pictures.

    Parameters
    ----------
    session : Session
    pictures : sequence of Picture
    weights : list of ndarray or None
        From `check_weights`.
    shape : BlockShape
    plan : Plan
    progress : Progress
        Told of 2 + `plan.refine` stages: the start with its steps, the rounds, the last steps.

    Returns
    -------
    Trained
        Codewords in increasing order of their sums, then of their components.

    Raises
    ------
    StoppedError
        If the progress callback returned False.
    """
    stages = 2 + plan.refine
    with session.scope() as scope:
        trainer = _Trainer(BlockSet(session, scope, pictures, weights, shape), session)
        progress.report(0, stages)
        start = trainer.sampled(plan) if plan.init == "k-means++" else trainer.split(plan.size)
        codebook = trainer.lloyd(start, plan.max_iter)
        progress.report(1, stages)
        codebook = trainer.refined(codebook, plan, progress)
        codebook = codebook[np.lexsort((*codebook.T[::-1], codebook.sum(1, dtype=np.int64)))]
        error = trainer.error(codebook)
        total = trainer.total_weight() * shape.components
        progress.report(stages, stages)
        return Trained(codebook, error / total, trainer.steps)


class _Trainer:
    """LBG on one set of blocks."""

    def __init__(self, blocks: BlockSet, session: Session) -> None:
        self._blocks = blocks
        self._session = session
        self.steps = 0

    def total_weight(self) -> int:
        weights = self._blocks.weights
        return self._blocks.count if weights is None else int(weights.sum(dtype=np.int64))

    def _weighted(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        weights = self._blocks.weights
        return values if weights is None else values * weights

    def error(self, codebook: Codebook) -> int:
        """The weighted sum of squared distances, exactly."""
        self._blocks.assign(codebook)
        return _exact_sum(self._weighted(self._blocks.nearest(codebook)[1]))

    def lloyd(self, codebook: Codebook, most: int) -> Codebook:
        """Lloyd steps until nothing changes, at most `most`; codewords without blocks move to the worst-coded ones."""
        for _ in range(most):
            self._blocks.assign(codebook)
            sums, counts = self._blocks.sums(len(codebook))
            self.steps += 1
            moved = codebook.copy()
            alive = counts > 0
            twice = 2 * counts[alive, None]
            moved[alive] = ((2 * sums[alive] + counts[alive, None]) // twice).astype(np.uint8)
            if not alive.all():
                moved = self._repaired(codebook, moved, np.flatnonzero(~alive))
            if np.array_equal(moved, codebook):
                break
            codebook = moved
        return codebook

    def _repaired(self, codebook: Codebook, moved: Codebook, dead: npt.NDArray[np.intp]) -> Codebook:
        """Put dead codewords on the worst-coded blocks of differing clusters, the lowest numbers on ties."""
        indices, distances = self._blocks.nearest(codebook)
        worst, errors = _worst_of_clusters(indices, self._weighted(distances), len(codebook))
        order = np.argsort(-errors, kind="stable")[: len(dead)]
        order = order[errors[order] > 0]
        moved = moved.copy()
        moved[dead[: len(order)]] = self._blocks.take(worst[order])
        return moved

    def sampled(self, plan: Plan) -> Codebook:
        """k-means++: each codeword a block drawn with a chance in proportion to its squared distance to the others."""
        blocks = self._blocks
        weights = np.ones(blocks.count, np.uint16) if blocks.weights is None else blocks.weights
        ends = np.cumsum(weights, dtype=np.uint64)
        first = int(np.searchsorted(ends, self._draw(plan.seed, 0, int(ends[-1])), side="right"))
        drawn = [blocks.take([first])]
        blocks.restart_seeding()
        batch = -(-plan.size // _DRAWS)
        made = 1
        while made < plan.size:
            totals = blocks.seed_totals(drawn[-1])
            ends = np.cumsum(np.concatenate(totals), dtype=np.uint64)
            if int(ends[-1]) == 0:
                break
            share = min(batch, plan.size - made)
            numbers = [self._find(totals, ends, self._draw(plan.seed, made + i, int(ends[-1]))) for i in range(share)]
            drawn.append(blocks.take(numbers))
            made += share
        codebook = np.concatenate(drawn)
        return np.concatenate([codebook, np.repeat(codebook[-1:], plan.size - len(codebook), axis=0)])

    @staticmethod
    def _draw(seed: int, number: int, total: int) -> int:
        """A whole number below `total`, keyed by the seed and the draw's number."""
        words = philox4x32([number, 0, _ONE_DRAW, _SEED_PURPOSE], seed_key(seed))
        return ((int(words[0]) | int(words[1]) << 32) * total) >> 64

    def _find(self, totals: list[npt.NDArray[np.uint64]], ends: npt.NDArray[np.uint64], target: int) -> int:
        """The number of the block at which the running sum of distances passes `target`."""
        run = int(np.searchsorted(ends, np.uint64(target), side="right"))
        target -= int(ends[run - 1]) if run else 0
        piece = 0
        while run >= len(totals[piece]):
            run -= len(totals[piece])
            piece += 1
        within = np.cumsum(self._blocks.seed_run(piece, run))
        return self._blocks.number(piece, run, int(np.searchsorted(within, target, side="right")))

    def split(self, size: int) -> Codebook:
        """LBG's splitting: from the mean of all blocks, codewords are doubled and told apart by Lloyd steps."""
        self._blocks.assign_all_to_first()
        sums, counts = self._blocks.sums(1)
        codebook = ((2 * sums + counts[:, None]) // (2 * counts[:, None])).astype(np.uint8)
        while len(codebook) < size:
            chosen = np.arange(len(codebook))
            if 2 * len(codebook) > size:
                indices, distances = self._blocks.nearest(codebook)
                errors = np.bincount(indices, self._weighted(distances), len(codebook))
                chosen = np.sort(np.argsort(-errors, kind="stable")[: size - len(codebook)])
            codebook[chosen] = np.minimum(codebook[chosen], 254)
            codebook = self.lloyd(np.concatenate([codebook, codebook[chosen] + np.uint8(1)]), _LEVEL_STEPS)
            self._blocks.assign(codebook)
        return codebook

    def refined(self, codebook: Codebook, plan: Plan, progress: Progress) -> Codebook:
        """Rounds that add codewords where the error is large and take the least useful away; undone if in vain."""
        best = self.error(codebook)
        moving = max(1, min(plan.size // 2, MAX_CODEBOOK - plan.size))
        for done in range(plan.refine):
            if best == 0 or moving == 0 or plan.size + moving > MAX_CODEBOOK:
                break
            more = self.lloyd(self._with_more(codebook, moving), _ROUND_STEPS)
            fewer = self.lloyd(self._with_fewer(more, len(more) - plan.size), _ROUND_STEPS)
            error = self.error(fewer)
            if error < best:
                codebook, best = fewer, error
            else:
                moving //= 2
            progress.report(2 + done, 2 + plan.refine)
        return self.lloyd(codebook, plan.max_iter) if plan.refine else codebook

    def _with_more(self, codebook: Codebook, number: int) -> Codebook:
        """Add `number` codewords, each halfway from one of the codewords of largest error to its worst block."""
        self._blocks.assign(codebook)
        indices, distances = self._blocks.nearest(codebook)
        weighted = self._weighted(distances)
        errors = np.bincount(indices, weighted, len(codebook))
        worst, _ = _worst_of_clusters(indices, weighted, len(codebook))
        crowded = np.argsort(-errors, kind="stable")[:number]
        crowded = crowded[errors[crowded] > 0]
        far = self._blocks.take(worst[crowded]).astype(np.uint16)
        return np.concatenate([codebook, ((codebook[crowded] + far + 1) // 2).astype(np.uint8)])

    def _with_fewer(self, codebook: Codebook, number: int) -> Codebook:
        """Take away `number` codewords, least useful first.

        Useful is the error that a codeword's blocks would gain by going to their second nearest. The nearest neighbour
        of a codeword taken away stays, as it inherits the blocks.
        """
        self._blocks.assign(codebook)
        indices, first = self._blocks.nearest(codebook)
        self._blocks.assign(codebook, second=True)
        second = self._blocks.nearest(codebook)[1]
        useful = np.bincount(indices, self._weighted(second - first), len(codebook))
        neighbour = self._neighbours(codebook)
        gone, kept = np.zeros(len(codebook), bool), np.zeros(len(codebook), bool)
        order = np.argsort(useful, kind="stable")
        for respect_neighbours in (True, False):
            for j in order:
                if gone.sum() == number:
                    break
                if not gone[j] and not (respect_neighbours and kept[j]):
                    gone[j] = True
                    kept[neighbour[j]] = True
        return codebook[~gone]

    def _neighbours(self, codebook: Codebook) -> npt.NDArray[np.int64]:
        """The nearest other codeword of each."""
        shape, size = self._blocks.shape, len(codebook)
        dtype = index_dtype(size)
        with self._session.scope() as scope:
            own = scope.copy_of(np.arange(size, dtype=dtype))
            out = scope.empty(size * dtype.itemsize)
            search = Search(self._session, scope, codebook, shape, excluding=True)
            search.run(scope.copy_of(codebook), size * shape.rows, shape.columns, out, own=own)
            return self._session.download(out, size, dtype).astype(np.int64)


def _exact_sum(values: npt.NDArray[np.int64]) -> int:
    """A sum that may be beyond 64 bits."""
    return sum(int(part.sum(dtype=np.uint64)) for part in np.array_split(values, -(-len(values) // (1 << 24)) or 1))


def _worst_of_clusters(
    indices: npt.NDArray[np.int64], errors: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Per cluster, the number of its block of largest error (the lowest on ties) and that error; 0 and 0 if empty."""
    order = np.argsort(indices.astype(np.uint16), kind="stable")  # counts, as 16-bit keys are sorted by radix
    ordered = errors[order]
    counts = np.bincount(indices, minlength=size)
    clusters = np.flatnonzero(counts)
    starts = np.cumsum(counts)[clusters] - counts[clusters]
    worst, largest = np.zeros(size, np.int64), np.zeros(size, np.int64)
    largest[clusters] = np.maximum.reduceat(ordered, starts)
    at = np.flatnonzero(ordered == np.repeat(largest[clusters], counts[clusters]))
    worst[clusters] = order[at[np.searchsorted(at, starts)]]
    return worst, largest
