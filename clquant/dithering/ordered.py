"""Ordered dithering to any palette, with Bayer's masks or blue noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from clquant import params
from clquant.color.palette import Palette, as_palette
from clquant.dithering import threshold_maps
from clquant.dithering.registry import register_dither
from clquant.images import ImageLike
from clquant.mapping import full_table, pipeline, small_palette
from clquant.mapping.candidates_lanes import int4
from clquant.mapping.pipeline import Band
from clquant.runtime import Buffer, CommandQueue, ProgressCallback

MASKS = ("blue-noise", "bayer")
FULL_STRENGTH = 256
# Bytes of a memo's entry in `cl/dithering/ordered_lanes.cl`, by those of an index.
ENTRY_BYTES = {1: 8, 2: 12}


class OrderedDither:
    """Dithers with a mask: each pixel takes one of two palette entries that mix to its colour.

    The first is the nearest entry; the second the nearest to the pixel's colour moved away from the first by twice its
    error, or farther where there is none, clamped to the colour space. Of the two the lighter one stands where the mask
    is below its share of the mix (`cl/dithering/ordered.cl` has the equations). Pixels do not depend on each other, so
    a picture that does not change from frame to frame does not flicker, and flat areas of a palette colour stay flat.
    All in integers: the same on every device.

    Parameters
    ----------
    mask : str
        ``"blue-noise"`` (64x64, void-and-cluster) or ``"bayer"``.
    size : int
        Side of Bayer's mask, a power of two from 2 to 256; blue noise has one size and does not look at it.
    strength : float
        0 (no dithering) to 1; rounded to 1/256.

    Notes
    -----
    Give it to ``dither=``, or one of the names ``"blue-noise"``, ``"bayer"`` (8x8), ``"bayer2"``, ``"bayer4"``,
    ``"bayer8"``, ``"bayer16"``.
    """

    def __init__(self, mask: str = "blue-noise", *, size: int = 8, strength: float = 1.0) -> None:
        self.mask = mask
        self.size = size
        self.strength = strength

    def __repr__(self) -> str:
        return f"OrderedDither({self.mask!r}, size={self.size}, strength={self.strength})"

    def thresholds(self) -> threshold_maps.Mask:
        """(side, side) int32: the mask, a permutation of 0..side^2 - 1.

        Raises
        ------
        InvalidArgument, InvalidType
            If `mask` or `size` is not allowed.
        """
        if params.choice("mask", self.mask, MASKS) == "blue-noise":
            return threshold_maps.shipped_mask()
        size = params.choice("size", params.integer("size", self.size, 2, 256), [2**n for n in range(1, 9)])
        return threshold_maps.bayer(size.bit_length() - 1)

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
            Where colours are compared, ``"srgb"``, ``"linear"`` or ``"oklab"``.
        queue : pyopencl.CommandQueue, optional
        progress : callable, optional
            Called with (done, total) parts of the image; returning False stops the job.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W) uint8 up to 256 colours, else uint16; on the device for a device array. A pixel depends on its colour
            and its place alone; the same on every device.

        Raises
        ------
        InvalidArgument, InvalidType
            If a parameter is not allowed, or the image is not.
        """
        mask = self.thresholds()
        checked = as_palette(palette)
        strength = params.real("strength", self.strength, 0, 1)

        def write(band: Band, out: Buffer) -> None:
            mapper, task = band.mapper, band.task(out)
            where = np.uint32(band.width), np.uint32(band.row0), band.scope.copy_of(mask), np.uint32(len(mask))
            numerator = np.int32(round(strength * FULL_STRENGTH))
            given = (*where, int4(mapper.space.extent), numerator)
            if mapper.few is not None and mask.size <= small_palette.MOST_THRESHOLDS:
                packed = mapper.kept("packed", mapper.few.packed)
                mapper.launch_few("dithering/ordered_small.cl", "dither_ordered", task, packed, *where, numerator)
            elif mapper.in_lanes:
                memo_bytes = ENTRY_BYTES[checked.index_dtype.itemsize]
                mapper.launch_lanes(
                    "dithering/ordered_lanes.cl", "dither_ordered", task, memo_bytes, mapper.points, *given
                )
            elif mapper.takes_table(band.channels, dithered=True):
                full_table.dither_pixels(mapper, task, given)
            else:
                items = (band.width, band.row1 - band.row0)
                mapper.launch("dithering/ordered.cl", "dither_ordered", task, *given, items=items)

        return pipeline.indices(image, checked, color_space, queue, progress, write)


register_dither("blue-noise", OrderedDither("blue-noise").dither)
register_dither("bayer", OrderedDither("bayer").dither)
for _size in (2, 4, 8, 16):
    register_dither(f"bayer{_size}", OrderedDither("bayer", size=_size).dither)
