"""Error diffusion to any palette by the classic filters, serially or in tiles that do not wait for each other."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy.typing as npt

from clquant import flow, params, runtime
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.dithering import diffusion_strips, diffusion_tiles, diffusion_waves
from clquant.dithering.diffusion_job import DiffusionParams, searches
from clquant.dithering.diffusion_strips import StripScan
from clquant.dithering.diffusion_tiles import TileScan
from clquant.dithering.diffusion_waves import WaveScan
from clquant.dithering.error_filters import FILTERS, error_filter
from clquant.dithering.registry import JobDither, register_dither
from clquant.flow import Steps
from clquant.images import Picture
from clquant.mapping.palette_cache import open_palette

FULL_STRENGTH = 256
MAX_SIDE = 1 << 30
CLASSIC = "floyd-steinberg"
"""Its name is registered by `clquant.halftone`, with errors of 8-bit values in every colour space."""
ERROR_SPACES = ("srgb", "ycbcr")
TILE_SIZES = (16, 32, 64, 128, 256, 512, 1024)
FORMS = (
    runtime.Variant(
        "strips",
        diffusion_strips.FILE,
        diffusion_strips.admits,
        {"ROWS": diffusion_strips.ROWS, "CLOCKS": diffusion_strips.CLOCKS},
        launchers=(StripScan,),
        gain=2.27,
        is_worthwhile=lambda limits: not limits.is_cpu,
    ),
    runtime.Variant("portable", diffusion_waves.FILE, constants={"SEARCH": "IN_CELLS"}, launchers=(WaveScan,)),
)
"""Of the serial scan from left to right."""


class ErrorDiffusion(JobDither):
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

    def _job(self, palette: Palette, color_space: str) -> Diffused:
        """The job of `dither`."""
        self._checked(color_space, palette.has_alpha)
        return Diffused(palette, color_space, copy.copy(self))


@dataclass(frozen=True)
class Diffused(flow.Scan):
    """Indices (H, W) by error diffusion: in tiles, or serially."""

    palette: Palette
    color_space: str
    diffusion: ErrorDiffusion
    pictures: int = 1

    max_side = MAX_SIDE

    @property
    def is_serial(self) -> bool:
        """Whether the whole picture is one scan."""
        return self.diffusion.tile_size is None

    @property
    def grid(self) -> int:
        """Whole tiles."""
        return self.diffusion.tile_size or 1

    @property
    def halo(self) -> int:
        """Pixels outside a tile from which it is scanned."""
        return diffusion_tiles.OVERLAP

    def stacked(self, count: int) -> Diffused | None:
        """Return the job of pictures below each other, in tiles."""
        return None if self.is_serial else replace(self, pictures=count)

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Indices (H, W)."""
        return (picture.height, picture.width), self.palette.index_dtype

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:
        """Make the tables of the form that a scan takes."""
        alpha = self.palette.has_alpha or picture.channels == 4
        given = self.diffusion._checked(self.color_space, alpha, picture.bits)
        with open_palette(session, self.palette, given.space, searches(session, picture)) as on_device:
            scan: StripScan | TileScan | WaveScan
            if given.serpentine or given.tile_size is not None:
                scan = TileScan(session, scope, on_device, picture, given, picture.origin[0], self.pictures)
            else:
                form = given.form(session, FORMS)
                scan = form.launchers[0](session, scope, on_device, picture, given, form)
            yield Steps(
                scan.step,
                rows=scan.rows,
                reach=scan.overlap,
                row_bytes=max(scan.row_bytes, 1),
                least_rows=picture.height,
                carried=scan.passed_on if self.is_serial else None,
            )
            if picture.channels == 4:
                on_device.check_transparency()


def named_error_space(name: str) -> str | None:
    """`error_space` of the dither that has a filter's name: 8-bit values for the classic one."""
    return "srgb" if name == CLASSIC else None


LEAKY = ErrorDiffusion(CLASSIC, 0.9, True, error_space="ycbcr", tile_size=64)
"""``"leaky"``, the default way to dither: of the filters, strengths and spaces tried, the one of least visual error."""

register_dither("leaky", LEAKY.dither)
for _name in FILTERS:
    if _name != CLASSIC:
        register_dither(_name, ErrorDiffusion(_name).dither)
