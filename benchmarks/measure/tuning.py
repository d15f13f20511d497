"""Measuring tunable numbers on a device: jobs that read them, and a search along one parameter after the other."""

from __future__ import annotations

import functools
import gc
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

import clquant
from benchmarks.harness import Picture, synthetic_photo
from clquant import images, runtime
from clquant.histogram.counting import count_colors
from clquant.runtime import DeviceError, Progress
from clquant.runtime.program import tuning

# A value must be so much faster than the present one, twice, to take its place: timings scatter by a few per cent.
GAIN = 0.95
# How far from the present value the search goes, in places of the list of allowed values.
REACH, QUICK_REACH = 3, 1
ROUNDS, QUICK_ROUNDS = 5, 3


@dataclass(frozen=True)
class Job:
    """Calls that are timed together for some parameters.

    Attributes
    ----------
    name : str
        For the table.
    names : tuple of str
        Parameters that this job decides; those of them that it does not read on this device are left alone.
    calls : tuple of callable
        Each waits for its own work and returns arrays. More than one where a threshold is decided, on either side.
    """

    name: str
    names: tuple[str, ...]
    calls: tuple[Callable[[], Any], ...]


@dataclass
class Outcome:
    """What was found for one job: `before` are the shipped values of its parameters, `after` those found best."""

    job: Job
    before: dict[str, int]
    after: dict[str, int] = field(default_factory=dict)
    before_ms: float = math.nan
    after_ms: float = math.nan


def _noted(read: set[str], value: Callable[..., int], device: Any, limits: runtime.Limits, name: str) -> int:
    """`tuning.value`, whose parameters are collected."""
    read.add(name)
    return value(device, limits, name)


def tune(queue: runtime.CommandQueue, quick: bool, progress: Progress) -> list[Outcome]:
    """Search every job's parameters, from the shipped values on.

    Parameters
    ----------
    queue : CommandQueue
    quick : bool
        Smaller pictures, fewer values and fewer calls each.
    progress : Progress
        Told parameters done.

    Returns
    -------
    list of Outcome

    Raises
    ------
    DeviceError
        If results differ between two values of a parameter: the driver is at fault.
    """
    session = runtime.open_session(queue)
    values = tuning.shipped(tuning.family(session.limits))
    planned = []
    with runtime.force_tuning(values):
        for job in jobs(session, 512 if quick else 1024 if session.limits.is_cpu else 4096):
            read = set[str]()
            with mock.patch.object(tuning, "value", functools.partial(_noted, read, tuning.value)):
                for call in job.calls:
                    call()
            planned.append((job, [name for name in job.names if name in read]))
    total, done = sum(len(names) for _, names in planned), 0
    found = []
    for job, names in planned:
        outcome = Outcome(job, {name: values[name] for name in names})
        search = _Search(job, values, quick)
        for name in names:
            values[name] = search.best(name)
            done += 1
            progress.report(done, total)
        outcome.after = {name: values[name] for name in names}
        if outcome.after != outcome.before:
            outcome.before_ms, outcome.after_ms = search.score([outcome.before, outcome.after], 2 * search.rounds)
        if not outcome.after_ms <= GAIN * outcome.before_ms:
            outcome.after = dict(outcome.before)
            values.update(outcome.before)
        found.append(outcome)
    return found


class _Search:
    """Timings of one job under differing values."""

    def __init__(self, job: Job, values: Mapping[str, int], quick: bool) -> None:
        self._job = job
        self._values = values
        self._reach = QUICK_REACH if quick else REACH
        self.rounds = QUICK_ROUNDS if quick else ROUNDS
        with runtime.force_tuning(values):
            self._expected = [_digest(call()) for call in job.calls]

    def best(self, name: str) -> int:
        """The fastest value of a parameter; the present one unless another is clearly faster."""
        present = self._values[name]
        allowed = tuning.NAMES[name].allowed
        at = allowed.index(present)
        near = [value for value in allowed[max(at - self._reach, 0) : at + self._reach + 1] if value != present]
        tried = [present, *near]
        scores = self.score([{name: value} for value in tried], self.rounds)
        chosen = tried[scores.index(min(scores))]
        if min(scores) > GAIN * scores[0]:
            return present
        again = self.score([{name: value} for value in (present, chosen)], 2 * self.rounds)
        return chosen if again[1] <= GAIN * again[0] else present

    def score(self, changes: Sequence[Mapping[str, int]], rounds: int) -> list[float]:
        """The geometric mean over the calls of the least milliseconds each took, under every change, in turns."""
        least = np.full((len(changes), len(self._job.calls)), np.inf)
        for change in changes:
            self._check(change)  # kernels are built here
        for _ in range(rounds):
            for i, change in enumerate(changes):
                with runtime.force_tuning({**self._values, **change}):
                    for j, call in enumerate(self._job.calls):
                        began = time.perf_counter()
                        call()
                        least[i, j] = min(least[i, j], 1e3 * (time.perf_counter() - began))
            gc.collect()
        return [float(score) for score in np.exp(np.log(least).mean(axis=1))]

    def _check(self, change: Mapping[str, int]) -> None:
        with runtime.force_tuning({**self._values, **change}):
            if [_digest(call()) for call in self._job.calls] != self._expected:
                what = ", ".join(f"{name}={value}" for name, value in change.items())
                raise DeviceError(f"{self._job.name}: results differ with {what}; the driver is at fault")


def _digest(result: Any) -> bytes:
    parts = result if isinstance(result, tuple) else (result,)
    total = hashlib.sha256()
    for part in parts:
        host = part.get() if isinstance(part, runtime.Array) else np.asarray(part)
        total.update(np.ascontiguousarray(host).tobytes())
    return total.digest()


def jobs(session: runtime.Session, side: int) -> Iterator[Job]:
    """What is timed: every engine on a made picture of `side` pixels per side, on the device unless named.

    Parameters
    ----------
    session : Session
    side : int
        Of the largest picture.
    """
    queue, host = session.queue, synthetic_photo(side, side)
    picture, gray = _on_device(session, host), _on_device(session, host[..., 1].copy())
    small = [_on_device(session, host[:n, :n].copy()) for n in (64, 128, 256, 512)]
    names = [f"counting.{what}" for what in ("group", "work_items", "groups_a_unit")]
    yield Job("counting colours", tuple(names), (_counting(session, picture),))
    yield Job("counting, 64 to 512", ("counting.table_pixels",), tuple(_counting(session, one) for one in small))
    kmeans = clquant.KMeansPalette(256, queue=queue)
    kinds = "group groups_a_unit update_group steps_a_wait sketch_group swap_group grid_group steps_a_launch"
    names = [f"kmeans.{what}" for what in kinds.split()]
    yield Job("k-means, learn", tuple(names), (lambda: kmeans.fit(picture).palette_.colors,))
    cut = clquant.KMeansPalette(256, init="wu", queue=queue)
    yield Job("k-means, from cut boxes", ("kmeans.box_group",), (lambda: cut.fit(picture).palette_.colors,))
    names = ["mapping.group", "mapping.groups_a_unit"]
    yield Job("map", tuple(names), (_waited(session, lambda: kmeans.predict(picture)),))
    maps = tuple(_waited(session, lambda one=one: kmeans.predict(one)) for one in small)  # type: ignore[misc]
    yield Job("map, 64 to 512", ("mapping.grid_pays",), maps)
    larger = [_on_device(session, host[: side // n, : side // n].copy()) for n in (4, 2, 1)]
    diffused = tuple(_waited(session, lambda one=one: kmeans.predict(one, dither="leaky")) for one in larger)  # type: ignore[misc]
    yield Job(f"diffuse, {side // 4} to {side}", ("mapping.table_pays",), diffused)
    yield Job("map, with transfers", ("transfer.bands",), (lambda: kmeans.predict(host),))
    icons = _icons(host, 200 if session.limits.is_cpu else 2000)
    few = clquant.KMeansPalette(16, queue=queue)
    names = [f"batch.{what}" for what in ("group", "groups_a_unit", "pictures")]
    yield Job("fit_many, icons", tuple(names), (lambda: tuple(p.colors for p in few.fit_many(icons)),))
    neuquant = clquant.NeuQuantCL(256, queue=queue)
    yield Job("NeuQuant, learn", ("neuquant.group",), (lambda: neuquant.fit(picture).palette_.colors,))
    codec = clquant.VQCodec(256, queue=queue)
    quarter = host[: side // 4, : side // 4, 1].copy()
    yield Job("VQ, learn", ("vq.train_group",), (lambda: codec.fit(quarter).codebook_,))
    yield Job("VQ, encode", ("vq.group",), (_waited(session, lambda: codec.encode(gray)),))
    indices = codec.encode(gray)
    yield Job("VQ, decode", ("vq.decode_group",), (_waited(session, lambda: codec.decode(indices, (side, side))),))
    turning = clquant.PinwheelHalftoner(scan="serpentine", queue=queue)
    yield Job("halftone, serpentine", ("halftone.group",), (_waited(session, lambda: turning.transform(gray)),))
    colored = clquant.PinwheelHalftoner(palette=few.fit(picture).palette_, queue=queue)
    yield Job(
        "halftone to a palette", ("halftone.palette_group",), (_waited(session, lambda: colored.transform(picture)),)
    )
    builder = clquant.QuadtreeBuilder(queue=queue)
    names = [f"quadtree.{what}" for what in ("tile_group", "upper_group", "leaf_group")]
    yield Job("quadtree, leaves", tuple(names), (_waited(session, lambda: builder.leaves(picture)),))


def _on_device(session: runtime.Session, host: Picture) -> runtime.Array:
    array = session.new_array(host.shape, np.uint8)
    session.write(images.buffer_of(array), host)
    return array


def _waited(session: runtime.Session, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        result = call()
        session.finish()
        return result

    return run


def _counting(session: runtime.Session, picture: runtime.Array) -> Callable[[], Any]:
    def run() -> Any:
        with session.scope() as scope:
            counts = count_colors(session, scope, [images.read(picture)])
            session.finish()
            return counts.cell_starts

    return run


def _icons(host: Picture, count: int, side: int = 64) -> list[Picture]:
    places = np.random.default_rng(1).integers(0, host.shape[0] - side, (count, 2))
    return [np.ascontiguousarray(host[y : y + side, x : x + side]) for y, x in places]
