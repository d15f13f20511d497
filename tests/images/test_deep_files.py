"""16-bit values of arrays, files and device arrays: kept where a job takes them, else round(v / 257)."""

from __future__ import annotations

import io
import pathlib
import struct
import zlib

import numpy as np
import PIL.Image
import PIL.ImageCms
import pyopencl.array
import pytest
import tifffile

from clquant import images, runtime
from clquant.images.decode import narrowed


def png(values: np.ndarray, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of 16 bits per value."""
    kinds = {1: 0, 2: 4, 3: 2, 4: 6}
    height, width, channels = values.shape
    lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    head = struct.pack(">IIBBBBB", width, height, 16, kinds[channels], 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    packed = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def nearest(values: np.ndarray) -> np.ndarray:
    return np.floor(values / 257 + 0.5).astype(np.uint8)


@pytest.fixture
def deep(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 65536, (37, 41, 4)).astype(np.uint16)


def test_narrowed_is_the_nearest() -> None:
    values = np.arange(65536, dtype=np.uint16)
    assert np.array_equal(narrowed(values), nearest(values))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png(deep: np.ndarray, channels: int, tmp_path: pathlib.Path) -> None:
    values = deep[:, :, :channels]
    data = png(values)
    (tmp_path / "a.png").write_bytes(data)
    for source in (data, tmp_path / "a.png", io.BytesIO(data), PIL.Image.open(io.BytesIO(data))):
        picture = images.read(source, max_bits=16)
        assert picture.bits == 16
        assert np.array_equal(picture.array, values)
    assert np.array_equal(images.read(data).array, nearest(values))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("tile", [None, (16, 16)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_tiff(
    deep: np.ndarray, channels: int, tile: tuple[int, int] | None, compression: str | None, order: str
) -> None:
    values, file = deep[:, :, :channels].squeeze(), io.BytesIO()
    kind = "minisblack" if channels == 1 else "rgb"
    extra = ["unassalpha"] if channels == 4 else None
    tifffile.imwrite(
        file, values, photometric=kind, compression=compression, tile=tile, byteorder=order, extrasamples=extra
    )
    picture = images.read(file.getvalue(), max_bits=16)
    assert np.array_equal(picture.array.squeeze(), values)
    assert np.array_equal(images.read(file.getvalue()).array.squeeze(), nearest(values))


def test_gray_with_alpha(deep: np.ndarray) -> None:
    data = png(deep[:, :, [0, 3]])
    picture = images.read(data, max_bits=16)
    assert np.array_equal(picture.array, deep[:, :, [0, 0, 0, 3]])
    assert np.array_equal(images.read(data).array, nearest(deep[:, :, [0, 0, 0, 3]]))


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_opened_images_are_left_as_they_are(deep: np.ndarray, channels: int) -> None:
    """What Pillow shows of one is the same before and after it was read."""
    data = png(deep[:, :, :channels])
    own = PIL.Image.open(io.BytesIO(data))
    images.read(own, max_bits=16)
    assert np.array_equal(np.asarray(own), np.asarray(PIL.Image.open(io.BytesIO(data))))


def test_a_transparent_colour_is_compared_in_16_bits(deep: np.ndarray) -> None:
    values = deep[:, :, :3].copy()
    values[1, 2] = values[0, 0] ^ 1
    picture = images.read(png(values, (b"tRNS", values[0, 0].astype(">u2").tobytes())), max_bits=16)
    assert np.array_equal(picture.array[:, :, :3], values)
    clear = (values == values[0, 0]).all(axis=2)
    assert np.array_equal(picture.array[:, :, 3], np.where(clear, 0, 65535))
    assert not clear[1, 2]


def test_orientation(deep: np.ndarray) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    picture = images.read(png(deep, (b"eXIf", exif.tobytes()[6:])), max_bits=16)
    assert np.array_equal(picture.array, np.rot90(deep, -1))


def test_profiles(deep: np.ndarray) -> None:
    def with_profile(profile: bytes) -> images.Picture:
        return images.read(png(deep[:, :, :3], (b"iCCP", b"p\0\0" + zlib.compress(profile))), max_bits=16)

    same = PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes()
    assert np.array_equal(with_profile(same).array, deep[:, :, :3])
    assert with_profile(b"no profile").bits == 16
    assert with_profile(PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("XYZ")).tobytes()).bits == 16


def test_masked_pixels_are_transparent(deep: np.ndarray) -> None:
    mask = np.zeros(deep.shape[:2], bool)
    mask[3, 4] = True
    picture = images.read(np.ma.masked_array(deep[:, :, 0], mask), max_bits=16)
    assert picture.array[3, 4].tolist() == [0, 0, 0, 0]
    assert np.array_equal(picture.array[0, :, 3], np.full(41, 65535))


def test_either_byte_order(deep: np.ndarray) -> None:
    picture = images.read(deep.astype(">u2"), max_bits=16)
    assert picture.array.dtype == np.uint16
    assert picture.array.dtype.isnative
    assert np.array_equal(picture.array, deep)


@pytest.mark.small
def test_device_arrays(queue: runtime.CommandQueue, deep: np.ndarray) -> None:
    there = pyopencl.array.to_device(queue, deep)
    session = runtime.open_session(queue)
    for array, values in [(there, deep), (there[3:], deep[3:]), (there[:, ::2, :3], deep[:, ::2, :3])]:
        picture = images.read(array, max_bits=16)
        assert picture.bits == 16
        assert np.array_equal(picture.on_host(session), values)
        for narrow in (images.read(array), picture.narrowed()):
            assert np.array_equal(narrow.on_host(session), nearest(values))
        with session.scope() as scope:
            rows = session.download(picture.upload(session, scope, 1, 3), (2, *values.shape[1:]), np.uint16)
        assert np.array_equal(rows, values[1:3])


def test_pictures_that_were_read(deep: np.ndarray) -> None:
    picture = images.read(deep, max_bits=16)
    assert images.read(picture, max_bits=16) is picture
    assert np.array_equal(images.read(picture).array, nearest(deep))
    assert images.read(picture).bits == 8
