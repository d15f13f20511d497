"""Pictures through a palette: a job for each way to choose the entries of pixels, and one for their colours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.flow import Portion, Step, Steps
from clquant.images import Picture
from clquant.mapping.lookup import ColorLookup
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.search import search_of
from clquant.runtime import Scope, Session


@dataclass(frozen=True)
class Nearest(flow.Map):
    """Indices (H, W) of the nearest entries."""

    palette: Palette
    color_space: str
    metric: str = "l2"

    def stacked(self, count: int) -> Nearest | None:  # noqa: ARG002
        """Return this job where a pixel's entry depends on nothing else."""
        return self if self.grid == 1 else None

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Indices (H, W)."""
        params.choice("color_space", self.color_space, spaces.NAMES)
        return (picture.height, picture.width), self.palette.index_dtype

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: Picture) -> Iterator[Steps]:  # noqa: ARG002
        """Bring the palette to the device, or find it there."""
        space = spaces.space(self.color_space, self.palette.has_alpha or picture.channels == 4, picture.bits)
        with open_palette(session, self.palette, space, picture.pixels, self.metric) as on_device:
            yield Steps(self.search(on_device, picture.channels))
            if picture.channels == 4:
                on_device.check_transparency()

    def search(self, palette: PaletteOnDevice, channels: int) -> Step:
        """Return the step that queues the choice of a portion's entries."""
        step: Step = search_of(palette, channels).map
        return step


class NearestColors(Nearest):
    """Colours (H, W, 3 or 4) uint8 of the nearest entries: `Colored`, with what the palette on the device keeps."""

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Colours (H, W, 3 or 4)."""
        return (*super().result(picture)[0], self.palette.colors.shape[1]), np.uint8

    def search(self, palette: PaletteOnDevice, channels: int) -> Step:
        """Return the step that queues the choice of a portion's entries, and the lookup of their colours."""
        choose = super().search(palette, channels)
        lookup = palette.cached("lookup", lambda: ColorLookup(palette.session, palette.scope, self.palette))

        def step(session: Session, scope: Scope, portion: Portion) -> None:
            indices = scope.empty(portion.count * self.palette.index_dtype.itemsize)
            choose(session, scope, replace(portion, out=indices))
            lookup.apply(indices, portion.count, portion.out)

        return step


@dataclass(frozen=True)
class Colored(flow.Scan):
    """Colours (H, W, 3 or 4) uint8 of the indices that another job makes."""

    indices: flow.Map
    palette: Palette

    @property
    def is_serial(self) -> bool:
        """Whether the indices are made from top to bottom."""
        return self.indices.is_serial

    @property
    def grid(self) -> int:
        """Grid of the job that makes the indices."""
        return self.indices.grid

    @property
    def halo(self) -> int:
        """Halo of the job that makes the indices."""
        return self.indices.halo

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Colours (H, W, 3 or 4)."""
        return (*self.indices.result(picture)[0], self.palette.colors.shape[1]), np.uint8

    def open(self, session: Session, scope: Scope, picture: Picture) -> contextlib.AbstractContextManager[Steps]:
        """Open the indices, and bring the colours to the device."""
        return self._opened(self.indices.open(session, scope, picture), session, scope, picture)

    def open_below(self, session: Session, scope: Scope, picture: Picture) -> contextlib.AbstractContextManager[Steps]:
        """Open indices that are a scan in a form that takes and gives a state."""
        assert isinstance(self.indices, flow.Scan)
        return self._opened(self.indices.open_below(session, scope, picture), session, scope, picture)

    @contextlib.contextmanager
    def _opened(
        self, indices: contextlib.AbstractContextManager[Steps], session: Session, scope: Scope, picture: Picture
    ) -> Iterator[Steps]:
        lookup, size = ColorLookup(session, scope, self.palette), self.palette.index_dtype.itemsize
        with indices as steps:

            def step(session: Session, scope: Scope, portion: Portion) -> None:
                rows = portion.last - portion.first if steps.fills_reach else portion.row1 - portion.row0
                chosen = scope.empty(rows * picture.width * size)
                steps.step(session, scope, replace(portion, out=chosen))
                lookup.apply(chosen, rows * picture.width, portion.out)

            yield replace(steps, step=step)
