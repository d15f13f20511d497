"""Training NeuQuant's maps on a device: pixels to points, Dekker's sequential map, the mini-batch map, refinement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import neuquant_tables as tables
from clquant.images import Picture
from clquant.palette.distinct import FewColors
from clquant.palette.spaces import Space
from clquant.runtime import Buffer, InvalidArgument, Kernel, Progress, Scope, Session, Variant

LINEAR, SPREAD, WALK = range(3)
NODE_BITS = 12
NETWORK_BITS = 4
MOST_PIXELS = 2**31 - 1
POINT_BYTES = 8
FEW_COLORS_STEPS = 4
SLAB_WORDS = 14
GROUP = 256
LANES = 8
GROUPS_PER_UNIT = 8
SEQUENTIAL_GROUP = 32
CYCLES_AT_ONCE = 5

STEP_VARIANTS = (
    Variant("lanes", "neuquant_step_lanes.cl", lambda limits: limits.is_cpu and limits.local_memory >= 1 << 17),
    Variant("portable", "neuquant_step.cl"),
)


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
    """

    pixels: Buffer
    channels: int
    count: int
    first: int


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
    """Turns samples of pixels into points of a colour space, on the device."""

    def __init__(self, session: Session, scope: Scope, space: Space) -> None:
        self._session = session
        self._space = space
        self._tables = scope.copy_of(space.tables())

    def points(self, pixels: Pixels, order: int, start: int, samples: tuple[int, int], out: Buffer, at: int) -> None:
        """Queue the sampling of `samples` (first, count) into `out` from point `at` on; see `cl/neuquant_sample.cl`."""
        first, count = samples
        for band in pixels.bands:
            kernel = self._session.program(
                "neuquant_sample.cl", CHANNELS=band.channels, ORDER=order, **self._space.constants()
            ).kernel("neuquant_sample")
            group = self._session.work_group_size(kernel, 256)
            where = np.array([band.first, band.count, pixels.total, start], np.uint32)
            which = np.array([first, count, at, 0], np.uint32)
            self._session.launch(kernel, count, group, band.pixels, where, self._tables, which, out)


def gray_axis(space: Space, n_colors: int, bits: int) -> npt.NDArray[np.int32]:
    """The first network: `n_colors` points on the gray axis, evenly spaced in 8-bit gray, with `bits` fraction bits.

    In sRGB that is (i << (8 + bits)) / n_colors in every coordinate, rounded down.
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
        sampler = Sampler(session, scope, space)
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
    local = 1 if session.limits.is_cpu else min(SEQUENTIAL_GROUP, session.limits.work_group)
    while True:
        kernel = session.program(
            "neuquant_sequential.cl",
            COLORS=n_colors,
            DIMS=space.dims,
            LOCAL=local,
            WIDE=int(max(space.extent) > 511),
        ).kernel("neuquant_sequential")
        admitted = session.work_group_size(kernel, local)
        if admitted == local:
            return kernel, local
        local = admitted


@dataclass(frozen=True)
class Points:
    """Points that a map learns from.

    Attributes
    ----------
    buffer : pyopencl.Buffer
        (count, 4) uint16 coordinates; the first is 65535 where a point is passed over.
    count : int
    weights : pyopencl.Buffer or None
        (count,) uint32, how often each counts.
    """

    buffer: Buffer
    count: int
    weights: Buffer | None


def limited_weights(counts: npt.NDArray[np.uint32], limit: int) -> npt.NDArray[np.uint32]:
    """Counts, halved together (but never below 1) until they add up to at most `limit`."""
    shift = 0
    while int(np.maximum(counts >> shift, 1).sum(dtype=np.uint64)) > limit:
        shift += 1
    return np.asarray(np.maximum(counts >> shift, 1), np.uint32)


class BatchMap:
    """The mini-batch map and its refinement for one palette; its device memory belongs to a scope.

    Parameters
    ----------
    session : Session
    scope : Scope
    space : Space
    n_colors : int
    sample_factor : int
    metric : str
        ``"l2"`` or ``"l1"``.
    conscience : bool
    """

    def __init__(
        self,
        session: Session,
        scope: Scope,
        space: Space,
        n_colors: int,
        sample_factor: int,
        metric: str,
        conscience: bool,
    ) -> None:
        self._session = session
        self._scope = scope
        self._space = space
        self._n_colors = n_colors
        self._sample_factor = sample_factor
        self._city_block = int(metric == "l1")
        self._conscience = int(conscience)
        self._sampler = Sampler(session, scope, space)
        self._constants = {
            "COLORS": n_colors,
            "DIMS": space.dims,
            "SEARCH_SHIFT": search_shift(space),
            "COORDINATE_BITS": max(space.extent).bit_length(),
        }
        self._schedule = tables.schedule(n_colors, sample_factor)
        self._pulls = scope.copy_of(self._schedule.pulls)
        self._decay = scope.copy_of(tables.decay())
        first = np.zeros((n_colors, 4), np.int32)
        first[:, : space.dims] = gray_axis(space, n_colors, NODE_BITS)
        self._nodes = scope.copy_of(first)
        self._spare = scope.empty(first.nbytes)

    def train(
        self, pixels: Pixels, few: FewColors, start: int, refine_steps: int, progress: Progress
    ) -> npt.NDArray[np.int64]:
        """Train and refine.

        Parameters
        ----------
        pixels : Pixels
        few : FewColors
            Of these pixels: where their colours are few, they are refined on, and in `FEW_COLORS_STEPS` times as many
            steps, which cost less all the same.
        start : int
            Shifts which pixels are sampled; 0 to 2^32 - 1.
        refine_steps : int
        progress : Progress
            Told of steps.

        Returns
        -------
        ndarray
            (n_colors, dims): the nodes rounded to whole coordinates.
        """
        steps = self._schedule.steps
        if few.colors is not None:
            refine_steps *= FEW_COLORS_STEPS
        done, all_steps = 0, len(steps) + refine_steps
        trained = self._map_points(pixels, start)
        refined = self._refine_points(pixels, few, start) if refine_steps else trained
        slabs = self._scope.zeros(4 * SLAB_WORDS * self._n_colors * (all_steps + 1))
        reach, last_batch = np.array([0, 0], np.int32), 1
        for t, step in enumerate(steps):
            self._step(trained, np.array([step.first, step.batch, t, last_batch], np.uint32), slabs, reach, False)
            reach, last_batch = np.array([step.offset, step.reach], np.int32), step.batch
            done = self._report(progress, done, all_steps)
        for t in range(len(steps), all_steps):
            self._step(refined, np.array([0, refined.count, t, last_batch], np.uint32), slabs, reach, True)
            self._refine(slabs, t, moves=t < all_steps - 1)
            reach = np.array([0, 0], np.int32)
            done = self._report(progress, done, all_steps)
        if refine_steps == 0:
            self._step(trained, np.array([0, 0, len(steps), last_batch], np.uint32), slabs, reach, False)
        nodes = self._session.download(self._nodes, (self._n_colors, 4), np.int32).astype(np.int64)
        whole = (nodes + (1 << (NODE_BITS - 1))) >> NODE_BITS
        return np.asarray(np.minimum(whole[:, : self._space.dims], np.array(self._space.extent)))

    def _report(self, progress: Progress, done: int, total: int) -> int:
        if progress.wanted and ((done + 1) % 8 == 0 or done + 1 == total):
            self._session.finish()
            progress.report(done + 1, total)
        return done + 1

    def _map_points(self, pixels: Pixels, start: int) -> Points:
        """The samples of all steps of the map."""
        count = self._schedule.samples
        points = self._scope.empty(count * POINT_BYTES)
        self._sampler.points(pixels, SPREAD, start, (0, count), points, 0)
        return Points(points, count, None)

    def _refine_points(self, pixels: Pixels, few: FewColors, start: int) -> Points:
        """What is refined on: the colours with their counts where they are few, else samples, at most every pixel."""
        if few.colors is not None and few.counts is not None:
            points = np.zeros((len(few.colors), 4), np.uint16)
            points[:, : self._space.dims] = self._space.coordinates(few.colors)
            weights = limited_weights(few.counts, 2 ** (32 - self._constants["COORDINATE_BITS"]) - 1)
            return Points(self._scope.copy_of(points), len(points), self._scope.copy_of(weights))
        count = min(tables.REFINE_POINTS * max(self._n_colors, 256) // self._sample_factor, pixels.total)
        buffer = self._scope.empty(count * POINT_BYTES)
        order = LINEAR if count == pixels.total else SPREAD
        self._sampler.points(pixels, order, start, (0, count), buffer, 0)
        return Points(buffer, count, None)

    def _step(
        self,
        points: Points,
        span: npt.NDArray[np.uint32],
        slabs: Buffer,
        reach: npt.NDArray[np.int32],
        refining: bool,
    ) -> None:
        """Queue `neuquant_step`; afterwards `_nodes` is the network that was searched."""
        options = {
            "CITY_BLOCK": 0 if refining else self._city_block,
            "CONSCIENCE": 0 if refining else self._conscience,
            "SQUARES": int(refining),
            "WEIGHTED": int(points.weights is not None),
        }
        kernel, local, groups = self._step_kernel(options, int(span[1]))
        weights = self._decay if points.weights is None else points.weights
        args = (points.buffer, span, self._nodes, self._spare, slabs, self._pulls, reach, self._decay, weights)
        self._session.launch(kernel, groups * local, local, *args)
        self._nodes, self._spare = self._spare, self._nodes

    def _step_kernel(self, options: dict[str, int], batch: int) -> tuple[Kernel, int, int]:
        """The kernel of the form that this device takes, its work-group size and number of groups."""
        session = self._session
        variant = session.choose(STEP_VARIANTS)
        if variant.name == "lanes" and not options["CITY_BLOCK"] and not options["CONSCIENCE"]:
            form = {name: options[name] for name in ("SQUARES", "WEIGHTED")}
            kernel = session.program(variant.file, STAGED=1, **form, **self._constants).kernel("neuquant_step")
            return kernel, 1, max(min(session.limits.compute_units, batch // 16), 1)
        local = 1 << (min(GROUP, session.limits.work_group).bit_length() - 1)
        while True:
            lanes = min(LANES, local)
            free = session.limits.local_memory - 16 * local
            packed = 16 * self._n_colors + 4 * self._n_colors * options["CONSCIENCE"] > free
            staged = (36 - 8 * packed + 4 * options["CONSCIENCE"]) * self._n_colors <= free
            kernel = session.program(
                STEP_VARIANTS[-1].file,
                LOCAL=local,
                LANES=lanes,
                PACKED=int(packed),
                STAGED=int(staged),
                **self._constants,
                **options,
            ).kernel("neuquant_step")
            admitted = session.work_group_size(kernel, local)
            if admitted == local:
                most = session.limits.compute_units * GROUPS_PER_UNIT
                return kernel, local, max(min(-(-batch // (local // lanes)), most), 1)
            local = admitted

    def _refine(self, slabs: Buffer, at: int, moves: bool) -> None:
        """Queue `neuquant_refine`."""
        session, n = self._session, self._n_colors
        local = 1 << (min(GROUP, session.limits.work_group).bit_length() - 1)
        while True:
            kernel = session.program(
                "neuquant_refine.cl",
                STAGED=0,
                LOCAL=local,
                **self._constants,
            ).kernel("neuquant_refine")
            admitted = session.work_group_size(kernel, local)
            if admitted == local:
                break
            local = admitted
        extent = np.array((*self._space.extent, 0)[:4], np.int32)
        if not hasattr(self, "_scratch"):
            self._scratch = [self._scope.empty(size * n) for size in (16, 8, 8, 4, 4, 8, 4, 4)]
        args = (self._nodes, slabs, np.uint32(at), np.int32(moves), extent, *self._scratch)
        session.launch(kernel, local, local, *args)


def search_shift(space: Space) -> int:
    """Fraction bits of nodes in a search: as many as keep every squared distance below 2^24, so exact in fp32."""
    shift = 0
    # A node may lie up to one coordinate beyond the extent: the first network's last nodes above 255.
    reach = sum((e + 1) ** 2 for e in space.extent)
    while shift < 3 and reach << (2 * shift + 2) < 2**24:
        shift += 1
    assert reach << (2 * shift) < 2**24
    return shift
