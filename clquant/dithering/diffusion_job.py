"""The two scans of error diffusion in common: checked parameters, a kernel's constants and first arguments."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant.color.spaces import Space
from clquant.dithering import bounds
from clquant.dithering.error_filters import ErrorFilter
from clquant.images import Picture
from clquant.mapping.candidates_lanes import int4
from clquant.mapping.palette_on_device import PaletteOnDevice
from clquant.runtime import Buffer, Scope, Session, Variant

SEARCHES_PER_PIXEL = 64
"""How much sooner tables and short lists of candidates pay on GPUs, where pixels wait for each other."""


def searches(session: Session, picture: Picture) -> int:
    """Pixels that lists and tables are to pay for."""
    return picture.pixels * (1 if session.limits.is_cpu else SEARCHES_PER_PIXEL)


@dataclass(frozen=True)
class DiffusionParams:
    """Checked parameters of an error diffusion; `strength` is in 1/256, errors are of values if `plain_errors`."""

    filter: ErrorFilter
    strength: int
    serpentine: bool
    space: Space
    plain_errors: bool
    tile_size: int | None

    @property
    def error_bytes(self) -> int:
        """Bytes of a pixel's error: four components."""
        return self.space.bits

    def form(self, session: Session, variants: tuple[Variant, ...]) -> Variant:
        """The form of a scan that a device takes."""
        return session.choose(variants) if self.space.bits == 8 else variants[-1]

    def constants(self) -> dict[str, int | str]:
        """Compile-time constants of `cl/dithering/error_diffusion.h`, besides the palette's."""
        shares = (f"{weight} * error_at(reach, {column}, {row})" for column, row, weight in self.filter.shares)
        arriving = " + ".join(shares)
        return {
            "ARRIVING": f"({arriving})",
            "DIVISOR": self.filter.divisor,
            "PLAIN_ERRORS": int(self.plain_errors),
            **bounds.constants(self.space, bounds.share(self.space, self.plain_errors)),
        }

    def arguments(self, on_device: PaletteOnDevice, form: Variant, image: Buffer, output: Buffer) -> dict[str, Any]:
        """Kernel arguments `DIFFUSION_PARAMETERS` of `cl/dithering/error_diffusion.h`, by name."""
        search = on_device.arguments()
        if form.constants["SEARCH"] == "IN_LANES":
            search = {**on_device.lane_arguments(), "points": on_device.points, "colors": on_device.colors}
        return {**search, **self.values(on_device, image, output)}

    def values(self, on_device: PaletteOnDevice, image: Buffer, output: Buffer) -> dict[str, Any]:
        """Kernel arguments other than the palette's."""
        extent = (self.space.white,) * 4 if self.plain_errors else self.space.extent
        return {
            **bounds.entries(on_device, self.plain_errors),
            "extent": int4(extent),
            "strength": np.int32(self.strength),
            "image": image,
            "output": output,
        }


class BandScan(abc.ABC):
    """A scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope."""

    overlap = 0

    def __init__(
        self,
        session: Session,
        scope: Scope,
        on_device: PaletteOnDevice,
        picture: Picture,
        given: DiffusionParams,
        form: Variant,
    ) -> None:
        self._session, self._on_device, self._given, self._form = session, on_device, given, form
        self._width, self._lag = picture.width, given.filter.lag
        self._build(picture, {**on_device.constants(picture.channels), **given.constants(), **form.constants})
        self._above = scope.zeros(self._passed_bytes)

    @abc.abstractmethod
    def _build(self, picture: Picture, constants: dict[str, Any]) -> None:
        """Build the kernel."""

    @property
    @abc.abstractmethod
    def _passed_bytes(self) -> int:
        """Bytes of the errors that rows pass on."""

    @property
    def passed_on(self) -> tuple[Buffer, int]:
        """The errors that the rows so far pass on, and their bytes."""
        return self._above, self._passed_bytes
