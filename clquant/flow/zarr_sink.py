"""Results that become a zarr array, of which a job that was stopped can write the rest."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.flow.file_sinks import FileSink
from clquant.images import files, stores
from clquant.runtime import FileError, InvalidArgument

CHUNK = 512
"""Side of a zarr's chunks, in pixels."""
_PROGRESS = "clquant-progress.json"


class ZarrSink(FileSink):
    """Write a zarr array, with the palette among its attributes."""

    block_rows = CHUNK

    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Create the array under its temporary name, or open that of a job to go on with."""
        if self.path.is_file() or (self.path.is_dir() and any(self.path.iterdir()) and not stores.is_store(self.path)):
            raise FileError(f"cannot write {str(self.path)!r}: it exists and is no zarr")
        self._job = self.about.fingerprint(shape, dtype)
        self._done = self._earlier() if self.about.resume else 0
        zarr = stores.zarr_module(f"write {str(self.path)!r}")
        if self._done:
            self._array = zarr.open(str(self.part), mode="r+")
            return
        shutil.rmtree(self.part, ignore_errors=True)
        chunks = (min(CHUNK, shape[0]), min(CHUNK, shape[1]), *shape[2:])
        self._array = zarr.open(str(self.part), mode="w", shape=shape, chunks=chunks, dtype=dtype)
        if self.about.palette is not None:
            self._array.attrs["palette"] = ["#" + bytes(color).hex() for color in self.about.palette]

    def _earlier(self) -> int:
        """Return how many rows an earlier, stopped job has written."""
        try:
            found = json.loads((self.part / _PROGRESS).read_text())
        except (OSError, ValueError):
            return 0
        if found["job"] != self._job:
            raise InvalidArgument(
                f"resume is given, but the job that began {str(self.path)!r} had another picture, palette or other "
                "arguments; allowed: the same ones, or resume=False"
            )
        return int(found["rows"])

    def has(self, row1: int) -> bool:
        """Return whether it holds all rows before `row1` from an earlier job."""
        return row1 <= self._done

    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """Write whole blocks of rows."""
        end = begin + len(rows)
        if begin < self._done:
            begin, rows = min(self._done, end), rows[self._done - begin :]
        if begin == end:
            return
        with stores.whole_calls():
            self._array[begin:end] = rows
        if self.about.resume:
            files.write_bytes(self.part / _PROGRESS, json.dumps({"job": self._job, "rows": end}).encode())

    def close(self) -> None:
        """Complete the file, still under its temporary name."""
        with contextlib.suppress(FileNotFoundError):
            (self.part / _PROGRESS).unlink()

    def finish(self) -> None:
        """Give the array its name; a folder that has it is put aside first."""
        aside = self.path.parent / f".{self.path.name[:40]}.{os.urandom(8).hex()}.old"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, aside)
        try:
            super().finish()
        except BaseException:
            with contextlib.suppress(OSError):
                os.rename(aside, self.path)
            raise
        shutil.rmtree(aside, ignore_errors=True)

    def abandon(self) -> None:
        """Stop writing; what a job can go on with stays."""
        if not self.about.resume:
            shutil.rmtree(self.part, ignore_errors=True)
