"""`Panel`: a display of few measured colours, and pictures made for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.formats import parallel
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, as_palette
from clquant.color.values import WHITE, lay_over
from clquant.images import ImageLike, device_arrays, read
from clquant.palette import engine
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, ProgressCallback, open_session
from clquant.targets.panel.packing import pack_codes, pack_planes

BAND_PIXELS = 1 << 15  # of a thread, for the sake of caches
LUMA = np.array([299, 587, 114], np.int32)  # Rec. 601, in thousandths


@dataclass(frozen=True)
class Panel:
    """A display of few colours.

    Attributes
    ----------
    name : str
    palette : Palette, or what makes one
        The measured colours; its `device` has the colours by which drivers name them, its `codes` the numbers that the
        controller takes.
    bits : int
        Bits per pixel of a packed frame: 1, 2, 4; or 0 for two planes of 1 bit, black and the third colour.
    gamut : float
        How much of a picture's chroma is kept by default, 0 to 1: colours that no mixture of the panel's shows leave
        errors that diffusion carries around.
    source : str
        Where the measured colours and the codes are from.
    size : (int, int), optional
        Width and height in pixels of the panel that was measured; others of its kind have other sizes.
    """

    name: str
    palette: Palette
    bits: int
    gamut: float
    source: str
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "palette", as_palette(self.palette))

    def prepare(self, image: ImageLike, *, tone: float = 1.0, gamut: float | None = None) -> npt.NDArray[np.uint8]:
        """A picture with the tones and the chroma that the panel can show.

        Parameters
        ----------
        image : image
            Gray, RGB, or RGBA, which is laid over white.
        tone : float
            0 to 1: how far black and white are moved to the panel's own, in linear light; at 1 black becomes the
            darkest and white the lightest measured colour.
        gamut : float, optional
            0 to 1: the part of the chroma (a colour's difference to its luma) that is kept; default the panel's.

        Returns
        -------
        ndarray
            (H, W, 3) uint8.

        Raises
        ------
        InvalidArgument, InvalidType, FileError
            If an argument is not allowed or the image cannot be read.
        """
        share = params.real("tone", tone, 0.0, 1.0)
        kept = round(256 * params.real("gamut", self.gamut if gamut is None else gamut, 0.0, 1.0))
        rgb, table = over(image), self._tones(share)
        ready = np.empty_like(rgb)
        rows = max(BAND_PIXELS // max(rgb.shape[1], 1), 1)

        def fill(number: int) -> None:
            band = slice(number * rows, (number + 1) * rows)
            channels = [np.ascontiguousarray(rgb[band, :, c]) for c in range(3)]
            if kept < 256:
                red, green, blue = (channel.astype(np.int32) for channel in channels)
                luma = (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue + 500) // 1000
                channels = [luma + (((channel - luma) * kept + 128) >> 8) for channel in (red, green, blue)]
            for c, channel in enumerate(channels):
                ready[band, :, c] = table[c][channel]

        parallel.in_threads(fill, -(-len(rgb) // rows))
        return ready

    def quantize(
        self,
        image: ImageLike,
        dither: Any = True,
        *,
        tone: float = 1.0,
        gamut: float | None = None,
        color_space: str = "srgb",
        queue: CommandQueue | None = None,
        progress: ProgressCallback | None = None,
    ) -> IndexedImage:
        """A picture in the panel's colours. Pixels of exactly a device colour get that colour, whatever is around them.

        Parameters
        ----------
        image : image
            As `prepare` takes it.
        dither : None, bool, str or object
            As `clquant.quantize` takes it.
        tone, gamut : float
            As `prepare` takes them.
        color_space : str
            Where colours are compared.
        queue : pyopencl.CommandQueue, optional
        progress : callable, optional
            Called with (done, total); returning False stops the job.

        Returns
        -------
        IndexedImage
            With `palette`: as it looks on the panel.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            If an argument is not allowed, the image cannot be read, or `progress` returned False.
        """
        original = over(image)
        ready = self.prepare(original, tone=tone, gamut=gamut)
        made = engine.quantize(
            ready, self.palette, dither=dither, color_space=color_space, queue=queue, progress=progress
        )
        indices = np.array(made.indices)
        if self.palette.device is not None:
            codes = _codes(original)
            for index, code in enumerate(_codes(self.palette.device[:, :3])):
                indices[codes == code] = index
        return IndexedImage(indices, self.palette)

    def in_device_colors(self, picture: IndexedImage) -> IndexedImage:
        """A picture of `quantize` in the colours that the panel's driver expects: for drivers that take RGB files.

        Parameters
        ----------
        picture : IndexedImage

        Returns
        -------
        IndexedImage

        Raises
        ------
        InvalidType, InvalidArgument
            If the panel has no device colours, or the picture is none of its own.
        """
        self._check(picture)
        if self.palette.device is None:
            raise InvalidArgument(f"panel {self.name!r} has no device colours; allowed: a palette with device=")
        return IndexedImage(picture.indices, Palette(self.palette.device))

    def pack(self, picture: IndexedImage) -> bytes:
        """A picture of `quantize` as the panel's controller takes it: codes of `bits` bits, or two planes in turn.

        Parameters
        ----------
        picture : IndexedImage

        Returns
        -------
        bytes
            Rows from the top, each beginning with a new byte; of two planes one after the other.

        Raises
        ------
        InvalidType, InvalidArgument
            If the picture is none of this panel.
        """
        self._check(picture)
        indices = picture.host_indices()
        if self.bits == 0:
            return b"".join(pack_planes(indices))
        return pack_codes(self.palette.codes[indices], self.bits)

    def _check(self, picture: IndexedImage) -> None:
        if not isinstance(picture, IndexedImage):
            raise InvalidType(f"picture is {params.shown(picture)}; allowed: an IndexedImage of quantize")
        if len(picture.palette) != len(self.palette):
            raise InvalidArgument(
                f"picture has {len(picture.palette)} colours; allowed: one in the {len(self.palette)} of {self.name!r}"
            )

    def _tones(self, share: float) -> npt.NDArray[np.uint8]:
        """(3, 256): each channel's values between the panel's black and white, in linear light."""
        measured = self.palette.colors[:, :3].astype(np.int32)
        luma = measured @ LUMA
        dark, light = _linear(measured[luma.argmin()]), _linear(measured[luma.argmax()])
        values = _linear(np.arange(256))
        low, high = share * dark, 1 - share * (1 - light)
        scaled = low[:, None] + (high - low)[:, None] * values
        return np.floor(255 * _encoded(scaled) + 0.5).astype(np.uint8)


def over(image: ImageLike, background: Sequence[int] = WHITE) -> npt.NDArray[np.uint8]:
    """(H, W, 3) of a picture, over an opaque colour if it has alpha."""
    picture = read(image)
    array = picture.array
    if array is None:
        array = picture.on_host(open_session(None, device_arrays([picture])))
    if picture.channels == 1:
        return np.repeat(array, 3, axis=2)
    return np.asarray(lay_over(array, background) if picture.channels == 4 else array, np.uint8)


def _codes(colors: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """A number for each colour (..., 3)."""
    red, green, blue = (colors[..., c].astype(np.uint32) for c in range(3))
    return np.asarray(red * np.uint32(1 << 16) + green * np.uint32(1 << 8) + blue, np.uint32)


def _linear(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Linear light, 0 to 1, of 8-bit sRGB values (IEC 61966-2-1)."""
    v = values / 255
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def _encoded(light: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The inverse of `_linear`, 0 to 1."""
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 0) ** (1 / 2.4) - 0.055)
