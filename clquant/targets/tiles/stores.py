"""Readers of pyramids: a folder z/x/y, MBTiles (a database of SQLite), PMTiles."""

from __future__ import annotations

import abc
import contextlib
import gzip
import json
import mmap
import os
import pathlib
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from clquant import params
from clquant.images import files
from clquant.params import import_package, reason_of, shown
from clquant.runtime import FileError, InvalidArgument

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MBTILES, PMTILES = ".mbtiles", ".pmtiles"
METADATA_FILE = "metadata.json"
MOST_ZOOM = 31
_MOST_DEPTH = 4  # of directories in a PMTiles file: a root and leaves
_HEAD_BYTES = 127
# Bounds of what a store's bytes may name and unpack to: equal tiles are named in a few bytes.
FREE_TILES = 1 << 20
_FREE_UNPACKED, _UNPACKED_PER_BYTE = 16 << 20, 64
_LIMIT_OF_LENGTH = 0  # SQLITE_LIMIT_LENGTH: bytes of a text, a blob or a row
# Steps of SQLite's machine that a query may take: it reads a row in some ten; a view of a stranger's need have no end.
_FREE_STEPS, _STEPS_PER_BYTE, _STEPS_AT_ONCE = 10_000_000, 100, 100_000


class Place(NamedTuple):
    """A tile: its zoom, its column, and its row from the top."""

    z: int
    x: int
    y: int


class Tiles(abc.ABC):
    """A pyramid that is read."""

    metadata: dict[str, Any]  # as MBTiles names it: ``name``, ``bounds``, ``attribution`` and others

    @abc.abstractmethod
    def places(self) -> list[Place]:
        """All tiles, by zoom, column and row."""

    @abc.abstractmethod
    def read(self, place: Place) -> bytes:
        """A tile's file."""

    def close(self) -> None:  # noqa: B027 (most have nothing open)
        """Let go of files."""


@contextlib.contextmanager
def opened(source: Any, tms: bool = False) -> Iterator[Tiles]:
    """A pyramid behind a path."""
    path = files.path_of(source, "source")
    params.boolean("tms", tms)
    suffix = path.suffix.lower()
    if tms and suffix in (MBTILES, PMTILES):
        raise InvalidArgument(f"tms is given with {shown(str(path))}, which says itself how rows are counted")
    try:
        store: Tiles
        if not path.exists():
            raise FileError(f"cannot read {str(path)!r}: there is no such file or folder")
        if suffix in (MBTILES, PMTILES) and not path.is_file():
            raise FileError(f"cannot read {str(path)!r}: it is no file")
        if suffix == MBTILES:
            store = MBTiles(path)
        elif suffix == PMTILES:
            store = PMTiles(path)
        elif path.is_dir():
            store = Folder(path, tms)
        else:
            raise FileError(f"cannot read {str(path)!r}: it is no folder of tiles, .mbtiles or .pmtiles")
    except (FileError, MemoryError):
        raise
    except Exception as error:  # what is damaged fails in many ways
        raise FileError(f"cannot read {str(path)!r}: {reason_of(error)}") from error
    with contextlib.closing(store):
        yield store


class Folder(Tiles):
    """A folder with files z/x/y.png, .jpg or .webp."""

    def __init__(self, path: pathlib.Path, tms: bool) -> None:
        self._files: dict[Place, str] = {}
        for z in _numbers(path):
            for x in _numbers(path / str(z)):
                with os.scandir(path / str(z) / str(x)) as found:
                    for entry in found:
                        stem, suffix = os.path.splitext(entry.name)
                        if suffix.lower() in SUFFIXES and _is_number(stem) and z <= MOST_ZOOM and entry.is_file():
                            place = _checked(z, x, int(stem), bottom=tms)
                            self._add(place, entry.path)
        self.metadata = {}
        about = path / METADATA_FILE
        with contextlib.suppress(OSError, ValueError):
            found_metadata = json.loads(about.read_text(encoding="utf-8")) if about.is_file() else {}
            self.metadata = found_metadata if isinstance(found_metadata, dict) else {}

    def _add(self, place: Place, path: str) -> None:
        if place in self._files:
            raise FileError(f"cannot read {path!r}: {self._files[place]!r} is the same tile")
        self._files[place] = path

    def places(self) -> list[Place]:
        """Return the places of the files."""
        return sorted(self._files)

    def read(self, place: Place) -> bytes:
        """Read a file."""
        return files.read_bytes(self._files[place])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and str(int(text)) == text


def _numbers(folder: pathlib.Path) -> list[int]:
    with os.scandir(folder) as found:
        return sorted(int(entry.name) for entry in found if _is_number(entry.name) and entry.is_dir())


class MBTiles(Tiles):
    """A database with a table (or view) ``tiles``, whose rows are counted from the bottom."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        address = f"{path.resolve().as_uri()}?mode=ro"
        self._nbytes = path.stat().st_size
        self._database = sqlite3.connect(address, uri=True, check_same_thread=False)
        self._database.execute("PRAGMA trusted_schema = OFF")
        if hasattr(self._database, "setlimit"):  # from Python 3.11 on
            self._database.setlimit(_LIMIT_OF_LENGTH, max(1 << 20, self._nbytes))
        self._database.set_progress_handler(self._went_on, _STEPS_AT_ONCE)
        self._turns = 0
        self.metadata = {}
        with contextlib.ExitStack() as unless_opened:
            unless_opened.callback(self.close)
            with contextlib.suppress(sqlite3.OperationalError):
                self.metadata = dict(self._rows("SELECT name, value FROM metadata"))
            rows = self._rows("SELECT zoom_level, tile_column, tile_row FROM tiles")
            self._places = sorted(_checked(z, x, y) for z, x, y in rows)
            unless_opened.pop_all()

    def _went_on(self) -> bool:
        """Whether a query that has taken so many steps more must end."""
        self._turns += 1
        return self._turns * _STEPS_AT_ONCE > _FREE_STEPS + _STEPS_PER_BYTE * self._nbytes

    def _rows(self, query: str, where: tuple[int, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        self._turns, most = 0, FREE_TILES + self._nbytes
        found = self._database.execute(query, where).fetchmany(most + 1)
        if len(found) > most:
            raise FileError(f"cannot read {str(self._path)!r}: more than {most} rows in its {self._nbytes} bytes")
        return found

    def places(self) -> list[Place]:
        """Return the places of the table."""
        return self._places

    def read(self, place: Place) -> bytes:
        """Query a tile's bytes."""
        where = place.z, place.x, (1 << place.z) - 1 - place.y
        query = "SELECT tile_data FROM tiles WHERE zoom_level = ? AND tile_column = ? AND tile_row = ?"
        try:
            found = self._rows(query, where)
        except (sqlite3.Error, UnicodeError) as error:
            raise FileError(f"cannot read tile {tuple(place)} of {str(self._path)!r}: {reason_of(error)}") from error
        if not found or not isinstance(found[0][0], bytes):
            raise FileError(f"cannot read tile {tuple(place)} of {str(self._path)!r}: it has no bytes")
        return found[0][0]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _checked(z: Any, x: Any, row: Any, bottom: bool = True) -> Place:
    """A tile of a store, if its zoom has it; rows count from the bottom, as in MBTiles, or from the top."""
    named = f"it has the tile {shown(z)}/{shown(x)}/{shown(row)}"
    if not all(isinstance(number, int) for number in (z, x, row)) or not 0 <= z <= MOST_ZOOM:
        raise ValueError(f"{named}; allowed: zooms of 0 to {MOST_ZOOM}")
    if not (0 <= x < 1 << z and 0 <= row < 1 << z):
        raise ValueError(f"{named}; allowed at zoom {z}: columns and rows of 0 to {(1 << z) - 1}")
    return Place(z, x, (1 << z) - 1 - row if bottom else row)


def pmtiles_module(job: str) -> Any:
    """The package pmtiles, which is an extra."""
    names = ("pmtiles", "pmtiles.reader", "pmtiles.tile", "pmtiles.writer")
    package, *_ = (import_package(name, job, "pip install pmtiles") for name in names)
    return package


class PMTiles(Tiles):
    """A PMTiles file of version 3."""

    def __init__(self, path: pathlib.Path) -> None:
        self._formats = pmtiles_module(f"read {str(path)!r}").tile
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pmtiles_module(f"read {str(path)!r}").reader.Reader(self._bytes)
        head = reader.header()
        if head["tile_compression"] not in (self._formats.Compression.NONE, self._formats.Compression.UNKNOWN):
            raise FileError(f"cannot read {str(path)!r}: its tiles are compressed as files, so no pictures")
        self._data_at, self._leaves_at = head["tile_data_offset"], head["leaf_directory_offset"]
        self._entries: dict[Place, tuple[int, int]] = {}
        self._named, self._unpacked = 0, 0
        self._add(head["root_offset"], head["root_length"], _MOST_DEPTH)
        about = self._bytes(head["metadata_offset"], head["metadata_length"])
        packed = head["internal_compression"] == self._formats.Compression.GZIP
        found = json.loads(gzip.decompress(self._unpackable(about)) if packed else about)
        self.metadata = found if isinstance(found, dict) else {}
        west, south, east, north = (head[f"{name}_e7"] / 1e7 for name in ("min_lon", "min_lat", "max_lon", "max_lat"))
        if west < east and south < north:
            self.metadata.setdefault("bounds", f"{west:g},{south:g},{east:g},{north:g}")

    def _bytes(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def _add(self, offset: int, length: int, depth: int) -> None:
        for entry in self._formats.deserialize_directory(self._unpackable(self._bytes(offset, length))):
            self._named += 1 + entry.run_length
            if self._named > FREE_TILES + len(self._data):
                raise ValueError(
                    f"it names more than {FREE_TILES} tiles and one for each of its {len(self._data)} bytes"
                )
            if entry.run_length == 0 and depth:
                self._add(self._leaves_at + entry.offset, entry.length, depth - 1)
            for number in range(entry.run_length):
                place = Place(*self._formats.tileid_to_zxy(entry.tile_id + number))
                self._entries[place] = self._data_at + entry.offset, entry.length

    def _unpackable(self, packed: bytes) -> bytes:
        """Return bytes that gzip packed; refuse them where they and all before them unpack to too much."""
        most = _FREE_UNPACKED + _UNPACKED_PER_BYTE * len(self._data)
        stream = zlib.decompressobj(wbits=31)
        self._unpacked += len(stream.decompress(packed, most + 1))
        if self._unpacked > most or stream.unused_data:
            raise ValueError(f"its directories unpack to more than its {len(self._data)} bytes are allowed")
        return packed

    def places(self) -> list[Place]:
        """Return the places of the directories."""
        return sorted(self._entries)

    def read(self, place: Place) -> bytes:
        """Return a tile's bytes of the map of the file."""
        return self._bytes(*self._entries[place])

    def close(self) -> None:
        """Close the map of the file."""
        self._data.close()
