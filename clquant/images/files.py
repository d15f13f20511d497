"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator
from typing import BinaryIO

from clquant import params
from clquant.runtime import FileError, InvalidArgument, InvalidType

PathLike = str | os.PathLike[str]

_PART = 1 << 24


def path_of(value: object, name: str = "path") -> pathlib.Path:
    """A path from what a person gave.

    Raises
    ------
    InvalidType, InvalidArgument
        If it is no path, or one that no file of this system can have.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidType(f"{name} is a {type(value).__name__}; allowed: a path")
    try:
        named = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise InvalidArgument(f"{name} is {params.shown(text)}; allowed: a path that this system can name")
    return pathlib.Path(text)


@contextlib.contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that appears under `path` whole when the block ends, or not at all if it raises.

    The bytes go to a hidden file beside it first, so a killed process leaves the old file as it was.

    Parameters
    ----------
    path : path-like
        An existing file is replaced; its permissions are kept. A link stays, and the file that it names is replaced. A
        device or a pipe stays what it is and is written to.

    Raises
    ------
    FileError
        If the folder does not exist or cannot be written, or the disk is full.
    """
    target = path_of(path)
    if os.path.isdir(target):  # `Path.is_dir` raises where a name is too long
        raise FileError(f"cannot write {str(target)!r}: it is a folder")
    with _file_errors(target):
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as stream:
                yield stream
            return
        target = pathlib.Path(os.path.realpath(target)) if target.is_symlink() else target
        temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}.part"
        # Made with the permissions that the process gives new files: asking for its umask would change it for a moment.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, target.stat().st_mode & 0o777)
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


@contextlib.contextmanager
def _file_errors(target: pathlib.Path) -> Iterator[None]:
    """Make `FileError` of the system's errors in writing a file."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write a whole file (see `atomic_write`)."""
    with atomic_write(path) as file:
        file.write(data)


def read_bytes(path: PathLike, limit: int = 1 << 31) -> bytes:
    """A whole file's bytes.

    Parameters
    ----------
    path : path-like
    limit : int
        Most bytes that are read.

    Raises
    ------
    FileError
        If it cannot be read, or is longer than `limit`.
    """
    source = path_of(path)
    try:
        parts: list[bytes] = []
        size = 0
        with open(source, "rb") as file:
            # Part by part: read(n) asks for n bytes of memory, however long the file is.
            while size <= limit and (part := file.read(min(_PART, limit + 1 - size))):
                parts.append(part)
                size += len(part)
        data = b"".join(parts)
    except OSError as error:
        raise FileError(f"cannot read {str(source)!r}: {error.strerror or error}") from error
    if len(data) > limit:
        raise FileError(f"cannot read {str(source)!r}: it is longer than {limit} bytes")
    return data
