"""Results that become files in parts: zarr and tiled TIFF, which appear under their names whole or not at all."""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import pickle
import queue
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import files, geo, lazy
from clquant.images.sinks import ArraySink, Sink
from clquant.params import shown
from clquant.runtime import FileError, InvalidArgument

CHUNK = 512
"""Side of a zarr's chunks, in pixels."""
TILE = 256
"""Side of a TIFF's tiles, in pixels."""
_PROGRESS = "clquant-progress.json"
# Of a TIFF's tiles that wait for the threads that compress them.
_TILES_BYTES = 1 << 24
_GDAL_NODATA = 42113


@dataclass(frozen=True)
class About:
    """What a file of results tells beside them.

    Attributes
    ----------
    colors : ndarray or None
        (n, 3 or 4) uint8: rows of palette indices are written as these colours.
    palette : ndarray or None
        (n, 3 or 4) uint8: what indices stand for.
    source : object
        The picture that the caller gave.
    resume : bool
        Whether the work of a job that was stopped is kept and gone on with.
    settings : mapping of str
        What else decides the result, as values that JSON has: a job that goes on must have the same.
    """

    colors: npt.NDArray[np.uint8] | None = None
    palette: npt.NDArray[np.uint8] | None = None
    source: Any = None
    resume: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def fingerprint(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
        """The job that makes a result, for the next one that would go on with it."""
        made: dict[str, Any] = json.loads(json.dumps({**self.settings, "shape": shape, "dtype": str(dtype)}))
        return made

    @property
    def transparent(self) -> int | None:
        """The palette's first entry of alpha 0."""
        if self.palette is None or self.palette.shape[1] == 3:
            return None
        found = np.flatnonzero(self.palette[:, 3] == 0)
        return int(found[0]) if len(found) else None


def digest_of(value: Any) -> str:
    """What stands for a value in the settings of a job; equal ones have the same.

    Parameters
    ----------
    value : object
        That `pickle` takes.
    """
    return hashlib.sha256(pickle.dumps(value, 4)).hexdigest()


@contextlib.contextmanager
def writing(out: Any, about: About) -> Iterator[Sink | None]:
    """A job's `out`: a file of it gets its name when the block ends, and none if the block raises.

    Parameters
    ----------
    out : None, path-like or object with ``shape`` and ``__setitem__``
        A path ends in ``.zarr``, ``.tif`` or ``.tiff``. What is there is replaced.
    about : About

    Yields
    ------
    Sink or None
        None for None.

    Raises
    ------
    InvalidType, InvalidArgument
        If `out` is neither, or `about.resume` does not go with it.
    FileError
        If the file cannot be written.
    """
    if not isinstance(out, str | os.PathLike):
        if about.resume:
            raise InvalidArgument("resume is given without a path as out; allowed: with out='….zarr'")
        yield None if out is None else out if isinstance(out, Sink) else ArraySink(out, about.colors)
        return
    sink = _file_sink(out, about)
    try:
        yield sink
        sink.finish()
    except BaseException:
        sink.discard()
        raise


def _file_sink(out: str | os.PathLike[str], about: About) -> FileSink:
    target = files.path_of(out, "out")
    suffix = target.suffix.lower()
    if isinstance(about.source, str | os.PathLike) and os.path.realpath(target) == os.path.realpath(about.source):
        raise InvalidArgument(f"out is {shown(str(target))}, the image itself; allowed: another path")
    if suffix == ".zarr":
        return ZarrSink(out, about)
    if suffix not in geo.SUFFIXES:
        raise InvalidArgument(f"out is {shown(str(target))}; allowed: an array, or a path that ends in .zarr or .tif")
    if about.resume:
        raise InvalidArgument(f"resume is given with {shown(str(target))}; allowed: with a path that ends in .zarr")
    place = geo.place_of(about.source)
    return TiffSink(out, about) if place is None else GeoTiffSink(out, about, place)


class FileSink(Sink):
    """A file of results: rows are kept until they are whole rows of tiles.

    Parameters
    ----------
    out : path-like
    about : About
    """

    block_rows: int = 1

    def __init__(self, out: str | os.PathLike[str], about: About) -> None:
        super().__init__(out, about.colors)
        self.about = about
        self.path = pathlib.Path(os.path.realpath(files.path_of(out, "out")))
        part = "part" if about.resume else f"{os.urandom(8).hex()}.part"
        self.part = self.path.parent / f".{self.path.name[:40]}.{part}"
        self.shape: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: list[npt.NDArray[Any]] = []
        self._next = 0

    def _open(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if not self.path.parent.is_dir():
            raise FileError(f"cannot write {str(self.path)!r}: there is no folder {str(self.path.parent)!r}")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise FileError(f"cannot write {str(self.path)!r}: it is read-only")
        self.shape = shape
        with self._errors():
            self.begin(shape, dtype)

    def _write(self, begin: int, end: int, rows: npt.NDArray[Any]) -> None:  # noqa: ARG002
        with self._lock, self._errors():
            if self._closed:
                return
            self._waiting.append(rows)
            first = end - sum(len(part) for part in self._waiting)
            last = end if end == self.shape[0] else end // self.block_rows * self.block_rows
            if last <= first:
                return
            held = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
            self._waiting = [held[last - first :].copy()] if last < end else []
            self.put(first, held[: last - first])

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (FileError, InvalidArgument):
            raise
        except Exception as error:  # storage fails in many ways
            raise FileError(f"cannot write {str(self.path)!r}: {error}") from error

    def finish(self) -> None:
        """Give the file its name."""
        with self._lock, self._errors():
            self._closed = True
            self.close()
            os.replace(self.part, self.path)

    def discard(self) -> None:
        """Leave nothing behind."""
        with self._lock:
            self._closed = True
            with contextlib.suppress(Exception):
                self.abandon()
            with contextlib.suppress(OSError):
                os.unlink(self.part)

    @abc.abstractmethod
    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Make `part`."""

    @abc.abstractmethod
    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """Write whole rows of tiles, or the last rows."""

    @abc.abstractmethod
    def close(self) -> None:
        """Write what is left of the file that all rows are in."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Stop writing."""


class ZarrSink(FileSink):
    """A zarr array, with the palette among its attributes.

    Parameters
    ----------
    out, about
        As `FileSink`.
    """

    block_rows = CHUNK

    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """As `FileSink.begin`; of a job to go on with, it is there."""
        if self.path.is_file() or (self.path.is_dir() and any(self.path.iterdir()) and not lazy.is_store(self.path)):
            raise FileError(f"cannot write {str(self.path)!r}: it is there, and no zarr")
        self._job = self.about.fingerprint(shape, dtype)
        self._done = self._earlier() if self.about.resume else 0
        zarr = lazy.zarr_module(f"write {str(self.path)!r}")
        if self._done:
            self._array = zarr.open(str(self.part), mode="r+")
            return
        shutil.rmtree(self.part, ignore_errors=True)
        chunks = (min(CHUNK, shape[0]), min(CHUNK, shape[1]), *shape[2:])
        self._array = zarr.open(str(self.part), mode="w", shape=shape, chunks=chunks, dtype=dtype)
        if self.about.palette is not None:
            self._array.attrs["palette"] = ["#" + bytes(color).hex() for color in self.about.palette]

    def _earlier(self) -> int:
        """Rows that a job that was stopped has written.

        Raises
        ------
        InvalidArgument
            If that was another job.
        """
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
        """As `Sink.has`."""
        return row1 <= self._done

    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """As `FileSink.put`."""
        end = begin + len(rows)
        if begin < self._done:
            begin, rows = min(self._done, end), rows[self._done - begin :]
        if begin == end:
            return
        self._array[begin:end] = rows
        if self.about.resume:
            files.write_bytes(self.part / _PROGRESS, json.dumps({"job": self._job, "rows": end}).encode())

    def close(self) -> None:
        """As `FileSink.close`."""
        with contextlib.suppress(FileNotFoundError):
            (self.part / _PROGRESS).unlink()

    def finish(self) -> None:
        """As `FileSink.finish`: a folder is put aside before another takes its name."""
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
        """As `FileSink.abandon`; what a job can go on with stays."""
        if not self.about.resume:
            shutil.rmtree(self.part, ignore_errors=True)


class TiffSink(FileSink):
    """A TIFF in tiles, with a colour map of a palette; a thread writes it.

    Parameters
    ----------
    out, about
        As `FileSink`.
    """

    block_rows = TILE

    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """As `FileSink.begin`."""
        _check_opaque(self.about)
        try:
            import tifffile  # an extra
        except ImportError as error:
            raise FileError(
                f"cannot write {str(self.path)!r}: tifffile is not installed (pip install clquant[large])"
            ) from error
        self._rows: queue.Queue[npt.NDArray[Any] | None] = queue.Queue(1)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "clquant-tiff")
        self._written = self._thread.submit(self._run, tifffile, shape, dtype)

    def _run(self, tifffile: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        large = int(np.prod(shape)) * dtype.itemsize > 1 << 31
        with tifffile.TiffWriter(str(self.part), bigtiff=large) as file:
            file.write(
                self._tiles(shape),
                shape=shape,
                dtype=dtype,
                tile=(TILE, TILE),
                compression="zlib",
                compressionargs={"level": geo.DEFLATE_LEVEL},
                metadata=None,
                software="clquant",
                maxworkers=os.cpu_count() or 1,
                buffersize=_TILES_BYTES,
                **self._tags(shape, dtype),
            )

    def _tags(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
        if len(shape) == 3:
            alpha: dict[str, Any] = {"extrasamples": ["unassalpha"]} if shape[2] == 4 else {}
            return {"photometric": "rgb", **alpha}
        if self.about.palette is None:
            return {"photometric": "minisblack"}
        entries = np.zeros((3, 1 << 8 * dtype.itemsize), np.uint16)
        entries[:, : len(self.about.palette)] = self.about.palette[:, :3].T.astype(np.uint16) * 257
        clear = self.about.transparent
        tags = [] if clear is None else [(_GDAL_NODATA, 2, 0, str(clear), True)]
        return {"photometric": "palette", "colormap": entries, "extratags": tags}

    def _tiles(self, shape: tuple[int, ...]) -> Iterator[npt.NDArray[Any]]:
        left = shape[0]
        while left > 0:
            rows = self._rows.get()
            if rows is None:
                raise FileError("stopped")
            left -= len(rows)
            for row in range(0, len(rows), TILE):
                for column in range(0, shape[1], TILE):
                    yield np.ascontiguousarray(rows[row : row + TILE, column : column + TILE])

    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:  # noqa: ARG002
        """As `FileSink.put`."""
        self._hand_over(rows)

    def _hand_over(self, rows: npt.NDArray[Any] | None) -> None:
        """Wait until the thread takes rows, or has failed."""
        while True:
            if self._written.done():
                self._written.result()
                return
            with contextlib.suppress(queue.Full):
                self._rows.put(rows, timeout=0.1)
                return

    def close(self) -> None:
        """As `FileSink.close`."""
        self._written.result()
        self._thread.shutdown()

    def abandon(self) -> None:
        """As `FileSink.abandon`."""
        if hasattr(self, "_thread"):
            self._hand_over(None)
            self._thread.shutdown()


class GeoTiffSink(FileSink):
    """A GeoTIFF where its source lies, with a colour table of a palette.

    Parameters
    ----------
    out, about
        As `FileSink`.
    place : clquant.images.geo.Place
        Where its source lies.
    """

    block_rows = geo.BLOCK

    def __init__(self, out: str | os.PathLike[str], about: About, place: geo.Place) -> None:
        super().__init__(out, about)
        self._place = place
        self._writer: geo.Writer | None = None

    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """As `FileSink.begin`."""
        _check_opaque(self.about)
        self._writer = geo.Writer(str(self.part), shape, dtype, self._place, self.about.palette, self.about.transparent)

    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """As `FileSink.put`."""
        assert self._writer is not None
        self._writer.write(begin, rows)

    def close(self) -> None:
        """As `FileSink.close`: overviews are made of what is written."""
        assert self._writer is not None
        self._writer.close()

    def abandon(self) -> None:
        """As `FileSink.abandon`."""
        if self._writer is not None:
            self._writer.abandon()


def _check_opaque(about: About) -> None:
    if about.palette is not None and about.palette.shape[1] == 4:
        partly = (about.palette[:, 3] > 0) & (about.palette[:, 3] < 255)
        if partly.any():
            raise InvalidArgument(
                f"out is a TIFF, whose colour map has no alpha, and entry {int(partly.argmax())} of the palette is "
                "partly transparent; allowed: alpha 0 and 255, or a path that ends in .zarr"
            )
