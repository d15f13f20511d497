"""Dithering by search: palette entries chosen for what the eye sees of their neighbourhood."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, images, params
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.dithering import opponent
from clquant.dithering.eye import eye_kernel
from clquant.dithering.phase_planes import MARGIN, MOST_CELLS, PHASES, SIDE, PhasePlanes
from clquant.dithering.registry import JobDither, register_dither
from clquant.dithering.search_steps import SearchPalette, ToggleSearch, bytes_per_row_of_cells
from clquant.flow import Portion, Steps
from clquant.images import Picture
from clquant.runtime import Buffer, Scope, Session, cached_job

REACH = 5
WIDTH = 1.4
MOST_PASSES = 16
MOST_SHARPNESS = 16.0


class SearchDither(JobDither):
    """Dithers by search: every pixel takes, again and again, the entry that lowers the visible error most.

    The visible error is that of the picture as the eye's low pass shows it, of luma and two differences of colour (and
    alpha) together. Pixels start with their nearest entries. In a pass each pixel is decided once, in sixteen phases;
    those of a phase at once. All in whole numbers: the same on every device.

    Parameters
    ----------
    passes : int
        1 to 16; more than three change little.
    sharpness : float
        0 to 16: how much a pixel's own error counts beside what its neighbours make up for. Greater is calmer, with
        harder edges and less faithful colours; 0 has the least visible error and the most grain.

    Notes
    -----
    Give it to ``dither=``, or the name ``"search"``. Pixels of alpha 0 have the palette's first entry of alpha 0, and
    opaque pixels never. The order of pixels makes the result of a picture differ from that of its parts: do not use it
    for the frames of an animation, which would flicker.

    M. Analoui, J. P. Allebach, "Model-based halftoning using direct binary search", Proc. SPIE 1666, 1992;
    D. Lieberman, J. P. Allebach, "A dual interpretation for direct binary search and its implications for tone
    reproduction and texture quality", IEEE Trans. Image Processing 9, 2000.
    """

    def __init__(self, passes: int = 3, *, sharpness: float = 0.4) -> None:
        self.passes = passes
        self.sharpness = sharpness

    def __repr__(self) -> str:
        return f"SearchDither(passes={self.passes}, sharpness={self.sharpness})"

    def _job(self, palette: Palette, color_space: str) -> flow.Map:
        """The job of `dither`; in ``"srgb"`` errors are of Y, Cb and Cr, else of light or of OKLab."""
        params.choice("color_space", color_space, spaces.NAMES)
        passes = params.integer("passes", self.passes, 1, MOST_PASSES)
        sharpness = params.real("sharpness", self.sharpness, 0, MOST_SHARPNESS)
        return Searched(palette, color_space, passes, partial(eye_kernel, REACH, WIDTH, sharpness))


@dataclass(frozen=True, eq=False)
class Searched(flow.Map):
    """Indices (H, W) after some passes."""

    palette: Palette
    color_space: str
    passes: int
    kernel: Callable[[int], npt.NDArray[np.int32]]  # of the largest error that a channel can have
    start: Any = None  # (H, W) indices to begin with, on the host or device; default: the nearest entries

    max_bits, grid = 8, SIDE

    @property
    def halo(self) -> int:
        """Rows and columns from which an error comes: deciding a phase takes it no farther than the kernel reaches."""
        reach = len(self.kernel(1)) // 2
        return -(-self.passes * PHASES * reach // SIDE) * SIDE

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Indices (H, W)."""
        return (picture.height, picture.width), self.palette.index_dtype

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: Picture) -> Iterator[Steps]:  # noqa: ARG002
        """Bring the palette to the device."""
        space = spaces.space(self.color_space, self.palette.has_alpha or picture.channels == 4)
        room = bytes_per_row_of_cells(picture.width, space.dims)
        # Offsets within a channel's planes have 31 bits.
        most = min(session.limits.max_alloc, 4 * space.dims * MOST_CELLS)
        key = ("search", self.palette, space)
        with cached_job(session, key, lambda own: SearchPalette(session, own, self.palette, space, True)) as searched:
            yield Steps(
                partial(self._searched, searched, self.kernel(opponent.most_error(space))),
                rows=SIDE,
                reach=self.halo,
                row_bytes=room // SIDE,
                least_rows=picture.height,
                most_rows=max(most // room - 2 * MARGIN, 1) * SIDE,
                turns=self.passes,
            )
            if picture.channels == 4:
                searched.check_transparency()

    def _searched(
        self,
        palette: SearchPalette,
        kernel: npt.NDArray[np.int32],
        session: Session,
        scope: Scope,
        portion: Portion,
    ) -> None:
        """Search a band, and queue the writing of its entries."""
        layout = PhasePlanes(portion.last - portion.first, portion.picture.width)
        search = ToggleSearch(scope, palette, layout, kernel)
        search.begin(portion.pixels, portion.picture.channels, self._begun(session, scope, portion))
        for done in range(self.passes):
            search.improve()
            if portion.progress.wanted:
                session.finish()
            portion.progress.report(done + 1, self.passes)
        search.store(portion.out, portion.row0 - portion.first, portion.row1 - portion.row0)

    def _begun(self, session: Session, scope: Scope, portion: Portion) -> Buffer | None:
        """Return the indices that rows begin with, if not their nearest entries."""
        if self.start is None:
            return None
        return images.read(self.start, max_bits=16, takes_rows=True).upload(session, scope, portion.first, portion.last)


register_dither("search", SearchDither().dither)
