"""Nearest-colour mapping: the exact palette index of every pixel, by comparison with its cell's candidates.

For more than a few pixels a candidate grid is built first (`cl/palette_cells.cl`): per cell of the colour space the
entries that can be nearest to some point of it. It is exact, and on photographs leaves a handful of comparisons a
pixel whatever the number of colours. CPUs search eight candidates at once, and each colour of a run of pixels once
(`clquant.palette.lanes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant.palette.lanes import FEWEST_PIXELS, MEMO_BITS, WHOLE_SHIFT, LaneGrid, int4
from clquant.palette.palette import Palette
from clquant.palette.spaces import Space
from clquant.runtime import Buffer, InvalidArgument, LocalMemory, Scope, Session, Variant

# log2 of a cell's side, by space and by whether alpha is an axis: about 2^15 to 2^16 cells each.
FINE_SHIFT = {"srgb": (3, 5), "linear": (6, 7), "oklab": (5, 7)}
# From this many comparisons on cells are half as long: where both cost the same on an NVIDIA H200.
FINER_PAYS = 1 << 37
# Cells of the grid that a fine grid's lists are made from are 4 times as long.
PARENT_STEP = 2
# Candidates of a whole grid, 2 bytes each, beyond which a coarser grid is taken.
MOST_CANDIDATES = 1 << 26
# Most work-items that list a cell's candidates, and how many of the parent's each should have to look at.
CELL_GROUP = 256
ENTRIES_AN_ITEM = 4

# Forms of the mapping; `LANES` is shaped for CPUs.
LANES = Variant("lanes", "palette_map_lanes.cl", lambda limits: limits.is_cpu and not limits.is_simulator)
PORTABLE = Variant("portable", "palette_map.cl")
VARIANTS = (LANES, PORTABLE)
# Bytes of a memo's entry in the lanes form.
ENTRY_BYTES = 8


@dataclass(frozen=True)
class CandidateGrid:
    """Candidate lists of every cell.

    Attributes
    ----------
    starts : pyopencl.Buffer
        (cells + 1) uint32 into `entries`.
    entries : pyopencl.Buffer
        uint16 palette indices, ascending in each cell.
    cells : tuple of int
        Cells along each of 4 axes.
    shift : int
        log2 of a cell's side.
    length : int
        Mean length of the lists, rounded down.
    """

    starts: Buffer
    entries: Buffer
    cells: tuple[int, int, int, int]
    shift: int
    length: int


class Mapper:
    """Maps pixels to one palette in one colour space; its device memory belongs to a scope.

    Parameters
    ----------
    session : Session
    scope : Scope
    palette : Palette
    space : Space
        With alpha where pixels or palette have it.
    expected_pixels : int
        How many pixels will come in all; decides whether a candidate grid pays.
    metric : str
        ``"l2"``: the nearest entry has the least squared distance; ``"l1"``: the least sum of absolute differences.
    lanes : bool
        Whether the form for CPUs may be taken; False where kernels of others search the lists of `arguments`.
    """

    def __init__(
        self,
        session: Session,
        scope: Scope,
        palette: Palette,
        space: Space,
        expected_pixels: int,
        metric: str = "l2",
        *,
        lanes: bool = True,
    ) -> None:
        self._session = session
        self._scope = scope
        self._space = space
        self._palette = palette
        self._city_block = int(metric == "l1")
        self._tables = scope.copy_of(space.tables())
        rgba = palette.rgba()
        points = np.zeros((len(palette), 4), np.int32)
        points[:, : space.dims] = space.coordinates(rgba)
        self._points = scope.copy_of(points)
        self._colors = scope.copy_of(rgba.astype(np.int32))
        self._missing = scope.zeros(4)
        pays = expected_pixels * len(palette) >= session.tuned("mapping.grid_pays") and not self._city_block
        self._lane_grid: LaneGrid | None = None
        if lanes and session.choose(VARIANTS) is LANES:
            self._lane_grid = LaneGrid(session, scope, palette, space, self._exact_ties, whole=not pays)
            pays = False
        finer = expected_pixels * len(palette) >= FINER_PAYS
        self._cells = self._fine_grid(finer) if pays else self._one_cell()

    @property
    def space(self) -> Space:
        """The space in which colours are compared."""
        return self._space

    @property
    def in_lanes(self) -> bool:
        """Whether the form for CPUs was chosen."""
        return self._lane_grid is not None

    @property
    def points(self) -> Buffer:
        """(k, 4) int32: the palette's coordinates in the space."""
        return self._points

    def map(self, pixels: Buffer, channels: int, count: int, out: Buffer) -> None:
        """Queue the mapping of `count` pixels.

        Parameters
        ----------
        pixels : pyopencl.Buffer
            (count, channels) uint8.
        channels : int
            1, 3 or 4.
        count : int
        out : pyopencl.Buffer
            (count) of the palette's index dtype. Ties go to the entry nearer in plain 8-bit values, then to
            the lowest index; pixels of alpha 0 go to the palette's transparent entry.
        """
        if self.in_lanes:
            self.launch_lanes(LANES.file, "map_pixels", pixels, channels, count, out, ENTRY_BYTES)
        else:
            self.launch(PORTABLE.file, "map_pixels", pixels, channels, count, out)

    def launch_lanes(
        self,
        file: str,
        kernel_name: str,
        pixels: Buffer,
        channels: int,
        count: int,
        out: Buffer,
        memo_bytes: int,
        *more: Any,
    ) -> None:
        """Queue a kernel whose arguments begin as `cl/palette_lanes.h` says; only where `in_lanes`.

        Parameters
        ----------
        file, kernel_name : str
        pixels : pyopencl.Buffer
            (count, channels) uint8.
        channels : int
            1, 3 or 4.
        count : int
        out : pyopencl.Buffer
            (count) of the palette's index dtype.
        memo_bytes : int
            What the kernel remembers of a colour.
        *more
            The kernel's own last arguments.
        """
        assert self._lane_grid is not None
        session = self._session
        kernel = session.program(file, **self.constants(channels)).kernel(kernel_name)
        most = session.limits.max_alloc // memo_bytes
        bits = next(b for b in range(MEMO_BITS, 0, -1) if b == 1 or 1 << 3 * b <= min(most, 4 * count))
        items = session.tuned("mapping.groups_a_unit") * session.limits.compute_units
        items = max(1, min(items, count // FEWEST_PIXELS, most >> 3 * bits))
        with session.scope() as scope:
            memo = scope.empty((memo_bytes << 3 * bits) * items)
            session.launch(
                *(kernel, items, 1, self._tables, *self._lane_grid.arguments(), self._transparent(), self._missing),
                *(pixels, out, np.uint64(count), memo, np.int32(bits), *more),
            )

    def launch(
        self,
        file: str,
        kernel_name: str,
        pixels: Buffer,
        channels: int,
        count: int,
        out: Buffer,
        *more: Any,
        items: int | tuple[int, int] | None = None,
    ) -> None:
        """Queue a kernel whose arguments begin as `cl/palette_nearest.h` says.

        Parameters
        ----------
        file, kernel_name : str
        pixels : pyopencl.Buffer
            (count, channels) uint8.
        channels : int
            1, 3 or 4.
        count : int
        out : pyopencl.Buffer
            (count) of the palette's index dtype.
        *more
            The kernel's own last arguments.
        items : int or tuple of int, optional
            Work-items, along one or two dimensions; default one a pixel.
        """
        session = self._session
        kernel = session.program(file, **self.constants(channels)).kernel(kernel_name)
        group: Any = session.work_group_size(kernel, session.tuned("mapping.group"))
        if isinstance(items, tuple):
            group = (group, 1)
        session.launch(kernel, items or count, group, *self.arguments(), pixels, out, np.uint64(count), *more)

    def constants(self, channels: int) -> dict[str, int | str]:
        """Compile-time constants of `cl/palette_nearest.h`.

        Parameters
        ----------
        channels : int
            Of the pixels: 1, 3 or 4.

        Returns
        -------
        dict of str to int or str
        """
        return {
            "CHANNELS": channels,
            "OUT_CHANNELS": 3,
            "INDEX": self._index_type(),
            "EXACT_TIES": int(self._exact_ties),
            "CITY_BLOCK": self._city_block,
            **self._space.constants(),
        }

    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of a kernel that takes `PALETTE_PARAMETERS` of `cl/palette_nearest.h`."""
        cells = self._cells
        return (
            *(self._tables, self._points, self._colors),
            *(cells.starts, cells.entries, int4(cells.cells), np.int32(cells.shift)),
            *(self._transparent(), self._missing),
        )

    @property
    def _exact_ties(self) -> bool:
        """Whether differing colours may be one point, so that plain values decide."""
        return self._space.alpha or self._space.name != "srgb"

    def _transparent(self) -> np.int32:
        index = self._palette.transparent_index
        value: np.int32 = np.int32(-1 if index is None else index)
        return value

    def _index_type(self) -> str:
        return "uchar" if self._palette.index_dtype == np.uint8 else "ushort"

    def check_transparency(self) -> None:
        """Wait, and refuse what was mapped if pixels of alpha 0 met a palette without an entry of alpha 0.

        Raises
        ------
        InvalidArgument
            Saying how to add one.
        """
        if self._palette.transparent_index is None and self._session.download(self._missing, 1, np.int32)[0]:
            raise InvalidArgument(
                "image has fully transparent pixels, but the palette has no entry of alpha 0; "
                "Palette.with_transparent() adds one"
            )

    def apply(self, indices: Buffer, count: int, out: Buffer) -> None:
        """Queue the lookup of the palette's colours.

        Parameters
        ----------
        indices : pyopencl.Buffer
            (count) of the palette's index dtype, each below the palette's length.
        count : int
        out : pyopencl.Buffer
            Gets (count, 4) uint8 where the palette has alpha, else (count, 3).
        """
        program = self._session.program(
            "palette_map.cl",
            CHANNELS=3,
            OUT_CHANNELS=4 if self._palette.has_alpha else 3,
            INDEX=self._index_type(),
            EXACT_TIES=0,
            CITY_BLOCK=0,
            SPACE=0,
            SPACE_ALPHA=0,
        )
        kernel = program.kernel("apply_palette")
        group = self._session.work_group_size(kernel, self._session.tuned("mapping.group"))
        self._session.launch(kernel, count, group, indices, self._colors, out, np.uint64(count))

    def _one_cell(self) -> CandidateGrid:
        """Every entry for every point: what a few pixels take."""
        starts = self._scope.copy_of(np.array([0, len(self._palette)], np.uint32))
        entries = self._scope.copy_of(np.arange(len(self._palette), dtype=np.uint16))
        return CandidateGrid(starts, entries, (1, 1, 1, 1), WHOLE_SHIFT, len(self._palette))

    def _fine_grid(self, finer: bool) -> CandidateGrid:
        shift = FINE_SHIFT[self._space.name][int(self._space.alpha)] - finer
        coarse = self._listed(shift + PARENT_STEP, None)
        if coarse is None:
            return self._one_cell()
        return self._listed(shift, coarse) or coarse

    def _listed(self, shift: int, parent: CandidateGrid | None) -> CandidateGrid | None:
        """Lists of a grid, made from its parent's or from the whole palette; None where they grow too long."""
        session = self._session
        extent = (*self._space.extent, 0)[:4]
        cells = tuple((e >> shift) + 1 for e in extent)
        total = int(np.prod(cells))
        kernel = session.program("palette_cells.cl").kernel("list_candidates")
        length = parent.length if parent else len(self._palette)
        wanted = 1 if session.limits.is_cpu else max(1, min(CELL_GROUP, length // ENTRIES_AN_ITEM))
        group = session.work_group_size(kernel, wanted, 8)
        shared = LocalMemory(4 * group), LocalMemory(4 * group)
        unused = self._missing
        given = (
            self._points,
            np.int32(len(self._palette)),
            int4(extent),
            int4(cells),
            np.int32(shift),
            int4(parent.cells if parent else (1, 1, 1, 1)),
            np.int32(PARENT_STEP if parent else 0),
            parent.starts if parent else unused,
            parent.entries if parent else unused,
        )
        counts = self._scope.empty(4 * total)
        session.launch(kernel, total * group, group, *given, np.int32(0), counts, unused, unused, *shared)
        ends = np.cumsum(session.download(counts, total, np.uint32), dtype=np.uint64)
        if ends[-1] > MOST_CANDIDATES or 2 * int(ends[-1]) > session.limits.max_alloc:
            return None
        starts = self._scope.copy_of(np.concatenate([[0], ends]).astype(np.uint32))
        entries = self._scope.empty(2 * int(ends[-1]))
        session.launch(kernel, total * group, group, *given, np.int32(1), counts, starts, entries, *shared)
        length = int(ends[-1]) // total
        return CandidateGrid(starts, entries, (cells[0], cells[1], cells[2], cells[3]), shift, length)
