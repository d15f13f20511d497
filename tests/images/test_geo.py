"""GeoTIFFs, written and read by rasterio: where they lie is kept, and what is no data is the transparent entry."""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import clquant
from clquant import images
from clquant.cli import main
from clquant.flow import tiff_sinks
from clquant.images.tiff import geo, geo_files
from clquant.palette.verbs import predict, transform

rasterio = pytest.importorskip("rasterio")
pytest.importorskip("rasterio.warp")

PLACE = {"crs": "EPSG:32633", "transform": rasterio.Affine(10.0, 0, 500000, 0, -10.0, 5000000)}


@pytest.fixture
def picture(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    smooth = np.add.outer(np.arange(200), np.arange(150))[..., None] // 2 + np.array([1, 40, 90])
    values = (smooth + rng.integers(0, 9, (200, 150, 3))).astype(np.uint8)
    values[:50, :60] = 0
    values[-20:] = 0
    return values


def write(path: pathlib.Path, values: npt.NDArray[Any], table: Any = None, **more: Any) -> pathlib.Path:
    bands = values[None] if values.ndim == 2 else np.moveaxis(values, 2, 0)
    shape = {"height": values.shape[0], "width": values.shape[1], "count": len(bands), "dtype": values.dtype}
    with rasterio.open(path, "w", driver="GTiff", **shape, **{**PLACE, **more}) as file:
        if table is not None:
            file.write_colormap(1, table)
        file.write(bands)
        file.update_tags(AREA_OR_POINT="Point", scene="S2A")
    return path


@pytest.mark.parametrize("layout", [{"tiled": True, "blockxsize": 64, "blockysize": 48}, {}])
def test_a_scene_keeps_its_place(
    tmp_path: pathlib.Path, picture: Any, layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=102400")
    monkeypatch.setattr(tiff_sinks.GeoTiffSink, "block_rows", 16)
    scene = write(tmp_path / "scene.tif", picture, nodata=0, photometric="RGB", **layout)
    with rasterio.open(scene, "r+") as file:
        file.build_overviews([2, 4], rasterio.enums.Resampling.average)
    rgba = np.dstack([picture, np.where(picture.any(axis=2), 255, 0)]).astype(np.uint8)
    assert np.array_equal(images.read(scene).array, rgba)
    engine = clquant.KMeansPalette(9).fit(scene)
    assert engine.palette_ == clquant.KMeansPalette(9).fit(rgba).palette_
    whole = engine.predict(rgba, "bayer")
    engine.predict(scene, "bayer", out=tmp_path / "out.tif")
    with rasterio.open(tmp_path / "out.tif") as made, rasterio.open(scene) as given:
        assert np.array_equal(made.read(1), whole)
        assert (made.crs, made.transform, made.tags()) == (given.crs, given.transform, given.tags())
        assert made.nodata == engine.palette_.transparent_index == 0
        assert np.array_equal(made.dataset_mask() > 0, rgba[..., 3] > 0)
        assert made.colorinterp[0].name == "palette"
        assert [made.colormap(1)[i][:3] for i in range(9)] == [tuple(map(int, c[:3])) for c in engine.palette_.colors]
        assert made.overviews(1) == [2, 4]
        with rasterio.open(tmp_path / "out.tif", overview_level=0) as half:
            assert np.array_equal(half.read(1), whole[::2, ::2])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.tif", "scene.tif"]
    again = tmp_path / "again.tif"
    engine.transform(tmp_path / "out.tif", out=again)  # of its own colours: nothing changes
    with rasterio.open(again) as made:
        assert made.crs == PLACE["crs"]
        assert np.array_equal(np.moveaxis(made.read(), 0, 2)[..., :4], engine.palette_.rgba()[whole])


def test_many_kinds_of_bands(tmp_path: pathlib.Path, picture: Any) -> None:
    def read(values: Any, **more: Any) -> Any:
        return images.read(write(tmp_path / "x.tif", values, **more)).array

    assert np.array_equal(read(picture), picture)
    assert np.array_equal(read(picture[..., 0])[..., 0], picture[..., 0])
    holes = read(picture[..., 0], nodata=0)
    assert np.array_equal(holes[..., 2], picture[..., 0])
    assert np.array_equal(holes[..., 3], np.where(picture[..., 0], 255, 0))
    table = {1: (9, 8, 7, 255), 2: (1, 2, 3, 255)}
    indexed = (picture[..., 0] % 2 + 1).astype(np.uint8)
    assert np.array_equal(read(indexed, table=table), np.uint8([(9, 8, 7), (1, 2, 3)])[indexed - 1])
    assert np.array_equal(read(indexed, table=table, nodata=2)[..., 3], np.where(indexed == 2, 0, 255))
    signed = picture.astype(np.int16)
    holes = read(np.where(picture[..., :1] < 9, np.int16(-1), signed), nodata=-1)
    assert np.array_equal(holes[..., 3], np.where(picture[..., 0] < 9, 0, 255))
    wide = picture.astype(np.uint16) * 257
    assert np.array_equal(read(wide, nodata=0)[..., :3], picture)
    with pytest.raises(clquant.FileError, match=r"it has 2 bands \(gray, undefined\), none.*--bands 1,2,3"):
        read(picture[..., :2])


@pytest.mark.parametrize("layout", [{"tiled": True, "blockxsize": 64, "blockysize": 48}, {"BIGTIFF": "YES"}])
@pytest.mark.parametrize("more", [[], ["--memory", "64MiB"]], ids=str)
def test_without_rasterio_the_command_keeps_the_place(
    tmp_path: pathlib.Path, picture: Any, layout: Any, more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    scene, made = write(tmp_path / "scene.tif", picture, **layout), tmp_path / "made.tif"
    monkeypatch.setattr(geo, "is_installed", lambda: False)
    assert main(["palette", str(scene), "-k", "4", *more, "-o", str(made)]) == 0
    with rasterio.open(made) as result, rasterio.open(scene) as given:
        assert (result.crs, result.transform) == (given.crs, given.transform)
        assert result.tags()["AREA_OR_POINT"] == "Point"
    assert "note:" not in capsys.readouterr().err
    assert main(["palette", str(scene), "-k", "4", "-o", str(tmp_path / "made.png")]) == 0
    assert "note: the place on the map is dropped; .tif keeps it (scene.tif)\n" in capsys.readouterr().err


def test_without_rasterio_out_keeps_the_place(
    tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = write(tmp_path / "scene.tif", picture, tiled=True, blockxsize=64, blockysize=48)
    monkeypatch.setattr(geo, "is_installed", lambda: False)
    clquant.KMeansPalette(4).fit(scene).predict(scene, out=tmp_path / "made.tif")
    with rasterio.open(tmp_path / "made.tif") as result:
        assert (result.crs, result.transform) == (PLACE["crs"], PLACE["transform"])
    with pytest.raises(clquant.FileError, match="rasterio is not installed"):
        clquant.GeoTiff(tmp_path / "made.tif", cog=True)
    with pytest.warns(UserWarning, match=r"does not keep where .*scene.tif' lies: .tif does"):
        clquant.KMeansPalette(4).fit(scene).predict(scene, out=tmp_path / "made.zarr")


def test_cog_is_refused_before_there_is_work(
    tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    scene = write(tmp_path / "scene.tif", picture)
    monkeypatch.setattr(geo, "is_installed", lambda: False)
    monkeypatch.setattr(clquant.KMeansPalette, "fit", lambda *_, **__: pytest.fail("it was learned"))
    assert main(["palette", str(scene), "--cog", "-k", "4", "-o", str(tmp_path / "made.tif")]) == 2
    assert "rasterio is not installed (pip install rasterio)" in capsys.readouterr().err


def test_masks_of_the_file_count(tmp_path: pathlib.Path, picture: Any) -> None:
    scene = write(tmp_path / "x.tif", picture)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(scene, "r+") as file:
        file.write_mask(picture[..., 0] > 80)
    assert np.array_equal(images.read(scene).array[..., 3] > 0, picture[..., 0] > 80)


def test_without_rasterio_a_warning_says_what_is_lost(
    tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = write(tmp_path / "x.tif", picture, nodata=0, tiled=True, blockxsize=64, blockysize=64)
    monkeypatch.setattr(geo, "is_installed", lambda: False)
    with pytest.warns(UserWarning, match="has a value for no data, which counts as a colour"):
        assert np.array_equal(images.read(scene).array, picture)


def test_points_and_cameras_are_kept(tmp_path: pathlib.Path, picture: Any) -> None:
    points = [rasterio.control.GroundControlPoint(row, 2 * row, 10.0 + row, 50.0 + row) for row in (0.0, 40.0, 70.0)]
    camera = rasterio.rpc.RPC(*[1.0] * 4, [1.0] * 20, [1.0] * 20, *[1.0] * 4, [1.0] * 20, [1.0] * 20, 1.0, 1.0)
    scene = tmp_path / "scene.tif"
    shape: dict[str, Any] = {"height": 200, "width": 150, "count": 3, "dtype": "uint8"}
    with rasterio.open(scene, "w", driver="GTiff", **shape, crs="EPSG:4326", gcps=points, rpcs=camera) as file:
        file.write(np.moveaxis(picture, 2, 0))
    predict(scene, [(0, 0, 0), (255, 255, 255)], out=tmp_path / "out.tif")
    with rasterio.open(tmp_path / "out.tif") as made, rasterio.open(scene) as given:
        found, kept = ([(one.row, one.col, one.x, one.y) for one in file.gcps[0]] for file in (made, given))
        assert found == kept
        assert len(kept) == 3
        assert made.gcps[1] == given.gcps[1]
        assert made.rpcs.to_gdal() == given.rpcs.to_gdal()


def test_damaged_files_are_refused(tmp_path: pathlib.Path, picture: Any) -> None:
    scene = write(tmp_path / "x.tif", picture, compress="deflate")
    data = scene.read_bytes()
    scene.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    with pytest.raises(clquant.FileError, match="cannot read"):
        clquant.KMeansPalette(4).fit(scene)


def test_layouts(tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geo_files, "BLOCK", 128)  # GDAL's least
    scene = write(tmp_path / "scene.tif", picture[:192, :144], nodata=0, photometric="RGB")
    palette = clquant.Palette([(40, 60, 90, 255), (90, 110, 160, 255), (0, 0, 0, 0), (150, 190, 250, 255)])
    whole = predict(scene, palette)
    tiff, path = clquant.GeoTiff, tmp_path / "out.tif"

    def made(source: Any, out: Any) -> tuple[bool, list[int], Any]:
        predict(source, palette, out=out)
        with rasterio.open(path) as file:
            assert np.array_equal(file.read(1), whole)
            assert (file.crs, file.transform) == (PLACE["crs"], PLACE["transform"])
            assert file.nodata == 2
            return file.tags(ns="IMAGE_STRUCTURE").get("LAYOUT") == "COG", file.overviews(1), file.colormap(1)[1]

    color = (90, 110, 160, 255)
    assert made(scene, path) == made(scene, tiff(path)) == made(scene, tiff(path, cog=False)) == (False, [], color)
    assert made(scene, tiff(path, cog=True)) == (True, [2], color)
    with rasterio.open(path, overview_level=0) as half:
        assert np.array_equal(half.read(1), whole[::2, ::2])
    assert made(scene, tiff(str(path), overviews="mode")) == (False, [2], color)
    with rasterio.open(path, overview_level=0) as half:
        most_frequent = half.read(1)
    blocks = whole.reshape(96, 2, 72, 2).swapaxes(1, 2).reshape(96, 72, 4)
    counts = (blocks[..., None] == np.arange(4)).sum(2)
    counts[..., 2] = np.where(counts[..., 2] == 4, 9, 0)  # what is no data counts alone
    assert (np.take_along_axis(counts, most_frequent[..., None].astype(np.intp), 2)[..., 0] == counts.max(2)).all()
    assert made(scene, tiff(path, cog=True, overviews="none")) == (True, [], color)
    made(scene, tiff(path, cog=True))
    shutil.copy(path, tmp_path / "cog.tif")
    assert made(tmp_path / "cog.tif", path) == (True, [2], color)  # as its source
    assert made(tmp_path / "cog.tif", tiff(path, cog=False)) == (False, [2], color)
    transform(scene, palette, out=tiff(path, cog=True))
    with rasterio.open(path) as file:
        assert np.array_equal(np.moveaxis(file.read(), 0, 2), palette.rgba()[whole])
        assert file.overviews(1) == [2]
    predict(picture, palette, out=tiff(path, overviews="nearest"))  # of a picture that lies nowhere
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning), rasterio.open(path) as file:
        assert (file.crs, file.overviews(1)) == (None, [2])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cog.tif", "out.tif", "scene.tif"]


@pytest.mark.parametrize("holes", [{}, {"nodata": 0}])
def test_dask_reads_every_column_of_a_scene(tmp_path: pathlib.Path, picture: Any, holes: Any) -> None:
    opened = pytest.importorskip("clquant.dask").opened
    scene = write(tmp_path / "scene.tif", picture, photometric="RGB", **holes)
    whole = images.read(scene).array
    lazily = opened(scene)
    assert lazily.shape == whole.shape
    assert np.array_equal(lazily.compute(scheduler="synchronous"), whole)
    assert np.array_equal(lazily[3:90, 70:, 1:].compute(scheduler="synchronous"), whole[3:90, 70:, 1:])


@pytest.mark.parametrize(
    ("name", "options", "verb", "words"),
    [
        ("x.tif", {"overviews": "average"}, predict, "overviews is 'average'; allowed: 'nearest', 'mode', 'none'"),
        ("x.tif", {"cog": 1}, predict, "cog is 1"),
        ("x.tif", {"overviews": "mode"}, transform, "overviews is 'mode' for a result of colours"),
        ("x.zarr", {"cog": True}, predict, "ends in .zarr or .tif"),
    ],
)
def test_layouts_that_are_refused(
    tmp_path: pathlib.Path, picture: Any, name: str, options: Any, verb: Any, words: str
) -> None:
    with pytest.raises(clquant.ClquantError, match=words):
        verb(picture, [(0, 0, 0)], out=clquant.GeoTiff(tmp_path / name, **options))
    assert not any(tmp_path.iterdir())


def test_a_copy_that_fails_leaves_nothing(
    tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: str, made: str, **options: Any) -> None:
        pathlib.Path(made).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("rasterio.shutil.copy", fail)
    with pytest.raises(clquant.FileError, match="disk full"):
        predict(picture, [(0, 0, 0)], out=clquant.GeoTiff(tmp_path / "x.tif", cog=True))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["palette", "-k", "8"], ["halftone", "--gray"]])
def test_values_of_12_bits_are_stretched_where_results_go_by_bands(
    tmp_path: pathlib.Path, picture: Any, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = picture.astype(np.uint16) * 16
    write(tmp_path / "12.tif", np.minimum(values, 4095))
    write(tmp_path / "16.tif", ((np.minimum(values, 4095).astype(np.uint32) * 65535 + 2047) // 4095).astype(np.uint16))
    assert main([*command, "12.tif", "--range", "4095", "-q", "-o", "a.tif"]) == 0
    assert main([*command, "16.tif", "-q", "-o", "b.tif"]) == 0
    with rasterio.open("a.tif") as made, rasterio.open("b.tif") as wanted:
        assert np.array_equal(made.read(), wanted.read())
        assert made.crs == PLACE["crs"]
    with pytest.warns(UserWarning, match="no value above 4095"):
        clquant.PinwheelHalftoner().transform("12.tif")


@pytest.mark.filterwarnings("default:band 4")
def test_bands_are_chosen(tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    near = np.dstack([picture, picture[..., 0] // 2 + 60])
    for name, layout in (("alpha.tif", {}), ("plain.tif", {"photometric": "MINISBLACK"})):
        write(tmp_path / name, near, **layout)
        write(tmp_path / "rgb.tif", near[..., [3, 1, 0]], photometric="RGB")
        for suffix in ("png", "tif"):
            for one, more in ((name, ["--bands", "4,2,1"]), ("rgb.tif", [])):
                assert main(["palette", one, *more, "-k", "5", "-q", "-o", f"{one}-5.{suffix}"]) == 0
        with rasterio.open(f"{name}-5.tif") as made, rasterio.open("rgb.tif-5.tif") as wanted:
            assert np.array_equal(made.read(1), wanted.read(1))
            assert made.crs == PLACE["crs"]
        assert pathlib.Path(f"{name}-5.png").read_bytes() == pathlib.Path("rgb.tif-5.png").read_bytes()
        assert main(["quadtree", name, "--bands", "1", "-q", "-o", "gray.geojson"]) == 0
    capsys.readouterr()
    assert main(["palette", "alpha.tif", "-k", "5", "-q", "-o", "out.tif"]) == 2
    told = capsys.readouterr().err
    assert "as band 4 of 'alpha.tif' counts as alpha; allowed: " in told
    assert told.count("band 4 of 'alpha.tif' counts as alpha, by which pixels are partly transparent") == 1
    near[..., 3] = np.where(near[..., 3] > 99, 255, 0)
    write(tmp_path / "holes.tif", near)
    assert main(["palette", "holes.tif", "-k", "5", "-q", "-o", "holes-5.tif"]) == 0
    assert not capsys.readouterr().err
    for wrong, why in (("1,5,2", "it has 4 bands, but band 5 is chosen"), ("1,2", "one, three or four numbers")):
        with contextlib.suppress(SystemExit):
            assert main(["palette", "alpha.tif", "--bands", wrong, "-o", "out.png"]) == 2
        assert why in capsys.readouterr().err
    assert not pathlib.Path("out.tif").exists()


@pytest.mark.parametrize("more", [["-k", "5"], ["--use", "black,white,red"]])
def test_a_value_for_no_data_that_no_pixel_has_takes_no_entry(
    more: list[str], tmp_path: pathlib.Path, picture: Any, capsys: Any
) -> None:
    count = 5 if "-k" in more else 3
    for name, values, extra in (("full", picture | 1, 0), ("holes", picture, int("--use" in more))):
        scene = write(tmp_path / f"{name}.tif", values, nodata=0, photometric="RGB")
        assert main(["palette", str(scene), *more, "-o", str(tmp_path / "out.tif")]) == 0
        assert f"{count + extra} colours" in capsys.readouterr().err
        with rasterio.open(tmp_path / "out.tif") as made:
            assert (made.nodata is None) == (name == "full")


def test_leaves_lie_on_the_earth(tmp_path: pathlib.Path, picture: Any, capsys: Any) -> None:
    scene, out = write(tmp_path / "scene.tif", picture, photometric="RGB"), tmp_path / "leaves.geojson"
    assert main(["quadtree", str(scene), "-o", str(out)]) == 0
    assert "not kept" not in capsys.readouterr().err
    found = json.loads(out.read_text())
    tree = clquant.QuadtreeBuilder().build(picture)
    assert found == tree.to_geojson(PLACE["transform"], crs=PLACE["crs"], flat=True)
    corners = np.array([feature["geometry"]["coordinates"][0] for feature in found["features"]])
    back = rasterio.warp.transform("EPSG:4326", PLACE["crs"], *corners.reshape(-1, 2).T.tolist())
    placed = tree.to_geojson(PLACE["transform"])["features"]
    there = np.array([feature["geometry"]["coordinates"][0] for feature in placed]).reshape(-1, 2)
    assert np.abs(np.stack(back, 1) - there).max() < 1e-3  # metres
    write(scene, picture, photometric="RGB", crs=None)
    assert main(["quadtree", str(scene), "-o", str(tmp_path / "b.geojson")]) == 2
    said = capsys.readouterr().err
    assert "has no coordinate system" in said or "has no place on the earth" in said  # as GDAL's versions read it
    assert not (tmp_path / "b.geojson").exists()
    with pytest.raises(clquant.InvalidArgument, match="crs is 'EPSG:4' with"):
        tree.to_geojson(crs="EPSG:4")
    with pytest.raises(clquant.InvalidArgument, match="crs is 'nowhere'; allowed: a coordinate system"):
        tree.to_geojson(PLACE["transform"], crs="nowhere")


def test_leaves_over_180_degrees_are_cut(picture: Any) -> None:
    tree = clquant.QuadtreeBuilder(255).build(picture)
    for begin in (178, -181, 181):
        (leaf,) = tree.to_geojson((0.01, 0, begin, 0, -0.01, 10), crs="EPSG:4326")["features"]
        assert (leaf["geometry"]["type"] == "Polygon") == (begin in (178, 181))
    (leaf,) = tree.to_geojson((0.01, 0, 179.5, 0, -0.01, 10), crs="EPSG:4326")["features"]
    assert leaf["geometry"]["type"] == "MultiPolygon"
    west, east = (np.array(ring[0]) for ring in leaf["geometry"]["coordinates"])
    for ring, low, high in ((west, 179.5, 180), (east, -180, -179)):
        assert np.allclose([ring[:, 0].min(), ring[:, 0].max(), ring[:, 1].min(), ring[:, 1].max()], [low, high, 8, 10])
        assert np.array_equal(ring[0], ring[-1])
        assert sum(a[0] * b[1] - b[0] * a[1] for a, b in itertools.pairwise(ring.tolist())) > 0
