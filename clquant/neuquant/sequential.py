"""Dekker's sequential map: networks of several pictures trained at once, each in its own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space
from clquant.neuquant import schedule
from clquant.neuquant.nodes import gray_axis
from clquant.neuquant.sampling import POINT_BYTES, WALK, Pixels, Sampler, walk_step
from clquant.runtime import Buffer, Kernel, Progress, Session

NETWORK_BITS = 4
SEQUENTIAL_GROUP = 32
CYCLES_AT_ONCE = 5
MOST_POINT_BYTES = 1 << 26  # of several cycles at once


def train_sequential(
    session: Session,
    pictures: Sequence[Pixels],
    space: Space,
    n_colors: int,
    sample_factor: int,
    fixed: npt.NDArray[np.uint8],
    progress: Progress,
) -> npt.NDArray[np.int64]:
    """Train a network for each picture by Dekker's sequential map, all at once: (pictures, n_colors, dims) nodes."""
    cycles = schedule.dekker_cycles(n_colors, sample_factor)
    samples = [max(p.total // sample_factor, 1) for p in pictures]
    per_cycle = [max(s // 100, 1) for s in samples]
    steps = [walk_step(p.total) for p in pictures]
    last = max(-(-s // c) for s, c in zip(samples, per_cycle, strict=True))
    room = min(session.limits.max_alloc, MOST_POINT_BYTES)
    at_once = max(min(CYCLES_AT_ONCE, room // (POINT_BYTES * sum(per_cycle))), 1)
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
                _queue_points(sampler, pixels, step, part, points, at)
                at += max(part[1] - part[0], 0)
            with session.scope() as inner:
                placed = inner.copy_of(np.array(where, np.uint32))
                args = (points, placed, cycle_table, networks, frequencies, np.uint32(begin), np.uint32(end))
                session.launch(kernel, len(pictures) * local, local, *args)
                session.finish()
            progress.report(end, last)
        nodes = session.download(networks, shape, np.int32).astype(np.int64)
    return np.asarray(np.minimum((nodes + (1 << (NETWORK_BITS - 1))) >> NETWORK_BITS, np.array(space.extent)))


def _queue_points(sampler: Sampler, pixels: Pixels, step: int, part: tuple[int, int], points: Buffer, at: int) -> None:
    """Queue the points of samples ``part[0]..part[1]`` of the walk, to `points` from `at` on."""
    first, last = part
    while first < last:
        source, end = pixels.walked(first)
        share = min(end, last) - first
        sampler.points(source, WALK, step, (first, share), points, at)
        first, at = first + share, at + share


def _sequential_kernel(session: Session, space: Space, n_colors: int) -> tuple[Kernel, int]:
    """The kernel and its work-group size, as large as pays and the device admits."""
    constants = {"COLORS": n_colors, "DIMS": space.dims, "WIDE": int(max(space.extent) > 511)}

    def build(local: int) -> Kernel:
        program = session.program("neuquant/sequential.cl", LOCAL=local, **constants)
        return program.kernel("neuquant_sequential")

    return session.kernel_for_group(1 if session.limits.is_cpu else SEQUENTIAL_GROUP, build)
