"""Ordered dithering to any palette, with Bayer's masks or blue noise."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.dithering import bounds, mixes, simplices, threshold_maps
from clquant.dithering.registry import JobDither, register_dither
from clquant.flow import Portion
from clquant.mapping.nearest import launch_lanes
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.mapping.pipeline import Nearest
from clquant.mapping.search import search_of
from clquant.runtime import Buffer, Limits, Scope, Session, Variant

MASKS = ("blue-noise", "bayer")
MEANS = ("exact", "near")
FULL_STRENGTH = 256
FILE = "dithering/ordered.cl"
LANE_FILE = "dithering/ordered_lanes.cl"
MEMO_BITS = 6
"""Of `launch_lanes`, one more than where colours are mapped: an answer takes several times as long to find."""
MEMO_ENTRY_BYTES = {1: 8, 2: 12}
"""By the bytes of an index."""
MIXTURE_ENTRY_BYTES = {1: 20, 2: 24}
"""The same where simplices are mixed."""


class OrderedDither(JobDither):
    """Dithers with a mask: each pixel takes one of the palette entries that mix to its colour.

    Exact means: a pixel's entries are the corners of the simplex of entries around its colour, so that flat areas keep
    their mean to half a step of the mask. Colours outside the palette's hull take the mean of a near point of it, of
    their luma where there is one (`cl/dithering/simplices.h`). Partly transparent pixels are so mixed only where all
    entries are opaque; palettes of over 1,024 entries have near entries.

    Near entries: a pixel has one of two. The first is the nearest one; the second is one of the six palette entries
    nearest to the first: the one whose mix with the first is nearest to the colour, luma counting most, and differs
    least from pixel to pixel (`cl/dithering/ordered.cl` has the equations). Shares below a tenth, which are seen as
    specks, are not drawn by palettes of more than six colours. Unless a palette's colours are widely spaced, entries
    that are off by more than 60 levels in a channel stand only where that gains more than a penalty. Palettes that span
    the colour space (grays, and colours that are far apart for their number: inks, CGA, EGA) have exact means all the
    same.

    Where the mask is lower, lighter entries stand. Pixels do not depend on each other, so a picture that does not
    change from frame to frame does not flicker, and flat areas of a palette colour stay flat. All in integers: the same
    on every device.

    Parameters
    ----------
    mask : str
        ``"blue-noise"`` (64x64, void-and-cluster) or ``"bayer"``.
    size : int
        Side of Bayer's mask, a power of two from 2 to 256; blue noise has one size and does not look at it.
    strength : float
        0 (no dithering) to 1; rounded to 1/256.
    means : str, optional
        ``"exact"`` or ``"near"`` entries. By default exact ones of a palette that a call is given, and near ones of a
        palette that an engine learned, in the engine's own verbs: pictures that the palette was learned of have fewer
        specks and less visual error then, while flat areas of other colours may be tinted.

    Notes
    -----
    Give it to ``dither=``, or one of the names ``"blue-noise"``, ``"bayer"`` (8x8), ``"bayer2"``, ``"bayer4"``,
    ``"bayer8"``, ``"bayer16"``.
    """

    def __init__(
        self, mask: str = "blue-noise", *, size: int = 8, strength: float = 1.0, means: str | None = None
    ) -> None:
        self.mask = mask
        self.size = size
        self.strength = strength
        self.means = means

    def __repr__(self) -> str:
        return f"OrderedDither({self.mask!r}, size={self.size}, strength={self.strength}, means={self.means!r})"

    def _for_learned(self) -> OrderedDither:
        """Return this dither with near entries, unless it says what means are to be."""
        if self.means is not None:
            return self
        near = copy.copy(self)
        near.means = "near"
        return near

    def thresholds(self) -> threshold_maps.Mask:
        """The mask, a permutation of 0..side^2 - 1.

        Returns
        -------
        ndarray of int32, shape (side, side)

        Raises
        ------
        InvalidArgument, InvalidType
            If `mask` or `size` is not allowed.
        """
        mask = params.choice("mask", self.mask, MASKS)
        size = params.choice("size", params.integer("size", self.size, 2, 256), [2**n for n in range(1, 9)])
        return threshold_maps.shipped_mask() if mask == "blue-noise" else threshold_maps.bayer(size.bit_length() - 1)

    def _job(self, palette: Palette, color_space: str) -> flow.Map:
        """The job of `dither`."""
        mask, strength = self.thresholds(), params.real("strength", self.strength, 0, 1)
        means = "exact" if self.means is None else params.choice("means", self.means, MEANS)
        is_mixed = (simplices.covers if means == "exact" else simplices.spans)(palette)
        return Ordered(
            palette, color_space, mask=mask, strength=round(strength * FULL_STRENGTH), has_simplices=is_mixed
        )


@dataclass(frozen=True, eq=False)
class Ordered(Nearest):
    """Indices (H, W) by a mask: a pixel depends on its colour and its place alone."""

    mask: threshold_maps.Mask = field(kw_only=True)
    strength: int = field(kw_only=True)
    has_simplices: bool = field(kw_only=True)

    @property
    def grid(self) -> int:
        """Side of the mask, which repeats."""
        return len(self.mask)

    def search(self, palette: PaletteOnDevice, channels: int) -> flow.Step:
        """Return the step that queues the choice of a portion's entries."""
        form = search_of(palette, channels, VARIANTS)

        def step(session: Session, scope: Scope, portion: Portion) -> None:  # noqa: ARG001
            form.dither(scope, portion, self)

        return step


class PixelOrdered:
    """A work-item per pixel: the portable form."""

    def __init__(self, palette: PaletteOnDevice) -> None:
        self._palette = palette
        self._is_opaque = bool((palette.palette.rgba()[:, 3] == 255).all())

    def constants(self, job: Ordered) -> dict[str, int]:
        """Return the kernel's compile-time constants."""
        space = self._palette.space
        shift, side = simplices.cells_of(spaces.space(space.name, space.alpha))
        return {
            **bounds.constants(space, space.definition.ordered_share),
            "NEIGHBOURS": mixes.NEIGHBOURS[space.alpha],
            "SIMPLICES": job.has_simplices * (1 + self._is_opaque),
            **({"WALK_SHIFT": shift, "WALK_SIDE": side} if job.has_simplices else {}),
        }

    def mixes(self) -> npt.NDArray[Any]:
        """Return the neighbours of all entries as the kernel takes them."""
        return mixes.mixes(self._palette.palette, self._palette.space).view(np.int32)

    def arguments(self, scope: Scope, portion: Portion, job: Ordered) -> dict[str, Any]:
        """Return the kernel's arguments by name, without the search's and the pixels'."""
        palette = self._palette
        own = {
            "mixes": palette.cached((type(self), "mixes"), lambda: palette.scope.copy_of(self.mixes())),
            **bounds.penalty(palette),
            "width": np.uint32(portion.picture.width),
            "first_row": np.uint32(portion.row0),
            "mask": scope.copy_of(job.mask),
            "side": np.uint32(len(job.mask)),
            "strength": np.int32(job.strength),
        }
        if job.has_simplices:
            own |= self._simplices()
        if job.strength == 0 or job.has_simplices:  # nearest entries stay, specks or not
            own["speck"] = np.int32(palette.space.white)
        return own

    def _simplices(self) -> dict[str, Buffer]:
        """Return the kernel's arguments of `cl/dithering/simplices.h` by name."""
        palette = self._palette
        space = spaces.space(palette.space.name, palette.space.alpha)
        table, starts = simplices.simplices(palette.palette, space)
        return {
            "simplices": palette.cached("simplices", lambda: palette.scope.copy_of(table.view(np.int64))),
            "walks": palette.cached("walks", lambda: palette.scope.copy_of(starts)),
        }

    def dither(self, scope: Scope, portion: Portion, job: Ordered) -> None:
        """Queue the dithering of rows of pixels."""
        palette, picture = self._palette, portion.picture
        items, group = (picture.width, portion.row1 - portion.row0), palette.session.tuned("mapping.group")
        own = {**portion.arguments, **self.arguments(scope, portion, job)}
        palette.launch(FILE, "dither_ordered", picture.channels, items, group, own, True, True, **self.constants(job))


class LaneOrdered(PixelOrdered):
    """Neighbours in the lanes of a vector, and each colour of a run of pixels once: the form for CPUs."""

    def mixes(self) -> npt.NDArray[Any]:
        """Return them in lanes; see `PixelOrdered.mixes`."""
        return mixes.mixes_in_lanes(self._palette.palette, self._palette.space)

    def dither(self, scope: Scope, portion: Portion, job: Ordered) -> None:
        """Queue a portion; see `PixelOrdered.dither`."""
        palette = self._palette
        own = {"points": palette.points, "colors": palette.colors, **self.arguments(scope, portion, job)}
        nbytes = (MIXTURE_ENTRY_BYTES if job.has_simplices else MEMO_ENTRY_BYTES)[palette.index_bytes]
        name, given = "dither_ordered", self.constants(job)
        launch_lanes(palette, scope, LANE_FILE, name, portion, MEMO_BITS, nbytes, given, **own)


VARIANTS = (
    Variant("lanes", LANE_FILE, Limits.has_lanes, launchers=(LaneOrdered,), gain=3.9),
    Variant("portable", FILE, launchers=(PixelOrdered,)),
)

for _name, (_mask, _size) in threshold_maps.ORDERED.items():
    register_dither(_name, OrderedDither(_mask, size=_size).dither)
