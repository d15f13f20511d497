"""Stores of strangers: what names or unpacks more than its bytes pay for, and queries without an end."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pathlib
import random
import sqlite3
import sys

import pytest

from clquant import runtime, tiles
from clquant.targets.tiles import stores, writers
from portability.fuzz import damaged
from portability.store_seeds import codebook_case, histogram_case, rows_case, store_case

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT"
TABLE = "CREATE TABLE tiles(zoom_level, tile_column, tile_row, tile_data);"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            f"CREATE VIEW tiles AS {NUMBERS} 0 zoom_level, i tile_column, 0 tile_row, x'' tile_data FROM n",
            "rows in its",
        ),
        (f"CREATE VIEW tiles AS {NUMBERS} 0 zoom_level, i tile_column, 0 tile_row FROM n WHERE i < 0", "interrupted"),
        (f"CREATE VIEW metadata AS {NUMBERS} i name, i value FROM n WHERE i < 0; {TABLE}", "source has no tiles"),
        (f"{TABLE} INSERT INTO tiles VALUES(1000000000, 0, 0, x'')", "it has the tile 1000000000/0/0"),
        (
            f"{TABLE} INSERT INTO tiles VALUES(3, 8, 0, x'')",
            "it has the tile 3/8/0; allowed at zoom 3: columns",
        ),
        (f"{TABLE} INSERT INTO tiles VALUES(0, 0, -1, x'')", "it has the tile 0/0/-1; allowed at zoom 0"),
        (f"{TABLE} INSERT INTO tiles VALUES('a', 0, NULL, x'')", "it has the tile 'a'/0/None"),
        (f"{TABLE} INSERT INTO tiles VALUES(0, 0, 0, 2000000000)", "it has no bytes"),
        ("CREATE VIEW tiles AS SELECT 0 zoom_level, 0 tile_column, 0 tile_row", "tile \\(0, 0, 0\\) .* no such column"),
    ],
)
def test_databases_end(script: str, message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "FREE_TILES", 1000)
    monkeypatch.setattr(stores, "_FREE_STEPS", 200_000)
    database = sqlite3.connect(tmp_path / "a.mbtiles")
    database.executescript(script)
    database.close()
    with pytest.raises(runtime.FileError, match=message):
        tiles.histogram(tmp_path / "a.mbtiles")


def test_only_regular_files_are_tiles(tmp_path: pathlib.Path) -> None:
    (tmp_path / "0/0").mkdir(parents=True)
    os.mkfifo(tmp_path / "0/0/0.png")
    os.mkfifo(tmp_path / "metadata.json")
    with pytest.raises(runtime.FileError, match="source has no tiles"):
        tiles.histogram(tmp_path)
    os.mkfifo(tmp_path / "a.mbtiles")
    with pytest.raises(runtime.FileError, match="it is no file"):
        tiles.histogram(tmp_path / "a.mbtiles")
    (tmp_path / "0/0/0.png").unlink()
    (tmp_path / "0/0/0.png").write_bytes(b"")
    (tmp_path / "0/0/0.webp").write_bytes(b"")
    with pytest.raises(runtime.FileError, match="is the same tile"):
        tiles.histogram(tmp_path)
    with pytest.raises(runtime.FileError, match="it is no folder of tiles"):
        tiles.histogram(tmp_path / "0/0/0.png")
    with pytest.raises(runtime.FileError, match=r"cannot read .xxx.*too long"):
        tiles.histogram("x" * 300)
    (tmp_path / "0/0/0.webp").unlink()
    (tmp_path / "0/0/1.png").write_bytes(b"")
    with pytest.raises(runtime.FileError, match="it has the tile 0/0/1; allowed at zoom 0: columns and rows of 0 to 0"):
        tiles.histogram(tmp_path)


def test_directories_name_no_more_than_their_bytes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tile = pytest.importorskip("pmtiles.tile")

    def written(run: int, padding: int, leaf: bytes = b"", **more: object) -> pathlib.Path:
        size = len(leaf) or 1
        root = gzip.compress(gzip.decompress(tile.serialize_directory([tile.Entry(0, 0, size, run)])) + bytes(padding))
        about = gzip.compress(b"{}")
        head = dict.fromkeys(
            ("min_lon_e7", "min_lat_e7", "max_lon_e7", "max_lat_e7", "center_lon_e7", "center_lat_e7"), 0
        )
        head |= dict.fromkeys(("addressed_tiles_count", "tile_entries_count", "tile_contents_count"), 1)
        head |= {"root_offset": 127, "root_length": len(root)}
        head |= {"metadata_offset": 127 + len(root), "metadata_length": len(about), "clustered": True}
        head |= {"tile_data_offset": 127, "tile_data_length": 1, "min_zoom": 0, "max_zoom": 0, "center_zoom": 0}
        head |= {"internal_compression": tile.Compression.GZIP, "tile_compression": tile.Compression.NONE}
        head |= {"tile_type": tile.TileType.PNG, "version": 3}
        path = tmp_path / "a.pmtiles"
        head |= {"leaf_directory_offset": 127 + len(root) + len(about), "leaf_directory_length": len(leaf), **more}
        path.write_bytes(tile.serialize_header(head) + root + about + leaf)
        return path

    with stores.opened(written(5, 0)) as few:
        assert len(few.places()) == 5
    with stores.opened(written(0, 0, tile.serialize_directory([tile.Entry(1, 0, 1, 4)]))) as in_a_leaf:
        assert in_a_leaf.places() == [(1, x, y) for x in (0, 1) for y in (0, 1)]
    with pytest.raises(runtime.FileError, match="its tiles are compressed as files"):
        tiles.histogram(written(5, 0, tile_compression=tile.Compression.GZIP))
    with pytest.raises(runtime.FileError, match="it names more than 1048576 tiles"):
        tiles.histogram(written(1 << 40, 0))
    monkeypatch.setattr(stores, "_FREE_UNPACKED", 1 << 16)
    with pytest.raises(runtime.FileError, match="its directories unpack to more than"):
        tiles.histogram(written(5, 1 << 20))


def test_pmtiles_without_its_package(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pmtiles", None)
    (tmp_path / "a.pmtiles").write_bytes(b"")
    with pytest.raises(runtime.FileError, match=r"pmtiles is not installed \(pip install pmtiles\)"):
        tiles.histogram(tmp_path / "a.pmtiles")


def test_bounds_are_those_of_the_tiles(tmp_path: pathlib.Path) -> None:
    tile = pytest.importorskip("pmtiles.tile")
    for metadata in ({}, {"bounds": "no numbers"}, {"bounds": "20,0,10,5"}):
        with writers.writing(tmp_path / "a.pmtiles", metadata) as writer:
            writer.add(stores.Place(1, 0, 1), b"tile")
        head = tile.deserialize_header((tmp_path / "a.pmtiles").read_bytes()[:127])
        assert (head["min_lon_e7"], head["max_lon_e7"], head["max_lat_e7"]) == (-1_800_000_000, 0, 0)
        assert head["min_lat_e7"] == pytest.approx(-850_511_288, abs=1)


def test_where_pyramids_are_not_written(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.mbtiles").mkdir()
    with (
        pytest.raises(runtime.FileError, match="it is no file, or read-only"),
        writers.writing(tmp_path / "a.mbtiles", {}),
    ):
        pass
    for name in ("x" * 300, "x" * 300 + ".mbtiles"):
        with pytest.raises(runtime.FileError, match=r"cannot write .* too long"), writers.writing(tmp_path / name, {}):
            pass
    pytest.importorskip("pmtiles")
    with pytest.raises(runtime.FileError, match="every tile is empty"), writers.writing(tmp_path / "a.pmtiles", {}):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["a.mbtiles"]


@pytest.mark.full
@pytest.mark.parametrize("make", [histogram_case, codebook_case, store_case, rows_case])
def test_damage_ends_in_an_error(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    case = make(damaged)
    for number in range(60):
        with contextlib.suppress(runtime.ClquantError):
            assert case(random.Random(number)) is None
