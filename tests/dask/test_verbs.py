"""Dask arrays: the bits of the whole picture, whatever the chunks, lazily, and errors that say where."""

from __future__ import annotations

import copy
import itertools
import pathlib
import pickle
import sys
from typing import Any

import dask
import dask.array as da
import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

import clquant
from clquant.dask import MismatchError, decompressed, histogram, maps, opened, verify
from clquant.palette.engine import predict, transform
from tests.lowering import lower

SIX = clquant.Palette([(0, 0, 0), (255, 255, 255), (0, 160, 0), (0, 0, 255), (255, 0, 0), (90, 90, 90)])


@pytest.fixture(scope="module")
def picture() -> npt.NDArray[np.uint8]:
    smooth = np.add.outer(np.arange(203), 2 * np.arange(171))[..., None] + np.array([0, 40, 90])
    return (smooth + np.random.default_rng(4).integers(0, 9, (203, 171, 3))).astype(np.uint8)


@pytest.fixture(autouse=True)
def _in_turn() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.full
@pytest.mark.parametrize(
    "dither", [None, True, "pinwheel", "blue-noise", "bayer4", "leaky", clquant.SearchDither(passes=1)]
)
@pytest.mark.parametrize("chunks", [(60, 71, 3), ((203,), (1, 100, 70), (2, 1))])
def test_every_chunking_gives_the_bits_of_the_whole(picture: Any, dither: Any, chunks: Any) -> None:
    whole, given = predict(picture, SIX, dither=dither), da.from_array(picture, chunks)
    lazy = predict(given, SIX, dither=dither)
    assert (lazy.shape, lazy.dtype, lazy.chunks) == (whole.shape, whole.dtype, given.chunks[:2])
    assert np.array_equal(lazy.compute(), whole)
    colors = transform(given, SIX, dither=dither)
    assert (colors.shape, colors.dtype, colors.chunks[:2]) == (picture.shape, np.uint8, given.chunks[:2])
    assert np.array_equal(colors.compute(), SIX.colors[whole])


@pytest.mark.parametrize("dither", ["pinwheel", "leaky"])
def test_chunks_in_memory_are_put_together_on_the_device(picture: Any, dither: Any, monkeypatch: Any) -> None:
    whole, gray = predict(picture, SIX, dither=dither), np.ascontiguousarray(picture[:, :, 1])
    monkeypatch.setattr("clquant.dask.chunks.held", lambda _: [None])
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    lazy = predict(da.from_array(picture, (60, 71, 3)), SIX, dither=dither)
    assert not any("piece" in str(key) for key in lazy.__dask_graph__())
    assert np.array_equal(lazy.compute(), whole)
    halftoner = clquant.PinwheelHalftoner(8)
    for output in ("values", "bits"):
        made = halftoner.transform(da.from_array(gray, (60, 72)), output=output)
        assert np.array_equal(made.compute(), halftoner.transform(gray, output=output))


def test_sixteen_bits_are_mapped_as_such(picture: Any) -> None:
    deep = picture.astype(np.uint16) * 257 + np.arange(picture.size, dtype=np.uint16).reshape(picture.shape) % 99
    given = da.from_array(deep, (90, 80, 3))
    one, other = (clquant.KMeansPalette(9).fit(image) for image in (deep, given))
    assert (one.palette_, one.inertia_) == (other.palette_, other.inertia_)
    for dither in (None, "blue-noise", "pinwheel"):
        assert np.array_equal(one.predict(given, dither).compute(), one.predict(deep, dither))


def test_chunks_of_a_gray_picture_are_no_rows(picture: Any) -> None:
    gray = np.ascontiguousarray(picture[:, :12, 0])
    given = da.from_array(gray, (203, 4))
    one, other = (clquant.KMeansPalette(4).fit(image) for image in (gray, given))
    assert one.palette_ == other.palette_
    assert np.array_equal(other.predict(given).compute(), one.predict(gray))
    assert np.array_equal(clquant.QuadtreeBuilder().leaves(given).compute(), clquant.QuadtreeBuilder().leaves(gray))
    with pytest.raises(clquant.InvalidArgument, match=r"image has the shape \(203, 4\), which looks like rows"):
        one.predict(given[:, :4])


@pytest.mark.parametrize("dither", [None, "bayer4"])
def test_lazy_results_are_written_in_order(picture: Any, dither: Any) -> None:
    given, done = da.from_array(picture, (60, 71, 3)), []
    out = np.empty(picture.shape[:2], np.uint8)
    assert predict(given, SIX, dither=dither, out=out, progress=lambda *now: done.append(now)) is out
    assert done == [(60, 203), (120, 203), (180, 203), (203, 203)]
    assert np.array_equal(out, predict(picture, SIX, dither=dither))
    colors = np.empty_like(picture)
    transform(given, SIX, dither=dither, out=colors)
    assert np.array_equal(colors, SIX.colors[out])
    halftoner = clquant.PinwheelHalftoner(8)
    assert halftoner.transform(given, out=colors) is colors
    assert np.array_equal(colors, halftoner.transform(picture))
    with pytest.raises(clquant.StoppedError):
        predict(given, SIX, out=out, progress=lambda *_: False)


def test_stored_pictures_are_read_by_workers(picture: Any, tmp_path: Any) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    zarr.create_array(tmp_path / "big.zarr", shape=picture.shape, chunks=(32, 32, 3), dtype="u1")[:] = picture
    given = opened(tmp_path / "big.zarr")
    assert (given.shape, given.dtype) == (picture.shape, picture.dtype)
    assert np.array_equal(given.compute(), picture)
    predict(given, SIX, out=tmp_path / "out.zarr")
    assert np.array_equal(zarr.open(tmp_path / "out.zarr", mode="r")[:], predict(picture, SIX))
    with pytest.raises(clquant.FileError, match="no picture that is read in parts"):
        opened(tmp_path / "none.png")


def test_a_graph_holds_no_pixels(picture: Any) -> None:
    made = predict(da.random.default_rng(0).integers(0, 256, (4000, 4000, 3), np.uint8, chunks=(1000, 1000, 3)), SIX)
    assert len(pickle.dumps(dict(made.__dask_graph__()), protocol=5)) < 1 << 18


@pytest.mark.full
@given(
    st.integers(1, 31), st.integers(1, 40), st.integers(1, 17), st.integers(1, 17), st.booleans(), st.integers(0, 99)
)
@settings(max_examples=10)
def test_fits_are_those_of_the_whole(h: int, w: int, down: int, across: int, gray: bool, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (h, w) if gray else (h, w, 3), dtype=np.uint8) * np.uint8(80)
    given_chunks = da.from_array(values, (down, across) if gray else (down, across, 2))
    with dask.config.set(scheduler="synchronous"):
        assert histogram(given_chunks) == clquant.ColorHistogram.of(values)
        one, other = clquant.KMeansPalette(5).fit(given_chunks), clquant.KMeansPalette(5).fit(values)
    assert (one.palette_, one.inertia_, one.n_iter_) == (other.palette_, other.inertia_, other.n_iter_)


@pytest.mark.full
@pytest.mark.parametrize("alpha", [False, True])
def test_counts_are_added_on_the_device(picture: Any, alpha: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr("clquant.histogram.device_counts.LEAST_COLORS", 1)
    monkeypatch.setattr("clquant.dask.reductions.MOST_AT_ONCE", 1)
    if alpha:
        picture = np.dstack([picture, np.where(picture[..., 0] > 90, 255, 7).astype(np.uint8)])
    one = clquant.KMeansPalette(9).fit(picture)
    other = clquant.KMeansPalette(9).fit(da.from_array(picture, (30, 40, 4)))
    assert (one.palette_, one.inertia_) == (other.palette_, other.inertia_)
    for engine in (clquant.KMeansPalette(9, queue=clquant.runtime.default_queue()), clquant.NeuQuantCL(9)):
        again = copy.copy(engine).fit(da.from_array(picture, (30, 40, 4)))
        assert again.palette_ == engine.fit_histogram(clquant.ColorHistogram.of(picture)).palette_


def test_several_arrays_and_files_are_one_collection(tmp_path: Any, picture: Any) -> None:
    clquant.quantize(picture, 9).save(tmp_path / "a.png")
    saved = clquant.images.read(tmp_path / "a.png").array
    given = [da.from_array(picture, (50, 171, 3)), str(tmp_path / "a.png"), da.from_array(picture[:9], (5, 5, 3))]
    whole = [picture, saved, picture[:9]]
    assert histogram(given) == clquant.ColorHistogram.of(whole)
    assert clquant.KMeansPalette(6).fit(given).palette_ == clquant.KMeansPalette(6).fit(whole).palette_
    counted = clquant.ColorHistogram.of(whole)
    assert clquant.NeuQuantCL(8).fit(given).palette_ == clquant.NeuQuantCL(8).fit_histogram(counted).palette_


@pytest.mark.full
@pytest.mark.parametrize("block", [(4, 4), (3, 5)])
def test_encoding_moves_chunks_to_whole_blocks(picture: Any, block: Any) -> None:
    codec = clquant.VQCodec(16, block, refine=0, max_iter=2).fit(picture)
    lazy = codec.encode(da.from_array(picture, (50, 61, 3)))
    assert (lazy.shape, lazy.dtype) == (codec.encode(picture).shape, np.uint8)
    assert np.array_equal(lazy.compute(), codec.encode(picture))

    for shape in (None, (203, 171)):
        decoded = codec.decode(lazy, shape)
        whole = codec.decode(codec.encode(picture), shape)
        assert (decoded.shape, decoded.dtype) == (whole.shape, np.uint8)
        assert np.array_equal(decoded.compute(), whole)


@pytest.mark.full
@pytest.mark.parametrize("channels", [1, 3])
def test_files_of_lazy_pictures_are_those_of_the_whole(picture: Any, channels: int) -> None:
    whole = picture if channels == 3 else picture[..., 0].copy()
    source, done = da.from_array(whole, (60, 71, 3)[: whole.ndim]), []
    codec = clquant.VQCodec(16, refine=0, max_iter=2).fit(whole)
    data = codec.compress(whole)
    assert codec.compress(source, progress=lambda *now: done.append(now)) == data
    assert [now for now, _ in done] == sorted(now for now, _ in done)
    assert done[-1] == (51 * 43, 51 * 43)
    table = np.empty((51, 43), np.uint8)
    assert codec.encode(source, out=table) is table
    assert np.array_equal(table, codec.encode(whole))
    again = np.empty_like(whole)
    codec.decode(da.from_array(table, (20, 20)), whole.shape, out=again)
    assert np.array_equal(again, codec.decompress(data))
    with pytest.raises(clquant.InvalidArgument, match="channels; this codebook is for"):
        codec.encode(da.zeros((9, 9, 4), dtype=np.uint8))


@pytest.mark.full
@pytest.mark.parametrize("pixels", [1 << 24, 1])
def test_side_match_and_decoding_by_bands(picture: Any, tmp_path: Any, monkeypatch: Any, pixels: int) -> None:
    monkeypatch.setattr("clquant.dask.codec.PIXELS_AT_ONCE", pixels)
    lower(monkeypatch, bands__blocks=400)
    whole = picture[..., 0].copy()
    codec = clquant.VQCodec(16, (2, 3), state_size=4, tolerance=90.0, refine=0, max_iter=2).fit(whole)
    data = codec.compress(whole)
    assert codec.compress(da.from_array(whole, (60, 71))) == data
    assert codec.set_params(tolerance=0.0).compress(whole) != data
    path = tmp_path / "a.clvq"
    path.write_bytes(data)
    lazy = decompressed(path)
    assert len(lazy.chunks[0]) == (15 if pixels == 1 else 1)
    assert np.array_equal(lazy.compute(), codec.decompress(data))
    path.write_bytes(codec.compress(picture[..., 1].copy(), embed_codebook=False))
    assert np.array_equal(decompressed(path, codec).compute(), codec.decompress(path.read_bytes()))
    with pytest.raises(clquant.NotFittedError, match=r"a\.clvq': "):
        decompressed(path)
    path.write_bytes(data[:-9])
    with pytest.raises(clquant.FormatError, match=r"rows \d+ to \d+: '.*a.clvq': a .clvq file ends too early"):
        decompressed(path).compute()
    with pytest.raises(clquant.FileError, match="cannot read"):
        decompressed(tmp_path / "none.clvq")
    with pytest.raises(clquant.InvalidType, match="path is "):
        decompressed(5)  # type: ignore[arg-type]
    with pytest.raises(clquant.InvalidType, match="codec is '"):
        decompressed(path, "codec")  # type: ignore[arg-type]


def test_tables_that_do_not_fit_are_refused(picture: Any) -> None:
    codec = clquant.VQCodec(16, refine=0, max_iter=2).fit(picture[..., 0])
    table = da.zeros((5, 6), dtype=np.uint8, chunks=(3, 3))
    assert codec.decode(table, (18, 21)).compute().shape == (18, 21)
    with pytest.raises(clquant.InvalidArgument, match=r"shape is \(16, 21\)"):
        codec.decode(table, (16, 21))
    with pytest.raises(clquant.InvalidType, match="indices is a Dask array of float64"):
        codec.decode(table * 1.0)
    with pytest.raises(clquant.InvalidArgument, match="indices is a Dask array of shape"):
        codec.decode(table[0])
    with pytest.raises(clquant.InvalidArgument, match="chunk at row 3, column 0: indices"):
        codec.decode(da.from_array(np.full((5, 3), 16), (3, 3))[:4].map_blocks(_wrong_below), (13, 12)).compute()


def _wrong_below(block: Any, block_info: Any = None) -> Any:
    return block if block_info and block_info[0]["chunk-location"][0] else block * 0


@pytest.mark.full
@pytest.mark.parametrize(
    "given",
    [
        {"block_size": 8},
        {"block_size": 7, "scan": "serpentine", "noise": 0.5},
        {"block_size": 16, "levels": 4, "linear": True},
        {"block_size": 8, "palette": SIX},
    ],
)
@pytest.mark.parametrize("chunks", [(60, 71, 2), (101, 33, 3)])
def test_halftones_of_chunks_are_those_of_the_whole(picture: Any, given: Any, chunks: Any) -> None:
    engine = clquant.PinwheelHalftoner(**given)
    for image, cut in ((picture, chunks), (picture[:70, :, 1], chunks[:2])):
        source = da.from_array(image[:, :160], cut)
        whole, lazy = engine.transform(image[:, :160], output="levels"), engine.transform(source, output="levels")
        assert (lazy.shape, lazy.dtype, lazy.chunks[:2]) == (whole.shape, whole.dtype, source.chunks[:2])
        assert np.array_equal(lazy.compute(), whole)


@pytest.mark.full
def test_bits_are_packed_by_chunks(picture: Any) -> None:
    gray = picture[:, :, 1]
    halftoner = clquant.PinwheelHalftoner(7)
    whole = halftoner.transform(gray, output="bits")
    for chunks in ((60, 64), (203, 171), (50, (8, 40, 123)), (60, 71)):
        lazy = halftoner.transform(da.from_array(gray, chunks), output="bits")
        assert (lazy.shape, lazy.dtype) == (whole.shape, whole.dtype)
        assert np.array_equal(lazy.compute(), whole)
    for source, words in ((da.from_array(picture, (60, 64, 3)), "output is 'bits' for 3 channels"),):
        with pytest.raises(clquant.InvalidArgument, match=words):
            halftoner.transform(source, output="bits")


def test_chunks_may_be_empty_and_graphs_are_small(picture: Any) -> None:
    source = da.from_array(picture, ((60, 0, 143), (0, 171), 3))
    whole = predict(picture, SIX, dither="pinwheel")
    assert np.array_equal(predict(source, SIX, dither="pinwheel").compute(), whole)
    with pytest.raises(clquant.InvalidArgument, match=r"shape \(0, 171, 3\)"):
        predict(source[:0], SIX)
    large = da.zeros((65536, 65536, 3), np.uint8, chunks=(4096, 4096, 3))
    for dither, most in ((None, 2), ("blue-noise", 2), ("leaky", 10)):
        assert len(dict(predict(large, SIX, dither=dither).__dask_graph__())) <= most * 256


class _OwnDither:
    def dither(self, image: Any, palette: Any, **_: Any) -> Any:
        return predict(image, palette)


@pytest.mark.full
@pytest.mark.parametrize(
    "dither", ["floyd-steinberg", "atkinson", "stucki", clquant.ErrorDiffusion("sierra-lite", 0.8, serpentine=True)]
)
@pytest.mark.parametrize("most", [171, 171 * 37, 1 << 24])
def test_serial_scans_go_from_band_to_band(picture: Any, dither: Any, most: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(maps, "PIXELS", most)
    given, done = da.from_array(picture[:120], (50, 71, 3)), []
    whole = predict(picture[:120], SIX, dither=dither)
    lazy = predict(given, SIX, dither=dither)
    assert (lazy.shape, lazy.dtype, lazy.chunks) == (whole.shape, whole.dtype, given.chunks[:2])
    assert np.array_equal(lazy.compute(), whole)
    assert np.array_equal(transform(given, SIX, dither=dither).compute(), SIX.colors[whole])
    out = np.zeros_like(whole)
    predict(given, SIX, dither=dither, out=out, progress=lambda *now: done.append(now))
    assert np.array_equal(out, whole)
    assert done == [(50, 120), (100, 120), (120, 120)]
    with pytest.raises(clquant.StoppedError):
        predict(given, SIX, dither=dither, out=out, progress=lambda *_: False)


def test_what_cannot_be_cut_is_refused_and_what_fails_says_where(picture: Any) -> None:
    given = da.from_array(picture, (100, 100, 3))
    with pytest.raises(clquant.InvalidType, match="Dask array, of which this verb needs all pixels"):
        predict(given, SIX, dither=_OwnDither())

    def fails(block: Any, block_info: Any = None) -> Any:
        if block_info and block_info[0]["chunk-location"][0] == 1:
            raise OSError("the disk is gone")
        return block

    halftoner = clquant.PinwheelHalftoner()
    with pytest.raises(clquant.InvalidType, match="Dask array, of which this verb needs all pixels"):
        halftoner.transform(given, refine=1)
    broken = da.from_array(picture, (100, 171, 3)).map_blocks(fails, dtype=np.uint8)
    told = r"image \(fails-\w+\): cannot read the chunk at row 100, column 0: the disk is gone"
    for dither in (None, "leaky", "burkes"):
        with pytest.raises(clquant.FileError, match=told):
            predict(broken, SIX, dither=dither)[150:].compute()
        with pytest.raises(clquant.FileError, match=told):
            predict(broken, SIX, dither=dither, out=np.empty((203, 171), np.uint8))
    later = broken.sum(axis=2, keepdims=True).astype(np.uint8)
    with pytest.raises(OSError, match="the disk is gone"):
        predict(da.concatenate([later, later], axis=1), SIX).compute()
    with pytest.raises(clquant.InvalidArgument, match="chunk at row 100, column 0: image has fully transparent pixels"):
        clear = np.full((150, 20, 4), 255, np.uint8)
        clear[120] = 0
        predict(da.from_array(clear, (100, 20, 4)), SIX).compute()
    with pytest.raises(clquant.InvalidArgument, match="a Dask array of shape"):
        predict(da.from_array(picture[0, 0], 3), SIX)
    with pytest.raises(clquant.InvalidArgument, match="images is empty"):
        histogram([])


def test_tasks_are_verified_without_a_cluster(picture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = da.from_array(picture, (100, 171, 3))
    with verify(1.0):
        lazy = predict(given, SIX)
    assert np.array_equal(lazy.compute(), predict(picture, SIX))
    numbers = itertools.count()
    monkeypatch.setattr(sys.modules["clquant.dask.verify"], "digest_of", lambda _: f"{next(numbers):016}")
    with pytest.raises(MismatchError, match=r"results of .* differ: sha256 0{16} of this process, device '.*', 0{15}1"):
        lazy.compute()


def test_fewest_colors_of_collections_refuse_what_is_not_counted(picture: Any) -> None:
    given, engine = da.from_array(picture, (100, 171, 3)), clquant.KMeansPalette(8)
    with pytest.raises(clquant.InvalidArgument, match="sample_weight is given with a Dask array"):
        engine.fit_quality(given, target_psnr=20, sample_weight=np.ones(picture.shape[:2]))
    with pytest.raises(clquant.InvalidArgument, match="images has a Dask array of uint16"):
        engine.fit_quality(given.astype(np.uint16), target_psnr=20)


def test_chunks_that_storage_does_not_give_are_named(tmp_path: pathlib.Path, picture: Any) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    path = tmp_path / "in.zarr"
    zarr.create_array(path, shape=picture.shape, chunks=(64, 64, 3), dtype="u1")[:] = picture
    (path / "c" / "1" / "2" / "0").write_bytes(b"damaged")
    with pytest.raises(clquant.FileError, match=r"in.zarr' *: cannot read the chunk at row 0, column 0"):
        predict(opened(path), SIX).compute()
