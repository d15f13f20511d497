"""GIF's pixels packed on a device, many frames at a time, with or without loss."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.flow.source import take_ahead
from clquant.runtime import (
    CommandQueue,
    NoDeviceError,
    Session,
    default_queue,
    first_queue,
    open_session,
    sibling_queue,
)
from clquant.video import gif
from clquant.video.gif_frames import Drawn

FILE = "video/lzw.cl"
NEAR = 8
"""Symbols that may take another's place."""
WEIGHTS = {"RED": 2, "GREEN": 4, "BLUE": 1}
"""Of channels in a squared distance."""
TABLE_WORDS = 8192 + 4096 // 32
LEAST_CODE_BITS = 2
# Frames and pixels packed at a time: several frames per core of a large CPU, within tens of megabytes.
MOST_FRAMES = 64
MOST_PIXELS = 1 << 23

# A frame's symbols, those that stand for the same colour, the colours that they stand for, and which is none.
Symbols = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8], int | None]


def packed(frames: Iterable[Drawn], loss: int, queue: CommandQueue | None) -> Iterator[tuple[gif.Frame, bytes]]:
    """Frames with their pixels packed; a pixel's colour differs by at most `loss` from its own (see `near_colors`)."""
    session = _session(queue)
    most = min(session.limits.compute_units << 20, MOST_PIXELS) if session.limits.is_cpu else 2 * MOST_PIXELS
    for batch, symbols in take_ahead(_batches(frames, most)):
        yield from zip(batch, blocks_of(symbols, loss, session), strict=True)


def _session(queue: CommandQueue | None) -> Session:
    """Open a session for packing: each frame is one thread's work, so on a CPU's device if there is one."""
    session = open_session(queue)
    if not session.limits.is_cpu:
        with contextlib.suppress(NoDeviceError):
            return open_session(default_queue("cpu"))
    return session if queue is None else open_session(sibling_queue(first_queue(queue)))


def _batches(frames: Iterable[Drawn], most: int) -> Iterator[tuple[list[gif.Frame], list[Symbols]]]:
    """Yield frames with their symbols, some for every core."""
    waiting: list[gif.Frame] = []
    symbols: list[Symbols] = []
    pixels = 0
    for whole, gaps in frames:
        frame = gaps if gaps is not None else whole
        assert frame is not None
        other = frame.indices if whole is None else whole.indices
        waiting.append(frame)
        symbols.append((frame.indices, other, frame.colors, frame.transparent))
        pixels += frame.indices.size
        if len(waiting) == MOST_FRAMES or pixels >= most:
            yield waiting, symbols
            waiting, symbols, pixels = [], [], 0
    if waiting:
        yield waiting, symbols


def blocks_of(frames: Sequence[Symbols], loss: int, session: Session) -> list[bytes]:
    """Each frame's code size and its codes in blocks, as they stand in the file."""
    sizes = [frame[0].size for frame in frames]
    starts = np.array([0, *itertools.accumulate(sizes)], np.uint32)
    bits = [max(int(frame[0].max()).bit_length(), LEAST_CODE_BITS) for frame in frames]
    near = np.concatenate(
        [near_colors(frame[2][: 1 << most], loss, frame[3]) for frame, most in zip(frames, bits, strict=True)]
    )
    colors = np.stack([np.pad(frame[2], ((0, 256 - len(frame[2])), (0, 0))) for frame in frames])
    count = len(frames)
    is_local = session.limits.local_memory >= 4 * TABLE_WORDS
    kernel = session.program(FILE, NEAR=NEAR, LOCAL_TABLE=int(is_local), **WEIGHTS).kernel("pack_lzw")
    with session.scope() as scope:
        out, lengths = scope.empty(2 * sum(sizes) + 16 * count), scope.empty(4 * count)
        wanted, other = scope.empty(sum(sizes)), scope.empty(sum(sizes))
        for start, frame in zip(starts[:-1], frames, strict=True):
            session.write(wanted, np.ascontiguousarray(frame[0]), int(start))
            session.write(other, np.ascontiguousarray(frame[1]), int(start))
        given = [wanted, other, *(scope.upload(array) for array in (starts, colors, near, np.array(bits, np.uint32)))]
        tables = scope.empty(4 * TABLE_WORDS * (1 if is_local else count))
        session.launch(
            kernel,
            count,
            1,
            *given,
            tables=tables,
            out=out,
            lengths=lengths,
            count=np.uint32(count),
            most=np.int32(most_square(loss)),
        )
        ends = session.download(lengths, (count,), np.uint32)
        return [
            bytes([code_bits])
            + gif.blocks(session.download(out, (int(length),), np.uint8, 2 * int(start) + 16 * number).tobytes())
            for number, (code_bits, start, length) in enumerate(zip(bits, starts, ends, strict=False))
        ]


def most_square(steps: float) -> int:
    """The weighted square of a difference of so many 8-bit steps in each channel, rounded down."""
    return int(sum(WEIGHTS.values()) * steps * steps)


def near_colors(colors: npt.NDArray[np.uint8], loss: int, hole: int | None) -> npt.NDArray[np.uint8]:
    """(256, `NEAR`): for each entry others within `loss`, nearest first, filled up with itself.

    The distance is the root of the weighted mean of the channels' squares, green counting four, red two, blue one;
    ties go to the lowest index. The entry that is a hole takes no other's place.
    """
    near = np.repeat(np.arange(256, dtype=np.uint8)[:, None], NEAR, axis=1)
    if not loss:
        return near
    values = colors.astype(np.int32)
    squares = ((values[:, None] - values[None]) ** 2) @ np.array(list(WEIGHTS.values()), np.int32)
    if hole is not None and hole < len(colors):
        squares[hole] = squares[:, hole] = np.iinfo(np.int32).max
    np.fill_diagonal(squares, -1)
    order = np.argsort(squares, axis=1, kind="stable")[:, 1 : NEAR + 1]
    there = np.take_along_axis(squares, order, axis=1) <= most_square(loss)
    own = np.arange(len(colors))[:, None]
    near[: len(colors), : order.shape[1]] = np.where(there, order, own)
    return near
