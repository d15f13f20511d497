"""Training of VQ codebooks: a start, rounds of annealed Lloyd steps in which surplus codewords merge, plain steps.

Linde, Buzo and Gray 1980 (Lloyd steps); Zeger, Vaisey and Gersho 1992 (noise on codewords that fades away); Equitz 1989
(merging nearest neighbours). Nothing waits for the host but the end of the plain steps and `progress`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import InvalidArgument, InvalidType, Progress, Scope, Session, seed_key
from clquant.training.blocks import Rows, Weights
from clquant.training.blockset import MAX_WEIGHT, BlockSet
from clquant.training.lloyd import Lloyd, Motion
from clquant.training.search import MAX_CODEBOOK, Codewords
from clquant.training.seeding import sample_codewords, split_codewords
from clquant.training.shares import SharedBlocks, SharedLloyd

# Annealed Lloyd steps per round of refinement, and where all blocks are fewer than the second sample.
ROUND_STEPS, FEW_STEPS = 5, 4
# Steps of late rounds on all blocks, if these make less than two second samples, and if more: for few codewords, for
# many.
MANY_CODEWORDS = 512
WHOLE_STEPS, MANY_WHOLE_STEPS = (24, 32), (16, 64)
# Steps on samples in turn, for few codewords, many, and many on many samples; steps on all blocks after them.
MANY_IN_TURN, MANY_TURNS = 256, 8
TURN_STEPS, LAST_STEPS = (60, 120, 240), 10
# Blocks per codeword of the samples: for the first half of the rounds, for those up to 3 in 5, and of each in turn.
# A sample of few codewords is not smaller than that of a hundred and some.
FIRST_SAMPLE, SECOND_SAMPLE, TURN_SAMPLE = 64, 256, 1024
LEAST_FIRST, LEAST_SECOND, LEAST_TURN = 8192, 32768, 131072
TURNS, MOST_TURNS = 4, 16  # samples in turn, more if blocks are; at least twice as many blocks as one has are wanted
_MOST_TURN_BYTES = 1 << 26  # of a sample in turn, and of all if they are more than the fewest
# Blocks of which halves are taken in turn, with the fewest steps, where samples as above are too large for that.
HALVED = 1 << 22
# The start has a quarter more codewords than wanted, an eighth where samples are taken in turn; the surplus merges.
SURPLUS, TURN_SURPLUS = 4, 8
# Rows of numbers: blocks per codeword of the samples for the first half of the rounds, and of each in turn; steps per
# round on samples in turn, and on all; components from which on noise is less.
ROWS_FIRST, ROWS_TURN, ROWS_LEAST_TURN = 48, 256, 32768
ROWS_TURN_STEPS, ROWS_WHOLE_STEPS, ROWS_FEW_STEPS = 24, 16, 3
ROWS_COMPONENTS = 16
_LAST_PARTS = 20  # of what is reported, for all plain steps at the end; a round is one
_REACH = 3  # steps as long as the last that plain training is trusted to gain at most, for each that it has made
_AMPLITUDE = 443  # of noise as large as the root mean squared error (see `Motion`)
_QUARTERS = 7  # of the way to the mean that annealed steps go


@dataclass(frozen=True)
class Plan:
    """Parameters of a training, as `VQCodec` has them. A given start, (size, K), takes no rounds."""

    size: int
    init: str | Rows
    max_iter: int
    refine: int
    seed: int
    of_rows: bool = False  # of numbers: steps and noise of another rule, and never worse than without rounds


@dataclass(frozen=True)
class Trained:
    """A codebook (N, K), its mean squared error per component, and the Lloyd steps it took."""

    codebook: Rows
    mse: float
    n_iter: int


def check_weights(sample_weight: Any, tables: Sequence[tuple[int, int]]) -> Weights:
    """Weights as a person gave them, as whole numbers 0..4095 per block, those of all pictures in a row."""
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
    largest = flat.max()
    if largest == 0:
        raise InvalidArgument("sample_weight is zero everywhere; allowed: at least one positive weight")
    whole: npt.NDArray[np.uint16] = np.floor(flat / largest * MAX_WEIGHT + 0.5).astype(np.uint16)
    return whole


def train(session: Session, blocks: BlockSet | SharedBlocks, plans: Sequence[Plan], progress: Progress) -> Trained:
    """Train on blocks by each plan; return the training of least error, the first of equals."""
    parts, found = [_parts(plan) for plan in plans], list[Trained]()
    for number, plan in enumerate(plans):
        with session.scope() as scope:
            own = progress.part(sum(parts[:number]), sum(parts))
            found.append(_trained(session, scope, blocks, plan, own))
    return min(found, key=lambda trained: trained.mse)


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
        return Trained(_in_order(np.concatenate([rows, repeated])), 0.0, 0)
    training = _Training(session, scope, blocks, plan)
    training.start()
    training.report(progress, 1)
    for turn in range(plan.refine):
        training.round(turn)
        training.report(progress, 2 + turn)
    has_plain = plan.of_rows and plan.refine > 0
    training.steps += training.whole().run(plan.max_iter, training.reporter(progress, 0, 2 if has_plain else 1))
    codebook, error, done = training.words.read(), training.whole().error(), training.steps
    if has_plain:
        with session.scope() as inner:
            plain = _Training(session, inner, blocks, replace(plan, refine=0))
            codebook, error = plain.below(error, training.reporter(progress, 1, 2)) or (codebook, error)
            done += plain.steps
    progress.report(total, total)
    return Trained(_in_order(codebook), error / (blocks.total_weight * blocks.shape.components), done)


def _parts(plan: Plan) -> int:
    """Parts of a training that are reported: the start, the rounds, and of the plain steps."""
    return 1 + plan.refine + _LAST_PARTS


def _in_order(codebook: Rows) -> Rows:
    """Sort codewords by their sums, then by their components."""
    return codebook[np.lexsort((*codebook.T[::-1], codebook.sum(1, dtype=np.int64)))]


class _Training:
    """The stages of one training."""

    def __init__(self, session: Session, scope: Scope, blocks: BlockSet | SharedBlocks, plan: Plan) -> None:
        self._session = session
        self._scope = scope
        self._plan = plan
        self._key = seed_key(plan.seed)
        self._blocks = blocks
        of_rows = plan.of_rows and plan.refine > 0
        second, turn = max(LEAST_SECOND, SECOND_SAMPLE * plan.size), max(LEAST_TURN, TURN_SAMPLE * plan.size)
        if of_rows:
            turn = max(ROWS_LEAST_TURN, ROWS_TURN * plan.size)
        able = blocks.count if blocks.weights is None else int(np.count_nonzero(blocks.weights))
        half = min(able // 2, _MOST_TURN_BYTES // blocks.shape.components)
        is_halved = not of_rows and able >= HALVED and SECOND_SAMPLE * plan.size <= half < turn
        turn = half if is_halved else turn
        few = ROWS_FEW_STEPS if of_rows else FEW_STEPS
        self._early_steps = ROUND_STEPS if able >= second else few
        whole_steps = MANY_WHOLE_STEPS if plan.size >= MANY_CODEWORDS else WHOLE_STEPS
        self._late_steps = few if able < second else whole_steps[able >= 2 * second]
        if of_rows:
            self._late_steps = min(self._late_steps, ROWS_WHOLE_STEPS)
        turn_bytes = turn * blocks.shape.components
        in_turn = plan.refine > 0 and able >= 2 * turn and turn_bytes <= _MOST_TURN_BYTES
        turns = max(TURNS, min(MOST_TURNS, able // turn, _MOST_TURN_BYTES // turn_bytes))
        self._turn_steps = TURN_STEPS[1 + (turns >= MANY_TURNS) if plan.size >= MANY_IN_TURN and not is_halved else 0]
        if of_rows:
            self._turn_steps = ROWS_TURN_STEPS
        surplus = plan.size // (TURN_SURPLUS if in_turn and not of_rows else SURPLUS) if plan.refine else 0
        self._largest = min(plan.size + surplus, MAX_CODEBOOK)
        self.words = Codewords(session, scope, blocks.shape, self._largest)
        self.steps = 0
        self._annealed = 0
        first = ROWS_FIRST if of_rows else FIRST_SAMPLE
        self._first = blocks.sample(scope, max(LEAST_FIRST, first * self._largest), 0, plan.seed)
        self._amplitude = _AMPLITUDE
        if of_rows:  # as large in all components together
            self._amplitude = math.isqrt(
                _AMPLITUDE**2 * ROWS_COMPONENTS // max(ROWS_COMPONENTS, blocks.shape.components)
            )
        self._in_turn = blocks.in_turn(scope, turn, turns) if in_turn else []
        self._second = blocks
        if plan.refine and not in_turn:
            self._second = blocks.sample(scope, second, 1, plan.seed)
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
            done = share * steps // self._plan.max_iter
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
            sample_codewords(self._session, self._first, self.words, self._largest, self._key)
        else:
            self.steps += split_codewords(self._session, self._first, self.words, self._on(self._first), self._largest)

    def round(self, turn: int) -> None:
        """Queue annealed steps. After the first one dead codewords are repaired, in the last one surplus ones merge."""
        refine, size = self._plan.refine, self._plan.size
        sets, count = self._sets(turn)
        part = min(max(10 * (turn + 1) - 2 * refine, 0), 5 * refine)
        left = self._largest - (self._largest - size) * part // (5 * refine)
        for step in range(count):
            every, fading = refine * count, (refine - turn) * count - step
            amplitude = self._amplitude * fading * (5 * fading + every) // (10 * every**2)
            removed = self.words.size - left if step == count - 1 else 0
            motion = Motion(_QUARTERS, amplitude, self._annealed)
            self._on(sets[step % len(sets)]).queue_step(motion, repairs=step == 0, removed=removed)
            self._annealed += 1
        self.steps += count

    def _sets(self, turn: int) -> tuple[list[Any], int]:
        """The sets of blocks that the steps of a round look at in turn, and how many steps there are."""
        tenths = 10 * turn // self._plan.refine
        if self._in_turn and tenths >= 6:
            return (self._in_turn, self._turn_steps) if tenths < 9 else ([self._blocks], LAST_STEPS)
        if tenths >= 6:
            return [self._blocks], self._late_steps
        return [self._first if tenths < 5 or self._in_turn else self._second], self._early_steps

    def below(self, bound: int, report: Callable[[int], None]) -> tuple[Rows, int] | None:
        """Plain training and its error, if that is below a bound; given up when its steps gain too little for that."""
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
        codebook, error = self.words.read(), lloyd.error()
        return (codebook, error) if error < bound else None
