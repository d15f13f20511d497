"""Films of strangers: the bytes of one file and nothing else, in formats that name no other file.

FFmpeg takes a name such as ``concat:a|b`` for an instruction, and playlists, scripts and patterns for films. So it gets
bytes, never a name; it may choose among `DEMUXERS` alone, and open nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from clquant.params import import_package
from clquant.runtime import FileError

# FFmpeg's names of formats whose films are whole in one file. Not hls, dash, concat, image2, imf, mlv, sdp, vobsub and
# others, which open what a file names.
DEMUXERS = (
    *("matroska", "avi", "flv", "live_flv", "ogg", "asf", "nut", "rm", "swf", "mxf", "gxf", "wtv", "nsv", "nuv"),
    *("mpegts", "mpeg", "mpegvideo", "m4v", "h261", "h263", "h264", "hevc", "vvc", "av1", "obu", "ivf", "vc1"),
    *("vc1test", "dv", "mjpeg", "yuv4mpegpipe"),
)
MOV = "mov"
_MOV_BOXES = frozenset(b"ftyp moov mdat free skip wide pnot styp uuid moof sidx prfl udta junk".split())
# Boxes that claim a number of samples, with the place of that number behind the name; heads that are packed.
_CLAIMS = {b"stsz": 12, b"stz2": 12, b"trun": 8}
_CLAIM, _PACKED = re.compile(b"|".join((*_CLAIMS, b"cmov"))), b"cmov"
_CLAIM_BYTES = 16
MOST_PIXELS = 16_000**2  # about what FFmpeg allows
RAW = "rawvideo"
_BORDER, _MOST_WITH_BORDER = 128, 1 << 28  # FFmpeg's own bound, which refuses long thin pictures too
_ALLOWED = "MP4, MOV, MKV, WebM, AVI, MPEG, FLV, OGG, ASF, RM, y4m and others that are whole in one file (SECURITY.md)"
_Y4M_HEAD = re.compile(rb"YUV4MPEG2(?= .*?W(\S+))(?= .*?H(\S+))")
_HEAD_BYTES = 256
_LEAST_VERSION = 18  # from which on colours are converted exactly
_BUFFER_BYTES = 1 << 16
_THREADS = 8


class FilmBytes:
    """A film's bytes as FFmpeg reads them: of a file or of memory from any place on, of a pipe in order.

    `head` has the first, `count` how many there are, or of a pipe how many were read.
    """

    def __init__(self, source: str | bytes | BinaryIO, shown: str) -> None:
        self._is_own = isinstance(source, str | bytes)
        try:
            if isinstance(source, str):
                source = open(source, "rb")  # noqa: SIM115 - closed by `close`
            self._file: BinaryIO = io.BytesIO(source) if isinstance(source, bytes) else source
            self.is_pipe = not (self._is_own and self._file.seekable())
            self.count = 0 if self.is_pipe else self._file.seek(0, os.SEEK_END)
            if not self.is_pipe:
                self._file.seek(0)
            self.head = self._unread = self._file.read(_HEAD_BYTES)
            if not self.is_pipe:
                self.seek(0)
        except OSError as error:
            raise FileError(f"cannot read {shown}: {error.strerror or error}") from error

    @property
    def is_mov(self) -> bool:
        """Whether it is a MOV or MP4, which FFmpeg is not asked about other films."""
        return self.head[4:8] in _MOV_BOXES

    def read(self, size: int) -> bytes:
        data = self._unread[:size] or self._file.read(size)
        self._unread = self._unread[size:]
        self.count += len(data) if self.is_pipe else 0
        return data

    def seekable(self) -> bool:
        return not self.is_pipe

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:  # FFmpeg looks for the last byte, which an empty file has not
            offset, whence = max(self.count + offset, 0), os.SEEK_SET
        self._unread = b""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self._is_own:
            self._file.close()


@contextlib.contextmanager
def open_container(source: str | bytes | FilmBytes, shown: str, raw: dict[str, str]) -> Iterator[tuple[Any, FilmBytes]]:
    """Open a container that has a video stream with a decoder; `raw` has the options of a film without a head."""
    av = import_av(shown)
    with contextlib.closing(source if isinstance(source, FilmBytes) else FilmBytes(source, shown)) as data:
        formats = RAW if raw else MOV if data.is_mov else ",".join(DEMUXERS)
        allowed = {"format_whitelist": formats, "protocol_whitelist": "none"}
        how = {"options": raw, "container_options": allowed, "buffer_size": _BUFFER_BYTES, "io_open": _refuse_to_open}
        if formats == MOV:
            _check_samples(data, shown)
        try:
            container = av.open(data, format=RAW if raw else None, **how)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            if isinstance(error, av.error.ArgumentError):
                error = ValueError("it is damaged, or of a format that is not read")
            raise _refusal(shown, data.head, error) from error
        with container:
            _check_streams(container, shown)
            yield container, data


def _refuse_to_open(*_: Any) -> Any:
    raise PermissionError("a film is one file")


def _check_samples(data: FilmBytes, shown: str) -> None:
    """Refuse a MOV that claims more samples than it has bytes: FFmpeg makes 70 bytes of each before it reads any."""
    place = samples = 0
    while place < data.count:
        data.seek(place)
        head = data.read(16)
        size = int.from_bytes(head[8:16] if head[:4] == b"\0\0\0\1" else head[:4], "big")
        end = place + size if size >= 8 else data.count
        if head[4:8] != b"mdat":
            for claim in _samples_claimed(data, place, min(end, data.count)):
                if claim is None:
                    raise FileError(f"cannot read {shown}: its head is packed (cmov); allowed: plain ones")
                samples += claim
        place = end
    if samples > data.count:
        raise FileError(f"cannot read {shown}: it claims {samples} frames in {data.count} bytes; allowed: one a byte")
    data.seek(0)


def _samples_claimed(data: FilmBytes, place: int, end: int) -> Iterator[int | None]:
    """Yield the numbers that boxes between two places claim, however they are nested; None for packed boxes."""
    data.seek(place)
    before = b""
    while place < end and (part := data.read(min(_BUFFER_BYTES, end - place))):
        place += len(part)
        part = before + part
        last = len(part) if place >= end else len(part) - _CLAIM_BYTES
        for found in _CLAIM.finditer(part, 0, max(last + 3, 0)):
            begin = found.start() + _CLAIMS.get(found[0], 0)
            yield None if found[0] == _PACKED else int.from_bytes(part[begin : begin + 4], "big")
        before = part[max(last, 0) :]


def _check_streams(container: Any, shown: str) -> None:
    """Refuse a container without a video stream that can be decoded."""
    if not container.streams.video:
        raise FileError(f"cannot read {shown}: it has no video stream")
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise FileError(f"cannot read {shown}: FFmpeg has no decoder for its video")
    check_size(stream.width, stream.height, shown)
    stream.thread_type = "AUTO"
    stream.codec_context.thread_count = min(_THREADS, os.cpu_count() or 1)


def check_size(width: int, height: int, shown: str) -> None:
    """Refuse frames that FFmpeg cannot hold."""
    if not fits(width, height):
        raise _too_large(width, height, shown)


def fits(width: int, height: int) -> bool:
    return 0 < width * height <= MOST_PIXELS and (width + _BORDER) * (height + _BORDER) < _MOST_WITH_BORDER


def _too_large(width: Any, height: Any, shown: str) -> FileError:
    return FileError(f"cannot read {shown}: it claims {width}x{height} pixels; allowed: 1 to {MOST_PIXELS} in all")


def _refusal(shown: str, head: bytes, error: Exception) -> FileError:
    """Why a film was not opened: a y4m's size, which FFmpeg has no word for, or FFmpeg's own reason."""
    claim = _Y4M_HEAD.match(head)
    width, height = (side.decode("ascii", "replace") for side in claim.groups()) if claim else ("1", "1")
    if not (width.isdigit() and height.isdigit() and fits(int(width), int(height))):
        return _too_large(width, height, shown)
    reason = getattr(error, "strerror", None) or error
    return FileError(f"cannot read {shown} as a picture or film: {reason}; allowed: {_ALLOWED}")


def import_av(shown: str) -> Any:
    """PyAV, or an error that says how to get it."""
    av = import_package("av", f"read {shown}: it is no picture, and films need PyAV", "pip install av")
    if int(av.__version__.partition(".")[0]) < _LEAST_VERSION:
        needed = f"it is no picture, and films need PyAV {_LEAST_VERSION} or later, for Python 3.11 or later"
        raise FileError(f"cannot read {shown}: {needed}; {av.__version__} is installed")
    return av
