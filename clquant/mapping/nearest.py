"""Nearest-colour mapping: the exact palette index of every pixel, by comparison with its cell's candidates.

For more than a few pixels a candidate grid is built first (`cl/mapping/candidates.cl`): per cell of the colour space
the entries that can be nearest to some point of it. It is exact, and on photographs leaves a handful of comparisons a
pixel whatever the number of colours. CPUs search eight candidates at once, and each colour of a run of pixels once
(`clquant.mapping.candidates_lanes`), or compare sixteen pixels with every entry of a small palette
(`clquant.mapping.small_palette`). On GPUs, pictures of millions of pixels have every colour searched once, not every
pixel (`clquant.mapping.full_table`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.mapping import full_table
from clquant.mapping.candidates import CandidateGrid, CandidateLister
from clquant.mapping.candidates_lanes import FEWEST_PIXELS, MEMO_BITS, LaneGrid, int4
from clquant.mapping.full_table import TABLE
from clquant.mapping.lookup import ColorLookup
from clquant.mapping.pixel_batch import Task
from clquant.mapping.small_palette import FEW, FewColors
from clquant.runtime import Buffer, InvalidArgument, Scope, Session, Variant

# Forms of the mapping; `LANES` is shaped for CPUs.
LANES = Variant("lanes", "mapping/nearest_lanes.cl", lambda limits: limits.is_cpu and not limits.is_simulator)
PORTABLE = Variant("portable", "mapping/nearest.cl")
VARIANTS = (LANES, TABLE, PORTABLE)
# How colours are compared: by squared distance, or by the sum of absolute differences.
METRICS = ("l2", "l1")
Kept = TypeVar("Kept")

# Bytes of a memo's entry in the lanes form.
ENTRY_BYTES = 8


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
        points = np.zeros((len(palette), 4), np.int32)
        points[:, : space.dims] = space.coordinates(palette.rgba())
        self._points = scope.copy_of(points)
        pays = expected_pixels * len(palette) >= session.tuned("mapping.grid_pays") and not self._city_block
        form = session.choose(VARIANTS)
        self._may_take_table = form is TABLE
        self._in_lanes = lanes and form is LANES
        self._few = FewColors(scope, palette) if self._in_lanes and self._few_suffice() else None
        self._lister = CandidateLister(session, scope, space, self._points, len(palette))
        self._expected_pixels = expected_pixels
        self._grid_pays = pays and not self._in_lanes
        self._lane_grid_pays = pays
        self._kept: dict[object, Any] = {}

    @property
    def space(self) -> Space:
        """The space in which colours are compared."""
        return self._space

    @property
    def in_lanes(self) -> bool:
        """Whether the form for CPUs was chosen."""
        return self._in_lanes

    @property
    def few(self) -> FewColors | None:
        """The palette for kernels of `launch_few`; None where these do not hold, or there are too many entries."""
        return self._few

    @property
    def session(self) -> Session:
        """Where kernels are queued."""
        return self._session

    @property
    def scope(self) -> Scope:
        """The owner of what a launch needs besides the tables."""
        return self._scope

    @property
    def index_bytes(self) -> int:
        """Bytes of a palette index."""
        return self._palette.index_dtype.itemsize

    @property
    def colors(self) -> int:
        """Entries of the palette."""
        return len(self._palette)

    @property
    def points_are_colors(self) -> bool:
        """Whether the nearest entry is the one of the least squared distance of plain RGB."""
        return self._space.name == "srgb" and not self._space.alpha and not self._city_block

    @property
    def made_bytes(self) -> int:
        """Of the candidate lists and tables that were made so far."""
        lists = sum(made.nbytes for made in self._kept.values() if isinstance(made, CandidateGrid | LaneGrid))
        return lists + sum(made.size for made in self._kept.values() if isinstance(made, Buffer))

    @property
    def points(self) -> Buffer:
        """(k, 4) int32: the palette's coordinates in the space."""
        return self._points

    def map(self, task: Task) -> None:
        """Queue the mapping of pixels to their nearest entries.

        Ties go to the entry nearer in plain 8-bit values, then to the lowest index; pixels of alpha 0 to the palette's
        transparent entry.

        Parameters
        ----------
        task : Task
        """
        if self.few is not None:
            self.launch_few("mapping/small_palette.cl", "map_pixels", task)
        elif self.in_lanes:
            self.launch_lanes(LANES.file, "map_pixels", task, ENTRY_BYTES)
        elif self.takes_table(task.channels):
            full_table.map_pixels(self, task)
        else:
            self.launch(PORTABLE.file, "map_pixels", task)

    def takes_table(self, channels: int, dithered: bool = False) -> bool:
        """Whether pixels are answered by a table (`clquant.mapping.full_table`).

        Parameters
        ----------
        channels : int
            1, 3 or 4.
        dithered : bool
            With ordered dithering.
        """
        return self._may_take_table and full_table.pays(self, self._session, channels, self._expected_pixels, dithered)

    def kept(self, key: object, make: Callable[[], Kept]) -> Kept:
        """What `make` gave when this key was asked for first, and belongs to the mapper's scope.

        Parameters
        ----------
        key : object
            Hashable.
        make : callable
        """
        if key not in self._kept:
            self._kept[key] = make()
        found: Kept = self._kept[key]
        return found

    def launch_lanes(self, file: str, kernel_name: str, task: Task, memo_bytes: int, *more: Any) -> None:
        """Queue a kernel whose arguments begin as `cl/mapping/candidates_lanes.h` says; only where `in_lanes`.

        Parameters
        ----------
        file, kernel_name : str
        task : Task
        memo_bytes : int
            What the kernel remembers of a colour.
        *more
            The kernel's own last arguments.
        """
        session = self._session
        kernel = session.program(file, **self.constants(task.channels)).kernel(kernel_name)
        most = session.limits.max_alloc // memo_bytes
        bits = next(b for b in range(MEMO_BITS, 0, -1) if b == 1 or 1 << 3 * b <= min(most, 4 * task.count))
        items = max(1, min(self._runs(task), most >> 3 * bits))
        with session.scope() as scope:
            memo = scope.empty((memo_bytes << 3 * bits) * items)
            session.launch(*(kernel, items, 1, *self.lane_arguments()), *(*task.arguments, memo, np.int32(bits), *more))

    def lane_arguments(self) -> tuple[Any, ...]:
        """The first arguments of a kernel with `LANE_PARAMETERS` (`cl/mapping/candidates_lanes.h`), if `in_lanes`."""
        assert self._in_lanes
        given = self._session, self._scope, self._palette, self._space, self._exact_ties
        grid = self.kept("lanes", lambda: LaneGrid(*given, whole=not self._lane_grid_pays))
        return self._tables(), *grid.arguments(), self._transparent(), self._missing()

    def launch_few(self, file: str, kernel_name: str, task: Task, *more: Any) -> None:
        """Queue a kernel whose arguments begin as those of `cl/mapping/small_palette.cl`; only where `few` is not None.

        Parameters
        ----------
        file, kernel_name : str
        task : Task
        *more
            The kernel's own last arguments.
        """
        assert self._few is not None
        kernel = self._session.program(file, CHANNELS=task.channels).kernel(kernel_name)
        given = *self._few.arguments(), *task.arguments, *more
        self._session.launch(kernel, max(1, self._runs(task)), 1, *given)

    def launch(
        self, file: str, kernel_name: str, task: Task, *more: Any, items: int | tuple[int, int] | None = None
    ) -> None:
        """Queue a kernel whose arguments begin as `cl/mapping/nearest.h` says, and go on with those of a task.

        Parameters
        ----------
        file, kernel_name : str
        task : Task
        *more
            The kernel's own last arguments.
        items : int or tuple of int, optional
            Work-items, along one or two dimensions; default one a pixel.
        """
        session = self._session
        kernel = session.program(file, **self.constants(task.channels)).kernel(kernel_name)
        group: Any = session.work_group_size(kernel, session.tuned("mapping.group"))
        if isinstance(items, tuple):
            group = (group, 1)
        session.launch(kernel, items or task.count, group, *self.arguments(), *task.arguments, *more)

    def launch_any(
        self,
        file: str,
        kernel_name: str,
        channels: int,
        wanted: int,
        *more: Any,
        items: int = 0,
        groups: int = 0,
        fine: bool = True,
        searches: bool = True,
        exact: bool = False,
        **constants: int,
    ) -> None:
        """Queue a kernel whose arguments begin as `cl/mapping/nearest.h` says, and go on as it likes.

        Parameters
        ----------
        file, kernel_name : str
        channels : int
            Of the pixels: 1, 3 or 4.
        wanted : int
            Most work-items of a group.
        *more
            The kernel's own arguments.
        items, groups : int
            Work-items, or if 0 work-groups.
        fine, searches : bool
            As for `arguments`.
        exact : bool
            Whether the kernel is built for groups of GROUP work-items, one of the constants.
        **constants : int
            The kernel's own, besides those of `constants`.
        """
        kernel = self._session.program(file, **self.constants(channels), **constants).kernel(kernel_name)
        group = constants["GROUP"] if exact else self._session.work_group_size(kernel, wanted)
        self._session.launch(kernel, items or groups * group, group, *self.arguments(fine, searches), *more)

    def constants(self, channels: int) -> dict[str, int | str]:
        """Compile-time constants of `cl/mapping/nearest.h`.

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
            "INDEX": self._index_type(),
            "EXACT_TIES": int(self._exact_ties),
            "CITY_BLOCK": self._city_block,
            **self._space.constants(),
        }

    def arguments(self, fine: bool = True, searches: bool = True) -> tuple[Any, ...]:
        """The first arguments of a kernel that takes `PALETTE_PARAMETERS` of `cl/mapping/nearest.h`.

        Parameters
        ----------
        fine : bool
            Whether to search a candidate grid, if that pays; else all entries are in one cell.
        searches : bool
            Whether the kernel looks at more than the points; else these stand for all other buffers, so that a picture
            waits for no more copies than it needs.
        """
        if not searches:
            none = self._points
            return none, none, none, none, none, int4((1, 1, 1, 1)), np.int32(0), self._transparent(), none
        colors = self.kept("colors", lambda: self._scope.copy_of(self._palette.rgba().astype(np.int32)))
        if fine and self._grid_pays:
            cells = self.kept("fine", lambda: self._lister.fine(self._expected_pixels))
        else:
            cells = self.kept("whole", self._lister.whole)
        return (
            *(self._tables(), self._points, colors),
            *(cells.starts, cells.entries, int4(cells.cells), np.int32(cells.shift)),
            *(self._transparent(), self._missing()),
        )

    def _tables(self) -> Buffer:
        return self.kept("tables", lambda: self._scope.copy_of(self._space.tables()))

    def _missing(self) -> Buffer:
        """What kernels note where a transparent entry is wanting."""
        return self.kept("missing", lambda: self._scope.zeros(4))

    def _runs(self, task: Task) -> int:
        """Work-items that share a task's pixels on CPUs."""
        items = self._session.tuned("mapping.groups_a_unit") * self._session.limits.compute_units
        return min(items, task.count // FEWEST_PIXELS)

    def _few_suffice(self) -> bool:
        """Whether `cl/mapping/small_palette.h` gives the nearest entries."""
        return len(self._palette) <= FEW and self.points_are_colors

    @property
    def _exact_ties(self) -> bool:
        """Whether differing colours may be one point, so that plain values decide."""
        return not self._space.is_injective

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
        if self._palette.transparent_index is None and self._session.download(self._missing(), 1, np.int32)[0]:
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
        lookup = self.kept("lookup", lambda: ColorLookup(self._session, self._scope, self._palette))
        lookup.apply(indices, count, out)
