"""The numbers of NeuQuant's two maps that do not depend on the picture: schedules and kernels, as integers.

Powers, logarithms and exponentials come from decimal arithmetic, which rounds correctly on every host.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import numpy.typing as npt

STEPS = 64
PRIMES = (499, 491, 487, 503)
DEKKER_RADIUS_STEPS = 64
REFINE_POINTS = 512

_DIGITS = 30
_KERNEL_UNIT = 4096
_DECAY_UNIT = 65536


@dataclass(frozen=True)
class Step:
    """One step of the mini-batch map."""

    first: int
    batch: int
    reach: int  # nodes nearer to a winner than this are pulled
    offset: int  # of its pulls in `Schedule.pulls`


@dataclass(frozen=True)
class Schedule:
    """The steps of the mini-batch map, its pulls, and how many samples it takes."""

    steps: tuple[Step, ...]
    samples: int  # of all steps together
    refined: int  # first samples, on which many colours are refined
    pulls: npt.NDArray[np.int32]  # int32: -4096 ln(1 - a(d)) for d < reach of every step

    @property
    def most(self) -> int:
        """Upper bound of the samples that the map and its refinement use; not lower for more nodes."""
        return max(self.samples, self.refined)


def _rounded(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_UP))


@functools.cache
def schedule(n_colors: int, sample_factor: int) -> Schedule:
    """Return the mini-batch map's steps."""
    # With p = t / 64 at step t and K nodes: batches of max(4 K, 256) * 16^p / sample_factor samples; alpha = 0.2^p;
    # radius r = (K / 4)^(1 - p / 0.6) while p < 0.6, then the winner alone; a(0) = alpha and
    # a(d) = alpha (1 - (d / r)^2) for 0 < d < r, at most 0.98. The refinement looks at 512 samples per node, and
    # at as many as for 256 nodes if there are fewer nodes, divided by sample_factor.
    steps: list[Step] = []
    pulls: list[int] = []
    first = 0
    with localcontext() as context:
        context.prec = _DIGITS
        for t in range(STEPS):
            p = Decimal(t) / STEPS
            batch = max(int(max(4 * n_colors, 256) * Decimal(16) ** p / sample_factor), 1)
            alpha = Decimal("0.2") ** p
            shrunk = 1 - p / Decimal("0.6")
            radius = (Decimal(n_colors) / 4) ** shrunk if shrunk > 0 else Decimal(0)
            reach = max(int(radius.to_integral_value("ROUND_CEILING")), 1)
            steps.append(Step(first, batch, reach, len(pulls)))
            for d in range(reach):
                a = alpha * (1 - (d / radius) ** 2) if d else alpha
                pulls.append(_rounded(-(1 - min(a, Decimal("0.98"))).ln() * _KERNEL_UNIT))
            first += batch
    refined = REFINE_POINTS * max(n_colors, 256) // sample_factor
    return Schedule(tuple(steps), first, refined, np.array(pulls, np.int32))


@functools.cache
def decay() -> npt.NDArray[np.uint32]:
    """(512,) uint32: exp(-i / 16) times 65536 for i = 0..255, then exp(-i / 4096) times 65536."""
    with localcontext() as context:
        context.prec = _DIGITS
        coarse = [_rounded((-Decimal(i) / 16).exp() * _DECAY_UNIT) for i in range(256)]
        fine = [_rounded((-Decimal(i) / _KERNEL_UNIT).exp() * _DECAY_UNIT) for i in range(256)]
    return np.array(coarse + fine, np.uint32)


@functools.cache
def dekker_cycles(n_colors: int, sample_factor: int) -> npt.NDArray[np.int32]:
    """Return (n, 2) int32: alpha (1024 is 1) and radius in nodes (0: winner alone) of the sequential cycles."""
    # alpha starts at 1024 and loses 1/alphadec per cycle, alphadec = 30 + (sample_factor - 1) / 3; the radius starts at
    # n_colors / 8 and loses 1/30; all in integers that round down. A radius of 1 counts as 0. A cycle is a hundredth of
    # the samples, rounded down, so fewer than 200 cycles use up all samples.
    cycles = []
    alpha, radius = 1024, n_colors // 8 * DEKKER_RADIUS_STEPS
    for _ in range(200):
        nodes = radius // DEKKER_RADIUS_STEPS
        cycles.append((alpha, nodes if nodes > 1 else 0))
        alpha -= alpha // (30 + (sample_factor - 1) // 3)
        radius -= radius // 30
    return np.array(cycles, np.int32)
