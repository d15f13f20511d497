"""Engines and figures on pictures that are read in parts: the same bits as of the whole picture in memory."""

from __future__ import annotations

import pathlib
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest
import tifffile
from hypothesis import given, settings

import clquant
from clquant import quality, runtime
from clquant.flow.source import StoredRows

from .test_lazy import Rows

zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")


@pytest.fixture
def picture(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    smooth = np.add.outer(np.arange(147), np.arange(70))[..., None] + np.array([0, 40, 90])
    return (smooth + rng.integers(0, 9, (147, 70, 3))).astype(np.uint8)


@pytest.mark.full
@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("size", [5, 300])
def test_the_codec_encodes_and_decodes_in_parts(
    tmp_path: pathlib.Path, queue: runtime.CommandQueue, picture: Any, size: int
) -> None:
    codec = clquant.VQCodec(size, (2, 3), refine=0, queue=queue).fit(picture)
    source, table = Rows(picture), codec.encode(picture)
    assert np.array_equal(codec.encode(source), table)
    assert source.most_rows < len(picture)
    assert codec.encode(source, out=tmp_path / "table.zarr") == tmp_path / "table.zarr"
    assert np.array_equal(zarr.open(tmp_path / "table.zarr", mode="r")[:], table)
    assert codec.compress(source) == codec.compress(picture)
    whole = codec.decode(table, picture.shape)
    for given_table in (table, Rows(table), tmp_path / "table.zarr", table.astype(np.int64)):
        out = np.zeros_like(picture)
        assert codec.decode(given_table, picture.shape, out=out) is out
        assert np.array_equal(out, whole)
    assert np.array_equal(codec.decode(Rows(table), picture.shape), whole)
    codec.decode(tmp_path / "table.zarr", picture.shape, out=tmp_path / "again.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "again.tif"), whole)


@pytest.mark.usefixtures("in_small_parts")
def test_what_the_codec_refuses(tmp_path: pathlib.Path, queue: runtime.CommandQueue, picture: Any) -> None:
    codec = clquant.VQCodec(5, refine=0, queue=queue).fit(picture)
    table = codec.encode(picture)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(clquant.InvalidArgument, match="indices holds values from 0 to 9; allowed: 0 to 4"):
        codec.decode(Rows(np.where(table == 4, 9, table)), out=tmp_path / "x.tif")
    with pytest.raises(clquant.FileError, match=r"indices: cannot read rows \d+ to \d+: the disk is gone"):
        codec.decode(Rows(table, fails_from=30), out=tmp_path / "x.zarr")
    with pytest.raises(clquant.InvalidType, match="allowed: the path of a zarr or of a TIFF"):
        codec.decode(tmp_path / "none.png")
    with pytest.raises(clquant.InvalidArgument, match="out is given with a device array"):
        codec.decode(pyopencl.array.to_device(queue, table), out=np.zeros_like(picture))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.full
@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([None, 1, 3]), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=15)
def test_trees_of_parts_have_the_same_leaves(h: int, w: int, channels: Any, chunk: int, seed: int) -> None:
    shape = (h, w) if channels is None else (h, w, channels)
    values = np.random.default_rng(seed).integers(0, 3, shape, dtype=np.uint8) * np.uint8(40)
    values[: h // 2] = values[0, 0]
    for more in ({"threshold": 20}, {"threshold": 50, "method": "top-down"}, {"threshold": 41, "criterion": "range"}):
        builder = clquant.QuadtreeBuilder(**more)
        source = TwoWays(values, chunks=(chunk, chunk))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLQUANT_LIMITS", "lazy.memory=6144")
            found, tree = builder.leaves(source), builder.build(source, memory="1 GiB")
        assert np.array_equal(found, builder.leaves(values))
        assert tree == builder.build(values)
        assert np.array_equal(tree.render(), builder.build(values).render())
        assert not tree.exact


class TwoWays(Rows):
    """Slices of rows, and of rows and columns."""

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return self.values[key]


@pytest.mark.full
def test_trees_of_stores(tmp_path: pathlib.Path, picture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=picture.shape, chunks=(32, 32, 3), dtype="u1")[:] = picture
    tifffile.imwrite(tmp_path / "t.tif", picture, tile=(32, 48), photometric="rgb")
    builder = clquant.QuadtreeBuilder(20)
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    for name in ("a.zarr", "t.tif"):
        assert np.array_equal(builder.leaves(tmp_path / name), builder.leaves(picture))
        assert builder.build(tmp_path / name).exact
    rasterio = pytest.importorskip("rasterio")
    place = {"crs": "EPSG:3857", "transform": rasterio.Affine(2.0, 0, 100, 0, -2.0, 900)}
    shape = {"height": 147, "width": 70, "count": 3, "dtype": "uint8"}
    with rasterio.open(tmp_path / "g.tif", "w", driver="GTiff", **shape, **place) as file:
        file.write(np.moveaxis(picture, 2, 0))
    assert np.array_equal(builder.leaves(tmp_path / "g.tif"), builder.leaves(picture))


@pytest.mark.full
@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("channels", [None, 3, 4])
def test_figures_of_parts_are_those_of_the_whole(
    tmp_path: pathlib.Path, queue: runtime.CommandQueue, rng: np.random.Generator, picture: Any, channels: Any
) -> None:
    first = picture[..., 0].copy() if channels is None else np.dstack([picture, picture[..., 0]])[..., :channels].copy()
    second = (first + rng.integers(0, 5, first.shape)).astype(np.uint8)
    zarr.create_array(tmp_path / "b.zarr", shape=second.shape, chunks=(20, *second.shape[1:]), dtype="u1")[:] = second
    for figure in (quality.mse, quality.psnr, quality.ssim, quality.visual_error):
        whole = figure(first, second, queue=queue)
        source = Rows(first)
        device = pyopencl.array.to_device(queue, first)
        for pair in ((source, Rows(second)), (first, tmp_path / "b.zarr"), (device, Rows(second)), (source, second)):
            assert figure(*pair, queue=queue) == whole
        assert source.most_rows < len(first)
        assert figure(source, source, queue=queue) == figure(first, first, queue=queue)
    for figure in (quality.color_difference, quality.blurred_color_difference):
        source = Rows(first)
        assert figure(source, tmp_path / "b.zarr", queue=queue) == figure(first, second, queue=queue)
        assert source.most_rows < len(first)
    wide = first.astype(np.uint16)
    assert quality.mse(Rows(wide), wide + 2) == 4
    with pytest.raises(clquant.FileError, match="original: cannot read rows"):
        quality.mse(Rows(first, fails_from=100), second)
    with pytest.raises(clquant.InvalidArgument, match="must be non-empty and of one shape"):
        quality.mse(Rows(first), second[1:])


def test_rows_that_overlap_are_read_ahead() -> None:
    """Of bands with rows around them, each from the third on is read while the one before is worked on."""
    asked: list[tuple[int, int]] = []

    class Noted(Rows):
        def __getitem__(self, key: slice) -> npt.NDArray[Any]:
            asked.append((key.start, key.stop))
            return super().__getitem__(key)

    rows = StoredRows(Noted(np.zeros((100, 3), np.uint8)), "image", 1 << 20)
    bands = [(max(row - 2, 0), min(row + 12, 100)) for row in range(0, 100, 10)]
    for band in bands:
        assert rows.rows(*band).shape == (band[1] - band[0], 3, 1)
    assert set(bands) <= set(asked)
    assert len(asked) <= len(bands) + 2
