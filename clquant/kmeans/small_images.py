"""K-means palettes of many small pictures at once, one work-group per picture (`cl/kmeans/small_images.cl`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Buffer, Kernel, Limits, Progress, Scope, Session, Variant, seed_key

# The bounds that keep every sum within 32 bits are proved in the kernel file for pictures up to this size.
MOST_PIXELS = 1 << 14
MOST_COLORS = 256
# Measured against `fit`, which swaps centers as well, on 60 photographs and 60 icons of 32x32 to 128x128, squared
# errors in 16 and 64 colours: 3 candidates had 3.2 and 6.0 % more on the photographs, 6.5 and 5.4 % on the icons;
# these have 2.8, 5.0, 3.1 and 1.2 % more, at 1.2 to 1.4 times the time; 3 starts of 6 candidates and 16 steps would
# have 2.3, 4.7, 1.9 and 0.6 %, at 1.6 to 2.2 times.
STARTS, CANDIDATES, MOST_STEPS = 2, 6, 12
# A picture with fewer cells than this a colour is clustered by its distinct colours instead.
FEW_CELLS = 4
# Planes of points are multiples of every variant's lanes times segments.
PADDING = 128
CELLS = 32**3

VARIANTS = (
    # On CPUs a work-group is one thread: a single work-item with explicit lanes.
    Variant("lanes", "kmeans/small_images.cl", Limits.has_lanes, {"LANES": 16, "SEGMENTS": 8}, gain=4.4),
    Variant("portable", "kmeans/small_images.cl", constants={"LANES": 1, "SEGMENTS": 64}),
)


def fits(picture: Picture) -> bool:
    """Whether a picture may take part: without alpha, at most 2^14 pixels."""
    return picture.channels in (1, 3) and picture.pixels <= MOST_PIXELS


def batch_palettes(
    session: Session, pictures: Sequence[Picture], n_colors: int, seed: int, progress: Progress
) -> list[npt.NDArray[np.uint8]]:
    """Return a palette of at most n_colors (2..256) entries, (n, 3) uint8, for each of many small pictures."""
    # Each picture's pixels are gathered in cells of 8 gray levels per side; a picture of few cells is taken colour by
    # colour. The means, weighted, are clustered by `STARTS` runs of greedy k-means++ and Lloyd steps in eighths of a
    # gray level, and the best run's centers are rounded. A picture's palette depends on its pixels, `n_colors` and
    # `seed` alone. Where there are that few distinct colours, the palette is exactly these, ascending.
    palettes: list[npt.NDArray[np.uint8]] = []
    for chunk in _chunks(session, pictures):
        palettes += _Batch(session, chunk, n_colors, seed).run()
        progress.report(len(palettes), len(pictures))
    return palettes


def _chunks(session: Session, pictures: Sequence[Picture]) -> Iterator[Sequence[Picture]]:
    """Runs of pictures with the same number of channels, as many as one launch and its buffers take."""
    begin = 0
    most_points, most_pictures = 0, session.tuned("batch.pictures")
    for end, picture in enumerate(pictures):
        most_points = max(most_points, _planes(picture.pixels))
        most = max(1, min(most_pictures, session.limits.max_alloc // (16 * most_points)))
        if end - begin == most or picture.channels != pictures[begin].channels:
            yield pictures[begin:end]
            begin, most_points = end, _planes(picture.pixels)
    if begin < len(pictures):
        yield pictures[begin:]


def _planes(points: int) -> int:
    """The length of a picture's planes of points, in whole vectors of every segment."""
    return -(-points // PADDING) * PADDING


class _Batch:
    """The launches for one chunk of pictures."""

    def __init__(self, session: Session, pictures: Sequence[Picture], n_colors: int, seed: int) -> None:
        self._session = session
        self._pictures = pictures
        self._n_colors = n_colors
        self._key = seed_key(seed)
        variant = session.choose(VARIANTS)
        constants = {"CHANNELS": pictures[0].channels, "MOST_COLORS": MOST_COLORS, "STARTS": STARTS}
        constants |= {"CANDIDATES": CANDIDATES, "MOST_STEPS": MOST_STEPS}

        def build(name: str, group: int) -> Kernel:
            self._program = session.program(variant.file, **variant.constants, GROUP=group, **constants)
            return self._program.kernel(name)

        self._group = 1 if variant.name == "lanes" else session.tuned("batch.group")
        # Groups become smaller from kernel to kernel, if they do: the last program is that of the size for all.
        for name in ("picture_points", "seed_centers", "lloyd_steps"):
            _, self._group = session.kernel_for_group(self._group, functools.partial(build, name))
        # Where a work-item has a picture; PoCL's own choice would be a kernel to compile for each number of pictures.
        self._by_picture = 1 if session.limits.has_lanes() else None
        groups = session.tuned("batch.groups_a_unit") * session.limits.compute_units
        self._most_groups = max(1, min(groups, session.limits.max_alloc // (CELLS * 16)))

    def run(self) -> list[npt.NDArray[np.uint8]]:
        """A palette for each picture."""
        session, count, least = self._session, len(self._pictures), FEW_CELLS * self._n_colors
        offsets = np.concatenate([[0], np.cumsum([p.pixels for p in self._pictures])]).astype(np.uint32)
        pixels = np.concatenate([p.on_host(session).reshape(-1) for p in self._pictures])
        plane = _planes(max(p.pixels for p in self._pictures))
        with session.scope() as scope:
            pixel_buffer, offset_buffer = scope.copy_of(pixels), scope.copy_of(offsets)
            histogram = scope.zeros(min(self._most_groups, count) * CELLS * 16)
            planes, counts = scope.empty(count * 16 * plane), scope.empty(4 * count)
            palettes, sizes = scope.empty(count * self._n_colors * 4), scope.zeros(4 * count)
            inputs = {"pixels": pixel_buffer, "offsets": offset_buffer, "counts": counts, "pictures": np.uint32(count)}
            kernel = self._program.kernel("picture_points")
            given = {**inputs, "histogram": histogram, "planes": planes, "plane": np.uint32(plane)}
            session.launch(kernel, min(self._most_groups, count) * self._group, self._group, **given)
            self._cluster(scope, planes, counts, palettes, plane, least, count)
            kernel, k = self._program.kernel("list_colors"), np.uint32(self._n_colors)
            given = {**inputs, "palettes": palettes, "sizes": sizes, "k": k, "least": np.uint32(least)}
            session.launch(kernel, count, self._by_picture, **given)
            colors = session.download(palettes, (count, self._n_colors, 4), np.uint8)[:, :, :3]
            listed = session.download(sizes, count, np.uint32)
        found = [
            np.unique(c[:n], axis=0) if 0 < n <= self._n_colors else c for c, n in zip(colors, listed, strict=True)
        ]
        close = [int(i) for i in np.flatnonzero(listed > self._n_colors)]
        for i, palette in zip(close, self._by_color([self._pictures[i] for i in close]), strict=True):
            found[i] = palette
        return found

    def _by_color(self, pictures: Sequence[Picture]) -> list[npt.NDArray[np.uint8]]:
        """Palettes of pictures whose colours, more than asked, lie in few cells: every colour is a point."""
        clouds = [_distinct(p.on_host(self._session)) for p in pictures]
        if not clouds:
            return []
        plane, count = _planes(max(len(c) for c, _ in clouds)), len(clouds)
        points = np.zeros((count, 4, plane), np.int32)
        for row, (colors, weights) in zip(points, clouds, strict=True):
            row[:3, : len(colors)] = 8 * colors.T.astype(np.int32)
            row[3, : len(colors)] = weights
        session = self._session
        with session.scope() as scope:
            counts = scope.copy_of(np.array([len(c) for c, _ in clouds], np.uint32))
            palettes = scope.empty(count * self._n_colors * 4)
            self._cluster(scope, scope.copy_of(points), counts, palettes, plane, self._n_colors + 1, count)
            return list(session.download(palettes, (count, self._n_colors, 4), np.uint8)[:, :, :3])

    def _cluster(
        self, scope: Scope, planes: Buffer, counts: Buffer, palettes: Buffer, plane: int, least: int, count: int
    ) -> None:
        """Queue k-means of the points of every picture that has at least `least`."""
        session, tasks = self._session, count * STARTS
        near = scope.empty(min(self._most_groups, tasks) * 4 * plane)
        centers, inertia = scope.empty(tasks * self._n_colors * 12), scope.empty(4 * tasks)
        items = min(self._most_groups, tasks) * self._group
        chosen = {"counts": counts, "centers": centers, "k": np.uint32(self._n_colors), "least": np.uint32(least)}
        clouds = {**chosen, "planes": planes, "near": near, "plane": np.uint32(plane), "tasks": np.uint32(tasks)}
        kernel, (low, high) = self._program.kernel("seed_centers"), self._key
        session.launch(kernel, items, self._group, **clouds, key_low=low, key_high=high)
        kernel = self._program.kernel("lloyd_steps")
        session.launch(kernel, items, self._group, **clouds, inertia=inertia)
        kernel = self._program.kernel("write_palettes")
        given = {**chosen, "inertia": inertia, "palettes": palettes, "pictures": np.uint32(count)}
        session.launch(kernel, count, self._by_picture, **given)


def _distinct(pixels: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Distinct colours (n, 3), ascending, and how many of the (H, W, 1 or 3) pixels have each."""
    bands = pixels.shape[2]
    channels = pixels.reshape(-1, bands)[:, [0, bands // 2, -1]].astype(np.uint32)
    packed, counts = np.unique(channels[:, 0] << 16 | channels[:, 1] << 8 | channels[:, 2], return_counts=True)
    return np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=1).astype(np.uint8), counts
