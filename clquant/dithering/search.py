"""Dithering by search: palette entries chosen for what the eye sees of their neighbourhood."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.color import spaces
from clquant.color.palette import Palette, as_palette
from clquant.color.spaces import Space
from clquant.dithering import opponent
from clquant.dithering.eye import eye_kernel
from clquant.dithering.phase_planes import MARGIN, MOST_CELLS, PHASES, SIDE, PhasePlanes
from clquant.dithering.registry import register_dither
from clquant.dithering.search_steps import SearchPalette, ToggleSearch, bytes_per_row_of_cells
from clquant.images import ImageLike, Picture
from clquant.images.sinks import SinkResult
from clquant.runtime import (
    Array,
    Buffer,
    CommandQueue,
    HostResult,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
)

REACH = 5
WIDTH = 1.4
MOST_PASSES = 16
MOST_SHARPNESS = 16.0


class SearchDither:
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

    def dither(
        self,
        image: ImageLike,
        palette: Palette,
        *,
        color_space: str = "srgb",
        queue: CommandQueue | None = None,
        progress: ProgressCallback | None = None,
    ) -> Any:
        """Palette indices of an image, dithered.

        Parameters
        ----------
        image : image
            Whatever `clquant.images.read` takes.
        palette : Palette or array_like
        color_space : str
            Where errors are summed: ``"srgb"`` for Y, Cb and Cr of 8-bit values, ``"linear"`` for those of light,
            ``"oklab"`` for OKLab.
        queue : pyopencl.CommandQueue, optional
        progress : callable, optional
            Called with (done, total) passes; returning False stops the job.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W) uint8 up to 256 colours, else uint16; on the device for a device array. The same on every device,
            and whether or not the picture fits its memory as a whole.

        Raises
        ------
        InvalidArgument, InvalidType
            If a parameter is not allowed, the image is not, or it has pixels of alpha 0 and the palette no such entry.
        StoppedError
            If `progress` returned False.
        """
        params.choice("color_space", color_space, spaces.NAMES)
        passes = params.integer("passes", self.passes, 1, MOST_PASSES)
        sharpness = params.real("sharpness", self.sharpness, 0, MOST_SHARPNESS)
        report = Progress(params.callback("progress", progress))
        checked, picture = as_palette(palette), images.read(image)
        session = open_session(queue, images.device_arrays([picture]))
        space = spaces.space(color_space, checked.has_alpha or picture.channels == 4)
        kernel = eye_kernel(REACH, WIDTH, sharpness, opponent.most_error(space))
        return search_entries(session, picture, checked, space, kernel, passes, report)


def search_entries(
    session: Session,
    picture: Picture,
    palette: Palette,
    space: Space,
    kernel: npt.NDArray[np.int32],
    passes: int,
    progress: Progress,
    start: Any = None,
) -> Any:
    """Palette indices of a picture after some passes.

    Parameters
    ----------
    space : Space
        With alpha where pixels or palette have it.
    kernel : ndarray
        Of `clquant.dithering.eye.eye_kernel`.
    progress : Progress
        Told (done, total) passes.
    start : ndarray or device array, optional
        (H, W) indices to begin with, where the picture is; default: the nearest entries.

    Returns
    -------
    ndarray or pyopencl.array.Array
        (H, W) of the palette's index dtype; on the device for a device array.
    """
    with session.scope() as scope:
        searched = SearchPalette(session, scope, palette, space)
        result = _Searching(session, picture, searched, kernel, passes, start).run(progress, palette.index_dtype)
        if picture.channels == 4:
            searched.check_transparency()
    return session.hand_over(result) if isinstance(result, Array) else result.array()


class _Searching:
    """One picture in search of its entries, in bands of rows that fit the device.

    A band is searched with so many rows around it that what is missing beyond them cannot reach it: deciding a phase
    takes an error no farther than the kernel reaches.
    """

    def __init__(
        self,
        session: Session,
        picture: Picture,
        palette: SearchPalette,
        kernel: npt.NDArray[np.int32],
        passes: int,
        start: Any,
    ) -> None:
        self._session = session
        self._picture = picture
        self._palette = palette
        self._kernel = kernel
        self._passes = passes
        self._start = start
        self._halo = -(-passes * PHASES * (len(kernel) // 2) // SIDE) * SIDE

    def run(self, progress: Progress, index_dtype: npt.DTypeLike) -> Array | HostResult | SinkResult:
        """The indices, on the device or on their way to the host."""
        session, picture = self._session, self._picture
        result = _result(session, picture, index_dtype)
        bands = self._bands()
        for number, band in enumerate(bands):
            steps = self._passes + 1
            self._search(band, result, progress.part(number * steps, len(bands) * steps))
        return result

    def _bands(self) -> list[tuple[int, int]]:
        """Half-open rows, each of which begins at a multiple of `SIDE`."""
        room = bytes_per_row_of_cells(self._picture.width, self._palette.space.dims)
        # Offsets within a channel's planes have 31 bits.
        most = min(self._session.limits.max_alloc, 4 * self._palette.space.dims * MOST_CELLS)
        rows = (most // room - 2 * MARGIN) * SIDE
        height = self._picture.height
        if self._picture.lazy is not None:
            rows = min(rows, self._picture.lazy.rows_at_once(room // SIDE, SIDE))
        if rows >= height:
            return [(0, height)]
        rows = max(rows - 2 * self._halo, SIDE)
        return [(row, min(row + rows, height)) for row in range(0, height, rows)]

    def _search(self, band: tuple[int, int], result: Array | HostResult | SinkResult, progress: Progress) -> None:
        session, (row0, row1) = self._session, band
        first, last = max(row0 - self._halo, 0), min(row1 + self._halo, self._picture.height)
        layout = PhasePlanes(last - first, self._picture.width)
        with session.scope() as scope:
            pixels = self._picture.upload(session, scope, first, last)
            search = ToggleSearch(scope, self._palette, layout, self._kernel)
            search.begin(pixels, self._picture.channels, self._begun(scope, first, last))
            for step in range(self._passes):
                search.improve()
                if progress.wanted:
                    session.finish()
                progress.report(step + 1, self._passes + 1)
            if not isinstance(result, Array):
                room = result.room(scope, row0, row1)
                search.store(room, row0 - first, row1 - row0)
                result.store(scope, row0, row1, room)
            else:
                search.store(images.buffer_of(result), row0 - first, row1 - row0, row0 * layout.columns)
        progress.report(self._passes + 1, self._passes + 1)

    def _begun(self, scope: Scope, first: int, last: int) -> Buffer | None:
        """What rows begin with, if they do not with their nearest entries."""
        if self._start is None:
            return None
        if not isinstance(self._start, Array):
            return scope.upload(np.ascontiguousarray(self._start[first:last]))
        row_bytes = self._start.shape[1] * self._start.dtype.itemsize
        rows = scope.empty((last - first) * row_bytes)
        begin = self._start.offset + first * row_bytes
        self._session.copy(rows, images.buffer_of(self._start), (last - first) * row_bytes, begin)
        return rows


def _result(session: Session, picture: Picture, dtype: npt.DTypeLike) -> Array | HostResult | SinkResult:
    shape = (picture.height, picture.width)
    made: Any = picture.result
    return session.new_array(shape, dtype) if picture.on_device else made(session, shape, dtype)


register_dither("search", SearchDither().dither)
