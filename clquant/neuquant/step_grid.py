"""All steps of the mini-batch map in one launch, and all of the refinement in another (`cl/neuquant/step_grid.cl`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clquant.color.spaces import Space
from clquant.neuquant.refine import REFINE_SCRATCH
from clquant.neuquant.step import SLAB_WORDS, STEP_VARIANTS
from clquant.runtime import NVIDIA_FENCE, Buffer, Kernel, LocalMemory, Scope, Session, Variant, kernel_for_group

# Work-items of a group that a device has at least: several share a point.
MIN_GROUP = 64
GRID = Variant(
    "grid",
    "neuquant/step_grid.cl",
    lambda limits: limits.is_nvidia and limits.compute_capability >= 70 and limits.work_group >= MIN_GROUP,
    {"DEVICE_FENCE": NVIDIA_FENCE},
    gain=1.8,
)
# The other form is one launch per step.
VARIANTS = (GRID, STEP_VARIANTS[-1])
# Work-items of a group; in the map and in the refinement those that share a point, and points that one has at once.
GROUP = 256
MAP_SHAPE = (8, 2)
REFINE_SHAPE = (1, 2)
# Constants of `cl/neuquant/search.h`.
FIXED = {"STAGED": 1, "PACKED": 0, "CONSCIENCE": 0, "TOTALS": 1, "SHORT_KEYS": 1}
GRID_WORDS = 96
# The value of the barrier's first word at a launch; tests set another.
GATE = 0
# Bytes of local memory that the kernels declare themselves.
SPARE_BYTES = 1024

# A step: its first point, its points, its slab; the points of the batch before, its pulls' place, and how many; K; 0.
Row = tuple[int, int, int, int, int, int, int, int]


class Grid:
    """The launches of one map.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns what they need.
    space : Space
    n_colors, pinned : int
    constants : dict
        Those of `cl/neuquant/map.h` but ``STAGED``.
    """

    def __init__(
        self, session: Session, scope: Scope, space: Space, n_colors: int, pinned: int, constants: dict[str, int]
    ) -> None:
        self._session = session
        self._scope = scope
        self._extent = np.array((*space.extent, 0)[:4], np.int32)
        self._n_colors = n_colors
        self._pinned = pinned
        self._constants = constants

    @classmethod
    def admits(cls, session: Session, n_colors: int) -> bool:
        """Whether a device takes this form for so many colours.

        Parameters
        ----------
        session : Session
        n_colors : int
        """
        keys = 4 * GROUP * max(MAP_SHAPE[1], REFINE_SHAPE[1])
        fits = _memory(n_colors, MAP_SHAPE[0], True) + keys + SPARE_BYTES <= session.limits.local_memory
        return fits and n_colors <= 256 and session.choose(VARIANTS).name == GRID.name

    def queue(
        self, refining: bool, kind: dict[str, int], steps: Sequence[Row], nodes: tuple[Buffer, Buffer], *rest: Buffer
    ) -> None:
        """Queue steps of the map, or of the refinement.

        Parameters
        ----------
        refining : bool
        kind : dict
            ``CITY_BLOCK`` and ``WEIGHTED``.
        steps : sequence of Row
        nodes : tuple of pyopencl.Buffer
            The network before and after them.
        *rest : pyopencl.Buffer
            Points, weights, slabs, pulls and the table of exponentials.
        """
        session, (lanes, tile) = self._session, REFINE_SHAPE if refining else MAP_SHAPE
        own = {"REFINE": int(refining), "SQUARES": int(refining), "LANES": lanes, "TILE": tile}
        constants = {**FIXED, **GRID.constants, **own, **self._constants, **kind}

        def build(local: int) -> Kernel:
            program = session.program(GRID.file, LOCAL=local, **constants)
            return program.kernel("neuquant_grid")

        kernel, local = kernel_for_group(session, GROUP, build)
        points, weights, slabs, pulls, decay = rest
        words = np.zeros(GRID_WORDS, np.uint32)
        words[0] = GATE
        most = max(row[1] for row in steps)
        # One per compute unit at most, so that all are there at once whatever registers and local memory they take.
        groups = max(min(-(-most * lanes // (local * tile)), session.limits.compute_units), 1)
        session.launch(
            *(kernel, groups * local, local),
            points=points,
            steps=self._scope.copy_of(np.array(steps, np.uint32)),
            which=np.array((0, len(steps), self._n_colors, self._pinned), np.uint32),
            extent=self._extent,
            nodes_in=nodes[0],
            nodes_out=nodes[1],
            slabs=slabs,
            pulls=pulls,
            decay=decay,
            weights=weights,
            words=self._scope.copy_of(words),
            memory=LocalMemory(_memory(self._n_colors, lanes, refining)),
        )


def _memory(n_colors: int, lanes: int, refining: bool) -> int:
    """Bytes of a group's local memory that are a kernel's argument."""
    padded = -(-n_colors // lanes) * lanes
    scratch = sum(REFINE_SCRATCH.values()) if refining else 0
    return 16 * (n_colors + padded) + (4 * SLAB_WORDS + scratch) * n_colors + 16
