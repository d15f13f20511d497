"""`clquant palette` of zarr, GeoTIFF and pictures larger than memory."""

from __future__ import annotations

import json
import pathlib
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
import tifffile

import clquant
from clquant import cli
from clquant.cli import loading
from clquant.cli.commands.palette.options import SHORTER_FITS
from clquant.palette.engine import predict

zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11


@pytest.fixture
def picture(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    return rng.integers(1, 256, (90, 70, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    zarr.create_array(tmp_path / "big.zarr", shape=picture.shape, chunks=(32, 32, 3), dtype="u1")[:] = picture
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    undithered = () if "--dither" in arguments else ("--dither", "none")
    return cli.main(["palette", "-q", *undithered, *arguments])


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_zarr_in_and_out(folder: pathlib.Path, picture: Any, capsys: pytest.CaptureFixture[str]) -> None:
    engine = clquant.KMeansPalette(8, **SHORTER_FITS["medium"]).fit(picture)
    assert run("big.zarr", "-k", "8", "-o", "out.zarr", "--memory", "1MiB", "--resume", "--json") == 0
    assert np.array_equal(zarr.open("out.zarr", mode="r")[:], engine.predict(picture))
    (record,) = json.loads(capsys.readouterr().out)["results"]
    assert (record["width"], record["height"], record["colors"]) == (70, 90, engine.palette_.hex())
    assert run("big.zarr", "-k", "8", "--dither", "bayer", "--order", "luma") == 0  # beside its input
    by_luma, near = engine.palette_.sorted("luma"), clquant.OrderedDither("bayer", means="near")
    assert np.array_equal(zarr.open("big-8.zarr", mode="r")[:], predict(picture, by_luma, dither=near))
    assert run("big.zarr", "-k", "8", "-o", "out.tif", "-n") == 0
    assert run("big.zarr", "-k", "8", "-o", "out.tif", "-n") == 0
    assert np.array_equal(tifffile.imread("out.tif"), engine.predict(picture))
    assert run("big.zarr", "-k", "8", "-o", "out.png") == 0
    with PIL.Image.open("out.png") as image:
        assert np.array_equal(np.asarray(image), engine.predict(picture))
    learned = clquant.NeuQuantCL(8, sample_factor=30).fit(picture)
    assert run("big.zarr", "-k", "8", "--method", "neuquant", "--sample-factor", "30", "-o", "nq.zarr") == 0
    assert np.array_equal(zarr.open("nq.zarr", mode="r")[:], learned.predict(picture))
    assert names(folder) == ["big-8.zarr", "big.zarr", "nq.zarr", "out.png", "out.tif", "out.zarr"]


def test_pictures_and_stores_share_a_palette(folder: pathlib.Path, picture: Any) -> None:
    PIL.Image.fromarray(picture[:40, ::-1]).save("small.png")
    shared = ["-k", "5", "--effort", "normal", "--shared", "--save-palette", "all.gpl", "-o", "out"]
    assert run("big.zarr", "small.png", *shared) == 0
    engine = clquant.KMeansPalette(5).fit([picture, picture[:40, ::-1]])
    assert clquant.Palette.read("all.gpl") == engine.palette_
    assert np.array_equal(zarr.open("out/big-5.zarr", mode="r")[:], engine.predict(picture))
    assert names(folder / "out") == ["big-5.zarr", "small-5.png"]
    assert run("big.zarr", "--use", "all.gpl", "-o", "again.zarr") == 0
    assert np.array_equal(zarr.open("again.zarr", mode="r")[:], engine.predict(picture))


def test_tiffs_of_many_pixels_are_not_read_at_once(
    folder: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile.imwrite("tiled.tif", picture, tile=(32, 32), photometric="rgb")
    monkeypatch.setattr(loading, "MOST_PIXELS_AT_ONCE", 1000)
    monkeypatch.setattr("clquant.cli.commands.palette.load", None)
    assert run("tiled.tif", "-k", "4", "--effort", "normal") == 0
    assert np.array_equal(tifffile.imread("tiled-4.tif"), clquant.KMeansPalette(4).fit(picture).predict(picture))


def test_a_scene_keeps_its_place(folder: pathlib.Path, picture: Any) -> None:
    rasterio = pytest.importorskip("rasterio")
    picture[:20] = 0
    place = {"crs": "EPSG:3857", "transform": rasterio.Affine(2.0, 0, 100, 0, -2.0, 900)}
    with rasterio.open(
        "scene.tif", "w", driver="GTiff", height=90, width=70, count=3, dtype="uint8", nodata=0, **place
    ) as f:
        f.write(np.moveaxis(picture, 2, 0))
    clquant.Palette([(0, 0, 0), (250, 250, 250), (90, 140, 30)]).write("brand.gpl")
    assert run("scene.tif", "--use", "brand.gpl") == 0
    with rasterio.open("scene-palette.tif") as made:
        assert (made.crs, made.transform, made.nodata) == (place["crs"], place["transform"], 3)
        assert (made.read(1)[:20] == 3).all()
        assert made.colormap(1)[1] == (250, 250, 250, 255)
    assert run("scene.tif", "-k", "3", "-o", "scene.png") == 0
    with PIL.Image.open("scene.png") as image:
        assert not np.asarray(image.convert("RGBA"))[:20].any()


@pytest.mark.full
def test_a_warning_is_a_sentence(folder: pathlib.Path, picture: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rasterio")
    PIL.Image.fromarray(picture).save("scene.tif", tiffinfo={33550: (1.0, 1.0, 0.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run("scene.tif", "-k", "4", "-o", "scene.zarr") == 0
    assert capsys.readouterr().err == "clquant: 'scene.zarr' does not keep where 'scene.tif' lies: .tif does\n"


def test_a_full_palette_and_pixels_without_data(
    folder: pathlib.Path, picture: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def store(name: str, alpha: int) -> None:
        rgba = np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
        rgba[30:40, 20:30, 3] = alpha
        zarr.create_array(folder / name, shape=rgba.shape, chunks=(32, 32, 4), dtype="u1")[:] = rgba

    store("holes.zarr", 0)
    store("none.zarr", 255)
    colors = np.random.default_rng(1).permutation(1 << 24)[:256].astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:]
    clquant.Palette(colors).write("full.gpl")
    clquant.Palette(colors[:255]).write("room.gpl")
    for dither in ((), ("--dither", "search"), ("--dither", "floyd-steinberg")):
        assert run("holes.zarr", "--use", "full.gpl", "-o", "x.zarr", *dither) == 2
        words = "--use 'full.gpl' has 256 opaque colours, but there are pixels of alpha 0 or without data; allowed: 255"
        assert words in capsys.readouterr().err
    assert not (folder / "x.zarr").exists()
    assert run("none.zarr", "--use", "full.gpl", "-o", "x.zarr") == 0
    assert np.array_equal(zarr.open("x.zarr", mode="r")[:], predict(picture, colors))
    assert run("holes.zarr", "--use", "room.gpl", "-o", "x.zarr") == 0
    made = zarr.open("x.zarr", mode="r")
    assert made.dtype == np.uint8
    assert (made[30:40, 20:30] == 255).all()


def test_layouts_of_scenes(folder: pathlib.Path, picture: Any) -> None:
    rasterio = pytest.importorskip("rasterio")
    assert run("big.zarr", "-k", "8", "--cog", "--overviews", "none", "-o", "x.tif") == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        made = rasterio.open("x.tif")
    with made:
        assert np.array_equal(
            made.read(1), clquant.KMeansPalette(8, **SHORTER_FITS["medium"]).fit(picture).predict(picture)
        )
        assert made.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("big.zarr", "-o", "x.png", "--memory", "1GiB"), "--memory goes with results that end in .zarr or .tif"),
        (("big.zarr", "-o", "x.png", "--resume"), "--resume goes with"),
        (("big.zarr", "-o", "x.zarr", "--cog"), "--cog goes with results that end in .tif"),
        (("big.zarr", "-o", "x.png", "--overviews", "mode"), "--overviews goes with results that end in .tif"),
        (("big.zarr", "-o", "x.zarr", "--memory", "much"), "memory is 'much'"),
        (
            ("big.zarr", "-o", "x.zarr", "--psnr", "30"),
            "--psnr needs the whole picture, but 'x.zarr' is written in parts",
        ),
        (("big.zarr", "-o", "x.zarr", "--stats"), "--stats needs the whole picture"),
        (("big.zarr", "-o", "x.zarr", "--order", "popularity"), "--order popularity needs the whole picture"),
        (("big.zarr", "-o", "x.zarr", "--method", "spatial"), "--method is spatial; allowed for 'x.zarr'"),
        (("big.zarr", "-o", "big.zarr"), "the image itself"),
        (("big.zarr", "big.zarr", "-o", "x.zarr"), "names a file, but several inputs need a folder"),
    ],
)
def test_what_is_refused(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], arguments: Any, words: str) -> None:
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err
    assert names(folder) == ["big.zarr"]


def test_damaged_chunks_are_said_with_their_picture(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    zarr.create_array("bad.zarr", shape=(8, 9, 3), chunks=(8, 9, 3), dtype="u1")[:] = 7
    (chunk,) = (path for path in (folder / "bad.zarr" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(b"no chunk")
    assert run("bad.zarr", "-k", "4", "-o", "x.zarr") == 2
    assert capsys.readouterr().err.startswith("clquant: 'bad.zarr': cannot read rows 0 to 7: ")
    assert cli.main(["halftone", "bad.zarr", "-o", "x.zarr"]) == 2
    assert capsys.readouterr().err.startswith("clquant: 'bad.zarr': cannot read rows 0 to 7: ")
    assert not (folder / "x.zarr").exists()


def test_errors_about_pictures_in_parts_name_them(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    zarr.create_array("heights.zarr", shape=(9, 9), chunks=(9, 9), dtype="f4")[:] = np.float32(700)
    assert run("big.zarr", "heights.zarr", "-k", "4", "-o", "out") == 1
    assert "'heights.zarr': image has floats outside 0..1, from 700 to 700" in capsys.readouterr().err
