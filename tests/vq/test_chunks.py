"""Arrays of zarr formats 2 and 3 and chunks of numcodecs: stores that are written and read, by threads too."""

from __future__ import annotations

import pathlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import VQCodec
from clquant.runtime import FormatError, InvalidArgument, InvalidType, NotFittedError
from clquant.vq import clvq_info, register_codebook
from clquant.vq.container import chunks

zarr = pytest.importorskip("zarr", minversion="3", reason="zarr 3 needs Python 3.11")
numcodecs = pytest.importorskip("numcodecs")
from clquant.vq.numcodecs_codec import ClvqNumcodec  # noqa: E402
from clquant.vq.zarr_codec import ClvqCodec  # noqa: E402

Bytes = npt.NDArray[np.uint8]
zarr.registry.register_codec("clquant.clvq", ClvqCodec)
numcodecs.register_codec(ClvqNumcodec)


def codec(channels: int = 1, seed: int = 5) -> VQCodec:
    made = VQCodec(40)
    shape = (40, 4, 4) if channels == 1 else (40, 4, 4, channels)
    made.codebook_ = np.sort(np.random.default_rng(seed).integers(0, 256, shape, np.uint8), axis=0)
    return made


def scene(*shape: int) -> Bytes:
    places = np.indices(shape)
    return (sum((3 + i) * axis for i, axis in enumerate(places)) % 256).astype(np.uint8)


def by_chunks(made: VQCodec, picture: Bytes, side: int) -> Bytes:
    """What a store of chunks of `side` pixels gives back: pictures are padded with zeros to whole chunks."""
    height, width = (-(-n // side) * side for n in picture.shape[:2])
    padding = [(0, height - picture.shape[0]), (0, width - picture.shape[1])] + [(0, 0)] * (picture.ndim - 2)
    whole = np.pad(picture, padding)
    for y in range(0, height, side):
        for x in range(0, width, side):
            part = whole[y : y + side, x : x + side]
            whole[y : y + side, x : x + side] = made.decode(made.encode(part), part.shape)
    return whole[: picture.shape[0], : picture.shape[1]]


@pytest.mark.full
def test_tall_gray_chunks_are_pictures() -> None:
    made, picture = codec(), scene(500, 4)
    coder = chunks.ChunkCoder(register_codebook(made))
    np.testing.assert_array_equal(
        coder.decode(coder.encode(picture), picture.shape), by_chunks(made, picture, 500)[:, :4]
    )


@pytest.mark.full
@pytest.mark.parametrize(("channels", "embed"), [(1, False), (1, True), (3, False), (4, True)])
def test_a_store_of_format_3_is_written_and_read(tmp_path: pathlib.Path, channels: int, embed: bool) -> None:
    made = codec(channels)
    picture = scene(70, 90) if channels == 1 else scene(70, 90, channels)
    cut = (32, 32, *picture.shape[2:])
    serializer = ClvqCodec(codebook=made, embed=embed)
    array = zarr.create_array(
        store=tmp_path / "a.zarr",
        shape=picture.shape,
        chunks=cut,
        dtype="uint8",
        serializer=serializer,
        compressors=None,
    )
    array[:] = picture
    again = zarr.open_array(store=tmp_path / "a.zarr", mode="r")
    assert again.metadata.codecs[0] == serializer
    assert hash(again.metadata.codecs[0]) == hash(serializer)
    assert repr(serializer) == f"ClvqCodec(codebook={register_codebook(made)!r}, embed={embed})"
    with pytest.raises(NotImplementedError):
        serializer.compute_encoded_size(9, None)
    assert again.metadata.codecs[0].coder.codebook == register_codebook(made)
    np.testing.assert_array_equal(again[:], by_chunks(made, picture, 32))
    np.testing.assert_array_equal(again[5:40, 33:60], by_chunks(made, picture, 32)[5:40, 33:60])
    stored = next(path for path in (tmp_path / "a.zarr" / "c").rglob("*") if path.is_file())
    assert clvq_info(stored).kind == ("picture" if embed else "picture of a shared codebook")


@pytest.mark.full
def test_threads_write_and_read_one_store(tmp_path: pathlib.Path) -> None:
    made, picture = codec(), scene(256, 256)
    array = zarr.create_array(
        store=tmp_path / "a.zarr",
        shape=picture.shape,
        chunks=(64, 64),
        dtype="uint8",
        serializer=ClvqCodec(codebook=made),
        compressors=None,
    )

    def write(row: int) -> None:
        array[row : row + 64] = picture[row : row + 64]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(0, 256, 64)))
        parts = list(pool.map(lambda row: array[row : row + 64], range(0, 256, 64)))
    np.testing.assert_array_equal(np.concatenate(parts), by_chunks(made, picture, 64))


def test_stacks_of_pictures(tmp_path: pathlib.Path) -> None:
    made, frames = codec(3), scene(5, 24, 40, 3)
    array = zarr.create_array(
        store=tmp_path / "a.zarr",
        shape=frames.shape,
        chunks=(2, 24, 40, 3),
        dtype="uint8",
        serializer=ClvqCodec(codebook=made),
        compressors=None,
    )
    array[:] = frames
    expected = np.stack([made.decode(made.encode(frame), frame.shape) for frame in frames])
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("embed", [False, True])
def test_a_store_of_format_2_is_written_and_read(tmp_path: pathlib.Path, embed: bool) -> None:
    made, picture = codec(), scene(70, 90)
    array = zarr.create_array(
        store=tmp_path / "a.zarr",
        shape=picture.shape,
        chunks=(32, 32),
        dtype="uint8",
        zarr_format=2,
        compressors=ClvqNumcodec(made, embed),
    )
    array[:] = picture
    again = zarr.open_array(store=tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(again[:], by_chunks(made, picture, 32))


def test_a_damaged_chunk_is_one_clear_error(tmp_path: pathlib.Path) -> None:
    for version, options in ((3, {"serializer": ClvqCodec(codebook=codec()), "compressors": None}), (2, {})):
        store = tmp_path / f"{version}.zarr"
        options = options or {"compressors": ClvqNumcodec(codec())}
        array = zarr.create_array(
            store=store, shape=(32, 64), chunks=(32, 32), dtype="uint8", zarr_format=version, **options
        )
        array[:] = scene(32, 64)
        stored = sorted(p for p in store.rglob("*") if p.is_file() and p.name in ("0", "0.0"))[0]
        data = bytearray(stored.read_bytes())
        data[-7] ^= 8
        stored.write_bytes(bytes(data))
        with pytest.raises(FormatError, match="check sum does not match"):
            array[:]
        stored.write_bytes(codec().compress(scene(32, 28), embed_codebook=False))
        with pytest.raises((FormatError, ValueError)):
            array[:]


def test_codecs_of_numcodecs() -> None:
    made, picture = codec(), scene(30, 41)
    coder = ClvqNumcodec(made)
    again = numcodecs.get_codec(coder.get_config())
    assert again == coder
    assert repr(again) == f"ClvqNumcodec(codebook={register_codebook(made)!r}, embed=False)"
    assert pickle.loads(pickle.dumps(coder)) == coder
    data = coder.encode(picture)
    expected = made.decode(made.encode(picture), picture.shape)
    np.testing.assert_array_equal(again.decode(data), expected)
    out = np.zeros(picture.shape, np.uint8)
    assert again.decode(memoryview(data), out) is out
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(FormatError, match="1230 pixels"):
        again.decode(data, np.zeros(7, np.uint8))
    with pytest.raises(InvalidArgument, match="Fortran"):
        coder.encode(np.asfortranarray(picture))


def test_codebooks_in_a_folder_are_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = codec(seed=77)
    identity = chunks.codebook_id(made.codebook_).hex()
    coder = chunks.ChunkCoder(identity)
    data = made.compress(scene(20, 20), embed_codebook=False)
    with pytest.raises(InvalidArgument, match=f"codebook is '{identity}'; allowed: the identity of one"):
        coder.decode(data)
    monkeypatch.setenv("CLQUANT_CODEBOOKS", str(tmp_path))
    with pytest.raises(InvalidArgument, match="in the folder CLQUANT_CODEBOOKS"):
        coder.decode(data)
    made.save(tmp_path / f"{identity}.clvq")
    np.testing.assert_array_equal(coder.decode(data, (20, 20)), made.decompress(data))
    with pytest.raises(FormatError, match="which is no chunk of"):
        coder.decode(data, (10, 40))
    codec().save(tmp_path / f"{'0' * 32}.clvq")
    with pytest.raises(FormatError, match="another codebook"):
        chunks.ChunkCoder("0" * 32).decode(data)


def test_wrong_arguments(tmp_path: pathlib.Path) -> None:
    identity = register_codebook(codec())
    wrong: Any = 3
    with pytest.raises(InvalidType, match="codebook is 3;"):
        ClvqCodec(codebook=wrong)
    with pytest.raises(InvalidArgument, match="32 hexadecimal digits"):
        ClvqCodec(codebook="abc")
    with pytest.raises(NotFittedError):
        ClvqCodec(codebook=VQCodec())
    for configuration in ({}, {"codebook": identity, "level": 3}):
        with pytest.raises(InvalidArgument, match="configuration has"):
            ClvqCodec.from_dict({"name": "clquant.clvq", "configuration": configuration})
    with pytest.raises(InvalidArgument, match="codec is"):
        ClvqCodec.from_dict({"name": "other", "configuration": {"codebook": identity}})
    for shape, dtype, error in (((8, 8), "uint16", InvalidType), ((8,), "uint8", InvalidArgument)):
        with pytest.raises(error, match="chunks are"):
            zarr.create_array(
                store=tmp_path / f"{dtype}{len(shape)}.zarr",
                shape=shape,
                chunks=shape,
                dtype=dtype,
                serializer=ClvqCodec(codebook=identity),
                compressors=None,
            )
    coder = chunks.ChunkCoder(identity)
    coder.check((3, 8, 9), np.dtype(np.uint8))
    with pytest.raises(InvalidArgument, match="multiple of 4"):
        coder.check((3, 9, 9), np.dtype(np.uint8))
    with pytest.raises(InvalidArgument, match="height, width, 3"):
        chunks.ChunkCoder(register_codebook(codec(3))).check((8, 9, 4), np.dtype(np.uint8))
