"""Items that can be read again, with few of them in memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from clquant.params import reason_of
from clquant.runtime import FileError

T = TypeVar("T")


class TemporaryFile(tempfile.SpooledTemporaryFile[bytes]):
    """A file without a name, in memory up to a size; a `FileError` says where there is no room for it."""

    def write(self, data: Any) -> int:
        """Write bytes."""
        with _temporary_errors():
            return super().write(data)

    def seek(self, *place: int) -> int:
        """Go to a place, for which what was written goes to the disk."""
        with _temporary_errors():
            return super().seek(*place)

    def close(self) -> None:
        """Forget the file, and what could not be written of it."""
        with contextlib.suppress(OSError):
            super().close()


@contextlib.contextmanager
def _temporary_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        folder = os.environ.get("TMPDIR", "the folder of temporary files")
        raise FileError(f"cannot write a temporary file to {folder}: {reason_of(error)} (TMPDIR names it)") from error


class Spool(Generic[T]):
    """Items in a file without a name, packed unless they are small, which are read any number of times."""

    def __init__(self, items: Iterable[T] = (), packs: bool = True) -> None:
        self._file = TemporaryFile(1)  # closed when the spool goes
        weakref.finalize(self, self._file.close)
        self._packs, self.expected, self.nbytes = packs, 0, 0
        for item in items:
            self.add(item)

    def add(self, item: T) -> None:
        """Write another item."""
        self._file.seek(self.nbytes)
        data = zlib.compress(pickle.dumps(item), 1) if self._packs else item
        pickle.dump(data, self._file, pickle.HIGHEST_PROTOCOL)
        self.nbytes = self._file.tell()
        self.expected += 1

    def __iter__(self) -> Iterator[T]:
        at = 0
        for _ in range(self.expected):
            self._file.seek(at)
            data = pickle.load(self._file)
            at = self._file.tell()
            yield pickle.loads(zlib.decompress(data)) if self._packs else data
