"""Folders of compiled programs; PoCL and PyOpenCL made to work where nothing can be written there."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import pathlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import TypeVar

import pyopencl as cl

from clquant.runtime.program.pocl import takes_short_header

POCL_VARIABLE = "POCL_CACHE_DIR"
T = TypeVar("T")
_ROOM = 1 << 20  # bytes that PoCL's cache needs for a picture


def system_caches() -> pathlib.Path | None:
    """Return this user's folder of caches, which need not exist; None without a home folder."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(base).expanduser()
    except RuntimeError:
        return None


@functools.cache
def avoid_unwritable_caches() -> None:
    """Let PoCL and PyOpenCL do without the user's cache folder where that cannot be written.

    PoCL has no device then, and PyOpenCL makes no kernel. To be called before the first call into a driver. PoCL,
    unless `POCL_CACHE_DIR` says where, gets a folder of this process's own, which goes with it.
    """
    caches = system_caches()
    if caches is None or _can_write(caches):
        return
    if hasattr(cl, "_PYOPENCL_NO_CACHE"):
        cl._PYOPENCL_NO_CACHE = True  # what its variable of that name sets, before its module of kernels is loaded
    if not os.environ.get(POCL_VARIABLE):
        try:
            own = tempfile.mkdtemp(prefix="clquant-pocl-")
        except OSError:  # nothing can be written at all
            return
        os.environ[POCL_VARIABLE] = own
        atexit.register(_remove, own, os.getpid())


def with_any_cache(make: Callable[[], T]) -> T:
    """Call `make`, which makes kernels; again without PyOpenCL's cache if that is damaged."""
    try:
        return make()
    except cl.Error:
        raise
    except Exception:  # of the database that PyOpenCL keeps beside the driver's cache
        if getattr(cl, "_PYOPENCL_NO_CACHE", True):
            raise
        cl._PYOPENCL_NO_CACHE = True
        return make()


def damaged_cache(program: cl.Program, error: cl.Error) -> str:
    """Advise on a kernel missing from a damaged cache, for the end of a message; empty for other errors and drivers."""
    if getattr(error, "code", 0) != cl.status_code.INVALID_KERNEL_NAME or not any(
        map(takes_short_header, program.devices)
    ):
        return ""
    caches = system_caches()
    where = os.environ.get(POCL_VARIABLE) or (str(caches / "pocl") if caches is not None else "PoCL's cache")
    return f"; what PoCL keeps of the program is damaged: remove {where!r}, or set {POCL_VARIABLE} to another folder"


def _can_write(folder: pathlib.Path) -> bool:
    """Whether a folder, or the nearest one above it that is there, can be written."""
    there = folder
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        return False
    try:
        with tempfile.TemporaryFile(dir=there) as file:  # a full disk or quota shows in writing alone
            file.write(bytes(_ROOM))
    except OSError:
        return False
    return True


def read_regular(path: pathlib.Path, most: int, own: bool = False) -> bytes:
    """Read at most `most` bytes of a regular file; with `own` only one that no other user can have written."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if own and hasattr(os, "geteuid") and (found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022):
            raise OSError(errno.EPERM, "others may write to it")
        return file.read(most)


def write_whole(path: pathlib.Path, content: bytes) -> None:
    """Write a file of the cache whole or not at all; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
