"""The executor of this process: bands of rows, uploads and downloads beside the kernels, progress, stop and resume."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clquant import images
from clquant.flow.file_sinks import About
from clquant.flow.job import Carried, Map, Portion, Reduce, Scan
from clquant.flow.result_files import writing
from clquant.flow.sink import Sink, result_of
from clquant.flow.source import PictureSource, common_portions, open_picture
from clquant.images import ImageLike, Picture
from clquant.runtime import (
    HostResult,
    InvalidArgument,
    Progress,
    QueueLike,
    Session,
    open_session,
)


class Local:
    """Runs jobs on a queue of this process."""

    def __init__(self, queue: QueueLike) -> None:
        self._queue = queue

    def map(self, job: Map, image: ImageLike, *, out: Any, about: About, memory: Any, report: Progress) -> Any:
        """Return a job's result: on the device for a device array, else on the host, or `out` with it."""
        with writing(out, about) as sink:
            picture = open_picture(image, memory=memory, max_bits=job.max_bits, takes_rows=job.takes_rows)
            return in_bands(open_session(self._queue, images.device_arrays([picture])), picture, job, report, sink=sink)

    def reduce(self, job: Reduce, image: ImageLike, *, memory: Any, report: Progress, argument: str) -> Any:
        """Return a reduction's value for an image."""
        picture = open_picture(image, memory=memory, argument=argument, max_bits=job.max_bits)
        session = open_session(self._queue, images.device_arrays([picture]))
        return job.finish(state_of(session, [picture], job, report))

    def fetch(self, result: Any, report: Progress) -> Any:  # noqa: ARG002
        """Return a result, which is in this process."""
        return result


def state_of(session: Session, pictures: Sequence[Picture], job: Reduce, report: Progress) -> Any:
    """Return the state of a picture, or of several of one size together, merged from those of bands."""
    check_side(pictures[0], job.max_side)
    pictures, states = [p if job.max_bits == 16 else p.narrowed() for p in pictures], list[Any]()
    with session.scope() as scope:
        same = len(pictures) == 2 and pictures[0] is pictures[1]
        sent = [one.send(session, scope) for one in pictures[: 1 if same else None]]
        with job.open(session, scope, sent[0]) as steps:
            for cut in common_portions(session, sent, **steps.cutting()):
                for one in sent:
                    if one.sent is not None:
                        one.sent.begin(cut.last)  # of all, before any is waited for
                with session.scope() as band:
                    pixels = [one.upload(session, band, cut.first, cut.last) for one in sent]
                    others = tuple(pixels if same else pixels[1:])
                    portion = Portion(sent[0], pixels[0], None, *cut.rows, report, others)
                    states.append(steps.step(session, band, portion))
                states = states if steps.value is not None else [job.merge(states)]
                report.report(cut.row1, sent[0].height)
            return states[0] if steps.value is None else steps.value()


def in_bands(
    session: Session,
    picture: Picture,
    job: Map,
    report: Progress,
    room: HostResult | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    carried: Carried | None = None,
    sink: Sink | None = None,
) -> Any:
    """Run a job band by band; `room` takes the result if it fits, `meanwhile` is called when all is queued.

    With `carried` the picture is rows of one below others, of which a scan's state comes and to which it goes.
    """
    check_side(picture, job.max_side)
    picture = picture if job.max_bits == 16 else picture.narrowed()
    shape, dtype = job.result(picture)
    fits = room is not None and room.fits(shape, dtype)
    result = room if room is not None and fits else result_of(session, picture, sink, shape, dtype)
    row_bytes = math.prod(shape[1:]) * np.dtype(dtype).itemsize
    with session.scope() as scope:
        if job.scale == 1:  # a picture that is enlarged is small: a band of it is there at once
            picture = picture.send(session, scope)
        opened = job.open_below if carried is not None and isinstance(job, Scan) else job.open
        with opened(session, scope, picture) as steps:
            if carried is not None and carried.rows and steps.carried is not None:
                session.write(steps.carried[0], carried.state)
            high, scale = job.block[0], job.scale
            how = steps.cutting(-(-row_bytes * scale // high))
            cuts = PictureSource(picture).portions(session, **how, whole=sink is not None)
            for number, cut in enumerate(cuts):
                first, last, row0, row1 = cut.rows
                done = -(-row1 // high)
                begin, end = row0 // high * scale, min(done * scale, shape[0])
                if result.has(end) and not job.is_serial:
                    continue
                part = report if steps.turns == 1 else report.part(number * steps.turns, len(cuts) * steps.turns)
                with session.scope() as band:
                    pixels, offset = picture.upload(session, band, first, last), 0
                    if steps.fills_reach and (first, last) != (row0, row1):
                        offset = (row0 - first) // high * row_bytes
                        buffer = band.empty(-(-(last - first) // high) * row_bytes)
                    else:
                        buffer = result.room(band, begin, end)
                    steps.step(session, band, Portion(picture, pixels, buffer, first, last, row0, row1, part))
                    result.store(band, begin, end, buffer, offset)
                if report.wanted:
                    session.finish()
                if steps.turns == 1:
                    report.report(done * steps.unit, -(-picture.height // high) * steps.unit)
            meanwhile()
            if carried is not None and steps.carried is not None:
                carried.rows, carried.state = carried.rows + picture.height, session.download(*steps.carried, np.uint8)
    return result.array()


def check_side(picture: Picture, most: int = 1 << 30) -> None:
    """Refuse a picture of which a kernel cannot count a side's pixels."""
    if max(picture.height, picture.width) > most:
        raise InvalidArgument(f"image has {picture.height} x {picture.width} pixels; allowed: up to {most} per side")
