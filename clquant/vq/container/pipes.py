"""Binary files and pipes that people hold: read and written whole, or with one error that says what is wrong."""

from __future__ import annotations

import contextlib
import io
import numbers
import os
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from clquant.images import files
from clquant.params import shown
from clquant.runtime import ClquantError, FileError, FormatError, InvalidArgument, InvalidType, NotFittedError

_PART = 1 << 20


class Source(Protocol):
    """A binary file or pipe to read."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class Sink(Protocol):
    """A binary file or pipe to write."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`, or say how many bytes were taken."""


def write_all(sink: Sink, data: bytes) -> None:
    """Write all bytes, in several calls where the sink takes a part only, as raw pipes do."""
    left = memoryview(data)
    while left:
        with _plain_errors(sink, "write", "writing"):
            taken = sink.write(data if len(left) == len(data) else bytes(left[:_PART]))
        if taken is None and isinstance(sink, io.RawIOBase):
            taken = 0  # so says a raw file that would have to wait
        if isinstance(taken, bool) or not isinstance(taken, numbers.Integral):
            return  # simple sinks take all and say nothing of it
        if taken <= 0:
            raise FileError(f"cannot write {shown(sink)}: it takes no more bytes")
        left = left[int(taken) :]


def read_up_to(source: Source, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end."""
    pieces: list[bytes | bytearray | memoryview] = []
    while size > 0:
        with _plain_errors(source, "read", "reading"):
            piece = source.read(min(size, _PART))
        if piece is None:
            raise FileError(f"cannot read {shown(source)}: it has no bytes yet and does not wait for them")
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise InvalidType(
                f"file is {shown(source)}, which gives {type(piece).__name__}; allowed: a binary file open for reading"
            )
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def opened(path: files.PathLike) -> Iterator[BinaryIO]:
    """Open a file to be read; errors begin with its path."""
    name = os.fspath(files.path_of(path))
    try:
        with open(name, "rb") as file:
            yield file
    except OSError as error:
        raise FileError(f"cannot read {name!r}: {error.strerror or error}") from error
    except (FormatError, NotFittedError, InvalidArgument) as error:
        error.args = (f"{name!r}: {error}", *error.args[1:])
        raise


@contextlib.contextmanager
def _plain_errors(file: object, verb: str, doing: str) -> Iterator[None]:
    """Say by one error what a person's file cannot do."""
    try:
        yield
    except ClquantError:
        raise
    except (TypeError, UnicodeError) as error:  # a text file may fail to decode the bytes
        raise InvalidType(f"file is {shown(file)}; allowed: a binary file open for {doing}: {error}") from error
    except (OSError, ValueError) as error:
        unable = isinstance(error, io.UnsupportedOperation)
        reason = "it is not open for that" if unable else getattr(error, "strerror", None) or str(error)
        raise FileError(f"cannot {verb} {shown(file)}: {reason}") from error
