"""Candidate lists for CPUs: entries side by side in the lanes of a vector, in a grid that is cheap to make.

`cl/mapping/candidates_lanes.h` says how the lists lie in memory and how they are searched. A search costs little for
each eight candidates, and is done once for each colour of a run of pixels, so cells are larger than those of the
portable grid.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.runtime import Buffer, Scope, Session, bound

LANES = 8
# From MANY_COLORS on, cells are half as long if alpha is no axis. PARENT_STEPS coarser grids are made
# first, each with cells half as long as the one before: a cell looks at its parent's list only.
MANY_COLORS = 1024
PARENT_STEPS = 3
# Coordinates are below 2^12, so this shift puts them all into one cell.
WHOLE_SHIFT = 12


def int4(values: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Up to 4 numbers as an int4 kernel argument, 0 where there are fewer."""
    return np.array((*values, 0, 0, 0, 0)[:4], np.int32)


class LaneGrid:
    """A palette's candidate lists in one colour space, all in one cell if `whole`; `scope` owns their memory."""

    def __init__(self, session: Session, scope: Scope, palette: Palette, space: Space, whole: bool) -> None:
        self._session = session
        self._scope = scope
        self._extent = (*space.extent, 0)[:4]
        layers = [_blocks(palette, space, listed) for listed in layers_of(palette, space)]
        self._planes = layers[0].shape[1]
        self._dims = space.dims
        ends = np.cumsum([0, *map(len, layers)])
        self._spans = scope.copy_of(np.stack([ends[:-1], ends[1:]], axis=1).astype(np.uint32))
        blocks = np.concatenate(layers)
        self._blocks = scope.copy_of(blocks)
        self.nbytes = blocks.nbytes  # of all lists that were made
        self._cells: tuple[int, ...] = (1, 1, 1, len(layers))
        self._shift = WHOLE_SHIFT
        if whole:
            return
        shift = space.definition.lane_cells[int(space.alpha)] - (len(palette) >= MANY_COLORS and not space.alpha)
        for coarser in range(PARENT_STEPS, -1, -1):
            if not self._refine(shift + coarser):
                break

    def arguments(self) -> dict[str, Any]:
        """Lists and grid, as kernels of `cl/mapping/candidates_lanes.h` take them, by name."""
        cells = {"grid": int4(self._cells), "shift": np.int32(self._shift)}
        return {"spans": self._spans, "blocks": self._blocks, **cells}

    def _refine(self, shift: int) -> bool:
        """Replace the lists by those of a finer grid; False where these grow too long."""
        session = self._session
        cells = tuple((e >> shift) + 1 for e in self._extent[:3])
        cells += ((self._extent[3] >> shift) + int(self._dims == 4) + 1,)
        total = int(np.prod(cells))
        program = session.program("mapping/candidates_lanes.cl", DIMS=self._dims, PLANES=self._planes)
        kernel = program.kernel("list_candidates")
        group = session.work_group_size(kernel, session.tuned("mapping.group"))
        counts, spans = self._scope.empty(4 * total), self._scope.empty(8 * total)
        launch = partial(
            session.launch,
            *(kernel, total, group),
            parent_spans=self._spans,
            parent_lists=self._blocks,
            parent_grid=int4(self._cells),
            parent_step=np.int32(self._shift - shift),
            extent=int4(self._extent),
            grid=int4(cells),
            shift=np.int32(shift),
            counts=counts,
            spans=spans,
        )
        launch(fill=np.int32(0), starts=counts, lists=self._blocks)
        ends = np.cumsum(session.download(counts, total, np.uint32), dtype=np.uint64)
        nbytes = 2 * LANES * self._planes * int(ends[-1])
        if ends[-1] > bound("candidates_lanes.whole") or nbytes > session.limits.max_alloc:
            return False
        starts: Buffer = self._scope.copy_of(np.concatenate([[0], ends[:-1]]).astype(np.uint32))
        blocks: Buffer = self._scope.empty(nbytes)
        launch(fill=np.int32(1), starts=starts, lists=blocks)
        self._spans, self._blocks, self._cells, self._shift = spans, blocks, cells, shift
        self.nbytes += nbytes + 12 * total
        return True


def distinct_entries(palette: Palette) -> npt.NDArray[np.int64]:
    """Ascending indices of the entries that equal none before them: of equal ones the first is always the nearest."""
    packed = np.ascontiguousarray(palette.rgba()).view(np.uint32)[:, 0]
    return np.sort(np.unique(packed, return_index=True)[1])


def layers_of(palette: Palette, space: Space) -> list[npt.NDArray[np.int64]]:
    """The entries that colours may take; where alpha is an axis also those that opaque ones may."""
    distinct = distinct_entries(palette)
    if not space.alpha:
        return [distinct]
    opaque = distinct[palette.rgba()[distinct, 3] == 255]
    return [distinct, opaque if len(opaque) else distinct]


def _blocks(palette: Palette, space: Space, distinct: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    """(blocks, planes, LANES): distinct entries; the last block is filled with copies of the last one."""
    rgba = palette.rgba()[distinct]
    rows = [space.coordinates(rgba)[:, : space.dims].T]
    if not space.is_injective:  # plain 8-bit values decide ties
        rows.append(rgba[:, : space.dims].T)
    rows.append(distinct[None])
    planes = np.concatenate([row.astype(np.uint16) for row in rows])
    padded = np.pad(planes, ((0, 0), (0, -len(distinct) % LANES)), mode="edge")
    return np.ascontiguousarray(padded.reshape(len(planes), -1, LANES).transpose(1, 0, 2))
