"""Training of VQ codebooks: a start, rounds of annealed Lloyd steps in which surplus codewords merge, plain steps.

Linde, Buzo and Gray 1980 (Lloyd steps); Zeger, Vaisey and Gersho 1992 (noise on codewords that fades away); Equitz 1989
(merging nearest neighbours). Nothing waits for the host but the end of the plain steps and `progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import InvalidArgument, InvalidType, Progress, Scope, Session, seed_key
from clquant.training.blocks import Rows, Weights
from clquant.training.blockset import BlockSet, whole_weights
from clquant.training.lloyd import Lloyd, Motion
from clquant.training.schedule import BLOCKS, LAST_STEPS, Rule, Schedule
from clquant.training.search import Codewords
from clquant.training.seeding import sample_codewords, split_codewords
from clquant.training.shares import SharedBlocks, SharedLloyd

_LAST_PARTS = 20  # of what is reported, for all plain steps at the end; a round is one
_REACH = 3  # steps as long as the last that plain training is trusted to gain at most, for each that it has made
_QUARTERS = 7  # of the way to the mean that annealed steps go


@dataclass(frozen=True)
class Plan:
    """Parameters of a training, as `VQCodec` has them. A given start, (size, K), takes no rounds."""

    size: int
    init: str | Rows
    max_iter: int
    refine: int
    seed: int
    rule: Rule = BLOCKS


@dataclass(frozen=True)
class Trained:
    """A codebook (N, K), what it makes of the blocks, and the Lloyd steps it took."""

    codebook: Rows
    error: int  # weighted, of all blocks
    mse: float  # per component
    n_iter: int
    totals: npt.NDArray[np.uint64]  # (N, K + 1), sums of each codeword's blocks; the last column has their weights


def check_weights(sample_weight: Any, tables: Sequence[tuple[int, int]], components: int) -> Weights:
    """Weights as a person gave them, as whole numbers per block, those of all pictures in a row."""
    if sample_weight is None:
        return None
    several = isinstance(sample_weight, list | tuple) or (isinstance(sample_weight, np.ndarray) and sample_weight.ndim)
    if not several or len(sample_weight) != len(tables):
        raise InvalidType(
            f"sample_weight is {params.shown(sample_weight)}; allowed: one entry per picture ({len(tables)})"
        )
    weights = []
    for i, (entry, table) in enumerate(zip(sample_weight, tables, strict=True)):
        name = f"sample_weight[{i}]"
        values = params.array(name, entry, "a number or an array of numbers", "buif").astype(np.float64)
        if values.shape not in ((), table):
            raise InvalidArgument(f"{name} has the shape {values.shape}; allowed: a number, or blocks as {table}")
        if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
            raise InvalidArgument(f"{name} holds negative or infinite weights; allowed: finite numbers of at least 0")
        weights.append(np.broadcast_to(values, table).ravel())
    flat = np.concatenate(weights)
    if flat.max() == 0:
        raise InvalidArgument("sample_weight is zero everywhere; allowed: at least one positive weight")
    return whole_weights(flat, components, 8)[0]


def train(session: Session, blocks: BlockSet | SharedBlocks, plans: Sequence[Plan], progress: Progress) -> Trained:
    """Train on blocks by each plan; return the training of least error, the first of equals."""
    parts, found = [_parts(plan) for plan in plans], list[Trained]()
    for number, plan in enumerate(plans):
        with session.scope() as scope:
            own = progress.part(sum(parts[:number]), sum(parts))
            found.append(_trained(session, scope, blocks, plan, own))
    return min(found, key=lambda trained: trained.error)


def _trained(
    session: Session, scope: Scope, blocks: BlockSet | SharedBlocks, plan: Plan, progress: Progress
) -> Trained:
    """Train on blocks by one plan."""
    total = _parts(plan)
    progress.report(0, total)
    if blocks.count <= plan.size:
        progress.report(total, total)
        rows = blocks.read()
        repeated = np.repeat(rows[:1], plan.size - blocks.count, axis=0)
        return _trained_of(blocks, np.concatenate([rows, repeated]), 0, _totals_of(rows, blocks.weights, plan.size), 0)
    training = _Training(session, scope, blocks, plan)
    training.start()
    training.report(progress, 1)
    for turn in range(plan.refine):
        training.round(turn)
        training.report(progress, 2 + turn)
    has_plain = plan.rule.beside_plain and plan.refine > 0
    training.steps += training.whole().run(plan.max_iter, training.reporter(progress, 0, 2 if has_plain else 1))
    found, done = training.result(), training.steps
    if has_plain:
        with session.scope() as inner:
            plain = _Training(session, inner, blocks, replace(plan, refine=0))
            found = plain.below(found[1], training.reporter(progress, 1, 2)) or found
            done += plain.steps
    progress.report(total, total)
    return _trained_of(blocks, *found, done)


def _parts(plan: Plan) -> int:
    """Parts of a training that are reported: the start, the rounds, and of the plain steps."""
    return 1 + plan.refine + _LAST_PARTS


def _trained_of(
    blocks: BlockSet | SharedBlocks, codebook: Rows, error: int, totals: npt.NDArray[np.uint64], steps: int
) -> Trained:
    """Sort codewords by their sums, then by their components."""
    order = np.lexsort((*codebook.T[::-1], codebook.sum(1, dtype=np.int64)))
    mse = error / (blocks.total_weight * blocks.shape.components)
    return Trained(codebook[order], error, mse, steps, totals[order])


def _totals_of(rows: Rows, weights: Weights, size: int) -> npt.NDArray[np.uint64]:
    """Sums of blocks each of which is a codeword, and their weights; the further codewords have none."""
    totals = np.zeros((size, rows.shape[1] + 1), np.uint64)
    totals[: len(rows), -1] = 1 if weights is None else weights
    totals[: len(rows), :-1] = rows * totals[: len(rows), -1:]
    return totals


class _Training:
    """The stages of one training."""

    def __init__(self, session: Session, scope: Scope, blocks: BlockSet | SharedBlocks, plan: Plan) -> None:
        self._session, self._scope, self._plan, self._blocks = session, scope, plan, blocks
        self._key = seed_key(plan.seed)
        able = blocks.count if blocks.weights is None else int(np.count_nonzero(blocks.weights))
        rule = plan.rule if plan.refine else BLOCKS
        self._schedule = schedule = Schedule.of(rule, plan.refine, plan.size, able, blocks.shape.components)
        self.words = Codewords(session, scope, blocks.shape, schedule.codewords)
        self.steps = self._annealed = 0
        self._first = blocks.sample(scope, schedule.first, 0, plan.seed)
        self._in_turn = blocks.in_turn(scope, schedule.turn, schedule.turns) if schedule.turns else []
        self._second = blocks
        if plan.refine and not schedule.turns:
            self._second = blocks.sample(scope, schedule.second, 1, plan.seed)
        self._lloyds: dict[int, Lloyd] = {}

    def whole(self) -> Lloyd:
        """Return the steps on all blocks."""
        return self._on(self._blocks)

    def _on(self, blocks: Any) -> Lloyd:
        """Return the steps on a set of blocks, the same object each time."""
        if id(blocks) not in self._lloyds:
            kind = SharedLloyd if isinstance(blocks, SharedBlocks) else Lloyd
            self._lloyds[id(blocks)] = kind(self._session, self._scope, blocks, self.words, self._key)
        return self._lloyds[id(blocks)]

    def report(self, progress: Progress, done: int) -> None:
        """Report how many stages are over, if there is a callback; waits for what is queued."""
        if progress.wanted:
            self._session.finish()
            progress.report(done, _parts(self._plan))

    def reporter(self, progress: Progress, number: int, count: int) -> Callable[[int], None]:
        """Report plain steps, the run of that number out of `count`, when another part of them is over."""
        before, share, told = 1 + self._plan.refine, _LAST_PARTS // count, [0]

        def report(steps: int) -> None:
            done = share * steps // (self._plan.max_iter + 1)  # the last part is told at the end
            if done > told[0]:
                told[0] = done
                progress.report(before + number * share + done, _parts(self._plan))

        return report

    def start(self) -> None:
        """Find more codewords than wanted, which the rounds merge; without rounds, as many."""
        if isinstance(self._plan.init, np.ndarray):
            self._session.write(self.words.moved, self._plan.init)
            self.words.commit(self._plan.size)
        elif self._plan.init == "k-means++":
            sample_codewords(self._session, self._first, self.words, self._schedule.codewords, self._key)
        else:
            self.steps += split_codewords(
                self._session, self._first, self.words, self._on(self._first), self._schedule.codewords
            )

    def round(self, turn: int) -> None:
        """Queue annealed steps. After the first one dead codewords are repaired, in the last one surplus ones merge."""
        refine, size = self._plan.refine, self._plan.size
        sets, count = self._sets(turn)
        part = min(max(10 * (turn + 1) - 2 * refine, 0), 5 * refine)
        left = self._schedule.codewords - (self._schedule.codewords - size) * part // (5 * refine)
        for step in range(count):
            every, fading = refine * count, (refine - turn) * count - step
            amplitude = self._schedule.amplitude * fading * (5 * fading + every) // (10 * every**2)
            removed = self.words.size - left if step == count - 1 else 0
            motion = Motion(_QUARTERS, amplitude, self._annealed)
            self._on(sets[step % len(sets)]).queue_step(motion, repairs=step == 0, removed=removed)
            self._annealed += 1
        self.steps += count

    def _sets(self, turn: int) -> tuple[list[Any], int]:
        """The sets of blocks that the steps of a round look at in turn, and how many steps there are."""
        tenths = 10 * turn // self._plan.refine
        if self._in_turn and tenths >= 6:
            return (self._in_turn, self._schedule.late_steps) if tenths < 9 else ([self._blocks], LAST_STEPS)
        if tenths >= 6:
            return [self._blocks], self._schedule.late_steps
        return [self._first if tenths < 5 or self._in_turn else self._second], self._schedule.early_steps

    def result(self) -> tuple[Rows, int, npt.NDArray[np.uint64]]:
        """The codebook, its error, and the sums of its blocks."""
        error = self.whole().error()
        return self.words.read(), error, self.whole().read_totals()

    def below(self, bound: int, report: Callable[[int], None]) -> tuple[Rows, int, npt.NDArray[np.uint64]] | None:
        """The result of plain training, if its error is below a bound; given up when steps gain too little for that."""
        self.start()
        lloyd, before = self.whole(), 0
        for made in range(self._plan.max_iter):
            error, moved = lloyd.step()
            self.steps += 1
            report(made + 1)
            if not moved:
                break
            left = min(self._plan.max_iter - made, _REACH * (made + 1))
            if made > 0 and error - left * (before - error) > bound:
                return None
            before = error
        found = self.result()
        return found if found[1] < bound else None
