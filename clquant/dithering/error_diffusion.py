"""Error diffusion to any palette by the classic filters, serially or in tiles that do not wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import images, params, runtime
from clquant.color import spaces
from clquant.color.palette import Palette, as_palette
from clquant.dithering import diffusion_strips, diffusion_waves
from clquant.dithering.diffusion_job import Above, BandRows, DiffusionParams, forms
from clquant.dithering.diffusion_strips import StripScan
from clquant.dithering.diffusion_tiles import TileScan
from clquant.dithering.diffusion_waves import WaveScan
from clquant.dithering.error_filters import FILTERS, error_filter
from clquant.dithering.registry import register_dither
from clquant.images import ImageLike, Picture
from clquant.mapping.palette_cache import open_palette

FULL_STRENGTH = 256
MAX_SIDE = 1 << 30
CLASSIC = "floyd-steinberg"
"""Its name is registered by `clquant.halftone`, with errors of 8-bit values in every colour space."""
ERROR_SPACES = ("srgb", "ycbcr")
TILE_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_LANES, _PORTABLE = forms(diffusion_waves.FILE, 1.4, WaveScan)
FORMS = (
    _LANES,
    runtime.Variant(
        "strips",
        diffusion_strips.FILE,
        diffusion_strips.admits,
        {"ROWS": diffusion_strips.ROWS, "CLOCKS": diffusion_strips.CLOCKS},
        launchers=(StripScan,),
        gain=2.27,
        is_worthwhile=lambda limits: not limits.is_cpu,
    ),
    _PORTABLE,
)
"""Of the serial scan from left to right."""
SEARCHES_PER_PIXEL = 64
"""How much sooner short lists of candidates pay on GPUs, where pixels wait for each other."""


class ErrorDiffusion:
    """Dithers by error diffusion: each pixel takes the nearest entry, and its error goes to pixels not yet visited.

    Parameters
    ----------
    filter : str
        ``"floyd-steinberg"``, ``"jarvis-judice-ninke"``, ``"stucki"``, ``"burkes"``, ``"sierra"``,
        ``"sierra-two-row"``, ``"sierra-lite"`` or ``"atkinson"``, which passes on three quarters of the error.
    strength : float
        Share of the arriving error that is added to a pixel, 0 (no dithering) to 1; rounded to 1/256. With less than 1
        errors fade with distance.
    serpentine : bool
        Whether rows of odd number are scanned from right to left. Then no two pixels of a picture can be done at once,
        unless it is cut into tiles.
    error_space : str, optional
        Where errors are taken. None: in the space where colours are compared, so that means of light are kept in
        ``"linear"``. ``"srgb"``: in 8-bit values, wherever colours are compared. ``"ycbcr"``: as None, but Y Cb Cr
        (ITU-R BT.601) stands for ``"srgb"``, also in the comparison; a pixel's value may leave the range of 8-bit
        values by a quarter.
    tile_size : int, optional
        Side of tiles that are scanned independently, each from 8 pixels outside it on: a power of two from 16 to
        1024. None: the whole picture is one scan.

    Notes
    -----
    Give it to ``dither=``, or the name of a filter, or ``"leaky"``: Floyd and Steinberg's filter at strength 0.9,
    serpentine, in ``"ycbcr"``, in tiles of 64. A pixel's value is clamp(c + s, 0, extent), s the weighted sum of
    earlier errors times the strength, rounded toward zero: in sRGB the arithmetic of Pillow. Ties between entries go to
    the one nearer in plain 8-bit values, then to the lowest index. Pixels of alpha 0 neither take nor pass errors.
    All in integers: the same on every device. What is said of 8-bit values holds of 16-bit ones for pictures that have
    them. Sources are in `clquant.dithering.error_filters`.
    """

    def __init__(
        self,
        filter: str = CLASSIC,
        strength: float = 1.0,
        serpentine: bool = False,
        *,
        error_space: str | None = None,
        tile_size: int | None = None,
    ) -> None:
        self.filter = filter
        self.strength = strength
        self.serpentine = serpentine
        self.error_space = error_space
        self.tile_size = tile_size

    def __repr__(self) -> str:
        given = f"{self.filter!r}, strength={self.strength}, serpentine={self.serpentine}"
        return f"ErrorDiffusion({given}, error_space={self.error_space!r}, tile_size={self.tile_size})"

    def _checked(self, color_space: str, alpha: bool, bits: int = 8) -> DiffusionParams:
        strength = params.real("strength", self.strength, 0, 1)
        tile_size = self.tile_size
        if tile_size is not None:
            tile_size = params.choice("tile_size", params.integer("tile_size", tile_size, 16, 1024), TILE_SIZES)
        params.choice("color_space", color_space, spaces.NAMES)
        chosen = self.error_space
        if chosen is not None:
            params.choice("error_space", chosen, ERROR_SPACES)
        to_luma = chosen == "ycbcr" and color_space == "srgb"
        return DiffusionParams(
            filter=error_filter(self.filter),
            strength=round(strength * FULL_STRENGTH),
            serpentine=params.boolean("serpentine", self.serpentine),
            space=spaces.luma_chroma(alpha, bits) if to_luma else spaces.space(color_space, alpha, bits),
            plain_errors=chosen == "srgb" or (color_space == "srgb" and not to_luma),
            tile_size=tile_size,
        )

    def dither(
        self,
        image: ImageLike,
        palette: Palette,
        *,
        color_space: str = "srgb",
        queue: runtime.CommandQueue | None = None,
        progress: runtime.ProgressCallback | None = None,
    ) -> Any:
        """Palette indices of an image, dithered.

        Parameters
        ----------
        image : image
            Whatever `clquant.images.read` takes; at most 2^30 pixels per side.
        palette : Palette or array_like
        color_space : str
            Where colours are compared, ``"srgb"``, ``"linear"`` or ``"oklab"``.
        queue : pyopencl.CommandQueue, optional
        progress : callable, optional
            Called with (rows done, rows); returning False stops the job.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W) uint8 up to 256 colours, else uint16; on the device for a device array. The same on every device.

        Raises
        ------
        InvalidArgument, InvalidType
            If a parameter is not allowed, or the image is not, or it has pixels of alpha 0 and the palette no entry of
            alpha 0.
        StoppedError
            If `progress` returned False.
        """
        report = runtime.Progress(params.callback("progress", progress))
        return self._dithered(image, palette, color_space, queue, report, None)[0]

    def dither_after(
        self,
        above: Above | None,
        image: ImageLike,
        palette: Palette,
        *,
        color_space: str = "srgb",
        queue: runtime.CommandQueue | None = None,
    ) -> tuple[Any, Above]:
        """Palette indices of some rows of an image, scanned after the rows above them.

        Parameters
        ----------
        above : Above or None
            What the call for the rows above gave, on any device; None for the first ones.
        image : image
            Whole rows, in memory.
        palette, color_space, queue
            As for `dither`.

        Returns
        -------
        indices : ndarray
            As of `dither`.
        above : Above
            For the rows below.

        Raises
        ------
        InvalidArgument, InvalidType
            As `dither`; or if tiles are scanned, which do not wait for those above.
        """
        if self.tile_size is not None:
            raise runtime.InvalidArgument(f"tile_size is {self.tile_size}; allowed for rows after others: None")
        given = Above(0, np.empty(0, np.uint8)) if above is None else above
        indices, errors = self._dithered(image, palette, color_space, queue, runtime.Progress(None), given)
        return indices, Above(given.rows + indices.shape[0], errors)

    def _dithered(
        self,
        image: ImageLike,
        palette: Palette,
        color_space: str,
        queue: runtime.CommandQueue | None,
        report: runtime.Progress,
        above: Above | None,
    ) -> tuple[Any, Any]:
        """The indices, and with `above` the errors that the last rows pass on."""
        checked = as_palette(palette)
        self._checked(color_space, checked.has_alpha)
        picture = images.read(image, max_bits=16)
        if max(picture.height, picture.width) > MAX_SIDE:
            raise runtime.InvalidArgument(
                f"image has {picture.height} x {picture.width} pixels; allowed: up to {MAX_SIDE} per side"
            )
        given = self._checked(color_space, checked.has_alpha or picture.channels == 4, picture.bits)
        session = runtime.open_session(queue, images.device_arrays([picture]))
        return _diffuse(session, picture, checked, given, report, above)


def _diffuse(
    session: runtime.Session,
    picture: Picture,
    palette: Palette,
    given: DiffusionParams,
    report: runtime.Progress,
    above: Above | None,
) -> tuple[Any, Any]:
    searches = picture.pixels * (1 if session.limits.is_cpu else SEARCHES_PER_PIXEL)
    errors = None
    with (
        session.scope() as scope,
        open_palette(session, palette, given.space, searches) as on_device,
    ):
        scan: StripScan | TileScan | WaveScan
        if given.serpentine or given.tile_size is not None:
            scan = TileScan(session, scope, on_device, picture, given, above.rows if above is not None else 0)
        else:
            form = given.form(session, FORMS)
            scan = form.launchers[0](session, scope, on_device, picture, given, form)
        if above is not None and above.rows:
            session.write(scan.passed_on[0], above.errors)
        result = _in_bands(session, picture, palette.index_dtype, scan, report)
        if picture.channels == 4:
            on_device.check_transparency()
        if above is not None:
            errors = session.download(*scan.passed_on, np.uint8)
    return result, errors


def _in_bands(
    session: runtime.Session,
    picture: Picture,
    dtype: np.dtype[Any],
    scan: StripScan | TileScan | WaveScan,
    report: runtime.Progress,
) -> Any:
    """Bands of rows, top to bottom, each loaded from `scan.overlap` rows above it on."""
    shape, out_bytes = (picture.height, picture.width), picture.width * dtype.itemsize
    device = session.new_array(shape, dtype) if picture.on_device else None
    host = None if picture.on_device else picture.result(session, shape, dtype)
    row_bytes = max(scan.row_bytes, picture.width * picture.pixel_bytes, out_bytes)
    for row0, row1 in images.row_bands(picture.height, row_bytes, session, scan.rows, picture):
        with session.scope() as band:
            origin = max(0, row0 - scan.overlap)
            image = picture.upload(session, band, origin, row1)
            if device is not None and row1 - row0 == picture.height:
                output = images.buffer_of(device)
            else:
                size = (row1 - row0) * out_bytes
                output = band.empty(size) if host is None else host.room(band, row0, row1)
            scan.run(band, image, output, BandRows(origin, row0, row1))
            if device is not None and row1 - row0 < picture.height:
                session.copy(images.buffer_of(device), output, (row1 - row0) * out_bytes, 0, row0 * out_bytes)
            if host is not None:
                host.store(band, row0, row1, output)
        report.report(row1, picture.height)
    if host is not None:
        return host.array()
    assert device is not None
    return session.hand_over(device)


def named_error_space(name: str) -> str | None:
    """`error_space` of the dither that has a filter's name: 8-bit values for the classic one."""
    return "srgb" if name == CLASSIC else None


LEAKY = ErrorDiffusion(CLASSIC, 0.9, True, error_space="ycbcr", tile_size=64)
"""``"leaky"``, the default way to dither: of the filters, strengths and spaces tried, the one of least visual error."""

register_dither("leaky", LEAKY.dither)
for _name in FILTERS:
    if _name != CLASSIC:
        register_dither(_name, ErrorDiffusion(_name).dither)
