"""How a training goes: the samples of blocks that its steps look at, and how many steps there are, by its size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clquant.runtime import bound
from clquant.training.search import MAX_CODEBOOK

LAST_STEPS = 10  # on all blocks, after steps on samples in turn
MOST_TURN_BYTES = 1 << 26  # of a sample in turn, and of all if they are more than the fewest
AMPLITUDE = 443  # of noise as large as the root mean squared error (see `Motion`)


@dataclass(frozen=True)
class Rule:
    """Samples and steps of a kind of training.

    Rounds of refinement look at the first sample, those from a half on at the second one; the last four in ten look at
    samples in turn or, of fewer blocks, at all.
    """

    # Of the samples, blocks per codeword, and in all at least.
    first: int
    second: int
    turn: int
    least_first: int
    least_second: int
    least_turn: int
    turns: tuple[int, int]  # samples in turn, fewest and most; at least twice as many blocks as one has are wanted
    halved: int | None  # blocks of which halves are taken in turn where `turn` is too much for that; None: never
    round_steps: int  # annealed steps of a round
    few_steps: int  # the same, of any round, of fewer blocks than the second sample has
    # Steps of a late round on all blocks, if these make less than two second samples, and if more; of few codewords, of
    # at least `many`.
    whole_steps: tuple[tuple[int, int], tuple[int, int]]
    many: int
    # Steps of a late round on samples in turn: of few codewords or halves, of at least `many_in_turn`, and of these on
    # at least `many_turns` samples.
    turn_steps: tuple[int, int, int]
    many_in_turn: int
    many_turns: int
    surplus: tuple[int, int]  # part of the codewords that the start has too many, which merge; with samples in turn
    noise_components: int | None  # from so many components on noise is as large in all together
    beside_plain: bool  # whether plain training from the same start is taken where it is better


# A sample of few codewords is not smaller than that of a hundred and some.
BLOCKS = Rule(
    first=64,
    second=256,
    turn=1024,
    least_first=8192,
    least_second=32768,
    least_turn=131072,
    turns=(4, 16),
    halved=1 << 22,
    round_steps=5,
    few_steps=4,
    whole_steps=((24, 32), (16, 64)),
    many=512,
    turn_steps=(60, 120, 240),
    many_in_turn=256,
    many_turns=8,
    surplus=(4, 8),
    noise_components=None,
    beside_plain=False,
)
"""Of blocks of pictures."""
ROWS = Rule(
    first=48,
    second=256,
    turn=256,
    least_first=8192,
    least_second=32768,
    least_turn=32768,
    turns=(4, 16),
    halved=None,
    round_steps=5,
    few_steps=3,
    whole_steps=((16, 16), (16, 16)),
    many=512,
    turn_steps=(24, 24, 24),
    many_in_turn=256,
    many_turns=8,
    surplus=(4, 4),
    noise_components=16,
    beside_plain=True,
)
"""Of rows of numbers."""


@dataclass(frozen=True)
class Schedule:
    """The rounds of one training."""

    rounds: int
    codewords: int  # that the start has
    first: int  # blocks of the samples
    second: int
    turn: int
    turns: int  # samples in turn; 0: late rounds look at all blocks
    early_steps: int
    late_steps: int
    amplitude: int

    @classmethod
    def of(cls, rule: Rule, rounds: int, size: int, able: int, components: int) -> Schedule:
        """The schedule of `size` codewords for `able` blocks with a weight; without rounds that of any start."""
        largest = bound("training.sample")
        second = min(max(rule.least_second, rule.second * size), largest)
        turn = min(max(rule.least_turn, rule.turn * size), largest)
        half = min(able // 2, MOST_TURN_BYTES // components)
        is_halved = rule.halved is not None and able >= rule.halved and rule.second * size <= half < turn
        turn = half if is_halved else turn
        in_turn = rounds > 0 and able >= 2 * turn and turn * components <= MOST_TURN_BYTES
        turns = max(rule.turns[0], min(rule.turns[1], able // turn, MOST_TURN_BYTES // (turn * components)))
        if in_turn:
            is_many = size >= rule.many_in_turn and not is_halved
            late = rule.turn_steps[1 + (turns >= rule.many_turns) if is_many else 0]
        else:
            late = rule.few_steps if able < second else rule.whole_steps[size >= rule.many][able >= 2 * second]
        codewords = min(size + size // rule.surplus[in_turn], MAX_CODEBOOK) if rounds else size
        amplitude = AMPLITUDE
        if rule.noise_components is not None:
            amplitude = math.isqrt(AMPLITUDE**2 * rule.noise_components // max(rule.noise_components, components))
        return cls(
            rounds=rounds,
            codewords=codewords,
            first=min(max(rule.least_first, rule.first * codewords), largest),
            second=second,
            turn=turn,
            turns=turns if in_turn else 0,
            early_steps=rule.round_steps if able >= second else rule.few_steps,
            late_steps=late,
            amplitude=amplitude,
        )
