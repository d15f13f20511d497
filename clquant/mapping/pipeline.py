"""One picture through one palette: read, taken to the device in bands of rows, and given back as it came."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant import images, params
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.images import ImageLike, Picture
from clquant.images.sinks import SinkResult
from clquant.mapping.palette_cache import open_palette
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.pixel_batch import PixelBatch
from clquant.mapping.search import search_of
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


@dataclass(frozen=True)
class Band:
    """Rows of a picture on the device.

    Attributes
    ----------
    pixels : pyopencl.Buffer
        (rows, width, channels) uint8, or uint16 if the palette's space is of 16-bit values.
    channels, row0, row1, width : int
        The rows are row0 to row1 - 1 of the picture.
    """

    session: Session
    scope: Scope
    palette: PaletteOnDevice
    pixels: Buffer
    channels: int
    row0: int
    row1: int
    width: int

    @property
    def count(self) -> int:
        """Pixels."""
        return (self.row1 - self.row0) * self.width

    def batch(self, out: Buffer) -> PixelBatch:
        """The choice of an entry for every pixel.

        Parameters
        ----------
        out : pyopencl.Buffer
            Gets them, of the palette's index dtype.
        """
        return PixelBatch(self.pixels, self.channels, self.count, out, self.width)


# Queues what writes a band's indices into a buffer.
Writer = Callable[[Band, Buffer], None]


def map_nearest(band: Band, out: Buffer) -> None:
    """A `Writer`: the nearest entry of every pixel."""
    search_of(band.palette, band.channels).map(band.batch(out))


def indices(
    image: ImageLike,
    palette: Palette,
    color_space: str,
    queue: CommandQueue | None,
    progress: ProgressCallback | None,
    write: Writer = map_nearest,
    metric: str = "l2",
    room: HostResult | None = None,
    meanwhile: Callable[[], None] | None = None,
    max_bits: int = 16,
) -> Any:
    """Palette indices (H, W) of an image, as `write` chooses them; on the device for a device array, else in
    `room` if it fits. `meanwhile` is called when all is queued, before the device is waited for. `write` gets values of
    `max_bits` at most.
    """
    return _run(image, palette, color_space, queue, progress, write, metric, False, room, meanwhile, max_bits)


def colors(
    image: ImageLike,
    palette: Palette,
    color_space: str,
    queue: CommandQueue | None,
    progress: ProgressCallback | None,
    write: Writer = map_nearest,
    metric: str = "l2",
) -> Any:
    """As `indices`, but the colours: (H, W, 3 or 4) uint8."""
    return _run(image, palette, color_space, queue, progress, write, metric, True)


def _run(
    image: ImageLike,
    palette: Palette,
    color_space: str,
    queue: CommandQueue | None,
    callback: ProgressCallback | None,
    write: Writer,
    metric: str,
    colors: bool,
    room: HostResult | None = None,
    meanwhile: Callable[[], None] | None = None,
    max_bits: int = 16,
) -> Any:
    params.choice("color_space", color_space, spaces.NAMES)
    progress = Progress(params.callback("progress", callback))
    picture: Picture = images.read(image, max_bits=max_bits)
    session = open_session(queue, images.device_arrays([picture]))
    shape: tuple[int, ...] = (picture.height, picture.width)
    if colors:
        shape = (*shape, palette.colors.shape[1])
    dtype = np.dtype(np.uint8) if colors else palette.index_dtype
    result: Any
    if picture.on_device:
        result = session.new_array(shape, dtype)
    else:
        result = room if room is not None and room.fits(shape, dtype) else picture.result(session, shape, dtype)
    with session.scope() as scope, contextlib.ExitStack() as inside:
        picture = picture.send(session, scope)
        space = spaces.space(color_space, palette.has_alpha or picture.channels == 4, picture.bits)
        on_device = inside.enter_context(open_palette(session, palette, space, picture.pixels, metric))
        bands = picture.parts(session, picture.width * (4 if colors else 2))
        for done, (row0, row1) in enumerate(bands, 1):
            if isinstance(result, SinkResult) and result.has(row1):
                continue
            with session.scope() as inner:
                pixels = picture.upload(session, inner, row0, row1)
                band = Band(session, inner, on_device, pixels, picture.channels, row0, row1, picture.width)
                _store(band, palette, write, colors, result)
            if progress.wanted:
                session.finish()
            progress.report(done, len(bands))
        if meanwhile is not None:
            meanwhile()
        if picture.channels == 4:
            on_device.check_transparency()
    return session.hand_over(result) if isinstance(result, Array) else result.array()


def _store(band: Band, palette: Palette, write: Writer, colors: bool, result: Array | HostResult | SinkResult) -> None:
    """One band's part of the result."""
    if isinstance(result, Array) and not colors and result.size == band.count:
        write(band, images.buffer_of(result))
        return
    if isinstance(result, Array):
        room = band.scope.empty(band.count * result.nbytes // (result.shape[0] * result.shape[1]))
    else:
        room = result.room(band.scope, band.row0, band.row1)
    chosen = band.scope.empty(band.count * palette.index_dtype.itemsize) if colors else room
    write(band, chosen)
    if colors:
        band.palette.apply(chosen, band.count, room)
    if isinstance(result, Array):
        row_bytes = int(np.prod(result.shape[1:])) * result.dtype.itemsize
        target = images.buffer_of(result)
        band.session.copy(target, room, (band.row1 - band.row0) * row_bytes, 0, band.row0 * row_bytes)
    else:
        result.store(band.scope, band.row0, band.row1, room)
