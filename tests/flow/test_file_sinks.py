"""Results that become files in parts: the bits of the whole result, whole files or none, and jobs that go on."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
import tifffile

import clquant
from clquant.flow import file_sinks, tiff_sinks, zarr_sink
from clquant.palette.engine import predict, quantize, transform

zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11

SIX = clquant.Palette([(0, 0, 0), (255, 255, 255), (0, 160, 0), (0, 0, 255), (255, 0, 0), (90, 90, 90)])


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands, chunks and tiles so small that pictures of these tests take several."""
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    monkeypatch.setattr(zarr_sink, "CHUNK", 32)
    monkeypatch.setattr(zarr_sink.ZarrSink, "block_rows", 32)
    monkeypatch.setattr(tiff_sinks, "TILE", 16)
    monkeypatch.setattr(tiff_sinks.TiffSink, "block_rows", 16)


@pytest.fixture
def picture(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    return rng.integers(0, 256, (147, 70, 3), dtype=np.uint8)


@pytest.fixture
def stored(tmp_path: pathlib.Path, picture: npt.NDArray[np.uint8]) -> pathlib.Path:
    path = tmp_path / "in.zarr"
    zarr.create_array(path, shape=picture.shape, chunks=(20, 70, 3), dtype="u1")[:] = picture
    return path


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.full
@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("dither", [None, "blue-noise", "floyd-steinberg", "pinwheel"])
def test_files_hold_the_whole_result(tmp_path: pathlib.Path, picture: Any, stored: Any, dither: Any) -> None:
    whole = predict(picture, SIX, dither=dither)
    for source in (picture, stored):
        out = tmp_path / "out.zarr"
        assert predict(source, SIX, dither=dither, out=out) == out
        made = zarr.open(out, mode="r")
        assert made.chunks == (32, 32)
        assert np.array_equal(made[:], whole)
        assert made.attrs["palette"] == SIX.hex()
        predict(source, SIX, dither=dither, out=str(tmp_path / "out.tif"))
        with PIL.Image.open(tmp_path / "out.tif") as image:
            assert image.mode == "P"
            assert np.array_equal(np.asarray(image), whole)
            assert np.array_equal(np.asarray(image.convert("RGB")), SIX.colors[whole])
        transform(source, SIX, dither=dither, out=tmp_path / "rgb.tiff")
        assert np.array_equal(tifffile.imread(tmp_path / "rgb.tiff"), SIX.colors[whole])
    assert names(tmp_path) == ["in.zarr", "out.tif", "out.zarr", "rgb.tiff"]


@pytest.mark.full
@pytest.mark.usefixtures("in_small_parts")
def test_halftones_and_wide_indices(tmp_path: pathlib.Path, picture: Any) -> None:
    clquant.PinwheelHalftoner(8).transform(picture[..., 0], out=tmp_path / "gray.tif")
    assert np.array_equal(
        tifffile.imread(tmp_path / "gray.tif"), clquant.PinwheelHalftoner(8).transform(picture[..., 0])
    )
    many = clquant.Palette(np.random.default_rng(1).integers(0, 256, (300, 3)))
    predict(picture, many, out=tmp_path / "wide.tif")
    with tifffile.TiffFile(tmp_path / "wide.tif") as file:
        page = file.pages[0]
        assert page.is_tiled
        assert np.array_equal(page.asarray(), predict(picture, many))
        assert np.array_equal(page.colormap[:, :300].T // 257, many.colors)


@pytest.mark.usefixtures("in_small_parts")
def test_transparent_entries_are_no_data(tmp_path: pathlib.Path, picture: Any) -> None:
    given = np.dstack([picture, np.where(picture[..., 0] > 99, 255, 0)]).astype(np.uint8)
    palette = SIX.with_transparent()
    predict(given, palette, out=tmp_path / "a.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.pages[0].tags[42113].value == "6"
    transform(given, palette, out=tmp_path / "b.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), transform(given, palette))
    with pytest.raises(clquant.InvalidArgument, match="entry 1 of the palette is partly transparent"):
        predict(given, [(0, 0, 0, 0), (9, 9, 9, 9)], out=tmp_path / "c.tif")


def stop_after(count: int) -> Any:
    return lambda done, _: done < count


@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("name", ["out.zarr", "out.tif"])
def test_a_job_that_stops_leaves_nothing(tmp_path: pathlib.Path, stored: pathlib.Path, name: str) -> None:
    for there in (False, True):
        if there:
            predict(stored, SIX, out=tmp_path / name)
        before = names(tmp_path)
        with pytest.raises(clquant.StoppedError):
            predict(stored, SIX, out=tmp_path / name, progress=stop_after(2))
        assert names(tmp_path) == before


@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("dither", [None, "bayer", "floyd-steinberg"])
def test_a_job_goes_on_where_it_stopped(
    tmp_path: pathlib.Path, picture: Any, stored: pathlib.Path, dither: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, begun = tmp_path / "out.zarr", []
    put = zarr_sink.ZarrSink.put

    def counted(self: Any, begin: int, rows: Any) -> None:
        begun.append(begin)
        put(self, begin, rows)

    with pytest.raises(clquant.StoppedError):
        predict(
            stored,
            SIX,
            dither=dither,
            out=out,
            resume=True,
            progress=stop_after(100),
        )
    assert names(tmp_path) == [".out.zarr.part", "in.zarr"]
    with pytest.raises(clquant.InvalidArgument, match=r"resume is given, but the job that began '.*out.zarr'"):
        predict(stored, SIX, dither="bayer2", out=out, resume=True)
    written = zarr.open(tmp_path / ".out.zarr.part", mode="r+")
    written[0, 0] = 5 - written[0, 0]  # which a job that begins anew would mend
    monkeypatch.setattr(zarr_sink.ZarrSink, "put", counted)
    predict(stored, SIX, dither=dither, out=out, resume=True)
    whole = predict(picture, SIX, dither=dither)
    whole[0, 0] = 5 - whole[0, 0]
    assert np.array_equal(zarr.open(out, mode="r")[:], whole)
    assert names(tmp_path) == ["in.zarr", "out.zarr"]
    assert dither == "floyd-steinberg" or begun[0] > 0
    assert not (out / "clquant-progress.json").exists()


KILLED = """
import os, sys
import clquant
from clquant.flow import file_sinks, tiff_sinks, zarr_sink
os.environ["CLQUANT_LIMITS"] = "lazy.memory=24576"
zarr_sink.CHUNK = zarr_sink.ZarrSink.block_rows = 32
tiff_sinks.TILE = tiff_sinks.TiffSink.block_rows = 16
source, out = sys.argv[1:]
clquant.KMeansPalette(4).fit(source).predict(
    source, out=out, resume=out.endswith("zarr"), progress=lambda done, total: done < 4 or os._exit(9)
)
"""


@pytest.mark.full
@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("name", ["out.zarr", "out.tif"])
def test_a_job_that_is_killed_leaves_no_file_of_its_name(
    tmp_path: pathlib.Path, picture: Any, stored: pathlib.Path, name: str
) -> None:
    out = tmp_path / name
    died = subprocess.run([sys.executable, "-c", KILLED, str(stored), str(out)], check=False)
    assert died.returncode == 9
    assert not out.exists()
    engine = clquant.KMeansPalette(4).fit(stored)
    engine.predict(stored, out=out, resume=name.endswith("zarr"))
    found = zarr.open(out, mode="r")[:] if name.endswith("zarr") else tifffile.imread(out)
    assert np.array_equal(found, engine.predict(picture))


def test_what_is_refused(tmp_path: pathlib.Path, picture: Any, stored: pathlib.Path) -> None:
    (tmp_path / "full.zarr").mkdir()
    (tmp_path / "full.zarr" / "x").write_text("x")
    for out, resume, words in (
        (tmp_path / "a.png", False, r"out is '.*a.png'; allowed: an array, or a path that ends in .zarr or .tif"),
        (tmp_path / "a.tif", True, r"resume is given with '.*a.tif'; allowed: with a path that ends in .zarr"),
        (np.zeros((147, 70), np.uint8), True, "resume is given without a path as out"),
        (tmp_path / "no" / "a.tif", False, "there is no folder"),
        (tmp_path / "full.zarr", False, "it exists and is no zarr"),
        (stored, False, "the image itself"),
    ):
        with pytest.raises(clquant.ClquantError, match=words):
            predict(stored, SIX, out=out, resume=resume)
    assert names(tmp_path) == ["full.zarr", "in.zarr"]


def test_a_disk_that_is_full_is_named(tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(tifffile.TiffWriter, "write", full)
    with pytest.raises(clquant.FileError, match=r"cannot write '.*a.tif': no space left"):
        predict(picture, SIX, out=tmp_path / "a.tif")
    assert names(tmp_path) == []


def nearly(done: int, total: int) -> bool:
    return done < 0.9 * total


@pytest.mark.full
@pytest.mark.usefixtures("in_small_parts")
def test_other_engines_go_on_too(tmp_path: pathlib.Path, picture: Any, stored: pathlib.Path) -> None:
    codec = clquant.VQCodec(9, (2, 3), refine=0).fit(picture)
    table = codec.encode(picture)
    zarr.create_array(tmp_path / "table.zarr", shape=table.shape, chunks=(8, 35), dtype="u1")[:] = table
    colored = clquant.PinwheelHalftoner(8, palette=SIX)
    for make, whole in (
        (clquant.PinwheelHalftoner(8).transform, clquant.PinwheelHalftoner(8).transform(picture)),
        (colored.transform, colored.transform(picture)),
        (codec.encode, table),
        (
            lambda _, **more: codec.decode(tmp_path / "table.zarr", (147, 70), **more),
            codec.decode(table, (147, 70)),
        ),
    ):
        out = tmp_path / "out.zarr"
        with pytest.raises(clquant.StoppedError):
            make(stored, out=out, resume=True, progress=nearly)
        written = zarr.open(tmp_path / ".out.zarr.part", mode="r+")
        written[0, 0] = 7
        make(stored, out=out, resume=True)
        expected = whole.copy()
        expected[0, 0] = 7
        assert np.array_equal(zarr.open(out, mode="r")[:], expected)
    with pytest.raises(clquant.StoppedError):
        codec.encode(stored, out=out, resume=True, progress=nearly)
    with pytest.raises(clquant.InvalidArgument, match="resume is given, but the job"):
        codec.decode(tmp_path / "table.zarr", out=out, resume=True)


class _Nearest:
    """A ditherer of the caller's own."""

    def dither(self, image: Any, palette: Any, **_: Any) -> Any:
        return predict(image, palette)


def test_dithers_of_ones_own_write_too(tmp_path: pathlib.Path, picture: Any) -> None:
    whole, out, own = predict(picture, SIX), np.zeros(picture.shape[:2], np.uint8), _Nearest()
    assert predict(picture, SIX, dither=own, out=out) is out
    assert np.array_equal(out, whole)
    colors = np.zeros_like(picture)
    assert transform(picture, SIX, dither=own, out=colors) is colors
    assert np.array_equal(colors, SIX.colors[whole])
    predict(picture, SIX, dither=own, out=tmp_path / "out.zarr")
    assert np.array_equal(zarr.open(tmp_path / "out.zarr", mode="r")[:], whole)
    assert np.array_equal(quantize(picture, SIX, dither=own).indices, whole)


def test_the_zarr_before_stays_if_the_new_one_cannot_get_its_name(
    tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(picture, SIX, out=tmp_path / "out.zarr")
    before = zarr.open(tmp_path / "out.zarr", mode="r")[:]

    def failing(self: Any) -> None:
        raise OSError("no more names")

    monkeypatch.setattr(file_sinks.FileSink, "finish", failing)
    with pytest.raises(OSError, match="no more names"):
        predict(255 - picture, SIX, out=tmp_path / "out.zarr")
    assert np.array_equal(zarr.open(tmp_path / "out.zarr", mode="r")[:], before)
    assert names(tmp_path) == ["out.zarr"]


@pytest.mark.parametrize(("package", "name"), [("tifffile", "out.tif"), ("zarr", "out.zarr")])
def test_a_missing_package_is_named(
    tmp_path: pathlib.Path, picture: Any, package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(clquant.FileError, match=rf"{package} is not installed \(pip install {package}\)"):
        predict(picture, SIX, out=tmp_path / name)
    assert names(tmp_path) == []
