"""Opening picture files that may come from anybody: which formats are read, and what is refused before there is work.

Pillow takes the format from a file's content, whatever its name says, and some of its readers start programs
(Ghostscript for EPS) or were never meant for files of strangers. So only `FORMATS` are read; others must be named, in
the environment variable `CLQUANT_FORMATS` or with `allow_formats`.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
import stat
import struct
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import PIL.Image

from clquant.images.files import read_bytes
from clquant.images.guards.decoder_work import check_work
from clquant.images.guards.metadata_work import check_head
from clquant.images.tiff.substitutes import substitute
from clquant.params import reason_of, shown
from clquant.runtime import ClquantError, FileError, InvalidArgument, InvalidType

FORMATS = (
    "AVIF",
    "BMP",
    "DIB",
    "GIF",
    "ICO",
    "JPEG",
    "JPEG2000",
    "MPO",
    "PCX",
    "PNG",
    "PPM",
    "QOI",
    "SGI",
    "TGA",
    "TIFF",
    "WEBP",
)
_ORIENTATION = 0x0112  # EXIF's tag, also TIFF's; from 5 on rows are columns
_FILM = "MPEG"  # Pillow knows the name alone
FORMATS_VARIABLE = "CLQUANT_FORMATS"

MAX_FILE_PIXELS = 1 << 29  # 23170 x 23170; a file that claims more is refused before it is decoded
# The default of `PIL.Image.MAX_IMAGE_PIXELS`; Pillow refuses pictures of more than twice this number.
PILLOWS_OWN_LIMIT = 1024 * 1024 * 1024 // 4 // 3

# GIF, PNG and TIFF make at most some 8000 pixels of a byte (deflate: 1032 bytes, eight pixels each at one bit). The
# formats named have no such bound, nor has TIFF's one-bit fax coding, which spends a bit on a blank row of any length.
MAX_PIXELS_PER_BYTE = 1 << 14
BOUNDLESS_FORMATS = {"AVIF", "JPEG2000", "WEBP"}

_WEBP_HEAD_BYTES, _WEBP_FLAGS = 30, 20
_WEBP_ANIMATED, _WEBP_ALPHA, _WEBP_CLEARS = 0x02, 0x10, 0x01

_named: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("clquant_formats", default=())


@contextlib.contextmanager
def allow_formats(*names: str) -> Iterator[None]:
    """Within the block, this thread reads files of these formats too.

    Parameters
    ----------
    *names : str
        As Pillow names its formats, in any case: ``"PSD"``, ``"DDS"``. With ``"EPS"`` Pillow starts Ghostscript on the
        file; ``"IPTC"`` may hold a file of any format, EPS too.

    Raises
    ------
    InvalidType, InvalidArgument
        If a name is no text, or no format that this Pillow reads.
    """
    for name in names:
        if not isinstance(name, str):
            raise InvalidType(f"names holds a {type(name).__name__}; allowed: names of formats such as 'PSD'")
    token = _named.set((*_named.get(), *_checked(names, f"names holds {shown(names)}")))
    try:
        yield
    finally:
        _named.reset(token)


def allowed_formats() -> tuple[str, ...]:
    """The formats that are read now: `FORMATS`, those of `CLQUANT_FORMATS`, and those of `allow_formats`."""
    given = os.environ.get(FORMATS_VARIABLE, "")
    further = [name for name in (part.strip() for part in given.split(",")) if name]
    return (*FORMATS, *_checked(further, f"{FORMATS_VARIABLE} is {shown(given)}"), *_named.get())


def _checked(names: list[str] | tuple[str, ...], what: str) -> list[str]:
    """Names of formats as Pillow spells them."""
    spelled = [name.strip().upper() for name in names]
    if any(name not in PIL.Image.OPEN for name in spelled):
        PIL.Image.init()
    for name in spelled:
        if name not in PIL.Image.OPEN:
            allowed = ", ".join(sorted(PIL.Image.OPEN))
            raise InvalidArgument(f"{what}, but {name!r} is no format that this Pillow reads; allowed: {allowed}")
    return spelled


class _PillowLimit:
    """Pillow's own bound on pixels, a variable of the whole process, raised while a picture needs that.

    It is raised only where it is what Pillow comes with: what an application chose holds here too.
    """

    RAISED = MAX_FILE_PIXELS // 2  # Pillow refuses above twice this number

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def most_pixels(self) -> int:
        """The pixels beyond which a file is refused."""
        chosen = PIL.Image.MAX_IMAGE_PIXELS
        if chosen is None or chosen in (PILLOWS_OWN_LIMIT, self.RAISED):
            return MAX_FILE_PIXELS
        return min(MAX_FILE_PIXELS, 2 * chosen)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Let Pillow read up to `MAX_FILE_PIXELS` pixels inside the block, unless the application chose a bound."""
        with self._lock:
            mine = PIL.Image.MAX_IMAGE_PIXELS in (PILLOWS_OWN_LIMIT, self.RAISED)
            if mine:
                self._users += 1
                PIL.Image.MAX_IMAGE_PIXELS = self.RAISED
        try:
            yield
        finally:
            with self._lock:
                self._users -= mine
                if mine and not self._users and PIL.Image.MAX_IMAGE_PIXELS == self.RAISED:
                    PIL.Image.MAX_IMAGE_PIXELS = PILLOWS_OWN_LIMIT


_limit = _PillowLimit()


@contextlib.contextmanager
def opened(source: str | bytes, argument: str) -> Iterator[tuple[PIL.Image.Image, int]]:
    """Open a picture whose size its bytes can hold, with the number of these; decoders' errors are `FileError`."""
    what = argument if isinstance(source, bytes) else repr(source)
    cannot = (
        f"cannot read {what}" if argument == what or argument == shown(source) else f"{argument}: cannot read {what}"
    )
    try:
        # A pipe can be read once only, and says nothing of its length.
        if isinstance(source, str) and _is_pipe(source):
            source = read_bytes(source)
        nbytes = len(source) if isinstance(source, bytes) else os.path.getsize(source)
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            check_head(file, nbytes)
        if {"PPM", "TIFF"} <= set(allowed_formats()):
            with _without_warnings(), _limit.raised():
                found = substitute(source, _limit.most_pixels(), MAX_PIXELS_PER_BYTE)
            if found is not None:
                source, nbytes = found, len(found)
        with contextlib.ExitStack() as stack:
            image: Any = stack.enter_context(_open(source))
            if image.format == "WEBP" and image.mode == "RGB" and (found := _with_alpha_flag(source)) is not None:
                image = stack.enter_context(_open(found))
            if image.format == "TIFF" and (image.tag_v2.get(_ORIENTATION, 1) > 4 or image.tag_v2.next):
                image.filename = ""  # else Pillow maps pixels without compression, of turned pages by the wrong sides
            check_claim(image, nbytes)
            if image.width * image.height > PILLOWS_OWN_LIMIT:  # its frames and tiles are checked again
                stack.enter_context(_without_warnings())
                stack.enter_context(_limit.raised())
            yield image, nbytes
    except ClquantError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{cannot}: there is no such file") from error
    except PIL.UnidentifiedImageError as error:
        raise FileError(f"{cannot}: not a picture in a format that Pillow knows") from error
    except PIL.Image.DecompressionBombError as error:
        raise FileError(f"{cannot}: more than {_limit.most_pixels()} pixels") from error
    except MemoryError as error:
        raise FileError(f"{cannot}: it needs more memory than there is") from error
    except Exception as error:  # decoders raise all kinds on damaged files
        raise FileError(f"{cannot}: {reason_of(error)}") from error


def _with_alpha_flag(source: str | bytes) -> bytes | None:
    """The bytes of an animated WebP with the flag of alpha, if its frames leave out or clear a part; else None.

    Without the flag Pillow shows black there, and players nothing.
    """
    with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
        data = bytearray(file.read(_WEBP_HEAD_BYTES))
        if data[12:16] != b"VP8X" or not data[_WEBP_FLAGS] & _WEBP_ANIMATED:
            return None
        data += file.read()
    whole, at, is_first = bytes(6) + data[24:30], _WEBP_HEAD_BYTES, True
    while at + 24 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        if kind == b"ANMF":
            if (is_first and data[at + 8 : at + 20] != whole) or data[at + 23] & _WEBP_CLEARS:
                data[_WEBP_FLAGS] |= _WEBP_ALPHA
                return bytes(data)
            is_first = False
        at += 8 + size + size % 2
    return None


def check_claim(image: PIL.Image.Image, nbytes: int) -> None:
    """Refuse a claimed size before its pixels are made: too many, or more than `nbytes` bytes can hold."""
    pixels = image.width * image.height
    if pixels > _limit.most_pixels():
        raise PIL.Image.DecompressionBombError
    boundless = image.format in BOUNDLESS_FORMATS or (image.format == "TIFF" and image.mode == "1")
    if not boundless and pixels > MAX_PIXELS_PER_BYTE * nbytes:
        raise ValueError(f"it claims {image.width} x {image.height} pixels, more than its {nbytes} bytes can hold")
    check_work(image, nbytes)


def _is_pipe(path: str) -> bool:
    kind = os.stat(path).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _open(source: str | bytes) -> PIL.Image.Image:
    """Open a file under Pillow's bound on pixels, and under this library's own only if that is too low."""
    names = allowed_formats()
    with _without_warnings():
        try:
            return _identified(source, names)
        except PIL.Image.DecompressionBombError:
            with _limit.raised():
                return _identified(source, names)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence what Pillow says in passing, but not what it says of a bound that the application chose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if _limit.most_pixels() == MAX_FILE_PIXELS:
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
        yield


def _identified(source: str | bytes, names: tuple[str, ...]) -> PIL.Image.Image:
    """The picture of a file in one of these formats; Pillow's rarer readers are imported if its usual ones fail."""
    PIL.Image.preinit()
    usual = [name for name in names if name in PIL.Image.OPEN]
    try:
        return PIL.Image.open(_stream(source), formats=usual)
    except PIL.UnidentifiedImageError as error:
        PIL.Image.init()
        rarer = [name for name in names if name in PIL.Image.OPEN and name not in usual]
        with contextlib.suppress(PIL.UnidentifiedImageError):
            return PIL.Image.open(_stream(source), formats=rarer)
        refused = _refused_format(source, names)
        if refused is None:
            raise
        allowed = f"{', '.join(names)}, and {refused} with {FORMATS_VARIABLE}={refused}"
        raise ValueError(f"it is of the format {refused}; allowed: {allowed}") from error


def _stream(source: str | bytes) -> str | io.BytesIO:
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _refused_format(source: str | bytes, names: tuple[str, ...]) -> str | None:
    """The format that a file's first bytes are the mark of, if it is one that is not allowed."""
    if isinstance(source, bytes):
        prefix = source[:16]
    else:
        with open(source, "rb") as file:
            prefix = file.read(16)
    for name in PIL.Image.ID:
        accept = PIL.Image.OPEN[name][1]
        with contextlib.suppress(Exception):  # of a prefix that is too short, for instance
            if name not in (*names, _FILM) and accept is not None and accept(prefix) is True:
                return name
    return None
