"""Samples of pixels as points of a colour space, drawn by position, and bands of pixels on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.flow import PictureSource
from clquant.images import Picture
from clquant.neuquant.schedule import PRIMES
from clquant.runtime import Buffer, InvalidArgument, Scope, Session

LINEAR, SPREAD, WALK = range(3)
MAX_PIXELS = 2**31 - 1
GOLDEN = 2654435769
POINT_BYTES = 8


@dataclass(frozen=True)
class Band:
    """Pixels on the device: rows of a picture, or samples that follow one another."""

    pixels: Buffer  # (count, channels) uint8
    channels: int
    count: int
    first: int  # number of the first pixel among those of all pictures, or of the first sample
    drawn: bool = False  # whether these are the samples of the order that is asked for


@dataclass(frozen=True)
class Pixels:
    """The pixels that one palette is learned from, picture after picture."""

    bands: tuple[Band, ...]
    total: int

    @classmethod
    def of(cls, session: Session, scope: Scope, pictures: Sequence[Picture]) -> Pixels:
        """Upload pictures, in bands that the device can hold."""
        total, bands, first = checked_total(pictures), [], 0
        for picture in pictures:
            for cut in PictureSource(picture).portions(session, whole=True):
                count = (cut.row1 - cut.row0) * picture.width
                bands.append(Band(picture.upload(session, scope, cut.row0, cut.row1), picture.channels, count, first))
                first += count
        return cls(tuple(bands), total)

    def walked(self, first: int) -> tuple[Pixels, int]:  # noqa: ARG002
        """Return pixels that have the samples of order `WALK` from one on, and the sample at which they end."""
        return self, self.total

    def triples(self) -> Iterator[tuple[Buffer, int, int]]:
        """Buffer, channels and count of each band."""
        return ((b.pixels, b.channels, b.count) for b in self.bands)


def checked_total(pictures: Sequence[Picture]) -> int:
    """The pixels of pictures together."""
    total = sum(picture.pixels for picture in pictures)
    if total > MAX_PIXELS:
        raise InvalidArgument(f"images have {total} pixels together; allowed: up to {MAX_PIXELS}")
    return total


def spread_places(total: int, start: int, count: int) -> npt.NDArray[np.intp]:
    """Indices among `total` pixels of the first `count` samples of order `SPREAD` (`cl/neuquant/sampling.cl`)."""
    turned = (np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(start)) & np.uint64(2**32 - 1)
    places: npt.NDArray[np.intp] = (turned * np.uint64(total) >> np.uint64(32)).astype(np.intp)
    return places


def put_samples(
    drawn: npt.NDArray[np.uint8], where: slice | npt.NDArray[np.intp], values: npt.NDArray[np.uint8]
) -> None:
    """Write pixels (n, channels) to samples of as many channels or more; gray becomes R, G, B beside colours."""
    if values.shape[1] == 4:
        drawn[where] = values
    else:
        drawn[where, :3] = values


def walk_step(total: int) -> int:
    """Dekker's step between samples: a prime that does not divide the number of pixels."""
    return next((q for q in PRIMES if total % q), PRIMES[-1]) % total


class Sampler:
    """Turns samples of pixels into points of a colour space; pixels of the `fixed` colours are passed over."""

    def __init__(self, session: Session, scope: Scope, space: Space, fixed: npt.NDArray[np.uint8]) -> None:
        self._session = session
        self._constants = {"FIXED": len(fixed), **space.constants()}
        self._tables = scope.copy_of(space.tables())
        self._fixed = scope.copy_of(fixed) if len(fixed) else self._tables

    def points(self, pixels: Pixels, order: int, start: int, samples: tuple[int, int], out: Buffer, at: int) -> None:
        """Queue the sampling of (first, count) `samples` to points, (n, 4) uint16, from `at` on."""
        # `start`: where `SPREAD` begins, in 1/2^32 of all pixels, or the step of `WALK`, a prime that does not divide
        # their number.
        first, count = samples
        for band in pixels.bands:
            read_order = LINEAR if band.drawn else order
            constants = {"CHANNELS": band.channels, "ORDER": read_order, **self._constants}
            kernel = self._session.program("neuquant/sampling.cl", **constants).kernel("neuquant_sample")
            group = self._session.work_group_size(kernel, 256)
            where = np.array([band.first, band.count, pixels.total, start], np.uint32)
            which = np.array([first, count, at, 0], np.uint32)
            self._session.launch(kernel, count, group, band.pixels, where, self._tables, self._fixed, which, out)
