"""Pyramids of tiles in one palette: the bits of the whole map, in every kind of store."""

from __future__ import annotations

import io
import json
import pathlib
import sqlite3
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

import clquant
from clquant import cli, tiles
from clquant.dithering.registry import for_learned
from clquant.palette.engine import predict
from clquant.targets.tiles import stores
from clquant.targets.tiles.stores import Place

SIX = clquant.Palette([(0, 0, 0), (255, 255, 255), (0, 160, 0), (0, 0, 255), (255, 0, 0), (90, 90, 90)])
SIDE = 20  # no multiple of any mask


def encoded(pixels: npt.NDArray[np.uint8], kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    PIL.Image.fromarray(pixels).save(data, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return data.getvalue()


@pytest.fixture
def world(rng: np.random.Generator) -> dict[int, npt.NDArray[np.uint8]]:
    """By zoom: a whole map of 4 and of 8 tiles per side, with sea, and a corner without anything."""
    found = {}
    for zoom in (2, 3):
        side = SIDE << zoom
        made = np.zeros((side, side, 4), np.uint8)
        made[..., :3] = np.add.outer(np.arange(side), np.arange(side))[..., None] + rng.integers(0, 60, (side, side, 3))
        made[..., 3] = 255
        made[:, side // 2 :, :] = (20, 90, 160, 255)
        made[: 2 * SIDE + 5, : SIDE + 7] = 0
        found[zoom] = made
    return found


def tile(world: dict[int, npt.NDArray[np.uint8]], place: Place) -> npt.NDArray[np.uint8]:
    return world[place.z][place.y * SIDE : (place.y + 1) * SIDE, place.x * SIDE : (place.x + 1) * SIDE]


def places(world: dict[int, npt.NDArray[np.uint8]]) -> list[Place]:
    return [Place(z, x, y) for z in world for x in range(1 << z) for y in range(1 << z)]


def make_folder(path: pathlib.Path, world: Any, tms: bool = False) -> pathlib.Path:
    for place in places(world):
        pixels = tile(world, place)
        row = (1 << place.z) - 1 - place.y if tms else place.y
        file = path / str(place.z) / str(place.x) / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        opaque = pixels[..., 3].all()
        file.write_bytes(encoded(pixels[..., :3] if opaque else pixels))
    (path / "metadata.json").write_text(json.dumps({"name": "World", "bounds": "-10,-20,30,40"}))
    (path / "3" / "notes").mkdir()
    (path / "3" / "0" / "007.png").write_text("is no tile")
    return path


def indices(data: bytes, palette: clquant.Palette) -> npt.NDArray[np.uint8]:
    with PIL.Image.open(io.BytesIO(data)) as image:
        assert image.mode == "P"
        assert image.getpalette()[: 3 * len(palette)] == palette.colors[:, :3].ravel().tolist()
        return np.asarray(image)


@pytest.fixture
def source(tmp_path: pathlib.Path, world: Any) -> pathlib.Path:
    return make_folder(tmp_path / "in", world)


def check(out: pathlib.Path, world: Any, palette: clquant.Palette, dither: Any, **more: Any) -> None:
    """Every tile that is there has the whole map's bits, and those that are not there are empty."""
    whole = {zoom: predict(pixels, palette, dither=dither) for zoom, pixels in world.items()}
    with stores.opened(out, **more) as found:
        there = found.places()
        assert there == sorted(place for place in places(world) if tile(world, place)[..., 3].any())
        for place in there:
            rows, columns = (slice(at * SIDE, (at + 1) * SIDE) for at in (place.y, place.x))
            assert np.array_equal(indices(found.read(place), palette), whole[place.z][rows, columns])


@pytest.mark.full
@pytest.mark.parametrize("dither", [None, "blue-noise", "bayer16"])
@pytest.mark.parametrize("name", ["out", "out.mbtiles", "out.pmtiles"])
def test_tiles_have_the_bits_of_the_whole_map(
    tmp_path: pathlib.Path, world: Any, source: pathlib.Path, dither: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.endswith("pmtiles"):
        pytest.importorskip("pmtiles")
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=33554432")  # a few tiles at a time
    made = tiles.quantize(source, tmp_path / name, 9, dither=dither)
    assert made.palette == clquant.KMeansPalette(9).fit(list(world.values())).palette_
    assert tiles.histogram(source) == clquant.ColorHistogram.of(list(world.values()))
    check(tmp_path / name, world, made.palette, for_learned(dither))
    # All of the sea is one tile, unless a mask lies differently over it.
    assert (made.tiles, made.empty, made.written) == (80, 4, 76)
    assert dither is not None or made.distinct == 80 - 40 + 1 - 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name]
    with stores.opened(tmp_path / name) as store:
        assert store.metadata["name"] == "World"
        assert [float(part) for part in store.metadata["bounds"].split(",")] == [-10, -20, 30, 40]
        assert store.metadata["format"] == "png"


@pytest.mark.full
def test_from_store_to_store(tmp_path: pathlib.Path, world: Any, source: pathlib.Path) -> None:
    pytest.importorskip("pmtiles")
    palette = SIX.with_transparent()
    for name, origin in (("a.mbtiles", source), ("b.pmtiles", tmp_path / "a.mbtiles"), ("c", tmp_path / "b.pmtiles")):
        tiles.quantize(origin, tmp_path / name, SIX)  # of its own colours from the second on
        check(tmp_path / name, world, palette, None)
    database = sqlite3.connect(tmp_path / "a.mbtiles")
    assert database.execute("SELECT COUNT(*) FROM images").fetchone()[0] < 40
    assert database.execute("SELECT COUNT(*) FROM tiles").fetchone()[0] == 76
    database.close()
    again = tmp_path / "again.pmtiles"
    tiles.quantize(tmp_path / "a.mbtiles", again, SIX)
    assert again.read_bytes() == (tmp_path / "b.pmtiles").read_bytes()
    sea = [tmp_path / "c" / "3" / "7" / f"{row}.png" for row in (0, 5)]
    assert sea[0].samefile(sea[1])


@pytest.mark.full
def test_rows_from_the_bottom_and_empty_tiles(tmp_path: pathlib.Path, world: Any) -> None:
    source = make_folder(tmp_path / "tms", world, tms=True)
    tiles.quantize(source, tmp_path / "out", SIX, dither="bayer", tms=True)
    check(tmp_path / "out", world, SIX.with_transparent(), "bayer", tms=True)
    tiles.quantize(source, tmp_path / "out.mbtiles", SIX, dither="bayer", tms=True)
    check(tmp_path / "out.mbtiles", world, SIX.with_transparent(), "bayer")
    made = tiles.quantize(source, tmp_path / "all", SIX, keep_empty=True, tms=True)
    assert (made.written, made.empty) == (80, 0)


def test_files_of_several_kinds_and_sizes(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    (tmp_path / "in" / "1" / "0").mkdir(parents=True)
    small, large = rng.integers(0, 256, (8, 8), dtype=np.uint8), rng.integers(0, 256, (24, 16, 3), dtype=np.uint8)
    (tmp_path / "in" / "1" / "0" / "0.webp").write_bytes(encoded(np.dstack([small] * 3), "WEBP"))
    (tmp_path / "in" / "1" / "0" / "1.png").write_bytes(encoded(large))
    made = tiles.quantize(tmp_path / "in", tmp_path / "out", SIX, dither="bayer4")
    assert made.palette == SIX
    read = (tmp_path / "out" / "1" / "0" / "1.png").read_bytes()
    assert np.array_equal(indices(read, SIX), predict(large, SIX, dither="bayer4"))


@pytest.mark.full
def test_what_is_refused(tmp_path: pathlib.Path, source: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pmtiles")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.mbtiles").write_bytes(b"no database")
    (tmp_path / "bad.pmtiles").write_bytes(b"no archive" * 99)
    many = np.random.default_rng(0).integers(0, 256, (256, 3))
    before = sorted(path.name for path in tmp_path.iterdir())
    out = tmp_path / "out"
    for given, more, words in (
        ((tmp_path / "no", out), {}, "there is no such file or folder"),
        ((tmp_path / "empty", out), {}, "source has no tiles"),
        ((tmp_path / "bad.mbtiles", out), {}, "cannot read '.*bad.mbtiles': file is not a database"),
        ((tmp_path / "bad.pmtiles", out), {}, "cannot read '.*bad.pmtiles'"),
        ((source, source), {}, "the source itself"),
        ((source, tmp_path / "x" / "out"), {}, "there is no folder"),
        ((source, out, 257), {}, "colors is 257"),
        ((source, out, many), {}, "colors has 256 opaque ones, but tiles have alpha; allowed: 255"),
        ((source, out), {"dither": "floyd-steinberg"}, "dither is 'floyd-steinberg', which looks beyond a tile"),
        ((tmp_path / "bad.mbtiles", out), {"tms": True}, "tms is given with"),
    ):
        with pytest.raises(clquant.ClquantError, match=words):
            tiles.quantize(*given, **more)
    (source / "2" / "1" / "1.png").write_bytes(b"damaged")
    with pytest.raises(clquant.FileError, match="tile 2/1/1"):
        tiles.quantize(source, out, SIX)
    (source / "2" / "1" / "1.png").unlink()
    for name in ("out", "out.mbtiles", "out.pmtiles"):
        with pytest.raises(clquant.StoppedError):
            tiles.quantize(source, tmp_path / name, SIX, progress=lambda *_: False)
    tiles.quantize(source, out, SIX)
    with pytest.raises(clquant.FileError, match="it exists; allowed: a folder that is new or empty"):
        tiles.quantize(source, out, SIX)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "out"])


@pytest.mark.full
def test_the_command(tmp_path: pathlib.Path, world: Any, source: pathlib.Path, capsys: Any) -> None:
    out, palette = str(tmp_path / "out.mbtiles"), str(tmp_path / "p.gpl")
    assert cli.main(["tiles", str(source), "-k", "7", "-o", out, "--dither", "bayer", "--save-palette", palette]) == 0
    assert "76 of 80 tiles, 4 empty" in capsys.readouterr().err
    learned = clquant.KMeansPalette(7).fit(list(world.values())).palette_
    check(tmp_path / "out.mbtiles", world, learned, for_learned("bayer"))
    assert cli.main(["tiles", str(source), "--use", "#000,#fff", "-o", str(tmp_path / "bw"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["written"] == 76
    assert cli.main(["tiles", str(source), "--use", "#000", "-k", "2", "-o", out]) == 2
