"""Writers of pyramids: a folder z/x/y.png, MBTiles, PMTiles; each appears under its name whole or not at all."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import json
import math
import os
import pathlib
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from typing import Any

from clquant.images import files
from clquant.runtime import FileError
from clquant.targets.tiles.stores import MBTILES, METADATA_FILE, PMTILES, Place, pmtiles_module

_SCHEMA = """
CREATE TABLE metadata (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE images (tile_id TEXT PRIMARY KEY, tile_data BLOB);
CREATE TABLE map (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_id TEXT,
                  PRIMARY KEY (zoom_level, tile_column, tile_row));
CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data FROM map JOIN images USING (tile_id);
"""
_MOST_LATITUDE = 85.0511287798066


class Writer(abc.ABC):
    """A pyramid that is written."""

    def __init__(self, path: pathlib.Path, metadata: dict[str, Any]) -> None:
        self.path = path
        self.metadata = metadata

    def order(self, places: list[Place]) -> list[Place]:
        """The order in which tiles are best written; here any."""
        return places

    @abc.abstractmethod
    def add(self, place: Place, data: bytes) -> None:
        """A tile; one that equals another takes no room of its own."""

    @abc.abstractmethod
    def close(self) -> None:
        """Complete the store."""

    def abandon(self) -> None:  # noqa: B027 (most have nothing open)
        """Let go of files."""


@contextlib.contextmanager
def writing(out: Any, metadata: dict[str, Any], tms: bool = False) -> Iterator[Writer]:
    """A pyramid that has its name when the block ends, and none if the block raises."""
    target = files.path_of(out, "out")
    kind = {MBTILES: MBTilesWriter, PMTILES: PMTilesWriter}.get(target.suffix.lower(), FolderWriter)
    beside = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}.part"
    writer = None
    try:
        if not target.parent.is_dir():
            raise FileError(f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}")
        if kind is FolderWriter and target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise FileError(f"cannot write {str(target)!r}: it exists; allowed: a folder that is new or empty")
        if kind is not FolderWriter and target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
            raise FileError(f"cannot write {str(target)!r}: it is no file, or read-only")
        writer = FolderWriter(beside, metadata, tms) if kind is FolderWriter else kind(beside, metadata)
        yield writer
        writer.close()
        os.replace(beside, target)
    except FileError:
        raise
    except (OSError, sqlite3.Error) as error:
        raise FileError(f"cannot write {str(target)!r}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        if writer is not None:
            writer.abandon()
        shutil.rmtree(beside, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(beside)


class FolderWriter(Writer):
    """Files z/x/y.png; those of equal tiles are links to one, where the file system has links."""

    def __init__(self, path: pathlib.Path, metadata: dict[str, Any], tms: bool = False) -> None:
        super().__init__(path, metadata)
        self._tms = tms
        self._files: dict[bytes, pathlib.Path] = {}
        path.mkdir()

    def add(self, place: Place, data: bytes) -> None:
        """Write a file, or link it to an equal one."""
        row = (1 << place.z) - 1 - place.y if self._tms else place.y
        file = self.path / str(place.z) / str(place.x) / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(data).digest()
        first = self._files.setdefault(digest, file)
        if first is not file:
            with contextlib.suppress(OSError):  # too many links, or none at all
                os.link(first, file)
                return
        file.write_bytes(data)

    def close(self) -> None:
        """Write the metadata."""
        if self.metadata:
            text = json.dumps({**self.metadata, "format": "png"}, indent=1)
            (self.path / METADATA_FILE).write_text(text, encoding="utf-8")


class MBTilesWriter(Writer):
    """A database whose view ``tiles`` joins places and pictures."""

    def __init__(self, path: pathlib.Path, metadata: dict[str, Any]) -> None:
        super().__init__(path, metadata)
        self._database = sqlite3.connect(path)
        self._database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)

    def add(self, place: Place, data: bytes) -> None:
        """Insert a place, and its picture if it is new."""
        name = hashlib.sha256(data).hexdigest()
        self._database.execute("INSERT OR IGNORE INTO images VALUES (?, ?)", (name, data))
        row = (1 << place.z) - 1 - place.y
        self._database.execute("INSERT INTO map VALUES (?, ?, ?, ?)", (place.z, place.x, row, name))

    def close(self) -> None:
        """Insert the metadata, commit and close."""
        metadata = {"name": "clquant", **self.metadata, "format": "png"}
        texts = [(n, v if isinstance(v, str) else json.dumps(v)) for n, v in sorted(metadata.items())]
        self._database.executemany("INSERT INTO metadata VALUES (?, ?)", texts)
        self._database.commit()
        self._database.close()

    def abandon(self) -> None:
        """Close the database."""
        self._database.close()


class PMTilesWriter(Writer):
    """A PMTiles file, in the order that it is served in."""

    def __init__(self, path: pathlib.Path, metadata: dict[str, Any]) -> None:
        super().__init__(path, metadata)
        module = pmtiles_module("write PMTiles")
        self._formats = module.tile
        self._file = open(path, "wb")  # noqa: SIM115
        self._writer = module.writer.Writer(self._file)
        self._places: list[Place] = []

    def order(self, places: list[Place]) -> list[Place]:
        """Sort places by their numbers in the file."""
        return sorted(places, key=lambda place: self._formats.zxy_to_tileid(*place))

    def add(self, place: Place, data: bytes) -> None:
        """Write a tile."""
        self._places.append(place)
        self._writer.write_tile(self._formats.zxy_to_tileid(*place), data)

    def close(self) -> None:
        """Write the directories and the header."""
        if not self._places:
            raise FileError("every tile is empty; allowed: at least one that is not, or a folder or .mbtiles as out")
        west, south, east, north = _bounds_of(self.metadata, self._places)
        zoom = min(place.z for place in self._places)
        head = {
            "tile_type": self._formats.TileType.PNG,
            "tile_compression": self._formats.Compression.NONE,
            "min_lon_e7": round(west * 1e7),
            "min_lat_e7": round(south * 1e7),
            "max_lon_e7": round(east * 1e7),
            "max_lat_e7": round(north * 1e7),
            "center_zoom": zoom,
            "center_lon_e7": round((west + east) / 2 * 1e7),
            "center_lat_e7": round((south + north) / 2 * 1e7),
        }
        self._writer.finalize(head, {**self.metadata, "format": "png"})
        self._file.close()

    def abandon(self) -> None:
        """Close the files."""
        self._file.close()
        self._writer.tile_f.close()


def _bounds_of(metadata: dict[str, Any], places: list[Place]) -> tuple[float, float, float, float]:
    """West, south, east and north in degrees, as the metadata say, else of the tiles of the deepest zoom."""
    with contextlib.suppress(KeyError, ValueError, AttributeError):
        west, south, east, north = (float(each) for each in metadata["bounds"].split(","))
        if -180 <= west < east <= 180 and -90 <= south < north <= 90:
            return west, south, east, north
    zoom = max(place.z for place in places)
    deepest = [place for place in places if place.z == zoom]
    side = 1 << zoom
    columns, rows = [place.x for place in deepest], [place.y for place in deepest]

    def latitude(row: int) -> float:
        at = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / side))))
        return min(max(at, -_MOST_LATITUDE), _MOST_LATITUDE)

    def longitude(column: int) -> float:
        return 360 * column / side - 180

    return longitude(min(columns)), latitude(max(rows) + 1), longitude(max(columns) + 1), latitude(min(rows))
