"""`frames`: films, animated files, folders, pipes and pictures in memory as frames with times, one at a time."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.color.formats.parallel import ordered
from clquant.images import detached, files, moving, read
from clquant.images.folders import files_below
from clquant.images.foreign import encoded
from clquant.images.moving import Frame
from clquant.images.picture_files import MAX_FILE_PIXELS
from clquant.runtime import FileError, InvalidArgument, open_session
from clquant.video.containers import FilmBytes
from clquant.video.films import MATRICES, MOST_FPS, TAKES_OTHERS, Film
from clquant.video.timing import LEAST, MILLISECONDS, Timed, clipped, rounded, thinned

DELAY_MS = 40  # of pictures that have no times of their own
STDIN = "-"
MOST_SIDE = 65535
_JPEGS_IN_ROW = (".mjpeg", ".mjpg")  # films whose first frame is a picture too
_ANIMATED = re.compile(rb"GIF8|\x89PNG|RIFF....WEBP", re.DOTALL)
_READ_AT_A_TIME = 4  # a film's colours take longer than its decoding
MOST_SECONDS = 1e6


class _AnimatedFile:
    """A file that Pillow knows."""

    once, alike, ready, seconds = False, False, True, Fraction(0)

    def __init__(self, file: str | bytes, name: str, damaged: bool) -> None:
        self._file, self._name, self._damaged = file, name, damaged
        about = moving.about(file, name)
        self.count = self.expected = about.count
        shape = about.shape or next(moving.frames(file, name)).pixels.shape
        self.height, self.width = int(shape[0]), int(shape[1])
        self.plays = about.plays

    def timed(self) -> Iterator[Timed]:
        end = Fraction(0)
        try:
            for frame in moving.frames(self._file, self._name):
                begin, end = end, end + Fraction(frame.delay_ms, MILLISECONDS)
                yield Timed(begin, end, partial(np.asarray, frame.pixels))
        except FileError as error:
            if not end:
                raise
            if not self._damaged:
                raise FileError(f"{error}; {TAKES_OTHERS}") from error


class _Pictures:
    """Pictures, or frames with times, of a list or an iterator."""

    plays, seconds = 0, Fraction(0)

    def __init__(self, pictures: Iterable[Any], step: Fraction) -> None:
        if isinstance(pictures, np.ndarray) and not pictures.ndim:
            raise _no_frames(pictures)
        self.once = isinstance(pictures, Iterator)
        self.count = len(pictures) if isinstance(pictures, list | tuple | np.ndarray) else None
        self.expected = self.count or 0
        self._pictures, self._step = pictures, step
        self.alike = self.count is not None and len({getattr(each, "shape", id(each)) for each in pictures}) == 1
        self.ready = self.alike
        first = next(iter(pictures), None) if self.once or self.count is None or self.count else None
        if first is None:
            raise _no_frames(pictures)
        first = detached(first, "frames[0]") if self.once else first
        self._first = [first] if self.once else []
        self.height, self.width = _pixels_of(first, "frames[0]").shape[:2]

    def timed(self) -> Iterator[Timed]:
        end = Fraction(0)
        for number, picture in enumerate(self._all()):
            own = Fraction(picture.delay_ms, MILLISECONDS) if isinstance(picture, Frame) else self._step
            begin, end = end, end + own
            yield Timed(begin, end, partial(_pixels_of, picture, f"frames[{number}]"))

    def _all(self) -> Iterator[Any]:
        if not self.once:
            yield from self._pictures
            return
        yield from self._first
        self._first = []
        for number, picture in enumerate(self._pictures, 1):
            yield detached(picture, f"frames[{number}]")


def _pixels_of(picture: Any, argument: str) -> npt.NDArray[np.uint8]:
    """(H, W) or (H, W, C): a picture's pixels on the host."""
    if isinstance(picture, Frame):
        return picture.pixels
    found = read(picture, argument=argument)
    session = open_session(None, [found.device_array]) if found.device_array is not None else None
    pixels = found.array if session is None else found.on_host(session)
    assert pixels is not None
    return np.asarray(pixels.reshape(found.shape), np.uint8)


_Source = Film | _AnimatedFile | _Pictures


class Frames:
    """Frames with times, read one at a time as they are asked for; see `frames`.

    Attributes
    ----------
    width, height : int
        Of every frame; of pictures in memory those of the first.
    plays : int
        How often the file says that they are shown; 0 for ever.
    is_sized : bool
        Whether their size was asked for.
    once : bool
        Whether they can be iterated over once only: those of pipes and iterators.
    alike : bool
        Whether all frames are known to have as many channels.
    expected : int
        How many frames are expected, 0 if nobody knows; `len` is there where it is certain.
    """

    def __init__(
        self,
        source: Any,
        fps: float | None = None,
        size: Any = None,
        start: float | None = None,
        end: float | None = None,
        *,
        raw: Any = None,
        damaged: bool = False,
        matrix: str | None = None,
    ) -> None:
        self._fps = None if fps is None else Fraction(params.real("fps", fps, 1e-3, MOST_FPS)).limit_denominator(10**6)
        self._start, self._end = _seconds("start", start), _seconds("end", end)
        if self._end is not None and self._end <= (self._start or 0):
            raise InvalidArgument(f"end is {end} and start {start or 0}; allowed: an end after the start")
        self._damaged = params.boolean("damaged", damaged)
        self._given = source
        matrix = matrix if matrix is None else params.choice("matrix", matrix, MATRICES)
        of_film = {"raw": raw, "damaged": damaged, "matrix": matrix}
        self._source = _open_source(source, self._fps, self._start, of_film)
        if raw is not None and not isinstance(self._source, Film):
            raise InvalidArgument(f"raw is {params.shown(raw)}, but frames are pictures; allowed: with a film")
        self._size = _size(size, (self._source.width, self._source.height))
        self.is_sized = size is not None
        self.width, self.height = self._size or (self._source.width, self._source.height)
        self.plays, self.once, self.alike = self._source.plays, self._source.once, self._source.alike

    @property
    def expected(self) -> int:
        count, seconds = self._source.expected, self._source.seconds
        if not seconds:
            return count
        shown = max(min(seconds, self._end or seconds) - (self._start or 0), Fraction(0))
        part = round(count * shown / seconds)
        return part if self._fps is None else min(part, round(shown * self._fps))

    def at_most(self, fps: int) -> Frames:
        """The same frames: of a film at most `fps` a second, of others as many as every format can show."""
        fewer = copy.copy(self)
        if self._fps is None:
            fewer._fps = Fraction(fps) if isinstance(self._source, Film) else 1 / LEAST
        return fewer

    def __len__(self) -> int:
        if self._source.count is None or self._fps or self._start or self._end:
            raise TypeError(f"how many frames {params.shown(self._given)} has is known when all were read")
        return self._source.count

    def __iter__(self) -> Iterator[Frame]:
        timed = clipped(self._source.timed(), self._start, self._end)
        found = False

        def read(each: Timed) -> Frame:
            return Frame(resized(each.read(), self._size), rounded(each.end) - rounded(each.start))

        try:
            shown = timed if self._fps is None else thinned(timed, self._fps)
            is_ready = self._source.ready and self._size is None
            for frame in map(read, shown) if is_ready else ordered(read, shown, _READ_AT_A_TIME):
                yield frame
                found = True
        except FileError:
            if not (self._damaged and found):
                raise
        if not found:
            none = f"{params.shown(self._given)} has no frames from {float(self._start or 0):g} s on"
            raise InvalidArgument(f"{none}; allowed: a start before its end")

    def __repr__(self) -> str:
        return f"Frames({params.shown(self._given)}: {self.width}x{self.height})"


def frames(
    source: Any,
    fps: float | None = None,
    size: Any = None,
    start: float | None = None,
    end: float | None = None,
    *,
    raw: Any = None,
    damaged: bool = False,
    matrix: str | None = None,
) -> Frames:
    """The frames of moving pictures, each as a player shows it, with its time.

    Parameters
    ----------
    source : path_like, ``"-"``, or list or iterator of images
        A film (through PyAV, extra ``video``) or an animated GIF, WebP or PNG, as a path, bytes or a binary file;
        a folder of pictures in the natural order of their names (1, 2, 10); standard input or a named pipe with a film
        that can be read from its beginning on (such as y4m), or an MP4 or animated file, read whole; or pictures. Of a
        PIL image of several frames its file is read, from the first frame on. A list or iterator's PIL images (such as
        ``PIL.ImageSequence.Iterator``) are as Pillow composes them, which differs from browsers in GIFs.
    fps : float, optional
        Most frames a second, 0.001 to 1000: of faster ones those are left out that are over when the next may begin;
        slower ones keep their times. Pictures without times are shown so many a second, else 25.
    size : int or (int, int), optional
        Width, or width and height, of the frames, in pixels, 1 to 65535; the height follows in proportion.
    start, end : float, optional
        Seconds from the first frame on; the frame that is shown at `start` is the first taken. MP4, MOV, MKV and WebM
        are entered at a key frame; other films are decoded from their beginning on.
    raw : (int, int) or (int, int, float), optional
        Width, height and frames a second (25) of a film of plain RGB without a head, 3 bytes a pixel.
    damaged : bool
        Take the frames before the place where a file is damaged or cut off, instead of an error.
    matrix : {"bt601", "bt709"}, optional
        How colours of a film are coded that names no matrix: BT.709 from 720 rows on and else BT.601, as players take
        it, unless it is given.

    Returns
    -------
    Frames
        An iterable of `Frame` (`pixels`, `delay_ms`), which every engine takes as a picture. Times are exact: their
        sum is rounded once. A film's colours are converted by its own matrix and range, it is turned upright, its
        pixels become square, and alpha is kept. An APNG's default image that is no frame is left out. Memory is bounded
        by a few frames. A film is the bytes that were given: nothing that it names is opened.

    Raises
    ------
    InvalidArgument, InvalidType
        If an argument is not allowed.
    FileError
        If it cannot be read, has no video stream or no frames, or PyAV is needed and not there; of damaged files when
        the frame's turn comes.
    """
    return Frames(source, fps, size, start, end, raw=raw, damaged=damaged, matrix=matrix)


def _open_source(source: Any, fps: Fraction | None, start: Fraction | None, of_film: dict[str, Any]) -> _Source:
    """The source that a person named; `of_film` has what films alone know."""
    step = Fraction(DELAY_MS, MILLISECONDS) if fps is None else 1 / fps
    if isinstance(source, str | os.PathLike):
        if source == STDIN:
            if sys.stdin is None:
                raise FileError("standard input is closed")
            return _open_pipe(sys.stdin.buffer, "standard input", of_film)
        path = os.fspath(files.path_of(source))
        if os.path.isdir(path):
            return _Pictures([os.fspath(found) for found in files_below(path)], step)
        if os.path.exists(path) and not os.path.isfile(path):
            return _open_pipe(path, params.shown(path), of_film)
        return _open_file(path, params.shown(path), start, of_film)
    if isinstance(source, PIL.Image.Image):
        file = moving.file_of(source)
        return (
            _Pictures([source], step) if file is None else _AnimatedFile(file, params.shown(source), of_film["damaged"])
        )
    data = encoded(source, "frames")
    if data is not None:
        return _open_file(data, params.shown(source), start, of_film)
    if isinstance(source, Frames | Iterable):
        return _Pictures(source, step)
    raise _no_frames(source)


def _open_file(source: str | bytes, shown: str, start: Fraction | None, of_film: dict[str, Any]) -> _Source:
    """An animated file or a film, by its content."""
    is_film = isinstance(source, str) and source.lower().endswith(_JPEGS_IN_ROW)
    if of_film["raw"] is None and not is_film:
        try:
            return _AnimatedFile(source, shown, of_film["damaged"])
        except FileError as error:
            if not isinstance(error.__cause__, PIL.UnidentifiedImageError):
                raise
    return Film(source, shown, start, **of_film)


def _open_pipe(pipe: str | BinaryIO, shown: str, of_film: dict[str, Any]) -> _Source:
    """A film that is read as it comes, or an animated file that has come whole."""
    data = FilmBytes(pipe, shown)
    if of_film["raw"] is None and (data.is_mov or _ANIMATED.match(data.head)):
        with contextlib.closing(data):
            return _open_file(files.read_rest(data, shown), shown, None, of_film)
    return Film(data, shown, None, **of_film)


def _no_frames(source: Any) -> InvalidArgument:
    return InvalidArgument(f"frames is {params.shown(source)}; allowed: an animated file, or pictures, at least one")


def _seconds(name: str, value: Any) -> Fraction | None:
    if value is None:
        return None
    return Fraction(params.real(name, value, 0, MOST_SECONDS)).limit_denominator(10**6)


def _size(size: Any, own: tuple[int, int]) -> tuple[int, int] | None:
    """Width and height that frames get; None where they keep their own."""
    if size is None:
        return None
    if isinstance(size, tuple | list):
        if len(size) != 2:
            raise InvalidArgument(f"size is {params.shown(size)}; allowed: a width, or (width, height)")
        width, height = (params.integer(f"size[{i}]", side, 1, MOST_SIDE) for i, side in enumerate(size))
    else:
        width = params.integer("size", size, 1, MOST_SIDE)
        height = max(round(Fraction(own[1] * width, own[0])), 1)
    if width * height > MAX_FILE_PIXELS:
        raise InvalidArgument(
            f"size is {params.shown(size)}: frames of {width}x{height}; allowed: up to {MAX_FILE_PIXELS} pixels in all"
        )
    return None if (width, height) == own else (width, height)


def resized(pixels: npt.NDArray[np.uint8], size: tuple[int, int] | None) -> npt.NDArray[np.uint8]:
    """Pixels in another size, by Pillow's Lanczos filter; colours under alpha count by it."""
    if size is None or pixels.shape[1::-1] == size:
        return pixels
    return np.asarray(PIL.Image.fromarray(pixels).resize(size, PIL.Image.Resampling.LANCZOS))
