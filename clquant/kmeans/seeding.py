"""Starting centers for k-means: D^2 sampling (`cl/kmeans/seeding.cl`, with its source) and swaps on sketches.

Sketches are the means of the occupied cells of a coarse grid, then of a finer one. What the device needs first is
queued first; the host prepares the rest while the device is busy.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.histogram.counts import ColorCounts
from clquant.kmeans.lloyd import Lloyd, LloydSets
from clquant.kmeans.points import GROUP, Points, points_program, stride_of
from clquant.kmeans.swaps import MAX_SWAPPED, swap_centers
from clquant.runtime import Buffer, LocalMemory, Scope, Session, bound, philox4x32, seed_key

# Starts by name, those that draw random numbers and others; `start_centers` has a branch for each.
SEEDED, CUT = ("k-means++", "random"), ("wu", "median-cut")
INITS = (*SEEDED, *CUT)
BLOCK = 128
SEED_ROUNDS = 16
GROUPS_A_UNIT = 16  # of a round of k-means++, but on CPUs
# Steps of Lloyd's algorithm on the sketch between rounds of swaps.
SWAP_STEPS = 6
# Most steps on the finer sketch.
SKETCH_STEPS = 32
# The coarse sketch has at least this many points per center; a picture with fewer colours is its own sketch.
SKETCH_POINTS = 128
SKETCH_LEVELS = (5, 6, 7)
# Grids whose occupied cells `count_groups` of `cl/kmeans/points.cl` counts at once.
MAX_LEVELS = 4
# Up to this many centers are started several times, and the best start goes on. On photographs with 2 to 8 colours one
# start was up to 45 % above the best of six, and the best of three within 1 %. The starts share the rounds of swaps.
FEW_CENTERS = 8
STARTS_OF_FEW = 3


def random_points(n: int, k: int, seed: int) -> npt.NDArray[np.int64]:
    """Return k differing random indices of n points, (k,) int64."""
    # Where 2 k <= n: the first k differing values of floor(r_i n / 2^32), i = 0, 1, ...; else the k points of the
    # lowest r_i, ties to the lowest. r_i is the first word of Philox at (i, 0, 1, 0).
    if 2 * k > n:
        return np.argsort(_random_words(0, n, seed), kind="stable")[:k].astype(np.int64)
    chosen: dict[int, None] = {}
    drawn = 0
    while len(chosen) < k:
        numbers = _random_words(drawn, 2 * k, seed).astype(np.uint64) * np.uint64(n) >> np.uint64(32)
        chosen.update(dict.fromkeys(numbers.tolist()))
        drawn += 2 * k
    return np.array(list(chosen)[:k], np.int64)


def _random_words(first: int, n: int, seed: int) -> npt.NDArray[np.uint32]:
    counter = np.zeros((n, 4), np.uint32)
    counter[:, 0] = np.arange(first, first + n)
    counter[:, 2] = 1
    return philox4x32(counter, seed_key(seed))[:, 0]


def sample_centers(session: Session, lloyd: Lloyd, seed: int) -> None:
    """Draw starting centers by k-means++, in `SEED_ROUNDS` rounds of equally many after the first center."""
    points, k = lloyd.points, lloyd.k
    a_round = max(1, -(-(k - 1) // SEED_ROUNDS))
    program = session.program("kmeans/seeding.cl", DIMS=points.space.dims, **points.weight_constants)
    kernel = program.kernel("seed_round")
    group = session.work_group_size(kernel, min(BLOCK // 4, session.tuned("kmeans.swap_group")), 8)
    blocks = -(-points.n // BLOCK)
    groups = min(blocks, session.limits.compute_units * (1 if session.limits.is_cpu else GROUPS_A_UNIT))
    # Each round's first center, count, row of distances before it, and number of blocks to lower.
    firsts = np.array([0, 0, *range(1, k, a_round), k])
    rounds = np.zeros((len(firsts) - 1, 4), np.uint32)
    rounds[:, 0], rounds[:, 1] = firsts[:-1], np.diff(firsts)
    rounds[1::2, 2], rounds[:-1, 3] = 1, blocks
    with session.scope() as inner:
        seeding = session.prepare(
            *(inner, kernel, groups * group, group),
            **points.arguments,
            n=np.uint32(points.n),
            blocks=np.uint32(blocks),
            centers=lloyd.centers,
            k_stride=np.uint32(lloyd.k_stride),
            drawn=rounds[0],
            key=seed_key(seed),
            distances=inner.empty(8 * blocks * BLOCK),
            block_sums=inner.empty(16 * blocks),
            partial=LocalMemory(8 * group),
        )
        for drawn in rounds:
            seeding.set(drawn=drawn)
            seeding.queue(groups if drawn[3] else 1)


class Sketcher:
    """Means of points over the cells of finer grids; `scope` owns all that is made."""

    # A grid of level l, 4 to 8, has 2^l cells an axis of the RGB (or RGBA) cube.

    def __init__(self, session: Session, scope: Scope, counts: ColorCounts, points: Points) -> None:
        self._session = session
        self._scope = scope
        self._counts = counts
        self._points = points
        self._program = points_program(session, points.space, points.wide)

    def sketches(self, k: int) -> Iterator[Points]:
        """Sketch by the coarsest grid with enough points for k centers, then by the finest; none of few points."""
        # The finest has to have clearly fewer than all points. Each sketch is queued when it is asked for.
        least = max(SKETCH_POINTS * k, bound("seeding.sketch"))
        if self._points.n < least:
            return
        enough = False
        for level, occupied in zip(SKETCH_LEVELS, self.occupied(SKETCH_LEVELS), strict=True):
            n = int(occupied.sum())
            if 2 * n < self._points.n and level == SKETCH_LEVELS[-1] if enough else n >= least:
                enough = True
                yield self.sketch(level, occupied)

    @functools.cached_property
    def _cells(self) -> Buffer:
        return self._scope.copy_of(self._points.cells)

    def occupied(self, levels: Sequence[int]) -> npt.NDArray[np.uint32]:
        """Count each grid's occupied cells within each cell of the points: (levels, cells) uint32."""
        kernel = self._program.kernel("count_groups")
        group = self._session.work_group_size(kernel, min(GROUP, self._session.tuned("kmeans.sketch_group")), 4)
        cells = len(self._points.cells) - 1
        groups = self._scope.empty(4 * cells * len(levels))
        masks = np.zeros(MAX_LEVELS, np.uint32)
        masks[: len(levels)] = [self._mask(level) for level in levels]
        sizes = (cells * group, len(levels))
        given = (self._counts.colors, self._cells, masks, groups, LocalMemory(4 * group))
        self._session.launch(kernel, sizes, (group, 1), *given)
        return self._session.download(groups, (len(levels), cells), np.uint32)

    def sketch(self, level: int, occupied: npt.NDArray[np.uint32]) -> Points:
        """Return the means of a grid's occupied cells; `occupied` is that level's row of `Sketcher.occupied`."""
        session, scope, points = self._session, self._scope, self._points
        kernel = self._program.kernel("mean_of_groups")
        group_starts = np.zeros(len(occupied) + 1, np.uint32)
        np.cumsum(occupied, out=group_starts[1:])
        n = int(group_starts[-1])
        stride = stride_of(n)
        means = scope.empty(4 * points.space.dims * stride)
        weights = scope.empty((8 if points.wide else 4) * n)
        group = session.work_group_size(kernel, session.tuned("kmeans.sketch_group"), 4)
        session.launch(
            *(kernel, len(occupied) * group, group),
            colors=self._counts.colors,
            starts=self._cells,
            mask=np.uint32(self._mask(level)),
            **points.arguments,
            group_starts=scope.copy_of(group_starts),
            mean_stride=np.uint32(stride),
            means=means,
            mean_weights=weights,
            counts=LocalMemory(4 * group),
        )
        return Points(points.space, points.scale, n, stride, means, weights, points.wide, group_starts, points.blocks)

    def _mask(self, level: int) -> int:
        """The bits of a packed colour in which the colours of a grid's cell agree."""
        kept_bits = 256 - (1 << (8 - level))
        return kept_bits * (0x01010101 if self._counts.partial else 0x00010101)


def start_centers(
    session: Session,
    scope: Scope,
    sets: LloydSets,
    k: int,
    init: str | npt.NDArray[np.uint8],
    seed: int,
    rounds: int,
    tol: float,
) -> Lloyd:
    """Return k starting centers by a start's name or colours, of all colours; the scope owns what queued work needs."""
    points = sets.points
    if isinstance(init, str) and init == "k-means++":
        return _sampled_start(session, scope, sets, k, seed, rounds if 2 <= k <= MAX_SWAPPED else 0, tol)
    lloyd = sets.lloyd(k)
    if not isinstance(init, str):
        lloyd.set_centers(points.places(init[:k]))
    elif init == "random":
        lloyd.pick_centers(random_points(points.n, k, seed))
    else:
        from clquant.kmeans.box_cut import box_centers

        sketch = next(Sketcher(session, scope, sets.counts, points).sketches(k), points)
        lloyd.set_centers(box_centers(session, sketch, k, init))
    return lloyd


def _sampled_start(
    session: Session, scope: Scope, sets: LloydSets, k: int, seed: int, rounds: int, tol: float
) -> Lloyd:
    """Return k starting centers: k-means++ and swaps on a coarse sketch, then Lloyd's algorithm on a finer one."""
    # `sets` are of at least k points. `rounds` of swaps need at most `clquant.kmeans.swaps.MAX_SWAPPED` centers.
    sketches = Sketcher(session, scope, sets.counts, sets.points).sketches(k)
    coarse = next(sketches, None)
    rough = sets.lloyd(k) if coarse is None else Lloyd(session, scope, coarse, k)
    _seed(session, scope, rough, seed, rounds, tol)
    lloyd = sets.lloyd(k)
    for sketch in sketches:
        finer = Lloyd(session, scope, sketch, k)
        finer.copy_centers(rough)
        finer.run(SKETCH_STEPS, tol, meanwhile=lloyd.prepare)
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
