"""K-means palettes of many small pictures at once, a work-group each (the kernels are in `cl/kmeans_batch.cl`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.runtime import Progress, Session, Variant, seed_key

# The bounds that keep every sum within 32 bits are proved in the kernel file for pictures up to this size.
MOST_PIXELS = 1 << 14
MOST_COLORS = 256
# Measured on 60 icons of photographs, 16 colours: mean squared error 44.6 with 1 start of 1 candidate, 42.4 with 2 of
# 3, 41.9 with 3 of 4 (libimagequant: 43.4); a start takes 8.5 steps on average.
STARTS, CANDIDATES, MOST_STEPS = 3, 4, 24
SEGMENTS = 64
CELLS = 32**3
PICTURES_A_LAUNCH = 1024
GROUPS_A_UNIT = 16

VARIANTS = (
    # On CPUs a work-group is one thread: a single work-item with explicit lanes.
    Variant(
        "lanes",
        "kmeans_batch.cl",
        admits=lambda limits: limits.is_cpu and not limits.is_simulator,
        constants={"LANES": 8, "GROUP": 1},
    ),
    Variant("portable", "kmeans_batch.cl", constants={"LANES": 1, "GROUP": SEGMENTS}),
)


def fits(picture: Picture) -> bool:
    """Whether a picture may take part: on the host, without alpha, at most 2^14 pixels."""
    return picture.array is not None and picture.channels in (1, 3) and picture.pixels <= MOST_PIXELS


def batch_palettes(
    session: Session, pictures: Sequence[Picture], n_colors: int, seed: int, total: int, progress: Progress
) -> list[npt.NDArray[np.uint8] | None]:
    """A palette for each of many small pictures.

    Each picture's pixels are gathered in cells of 8 gray levels a side; their means, weighted, are clustered by
    `STARTS` runs of greedy k-means++ and Lloyd steps in eighths of a gray level, and the best run's centers are
    rounded. A picture's palette depends on its pixels, `n_colors` and `seed` alone, not on its neighbours.

    Parameters
    ----------
    session : Session
    pictures : sequence of Picture
        Each as `fits` demands.
    n_colors : int
        2..256.
    seed, total : int
    progress : Progress
        Told pictures done of `total`.

    Returns
    -------
    list of (n, 3) uint8 ndarrays
        With n <= n_colors; exactly the distinct colours, ascending, where they are that few. None for a picture
        with more colours than `n_colors` in no more cells than that: it needs a finer look.
    """
    palettes: list[npt.NDArray[np.uint8] | None] = []
    for chunk in _chunks(pictures, session.limits.max_alloc):
        palettes += _launch(session, chunk, n_colors, seed)
        progress.report(len(palettes), total)
    return palettes


def _chunks(pictures: Sequence[Picture], max_alloc: int) -> Iterator[Sequence[Picture]]:
    """Runs of pictures with the same number of channels, as many as one launch and its buffers take."""
    begin = 0
    most_points = 0
    for end, picture in enumerate(pictures):
        most_points = max(most_points, _planes(picture.pixels))
        most = max(1, min(PICTURES_A_LAUNCH, max_alloc // (16 * most_points)))
        if end - begin == most or picture.channels != pictures[begin].channels:
            yield pictures[begin:end]
            begin, most_points = end, _planes(picture.pixels)
    if begin < len(pictures):
        yield pictures[begin:]


def _planes(pixels: int) -> int:
    """The length of a picture's planes of points: one a pixel at most, in whole vectors of every segment."""
    return -(-min(pixels, CELLS) // (8 * SEGMENTS)) * 8 * SEGMENTS


def _launch(
    session: Session, pictures: Sequence[Picture], n_colors: int, seed: int
) -> list[npt.NDArray[np.uint8] | None]:
    count, tasks = len(pictures), len(pictures) * STARTS
    sizes = np.array([p.pixels for p in pictures], np.uint32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
    pixels = np.concatenate([p.array.reshape(-1) for p in pictures if p.array is not None])
    most_points = _planes(int(sizes.max()))
    variant = session.choose(VARIANTS)
    group = min(int(variant.constants["GROUP"]), 1 << (session.limits.work_group.bit_length() - 1))
    program = session.program(
        variant.file,
        **{**variant.constants, "GROUP": group},
        CHANNELS=pictures[0].channels,
        MOST_COLORS=MOST_COLORS,
        STARTS=STARTS,
        CANDIDATES=CANDIDATES,
        MOST_STEPS=MOST_STEPS,
    )
    groups = min(GROUPS_A_UNIT * session.limits.compute_units, session.limits.max_alloc // (CELLS * 16))
    groups = max(groups, 1)
    key = seed_key(seed)
    plane, k = np.uint32(most_points), np.uint32(n_colors)
    with session.scope() as scope:
        pixel_buffer, offset_buffer = scope.copy_of(pixels), scope.copy_of(offsets)
        histogram = scope.zeros(min(groups, count) * CELLS * 16)
        planes = scope.empty(count * 16 * most_points)
        counts, inertia = scope.empty(4 * count), scope.empty(4 * tasks)
        near = scope.empty(min(groups, tasks) * 4 * most_points)
        centers = scope.empty(tasks * n_colors * 12)
        palettes, used = scope.empty(count * n_colors * 4), scope.empty(4 * count)
        n, t = np.uint32(count), np.uint32(tasks)
        session.launch(
            program.kernel("picture_points"),
            min(groups, count) * group,
            group,
            *(pixel_buffer, offset_buffer, histogram, planes, counts, plane, n),
        )
        task_items = min(groups, tasks) * group
        clouds = (planes, counts, near, centers)
        session.launch(program.kernel("seed_centers"), task_items, group, *clouds, plane, k, t, key[0], key[1])
        session.launch(program.kernel("lloyd_steps"), task_items, group, *clouds, inertia, plane, k, t)
        session.launch(
            program.kernel("write_palettes"),
            count,
            None,
            *(pixel_buffer, offset_buffer, counts, centers, inertia, palettes, used, k, n),
        )
        colors = session.download(palettes, (count, n_colors, 4), np.uint8)[:, :, :3]
        lengths = session.download(used, count, np.uint32)
        few = session.download(counts, count, np.uint32) <= n_colors
    return [_palette(colors[i], int(lengths[i]), bool(few[i])) for i in range(count)]


def _palette(colors: npt.NDArray[np.uint8], length: int, exact: bool) -> npt.NDArray[np.uint8] | None:
    if length > len(colors):
        return None
    return np.unique(colors[:length], axis=0) if exact else colors
