"""Pictures that are read in parts and results that go into `out`: the same bits as of the whole picture in memory."""

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
from clquant import images, runtime
from clquant.flow.source import PORTIONS_IN_MEMORY, PictureSource, StoredRows, is_stored, open_picture
from clquant.images import storage
from clquant.palette.engine import predict, transform

zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11

SIX = clquant.Palette([(0, 0, 0), (255, 255, 255), (0, 160, 0), (0, 0, 255), (255, 0, 0), (90, 90, 90)])
DITHERS = (None, "blue-noise", "floyd-steinberg", "atkinson", "leaky", "pinwheel", "search")


class Rows:
    """The least that a lazy picture needs; it counts what was read and knows when it fails."""

    def __init__(self, values: npt.NDArray[Any], fails_from: int | None = None, chunks: Any = None) -> None:
        self.values, self.fails_from, self.chunks = values, fails_from, chunks
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.most_rows = 0

    def __getitem__(self, key: slice) -> npt.NDArray[Any]:
        rows = self.values[key]
        self.most_rows = max(self.most_rows, len(rows))
        if self.fails_from is not None and key.stop > self.fails_from:
            raise OSError("the disk is gone")
        return rows


@pytest.fixture
def in_small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound so low that pictures of these tests take several bands."""
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")


@pytest.fixture
def picture(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    smooth = np.add.outer(np.arange(147), np.arange(70))[..., None] + np.array([0, 40, 90])
    return (smooth + rng.integers(0, 9, (147, 70, 3))).astype(np.uint8)


@pytest.mark.usefixtures("in_small_bands")
@pytest.mark.parametrize("limits", ["is_cpu=0", ""], ids=["as a GPU", "as it is"])
@pytest.mark.parametrize("dither", DITHERS)
def test_every_dither_works_in_parts(
    queue: runtime.CommandQueue, picture: Any, dither: Any, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", f"lazy.memory=24576,{limits}")
    source, out = Rows(picture), np.zeros(picture.shape, np.uint8)
    whole = predict(picture, SIX, dither=dither, queue=queue)
    assert np.array_equal(predict(source, SIX, dither=dither, queue=queue), whole)
    assert source.most_rows < len(picture) or dither == "search"  # whose passes reach far
    assert transform(source, SIX, dither=dither, queue=queue, out=out) is out
    assert np.array_equal(out, SIX.colors[whole])


@pytest.mark.usefixtures("in_small_bands")
@pytest.mark.parametrize("channels", [None, 3, 4])
@pytest.mark.parametrize("palette", [None, SIX])
def test_halftones_work_in_parts(queue: runtime.CommandQueue, picture: Any, channels: Any, palette: Any) -> None:
    given = picture[..., 0] if channels is None else np.dstack([picture, picture[..., 1] | 1])[..., :channels]
    given = np.ascontiguousarray(given)
    engine = clquant.PinwheelHalftoner(8, palette=palette, queue=queue)
    whole = engine.transform(given)
    out = np.zeros_like(whole)
    assert np.array_equal(engine.transform(Rows(given)), whole)
    assert engine.transform(Rows(given), out=out) is out
    assert np.array_equal(out, whole)


@pytest.mark.full
@given(st.integers(1, 31), st.integers(1, 30), st.sampled_from([None, 1, 3, 4]), st.integers(1, 7), st.integers(0, 99))
@settings(max_examples=15)
def test_any_shape_and_chunk_is_counted_and_fitted(h: int, w: int, channels: Any, chunk: int, seed: int) -> None:
    shape = (h, w) if channels is None else (h, w, channels)
    values = np.random.default_rng(seed).integers(0, 5, shape, dtype=np.uint8) * np.uint8(60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLQUANT_LIMITS", "lazy.memory=1024")
        source = Rows(values, chunks=(chunk, *shape[1:]))
        assert clquant.ColorHistogram.of([source, source]) == clquant.ColorHistogram.of([values, values])
        one, other = clquant.KMeansPalette(7).fit(source), clquant.KMeansPalette(7).fit(values)
        assert (one.palette_, one.inertia_, one.n_iter_) == (other.palette_, other.inertia_, other.n_iter_)
        assert np.array_equal(one.predict(source), one.predict(values))


def test_stores_that_people_have(tmp_path: pathlib.Path, picture: Any) -> None:
    whole = predict(picture, SIX)
    stored = zarr.create_array(tmp_path / "a.zarr", shape=picture.shape, chunks=(50, 50, 3), dtype="u1")
    stored[:] = picture
    pyramid = zarr.open_group(tmp_path / "p.zarr", mode="w")
    pyramid.create_array("0", shape=picture.shape, chunks=(64, 64, 3), dtype="u1")[:] = picture
    tifffile.imwrite(tmp_path / "t.tif", picture, tile=(32, 48), photometric="rgb", compression="zlib", bigtiff=True)
    mapped = np.memmap(tmp_path / "m.raw", np.uint8, "w+", shape=picture.shape)
    mapped[:] = picture
    for source in (stored, tmp_path / "a.zarr", str(tmp_path / "p.zarr"), tmp_path / "t.tif", mapped):
        assert is_stored(source)
        assert np.array_equal(predict(source, SIX), whole)
        assert np.array_equal(images.read(source).array, picture)
    assert clquant.KMeansPalette(5).fit(tmp_path / "a.zarr").palette_ == clquant.KMeansPalette(5).fit(picture).palette_
    written = zarr.create_array(tmp_path / "o.zarr", shape=whole.shape, chunks=(40, 40), dtype="u1")
    assert predict(stored, SIX, out=written) is written
    assert np.array_equal(written[:], whole)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "h.h5", "w") as file:
        source, out = file.create_dataset("x", data=picture), file.create_dataset("o", whole.shape, "u2")
        assert is_stored(source)
        predict(source, SIX, out=out)
        assert np.array_equal(out[:], whole)
    xarray = pytest.importorskip("xarray")
    assert not is_stored(xarray.DataArray(picture, dims=("y", "x", "band")))


def test_folders_may_hold_stores_of_every_format(tmp_path: pathlib.Path, picture: Any) -> None:
    for number in (2, 3):
        store = tmp_path / f"v{number}.zarr"
        shape = {"shape": picture.shape, "chunks": (50, 50, 3), "dtype": "u1", "zarr_format": number}
        zarr.create_array(store, **shape)[:] = picture
        (store / "preview.png").write_bytes(b"is no picture of the folder")
    tifffile.imwrite(tmp_path / "t.tif", picture, tile=(32, 48), photometric="rgb")
    counted = clquant.ColorHistogram.of(tmp_path)
    assert counted == clquant.ColorHistogram.of([picture] * 3)


@pytest.mark.usefixtures("in_small_bands")
def test_16_bits_are_read_by_the_rule(picture: Any) -> None:
    wide = picture.astype(np.uint16) * 257
    assert np.array_equal(predict(Rows(wide), SIX), predict(picture, SIX))


@pytest.mark.usefixtures("in_small_bands")
def test_counting_tells_its_rows_and_can_be_stopped(picture: Any) -> None:
    told: list[tuple[int, int]] = []
    clquant.KMeansPalette(3).fit(Rows(picture), progress=lambda *step: told.append(step))
    assert told[0][0] < 147
    assert (147, 147) in told
    with pytest.raises(clquant.StoppedError):
        clquant.KMeansPalette(3).fit([Rows(picture), picture], progress=lambda *_: False)


@pytest.mark.usefixtures("in_small_bands")
def test_what_fails_is_named(queue: runtime.CommandQueue, picture: Any) -> None:
    with pytest.raises(clquant.FileError, match=r"image: cannot read rows \d+ to \d+: the disk is gone"):
        predict(Rows(picture, fails_from=100), SIX)

    class Full(Rows):
        def __setitem__(self, key: Any, values: Any) -> None:
            raise OSError("no space left")

    with pytest.raises(clquant.FileError, match=r"out: cannot write rows 0 to \d+: no space left"):
        predict(Rows(picture), SIX, out=Full(np.zeros(picture.shape[:2], np.uint8)))
    for out, words in (
        (np.zeros((2, 2), np.uint8), r"out has shape \(2, 2\) and dtype uint8; allowed: \(147, 70\) and uint8"),
        (np.zeros(picture.shape[:2], bool), "out has shape .* and dtype bool"),
        (5, "out is 5; allowed: an array"),
    ):
        with pytest.raises(clquant.ClquantError, match=words):
            predict(picture, SIX, out=out)
    with pytest.raises(clquant.InvalidArgument, match="out is given with a device array"):
        predict(pyopencl.array.to_device(queue, picture), SIX, out=np.zeros(picture.shape[:2], np.uint8))
    with pytest.raises(clquant.InvalidArgument, match=r"shape \(147, 70, 3, 1\)"):
        predict(Rows(picture[..., None]), SIX)
    with pytest.raises(clquant.InvalidArgument, match="sample_weight is given with an image in a store"):
        clquant.KMeansPalette(4).fit(Rows(picture), sample_weight=picture[..., 0])
    with pytest.raises(clquant.InvalidArgument, match="out is given for output='bits'"):
        clquant.PinwheelHalftoner(8).transform(picture[..., 0], output="bits", out=np.zeros((147, 9), np.uint8))


def test_bounds_of_memory_are_sizes() -> None:
    assert storage.memory_bytes("1 GiB") == storage.memory_bytes(1 << 30) == 1 << 30
    assert storage.memory_bytes("1.5MB") == storage.memory_bytes("1.5M") == storage.memory_bytes("1500000") == 1_500_000
    assert storage.memory_bytes(None) == 512 << 20
    for wrong in ("much", "1", "5 bytes", -1, 1.5, 100):
        with pytest.raises(clquant.ClquantError, match="memory is"):
            storage.memory_bytes(wrong)


def test_bands_hold_whole_chunks_and_stay_in_memory() -> None:
    stored = Rows(np.zeros((4000, 100, 3), np.uint8), chunks=(64, 100, 3))
    source = PictureSource(open_picture(stored, memory=1 << 20))

    def first(row_bytes: int, multiple: int = 1) -> int:
        return source.portions(None, multiple, row_bytes=row_bytes)[0].row1

    most = (1 << 20) // (PORTIONS_IN_MEMORY * 300)
    assert first(0) == most // 64 * 64
    assert first(0, 24) == most // 192 * 192
    widest = 3 * (1 << 20) // (8 * 64)  # of rows of which memory holds 8/3 portions of whole chunks
    assert first(widest) == 64
    assert first(widest + 1) == (1 << 20) // (6 * (widest + 1))
    assert first(300 * 100, 8) == 8


@pytest.mark.parametrize(("rows", "read"), [(10, [10, 20]), (11, [11])])
def test_bands_are_read_ahead_if_memory_holds_four(rows: int, read: list[int]) -> None:
    ends: list[int] = []

    class Noted(Rows):
        def __getitem__(self, key: slice) -> npt.NDArray[Any]:
            ends.append(key.stop)
            return super().__getitem__(key)

    reader = StoredRows(Noted(np.zeros((64, 100, 3), np.uint8)), "image", 4 * 10 * 300)
    reader.rows(0, rows)
    reader._ahead.wait()
    assert ends == read


@pytest.mark.parametrize(
    ("shape", "chunks", "message"),
    [
        ((10**30, 10**30), (1, 1), r"the shape \(10{30}, 10{30}\); allowed: sides of up to 2147483647"),
        ((2**40, 1), (1, 1), r"the shape \(1099511627776, 1\); allowed: sides of up to 2147483647"),
        ((2**20, 2**20), (1, 1), r"in 1099511627776 chunks of \(1, 1\); allowed: 67108864 chunks"),
        ((1, 2**31, 3), (1, 2**31, 3), "allowed: sides of up to 2147483647"),
        ((1, 2**30, 3), (1, 2**20, 3), "a row takes 3221225472 bytes; allowed by memory: 67108864"),
        ((2**15, 2**14), (2**15, 2**14), "a chunk takes 536870912 bytes; allowed by memory: 67108864"),
    ],
    ids=str,
)
def test_sizes_that_cannot_be_right_are_refused_first(
    shape: tuple[int, ...], chunks: tuple[int, ...], message: str, tmp_path: pathlib.Path
) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=shape, chunks=chunks, dtype="u1")
    with pytest.raises(runtime.InvalidArgument, match=message):
        clquant.KMeansPalette(4).fit(tmp_path / "a.zarr", memory="64 MiB")


def test_a_store_is_read_at_once_up_to_a_bound(tmp_path: pathlib.Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(2**20, 2**10), chunks=(64, 64), dtype="u1")
    with pytest.raises(runtime.FileError, match="it claims 1024x1048576 pixels; allowed at once: 536870912"):
        images.read(tmp_path / "a.zarr")
