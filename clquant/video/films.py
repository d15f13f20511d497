"""Films through PyAV: exact times, rotation, colours by the stream's own matrix and range."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from clquant.runtime import FileError, InvalidArgument
from clquant.video.timing import Timed

RAW_FORMAT = "rgb24"
_Y4M = "yuv4mpegpipe"
_Y4M_HEAD = re.compile(rb"YUV4MPEG2(?= .*?W(\S+))(?= .*?H(\S+))")
_HEAD_BYTES = 256
HD_HEIGHT = 720  # from which on films that name no matrix have BT.709's
MOST_FPS = 1000
MOST_PIXELS = 16_000**2  # about what FFmpeg allows
MOST_STRETCH = Fraction(8)
_RAW_RATE = 25
_THREADS = 8
_BT709, _BT601 = 1, 5
_UNNAMED = (0, 2)  # "reserved" and "unspecified"
_SHORT = Fraction(1, 10)  # seconds, or one and a half frames, that a whole film may lack of the length in its head
TAKES_OTHERS = "damaged=True (--damaged) takes the frames before"


class _Pipe:
    """A pipe, its first bytes, and how many of it were read."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe, self.count, self.head = pipe, 0, b""

    def read(self, size: int) -> bytes:
        data = self._pipe.read(size)
        self.head = self.head or data[:_HEAD_BYTES]
        self.count += len(data)
        return data


class Film:
    """A film in a file or a pipe."""

    plays, alike, ready = 0, True, False
    count: int | None = None

    def __init__(
        self,
        source: str | BinaryIO,
        shown: str,
        start: Fraction | None = None,
        raw: Any = None,
        damaged: bool = False,
    ) -> None:
        self._start, self._shown, self._damaged = start, shown, damaged
        self._source = source if isinstance(source, str) else _Pipe(source)
        self.once = not isinstance(source, str) or not os.path.isfile(source)
        self._options = _raw_options(raw) if raw is not None else {}
        self._open: Any = None
        self._length: Fraction | None = None
        self.seconds = Fraction(0)
        with contextlib.ExitStack() as stack:
            container = self._opened() if self.once else stack.enter_context(self._opened())
            stream = container.streams.video[0]
            self._length = _length(container, stream)
            self._stretch = min(max(Fraction(stream.sample_aspect_ratio or 1), 1 / MOST_STRETCH), MOST_STRETCH)
            self.width, self.height = math.ceil(stream.width * self._stretch), stream.height
            if not self.once:
                first = next(self._decoded(container, stream), None)
                if first is not None and first.rotation % 180:
                    self.width, self.height = self.height, self.width
                self.seconds = self._length or Fraction(0)
                self.expected = round(self.seconds * (stream.average_rate or _RAW_RATE))
            else:
                self.expected, self._open = 0, container

    def timed(self) -> Iterator[Timed]:
        """Yield the frames from `start` on, or from a little before it."""
        container = self._open or self._opened()
        self._open = None
        with container:
            stream = container.streams.video[0]
            origin = Fraction((stream.start_time or 0) * stream.time_base)
            if self._start and not self.once:
                container.seek(int((self._start + origin) / stream.time_base), stream=stream)
            step = 1 / Fraction(stream.average_rate or _RAW_RATE)
            waiting: Any = None
            end = Fraction(0)
            for frame in self._decoded(container, stream):
                now = end if frame.pts is None else Fraction(frame.pts * frame.time_base) - origin
                if waiting is not None:
                    yield Timed(waiting[0], max(now, waiting[0]), partial(_pixels, waiting[1], self._stretch))
                waiting = now, frame
                end = now + (Fraction(frame.duration * frame.time_base) if frame.duration else step)
            if waiting is None and not self._start:
                raise FileError(f"cannot read {self._shown}: its video stream has no frames")
            if waiting is not None:
                yield Timed(waiting[0], end, partial(_pixels, waiting[1], self._stretch))
            if self._length is not None and end + max(_SHORT, 3 * step / 2) < self._length and not self._damaged:
                raise self._cut_off(end)

    def _opened(self) -> Any:
        av = _library(self._shown)
        options = dict(self._options)
        format = options.pop("format", None)
        try:
            container = av.open(self._source, format=format, options=options)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            raise self._refused(error) from error
        if not container.streams.video:
            container.close()
            raise FileError(f"cannot read {self._shown}: it has no video stream")
        stream = container.streams.video[0]
        if stream.codec_context is None:
            container.close()
            raise FileError(f"cannot read {self._shown}: FFmpeg has no decoder for its video")
        if not 0 < stream.width * stream.height <= MOST_PIXELS:
            container.close()
            raise self._too_large(stream.width, stream.height)
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = min(_THREADS, os.cpu_count() or 1)
        return container

    def _refused(self, error: Exception) -> FileError:
        """Why a film was not opened: of a y4m's size, which FFmpeg has no word for, or FFmpeg's own reason."""
        head = b""
        if isinstance(self._source, _Pipe):
            head = self._source.head
        elif os.path.isfile(self._source):
            with open(self._source, "rb") as file:
                head = file.read(_HEAD_BYTES)
        claim = _Y4M_HEAD.match(head)
        width, height = (side.decode("ascii", "replace") for side in claim.groups()) if claim else ("1", "1")
        if not (width.isdigit() and height.isdigit() and 0 < int(width) * int(height) <= MOST_PIXELS):
            return self._too_large(width, height)
        reason = getattr(error, "strerror", None) or error
        return FileError(f"cannot read {self._shown} as a picture or film: {reason}")

    def _too_large(self, width: Any, height: Any) -> FileError:
        return FileError(
            f"cannot read {self._shown}: it claims {width}x{height} pixels; allowed: 1 to {MOST_PIXELS} in all"
        )

    def _decoded(self, container: Any, stream: Any) -> Iterator[Any]:
        """Yield decoded frames until the end or a damage."""
        av = _library(self._shown)
        decoded = self._of_packets(container, stream)
        last = self._start or Fraction(0)
        while True:
            try:
                frame = next(decoded)
            except StopIteration:
                return
            except (av.error.FFmpegError, OSError, EOFError) as error:
                if self._damaged:
                    return
                raise self._cut_off(last, error) from error
            if frame.is_corrupt:
                if self._damaged:
                    return
                raise self._cut_off(last)
            if frame.pts is not None:
                last = Fraction((frame.pts - (stream.start_time or 0)) * frame.time_base)
            yield frame

    def _of_packets(self, container: Any, stream: Any) -> Iterator[Any]:
        """Yield decoded frames; raise where a film ends within one: FFmpeg leaves a y4m's out without a word."""
        end, broken = 0, False
        for packet in container.demux(stream):
            broken = broken or packet.is_corrupt
            if broken and packet.size:
                continue
            end = packet.pos + packet.size if packet.size and packet.pos else end
            yield from packet.decode()
        count = self._source.count if isinstance(self._source, _Pipe) else os.path.getsize(self._source)
        if broken or (container.format.name == _Y4M and 0 < end < count):
            raise EOFError("it ends within a frame")

    def _cut_off(self, end: Fraction, error: Exception | None = None) -> FileError:
        whole = "" if self._length is None else f" of {float(self._length):.2f}"
        why = "" if error is None else f" ({getattr(error, 'strerror', None) or error})"
        return FileError(
            f"cannot read {self._shown}: it is damaged or cut off after {float(end):.2f}{whole} seconds{why}; "
            f"{TAKES_OTHERS}"
        )


def _library(shown: str) -> Any:
    try:
        import av
    except ImportError as error:
        raise FileError(
            f"cannot read {shown}: it is no picture, and films need PyAV, which is not installed: "
            "pip install 'clquant[video]'"
        ) from error
    return av


def _length(container: Any, stream: Any) -> Fraction | None:
    """Seconds of the video stream as its head has them; None where that tells of other streams alone."""
    if stream.duration:
        return Fraction(stream.duration * stream.time_base)
    if container.duration and len(container.streams) == 1:
        return Fraction(container.duration, 1_000_000) - Fraction((stream.start_time or 0) * stream.time_base)
    return None


def _raw_options(raw: Any) -> dict[str, str]:
    """PyAV's options for RGB without a head."""
    try:
        width, height, fps = (*raw, _RAW_RATE)[:3]
        sides_fit = 0 < int(width) <= 1 << 16 and 0 < int(height) <= 1 << 16 and 0 < Fraction(fps) <= MOST_FPS
    except (TypeError, ValueError, OverflowError):
        sides_fit = False
    if not sides_fit:
        raise InvalidArgument(f"raw is {raw!r}; allowed: (width, height) or (width, height, fps)")
    size, rate = f"{int(width)}x{int(height)}", str(Fraction(fps))
    return {"format": "rawvideo", "video_size": size, "pixel_format": RAW_FORMAT, "framerate": rate}


def _pixels(frame: Any, stretch: Fraction) -> npt.NDArray[np.uint8]:
    """(H, W, 3), or (H, W, 4) where the film has alpha, upright, its width times `stretch`."""
    alpha = any(component.is_alpha for component in frame.format.components)
    matrix = int(frame.colorspace)
    if matrix in _UNNAMED:
        matrix = _BT709 if frame.height >= HD_HEIGHT else _BT601
    from av.video.reformatter import Interpolation

    exact = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.BITEXACT
    converted = frame.reformat(
        width=math.ceil(frame.width * stretch),
        format="rgba" if alpha else RAW_FORMAT,
        src_colorspace=matrix,
        src_color_range=frame.color_range,
        interpolation=Interpolation.BICUBIC | exact,
    )
    pixels = converted.to_ndarray()
    turns = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, turns))
