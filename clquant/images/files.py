"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from clquant import params
from clquant.runtime import FileError, InvalidArgument, InvalidType

PathLike = str | os.PathLike[str]

MOST_BYTES = 1 << 31
_PART = 1 << 24
_OWN_HANDLES = "/proc/self/fd"


class SupportsRead(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes: ...


def path_of(value: object, name: str = "path") -> pathlib.Path:
    """Check a path that a person gave."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidType(f"{name} is {params.shown(value)}; allowed: a path")
    try:
        named = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise InvalidArgument(f"{name} is {params.shown(text)}; allowed: a path that this system can name")
    return pathlib.Path(text)


@contextlib.contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that appears under `path` whole when the block ends, or not at all if it raises.

    The bytes go to a file without a name, which a killed process takes with it; to a hidden one beside the target where
    the file system has no such files. A replaced file keeps its permissions, and its owner as far as the process may
    give files away; a link stays, and so does a device or a pipe.
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
        before = _replaced(target)
        temporary = target.parent / f".{target.name[:40]}.{os.urandom(8).hex()}.part"
        handle, named = _new_file(temporary, 0o666 if before is None else stat.S_IMODE(before.st_mode) & 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if before is not None:
                    _give(file.fileno(), temporary, before)
                os.fsync(file.fileno())
                if not named:
                    _name(file.fileno(), temporary)
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _replaced(target: pathlib.Path) -> os.stat_result | None:
    """Return the status of a file to be replaced, None if there is none; refuse one that is read-only."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    if not found.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise FileError(f"cannot write {str(target)!r}: it is read-only")
    return found


def _new_file(path: pathlib.Path, mode: int) -> tuple[int, bool]:
    """A new file to write to, and whether it has a name, which is `path`; no more readable than `mode` says."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed is not None and os.path.isdir(_OWN_HANDLES):
        with contextlib.suppress(OSError):  # file systems without them, each with an error of its own
            return os.open(path.parent, os.O_WRONLY | unnamed, mode), False
    # The umask takes effect here as ever: asking for it would change it for a moment.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode), True


def _name(handle: int, path: pathlib.Path) -> None:
    """Give a file that has no name one."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # Only with a folder's handle does Python make the call that follows the link in /proc.
        os.link(f"{_OWN_HANDLES}/{handle}", path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _give(handle: int, path: pathlib.Path, before: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of the one that it replaces."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    if not hasattr(os, "fchown"):
        os.chmod(path, mode)
        return
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(handle, before.st_uid, before.st_gid)
        except OSError:
            try:
                os.fchown(handle, -1, before.st_gid)
            except OSError:  # then the group is another one, which may do what everybody may
                mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


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


def read_bytes(path: PathLike, limit: int = MOST_BYTES) -> bytes:
    """Read a whole file of at most `limit` bytes."""
    source = path_of(path)
    try:
        with open(source, "rb") as file:
            return read_rest(file, repr(str(source)), limit)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {str(source)!r}: {error.strerror or error}") from error


def read_rest(file: SupportsRead, shown: str, limit: int = MOST_BYTES) -> bytes:
    """Read an open file from where it stands, at most `limit` bytes."""
    data = bytearray()
    try:
        # Part by part: read(n) asks for n bytes of memory, however long the file is.
        while len(data) <= limit and (part := file.read(min(_PART, limit + 1 - len(data)))):
            data += part
    except OSError as error:
        raise FileError(f"cannot read {shown}: {error.strerror or error}") from error
    if len(data) > limit:
        raise FileError(f"cannot read {shown}: it is longer than {limit} bytes")
    return bytes(data)
