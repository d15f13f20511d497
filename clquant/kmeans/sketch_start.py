"""Starting centers for k-means on sketches: the means of the occupied cells of a coarse grid, then of a finer one.

What the device needs first is queued first; the host prepares the rest while the device is busy.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from clquant.histogram.counts import ColorCounts
from clquant.kmeans.lloyd import Lloyd, LloydSets
from clquant.kmeans.points import Points, Sketcher
from clquant.kmeans.seeding import sample_centers
from clquant.kmeans.swaps import swap_centers
from clquant.runtime import Scope, Session

# Steps of Lloyd's algorithm on the sketch between rounds of swaps.
SWAP_STEPS = 6
# Most steps on the finer sketch.
SKETCH_STEPS = 32
# The coarse sketch has at least this many points per center; a picture with fewer colours is its own sketch.
SKETCH_POINTS = 128
MIN_SKETCH = 1 << 14
SKETCH_LEVELS = (5, 6, 7)
# Up to this many centers are started several times, and the best start goes on. On photographs with 2 to 8 colours one
# start was up to 45 % above the best of six, and the best of three within 1 %. The starts share the rounds of swaps.
FEW_CENTERS = 8
STARTS_OF_FEW = 3


def sampled_start(
    session: Session,
    scope: Scope,
    counts: ColorCounts,
    sets: LloydSets,
    k: int,
    seed: int,
    rounds: int,
    tol: float,
) -> Lloyd:
    """Return k starting centers: k-means++ and swaps on a coarse sketch, then Lloyd's algorithm on a finer one."""
    # `sets` are of the points of `counts`, at least k. `rounds` of swaps need at most
    # `clquant.kmeans.swaps.MAX_SWAPPED` centers.
    sketcher = Sketcher(session, scope, counts, sets.points)
    levels = sketch_levels(sketcher, sets.points, k)
    rough = Lloyd(session, scope, sketcher.sketch(scope, *levels[0]), k) if levels else sets.lloyd(k)
    _seed(session, scope, rough, seed, rounds, tol)
    lloyd = sets.lloyd(k)
    for level in levels[1:]:
        finer = Lloyd(session, scope, sketcher.sketch(scope, *level), k)
        finer.copy_centers(rough)
        finer.run(SKETCH_STEPS, tol, meanwhile=functools.partial(lloyd.prepare, tol))
        rough = finer
    if rough is not lloyd:
        lloyd.copy_centers(rough)
    return lloyd


def _seed(session: Session, scope: Scope, rough: Lloyd, seed: int, rounds: int, tol: float) -> None:
    """Centers of a sketch by k-means++ and swaps; few from several starts: the best stays, the first of equals."""
    found: list[tuple[int, int, npt.NDArray[np.int64]]] = []
    starts = STARTS_OF_FEW if rough.k <= FEW_CENTERS else 1
    for start in range(starts):
        # Far from the seeds of `n_init`, which follow one another.
        sample_centers(session, rough, (seed + (start << 62)) % 2**64)
        swap_centers(session, scope, rough, -(-rounds // starts), SWAP_STEPS)
        if rough.k <= FEW_CENTERS:
            rough.run(SKETCH_STEPS, tol)
            found.append((rough.inertia_later()(), start, rough.get_centers()))
    if found:
        rough.set_centers(min(found)[2])


def sketch_levels(sketcher: Sketcher, points: Points, k: int) -> list[tuple[int, npt.NDArray[np.uint32]]]:
    """Return the coarsest grid with enough points for k centers, and the finest with clearly fewer than all points."""
    # None for few points. With each level comes how many of its cells are occupied in each of the points' own,
    # (cells,).
    least = max(SKETCH_POINTS * k, MIN_SKETCH)
    chosen: list[tuple[int, npt.NDArray[np.uint32]]] = []
    if points.n < least:
        return chosen
    for level, occupied in zip(SKETCH_LEVELS, sketcher.occupied(SKETCH_LEVELS), strict=True):
        n = int(occupied.sum())
        wanted = 2 * n < points.n and level == SKETCH_LEVELS[-1] if chosen else n >= least
        if wanted:
            chosen.append((level, occupied))
    return chosen
