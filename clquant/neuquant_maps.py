"""What NeuQuant's maps have in common on a device, and Dekker's sequential map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import neuquant_tables as tables
from clquant.images import Picture
from clquant.palette.spaces import Space
from clquant.runtime import Buffer, InvalidArgument, Kernel, Progress, Scope, Session, admitted

LINEAR, SPREAD, WALK, LISTED = range(4)
NETWORK_BITS = 4
MOST_PIXELS = 2**31 - 1
POINT_BYTES = 8
SEQUENTIAL_GROUP = 32
CYCLES_AT_ONCE = 5


@dataclass(frozen=True)
class Band:
    """Some rows of one picture on the device.

    Attributes
    ----------
    pixels : pyopencl.Buffer
        (count, channels) uint8.
    channels, count : int
    first : int
        The first pixel's number among those of all pictures that are trained on together.
    drawn : bool
        Whether it has instead the first samples of order `SPREAD`, one after another.
    which : pyopencl.Buffer or None
        (count,) uint32: it has these samples of order `SPREAD` instead.
    """

    pixels: Buffer
    channels: int
    count: int
    first: int
    drawn: bool = False
    which: Buffer | None = None


@dataclass(frozen=True)
class Pixels:
    """The pixels that one palette is learned from, picture after picture.

    Attributes
    ----------
    bands : tuple of Band
    total : int
    """

    bands: tuple[Band, ...]
    total: int

    @classmethod
    def of(cls, session: Session, scope: Scope, pictures: Sequence[Picture]) -> Pixels:
        """Upload pictures, in bands that the device can hold.

        Parameters
        ----------
        session : Session
        scope : Scope
            Owns the bands.
        pictures : sequence of Picture

        Returns
        -------
        Pixels

        Raises
        ------
        InvalidArgument
            If there are 2^31 pixels or more.
        """
        total = sum(p.pixels for p in pictures)
        if total > MOST_PIXELS:
            raise InvalidArgument(f"images have {total} pixels together; allowed: up to {MOST_PIXELS}")
        bands, first = [], 0
        for picture in pictures:
            for row0, row1 in picture.bands(session):
                count = (row1 - row0) * picture.width
                bands.append(Band(picture.upload(session, scope, row0, row1), picture.channels, count, first))
                first += count
        return cls(tuple(bands), total)

    def triples(self) -> Iterator[tuple[Buffer, int, int]]:
        """Buffer, channels and count of each band."""
        return ((b.pixels, b.channels, b.count) for b in self.bands)


class Sampler:
    """Turns samples of pixels into points of a colour space, on the device.

    Parameters
    ----------
    session : Session
    scope : Scope
    space : Space
    fixed : ndarray
        (f, 4) uint8: pixels of these colours are passed over.
    """

    def __init__(self, session: Session, scope: Scope, space: Space, fixed: npt.NDArray[np.uint8]) -> None:
        self._session = session
        self._constants = {"FIXED": len(fixed), **space.constants()}
        self._tables = scope.copy_of(space.tables())
        self._fixed = scope.copy_of(fixed) if len(fixed) else self._tables

    def points(self, pixels: Pixels, order: int, start: int, samples: tuple[int, int], out: Buffer, at: int) -> None:
        """Queue the sampling of pixels into points; see `cl/neuquant_sample.cl`.

        Parameters
        ----------
        pixels : Pixels
        order : int
            Which pixel a sample is: `LINEAR` its own number; `SPREAD` along the golden ratio; `WALK` Dekker's steps.
        start : int
            0..2^32 - 1. `SPREAD`: where it begins, in 1/2^32 of all pixels; `WALK`: the step, prime and no divisor of
            the number of pixels.
        samples : tuple of int
            The first sample's number and how many there are.
        out : pyopencl.Buffer
            (points, 4) uint16: coordinates; 65535 first where alpha is 0 or the colour is fixed.
        at : int
            The point in `out` where the first sample goes.
        """
        first, count = samples
        for band in pixels.bands:
            drawn_order = LINEAR if band.drawn else order if band.which is None else LISTED
            assert order in (drawn_order, SPREAD)
            constants = {"CHANNELS": band.channels, "ORDER": drawn_order, **self._constants}
            kernel = self._session.program("neuquant_sample.cl", **constants).kernel("neuquant_sample")
            group = self._session.work_group_size(kernel, 256)
            where = np.array([band.first, band.count, pixels.total, start], np.uint32)
            which = np.array([first, count, at, 0], np.uint32)
            given = band.pixels, where, self._tables, self._fixed, which, out
            if band.which is None:
                self._session.launch(kernel, count, group, *given)
            else:
                self._session.launch(kernel, band.count, group, *given, band.which)


def gray_axis(space: Space, n_colors: int, bits: int) -> npt.NDArray[np.int32]:
    """The first network: points on the gray axis, evenly spaced in 8-bit gray.

    In sRGB that is (i << (8 + bits)) / n_colors in every coordinate, rounded down.

    Parameters
    ----------
    space : Space
    n_colors : int
    bits : int
        Fraction bits of the coordinates.

    Returns
    -------
    ndarray
        (n_colors, dims) int32.
    """
    grays = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    points = space.coordinates(grays).astype(np.int64)
    beyond = points[-1:] + (points[-1:] - points[-2:-1]) * (np.array(space.extent) == 255)
    points = np.concatenate([points, beyond])
    whole, part = np.divmod(np.arange(n_colors) * 256, n_colors)
    between = points[whole] * (n_colors - part)[:, None] + points[whole + 1] * part[:, None]
    return np.asarray((between << bits) // n_colors, np.int32)


def train_sequential(
    session: Session,
    pictures: Sequence[Pixels],
    space: Space,
    n_colors: int,
    sample_factor: int,
    fixed: npt.NDArray[np.uint8],
    progress: Progress,
) -> npt.NDArray[np.int64]:
    """Train an independent network for each picture by Dekker's sequential map, all at once.

    Parameters
    ----------
    session : Session
    pictures : sequence of Pixels
    space : Space
    n_colors : int
    sample_factor : int
    fixed : ndarray
        (f, 4) uint8: pixels of these colours are passed over.
    progress : Progress
        Told of cycles.

    Returns
    -------
    ndarray
        (pictures, n_colors, dims): the nodes rounded to whole coordinates.
    """
    cycles = tables.dekker_cycles(n_colors, sample_factor)
    samples = [max(p.total // sample_factor, 1) for p in pictures]
    per_cycle = [max(s // 100, 1) for s in samples]
    steps = [next((q for q in tables.PRIMES if p.total % q), tables.PRIMES[-1]) % p.total for p in pictures]
    last = max(-(-s // c) for s, c in zip(samples, per_cycle, strict=True))
    at_once = max(min(CYCLES_AT_ONCE, session.limits.max_alloc // (POINT_BYTES * sum(per_cycle))), 1)
    with session.scope() as scope:
        kernel, local = _sequential_kernel(session, space, n_colors)
        first = gray_axis(space, n_colors, NETWORK_BITS)
        shape = (len(pictures), *first.shape)
        networks = scope.copy_of(np.ascontiguousarray(np.broadcast_to(first, shape)))
        frequencies = scope.copy_of(np.full(shape[:2], 65536 // n_colors, np.int32))
        cycle_table = scope.copy_of(cycles)
        sampler = Sampler(session, scope, space, fixed)
        points = scope.empty(at_once * sum(per_cycle) * POINT_BYTES)
        for begin in range(0, last, at_once):
            end = min(begin + at_once, last)
            at, where = 0, []
            for pixels, count, cycle, step in zip(pictures, samples, per_cycle, steps, strict=True):
                part = min(begin * cycle, count), min(end * cycle, count)
                where.append((at, count))
                if part[1] > part[0]:
                    sampler.points(pixels, WALK, step, (part[0], part[1] - part[0]), points, at)
                at += part[1] - part[0]
            with session.scope() as inner:
                placed = inner.copy_of(np.array(where, np.uint32))
                args = (points, placed, cycle_table, networks, frequencies, np.uint32(begin), np.uint32(end))
                session.launch(kernel, len(pictures) * local, local, *args)
                session.finish()
            progress.report(end, last)
        nodes = session.download(networks, shape, np.int32).astype(np.int64)
    return np.asarray(np.minimum((nodes + (1 << (NETWORK_BITS - 1))) >> NETWORK_BITS, np.array(space.extent)))


def _sequential_kernel(session: Session, space: Space, n_colors: int) -> tuple[Kernel, int]:
    """The kernel and its work-group size, as large as pays and the device admits."""
    constants = {"COLORS": n_colors, "DIMS": space.dims, "WIDE": int(max(space.extent) > 511)}

    def build(local: int) -> Kernel:
        program = session.program("neuquant_sequential.cl", LOCAL=local, **constants)
        return program.kernel("neuquant_sequential")

    return admitted(session, 1 if session.limits.is_cpu else SEQUENTIAL_GROUP, build)
