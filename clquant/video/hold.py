"""Calm: pixels that hardly change are held, so that noise neither flickers nor is stored."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.images.moving import Frame
from clquant.runtime import CommandQueue, first_queue, open_session, sibling_queue
from clquant.video.lzw import WEIGHTS, most_square

FILE = "video/hold.cl"
MOST_AHEAD = 15


class Held(NamedTuple):
    """A frame, and where its pixels are those of the frame before, bit for bit."""

    frame: Frame
    stays: npt.NDArray[np.bool_]


def held(frames: Iterable[Frame], look_ahead: int, quality: int, queue: CommandQueue | None) -> Iterator[Held]:
    """Yield frames whose pixels stay while their error is at most (100 - quality) / 2 steps of 8 bits.

    A pixel that does not stay becomes the median of the frames after it, up to `look_ahead`, that are as near to it.
    """
    session = open_session(queue if queue is None else sibling_queue(first_queue(queue)))  # beside what maps the frames
    for shape, alike in itertools.groupby(frames, lambda frame: frame.pixels.shape):
        channels = shape[2] if len(shape) == 3 else 1
        pixels, depth = shape[0] * shape[1], look_ahead + 1
        kernel = session.program(FILE, CHANNELS=channels, FRAMES=depth, **WEIGHTS).kernel("hold")
        group = session.work_group_size(kernel, session.tuned("mapping.group"))
        source = iter(alike)
        exact = quality == 100 and channels < 4  # each pixel is shown as it came
        waiting: collections.deque[tuple[int, npt.NDArray[np.uint8] | None]] = collections.deque()
        with session.scope() as scope:
            window, shown = scope.empty(depth * pixels * channels), scope.empty(pixels * channels)
            stays = scope.empty(pixels)
            for number in itertools.count():
                while len(waiting) < depth and (frame := next(source, None)) is not None:
                    place = (number + len(waiting)) % depth
                    session.write(window, np.ascontiguousarray(frame.pixels), place * pixels * channels)
                    waiting.append((frame.delay_ms, frame.pixels if exact else None))
                if not waiting:
                    break
                counts = np.uint32(number % depth), np.uint32(len(waiting)), np.uint32(number > 0)
                limits = np.int32(most_square((100 - quality) / 2)), np.uint32(pixels)
                session.launch(kernel, pixels, group, window, shown, stays, *counts, *limits)
                delay_ms, given = waiting.popleft()
                frame = Frame(session.download(shown, shape, np.uint8) if given is None else given, delay_ms)
                yield Held(frame, session.download(stays, shape[:2], np.uint8).view(np.bool_))
