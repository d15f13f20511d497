"""Results that become a TIFF in tiles, or a GeoTIFF where their source lies."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.flow.file_sinks import About, FileSink
from clquant.images.tiff import geo, geo_files
from clquant.params import import_package
from clquant.runtime import FileError, InvalidArgument

TILE = 256
"""Side of a TIFF's tiles, in pixels."""
# Bytes of the tiles that wait for the threads that compress them.
_TILES_BYTES = 1 << 24
_GDAL_NODATA = 42113


class TiffSink(FileSink):
    """Write a TIFF in tiles, with a palette as its colour map, in a thread."""

    block_rows = TILE

    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Create the file under its temporary name."""
        _check_opaque(self.about)
        tifffile = import_package("tifffile", f"write {str(self.path)!r}", "pip install tifffile")
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
        more: list[tuple[Any, ...]] = []
        if isinstance(self.about.source, str | os.PathLike):
            place = geo.place_tags(self.about.source)
            more = [(tag, place.tagtype[tag], _count(value), value, True) for tag, value in place.items()]
        if len(shape) == 3:
            alpha: dict[str, Any] = {"extrasamples": ["unassalpha"]} if shape[2] == 4 else {}
            return {"photometric": "rgb", "extratags": more, **alpha}
        if self.about.palette is None:
            return {"photometric": "minisblack", "extratags": more}
        entries = np.zeros((3, 1 << 8 * dtype.itemsize), np.uint16)
        entries[:, : len(self.about.palette)] = self.about.palette[:, :3].T.astype(np.uint16) * 257
        clear = self.about.transparent
        if clear is not None:
            more.append((_GDAL_NODATA, 2, 0, str(clear), True))
        return {"photometric": "palette", "colormap": entries, "extratags": more}

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
        """Write whole blocks of rows."""
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
        """Complete the file, still under its temporary name."""
        self._written.result()
        self._thread.shutdown()

    def abandon(self) -> None:
        """Stop writing."""
        if hasattr(self, "_thread"):
            self._hand_over(None)
            self._thread.shutdown()


class GeoTiffSink(FileSink):
    """Write a GeoTIFF at the place of its source, with a palette as its colour table."""

    block_rows = geo_files.BLOCK

    def __init__(self, out: str | os.PathLike[str], about: About, place: geo_files.Place) -> None:
        super().__init__(out, about)
        self._out, self._place = out, place
        self._writer: geo_files.Writer | None = None

    def begin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Create the file under its temporary name."""
        _check_opaque(self.about)
        layout = geo_files.layout_of(self._out, self._place, shape)
        given = self._place, layout, self.about.palette, self.about.transparent
        self._writer = geo_files.Writer(str(self.part), shape, dtype, *given)

    def put(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """Write whole blocks of rows."""
        assert self._writer is not None
        self._writer.write(begin, rows)

    def close(self) -> None:
        """Complete the file with overviews of what is written."""
        assert self._writer is not None
        self._writer.close()

    def abandon(self) -> None:
        """Stop writing."""
        if self._writer is not None:
            self._writer.abandon()


def _count(value: Any) -> int:
    """Count of a tag's values, as tifffile takes it: 0 for a text."""
    return 0 if isinstance(value, str) else len(value) if isinstance(value, tuple) else 1


def _check_opaque(about: About) -> None:
    if about.palette is not None and about.palette.shape[1] == 4:
        partly = (about.palette[:, 3] > 0) & (about.palette[:, 3] < 255)
        if partly.any():
            is_path = isinstance(about.source, str | os.PathLike)
            band = geo.alpha_band(about.source) if is_path else None
            why = f", as band {band} of {os.fsdecode(about.source)!r} counts as alpha" if band else ""
            other = ", or other bands, such as --bands 1,2,3" if band else ""
            raise InvalidArgument(
                f"out is a TIFF, whose colour map has no alpha, and entry {int(partly.argmax())} of the palette is "
                f"partly transparent{why}; allowed: alpha 0 and 255, or a path that ends in .zarr{other}"
            )
