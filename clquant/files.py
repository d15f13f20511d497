"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator
from typing import BinaryIO

from clquant.runtime import FileError, InvalidType

PathLike = str | os.PathLike[str]


def path_of(value: object, name: str = "path") -> pathlib.Path:
    """A path from what a person gave.

    Raises
    ------
    InvalidType
        If it is no path.
    """
    if not isinstance(value, str | os.PathLike):
        raise InvalidType(f"{name} is a {type(value).__name__}; allowed: a path")
    return pathlib.Path(os.fspath(value))


@contextlib.contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that appears under `path` whole when the block ends, or not at all if it raises.

    The bytes go to a hidden file beside it first, so a killed process leaves the old file as it was.

    Parameters
    ----------
    path : path-like
        An existing file is replaced; its permissions are kept.

    Raises
    ------
    FileError
        If the folder does not exist or cannot be written, or the disk is full.
    """
    target = path_of(path)
    if target.is_dir():
        raise FileError(f"cannot write {str(target)!r}: it is a folder")
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}.part"
    try:
        # Made with the permissions that the process gives new files: asking for its umask would change it for a moment.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise FileError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


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
        with open(source, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise FileError(f"cannot read {str(source)!r}: {error.strerror or error}") from error
    if len(data) > limit:
        raise FileError(f"cannot read {str(source)!r}: it is longer than {limit} bytes")
    return data
