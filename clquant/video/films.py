"""Films through PyAV: exact times, rotation, colours by the stream's own matrix and range."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import FileError, InvalidArgument
from clquant.video.containers import MOST_PIXELS, FilmBytes, check_size, fits, import_av, open_container
from clquant.video.timing import Timed

RAW_FORMAT = "rgb24"
_Y4M = "yuv4mpegpipe"
_WITHOUT_TIMES = ("avi", "mpegvideo")  # which have an order of frames alone; FFmpeg guesses times of showing
# Containers that know their key frames. FFmpeg guesses places in others, and loses frames.
_INDEXED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
_EARLIER = 1  # seconds: indices have times of decoding, which are before those of showing
HD_HEIGHT = 720  # from which on films that name no matrix have BT.709's
MOST_FPS = 1000
MOST_STRETCH = Fraction(8)
_MOST_RAW_SIDE = 1 << 16
_RAW_RATE = 25
MATRICES = {"bt601": 5, "bt709": 1}  # FFmpeg's numbers
_UNNAMED = (0, 2)  # "reserved" and "unspecified"
_BACK = 5  # steps: frames further back are of another recording
_SHORT = Fraction(1, 10)  # seconds, or one and a half frames, that a whole film may lack of the length in its head
# Decoders that know the alpha of WebM; FFmpeg's own for these codecs leave it out.
_ALPHA_DECODERS = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
TAKES_OTHERS = "damaged=True (--damaged) takes the frames before"


class Film:
    """A film in a file, in memory or in a pipe."""

    plays, alike, ready = 0, True, False
    count: int | None = None

    def __init__(
        self,
        source: str | bytes | FilmBytes,
        shown: str,
        start: Fraction | None = None,
        raw: Any = None,
        damaged: bool = False,
        matrix: str | None = None,
    ) -> None:
        self._source, self._start, self._shown, self._damaged = source, start, shown, damaged
        self._matrix = None if matrix is None else MATRICES[matrix]
        self.once = not isinstance(source, str | bytes)
        self._raw = _raw_options(raw) if raw is not None else {}
        self._first_opened: tuple[contextlib.ExitStack, Any, FilmBytes] | None = None
        with contextlib.ExitStack() as stack:
            container, data = stack.enter_context(self._open())
            stream = container.streams.video[0]
            self._length = _length(container, stream)
            self._origin: Fraction | None = None  # the first frame's time
            self._has_order_alone = container.format.name in _WITHOUT_TIMES
            self._step = 1 / Fraction(stream.average_rate or _RAW_RATE)
            stretch = min(max(Fraction(stream.sample_aspect_ratio or 1), 1 / MOST_STRETCH), MOST_STRETCH)
            self._size = self.width, self.height = math.ceil(stream.width * stretch), stream.height
            check_size(*self._size, shown)
            self.seconds, self.expected = Fraction(0), 0
            if self.once:
                self._first_opened = stack.pop_all(), container, data
                return
            first = next(self._decode(container, data), None)
            if first is not None and first.rotation % 180:
                self.width, self.height = self.height, self.width
            self.seconds = self._length or Fraction(0)
            self.expected = round(self.seconds / self._step)

    def timed(self) -> Iterator[Timed]:
        """Yield the frames from `start` on, or from before it."""
        waiting: Any = None
        end = shift = Fraction(0)
        for frame in self._frames():
            time = self._time_of(frame)
            now = end if time is None else time + shift
            if waiting is not None and now + _BACK * self._step < waiting[0]:  # another recording follows in the file
                shift, now = shift + end - now, end
            if waiting is not None:
                yield Timed(waiting[0], max(now, waiting[0]), partial(_pixels, waiting[1], self._size, self._matrix))
            waiting = now, frame
            end = now + (Fraction(frame.duration * frame.time_base) if frame.duration else self._step)
        if waiting is None and not self._start:
            raise FileError(f"cannot read {self._shown}: its video stream has no frames")
        if waiting is not None:
            yield Timed(waiting[0], end, partial(_pixels, waiting[1], self._size, self._matrix))
        if self._length is not None and end + max(_SHORT, 3 * self._step / 2) < self._length and not self._damaged:
            raise self._cut_off(end)

    def _open(self) -> contextlib.AbstractContextManager[tuple[Any, FilmBytes]]:
        return open_container(self._source, self._shown, self._raw)

    def _time_of(self, frame: Any) -> Fraction | None:
        stamp = frame.dts if self._has_order_alone else frame.pts
        if stamp is None:
            return None
        time = Fraction(stamp * frame.time_base)
        self._origin = time if self._origin is None else self._origin
        return time - self._origin

    def _frames(self) -> Iterator[Any]:
        """Yield decoded frames, from a key frame at or before `start` on where the container knows one, else all."""
        if self._start and not self.once:
            with self._open() as (container, data):
                found = self._from_key_frame(container, data, self._start)
                if found is not None:
                    yield from found
                    return
        opened, self._first_opened = self._first_opened, None
        with contextlib.ExitStack() if opened is None else opened[0] as stack:
            yield from self._decode(*(stack.enter_context(self._open()) if opened is None else opened[1:]))

    def _from_key_frame(self, container: Any, data: FilmBytes, start: Fraction) -> Iterator[Any] | None:
        stream = container.streams.video[0]
        if container.format.name not in _INDEXED:
            return None
        with contextlib.suppress(import_av(self._shown).error.FFmpegError):
            begin = max(start - _EARLIER, Fraction(0)) + (self._origin or 0)
            container.seek(int(begin / stream.time_base), stream=stream)
            # Frames before the key frame may lack what they are made of.
            decoded = itertools.dropwhile(lambda frame: not frame.key_frame, self._decode(container, data))
            first = next(decoded, None)
            time = None if first is None else self._time_of(first)
            if time is not None and time <= start:
                return itertools.chain([first], decoded)
        return None

    def _decode(self, container: Any, data: FilmBytes) -> Iterator[Any]:
        """Yield decoded frames until the end or a damage."""
        av = import_av(self._shown)
        decoded = self._decode_packets(container, data)
        last = self._start or Fraction(0)
        while True:
            try:
                frame = next(decoded)
            except StopIteration:
                return
            except (av.error.FFmpegError, OSError, EOFError) as error:
                if getattr(error, "errno", None) == errno.ENOMEM:
                    raise MemoryError(f"{self._shown} needs more memory than there is") from error
                if self._damaged:
                    return
                raise self._cut_off(last, error) from error
            if frame.is_corrupt:
                if self._damaged:
                    return
                raise self._cut_off(last)
            last = self._time_of(frame) or last
            yield frame

    def _decode_packets(self, container: Any, data: FilmBytes) -> Iterator[Any]:
        """Yield decoded frames; raise where a film ends within one: FFmpeg leaves a y4m's out without a word."""
        end, broken = 0, False
        stream = container.streams.video[0]
        decoder = self._decoder(stream)
        for packet in container.demux(stream):
            broken = broken or packet.is_corrupt
            if broken and packet.size:
                continue
            end = packet.pos + packet.size if packet.size and packet.pos else end
            yield from decoder.decode(packet)
        if broken or (container.format.name == _Y4M and 0 < end < data.count):
            raise EOFError("it ends within a frame")

    def _decoder(self, stream: Any) -> Any:
        """The stream's own decoder, or one that knows its alpha."""
        name = _ALPHA_DECODERS.get(stream.codec_context.name)
        if name is None or stream.metadata.get("alpha_mode") != "1":
            return stream.codec_context
        av = import_av(self._shown)
        if name not in av.codecs_available:
            warnings.warn(f"{self._shown}: its alpha is left out, as this PyAV lacks the decoder {name}", stacklevel=2)
            return stream.codec_context
        decoder = av.CodecContext.create(name, "r")
        decoder.extradata, decoder.thread_count = stream.codec_context.extradata, stream.codec_context.thread_count
        return decoder

    def _cut_off(self, end: Fraction, error: Exception | None = None) -> FileError:
        whole = "" if self._length is None else f" of {float(self._length):.2f}"
        why = "" if error is None else f" ({getattr(error, 'strerror', None) or error})"
        return FileError(
            f"cannot read {self._shown}: it is damaged or cut off after {float(end):.2f}{whole} seconds{why}; "
            f"{TAKES_OTHERS}"
        )


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
        width, height, rate = raw if len(raw) > 2 else (*raw, _RAW_RATE)
        width, height = (params.integer("raw", side, 1, _MOST_RAW_SIDE) for side in (width, height))
        if not fits(width, height):
            raise ValueError(f"more than {MOST_PIXELS} pixels")
        fps = Fraction(params.real("raw", rate, 1e-3, MOST_FPS)).limit_denominator(10**6)
    except (TypeError, ValueError) as error:
        sides = f"sides of 1 to {_MOST_RAW_SIDE} and {MOST_PIXELS} pixels in all, fps of 0.001 to {MOST_FPS}"
        allowed = f"(width, height) or (width, height, fps), {sides}"
        raise InvalidArgument(f"raw is {params.shown(raw)}; allowed: {allowed}") from error
    return {"video_size": f"{width}x{height}", "pixel_format": RAW_FORMAT, "framerate": str(fps)}


def _pixels(frame: Any, size: tuple[int, int], unnamed: int | None) -> npt.NDArray[np.uint8]:
    """(H, W, 3), or (H, W, 4) where the film has alpha, in the size (W, H) and then upright."""
    alpha = any(component.is_alpha for component in frame.format.components)
    matrix = int(frame.colorspace)
    if matrix in _UNNAMED:
        matrix = unnamed or MATRICES["bt709" if frame.height >= HD_HEIGHT else "bt601"]
    from av.video.reformatter import Interpolation

    exact = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.BITEXACT
    converted = frame.reformat(
        *size,
        format="rgba" if alpha else RAW_FORMAT,
        src_colorspace=matrix,
        src_color_range=frame.color_range,
        interpolation=Interpolation.BICUBIC | exact,
    )
    pixels = converted.to_ndarray()
    turns = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, turns))
