"""What people hold -> device buffers, and back: every rule at the head of `clquant.images`."""

from __future__ import annotations

import pathlib
import struct
import sys
import threading
import types
import zlib

import hypothesis.strategies as st
import numpy as np
import PIL.Image
import pyopencl.array
import pytest
from hypothesis import given, settings

from clquant import images, runtime
from clquant.flow import PictureSource


def uploaded(queue: runtime.CommandQueue, source: object) -> np.ndarray:
    picture = images.read(source)
    session = runtime.open_session(queue, images.device_arrays([picture]))
    with session.scope() as scope:
        buffer = picture.upload(session, scope)
        return session.download(buffer, picture.shape, np.uint8)


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([None, 1, 3, 4]),
    st.sampled_from([1, 2, -1, -2]),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_any_strides_arrive_packed(h: int, w: int, c: int | None, step: int, fortran: bool, seed: int) -> None:
    shape = (2 * h, 2 * w) if c is None else (2 * h, 2 * w, c)
    whole = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    view = np.asfortranarray(whole)[::step, ::step] if fortran else whole[::step, ::step]
    expected = view[..., 0] if c == 1 else view
    assert np.array_equal(uploaded(runtime.default_queue(), view), expected)


@pytest.mark.small
def test_device_arrays_stay_where_they_are(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    host = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    array = pyopencl.array.to_device(queue, host)
    assert np.array_equal(uploaded(queue, array), host)
    assert np.array_equal(uploaded(queue, array[2:]), host[2:])


def test_bands_of_a_device_array(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    host = rng.integers(0, 256, (9, 4), dtype=np.uint8)
    picture = images.read(pyopencl.array.to_device(queue, host))
    session = runtime.open_session(queue)
    with session.scope() as scope:
        assert np.array_equal(session.download(picture.upload(session, scope, 3, 5), (2, 4), np.uint8), host[3:5])


def test_bands_cover_the_rows_once(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1000")
    session = runtime.open_session(queue)
    picture = images.read(np.zeros((103, 10, 3), np.uint8))
    source = PictureSource(picture)
    assert [cut.rows[2:] for cut in source.portions(session, whole=True)] == [(0, 33), (33, 66), (66, 99), (99, 103)]
    cuts = source.portions(session, 4, row_bytes=16 * picture.width, whole=True)
    assert [cut.rows for cut in cuts[:2]] == [(0, 4, 0, 4), (4, 8, 4, 8)]
    reaching = source.portions(session, 4, 2)
    assert [cut.rows for cut in reaching[:2]] == [(0, 30, 0, 28), (26, 58, 28, 56)]


def test_bool_and_16_bit_and_float_by_the_stated_rules() -> None:
    assert images.read(np.array([[True, False]])).array.ravel().tolist() == [255, 0]
    sixteen = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    assert np.array_equal(images.read(sixteen).array[..., 0], np.rint(sixteen / 257).astype(np.uint8))
    for swapped in (">u2", "<u2"):
        assert np.array_equal(images.read(sixteen.astype(swapped)).array, images.read(sixteen).array)
    floats = np.array([[0.0, 1.0, 0.5, 127.4999 / 255]])
    assert images.read(floats).array.ravel().tolist() == [0, 255, 128, 127]
    assert images.read(floats.astype(np.float16)).array.ravel()[:3].tolist() == [0, 255, 128]


@pytest.mark.parametrize(
    ("mode", "channels"),
    [("1", 1), ("L", 1), ("P", 3), ("RGB", 3), ("RGBA", 4), ("CMYK", 3), ("YCbCr", 3), ("LAB", 3), ("HSV", 3),
     ("LA", 4), ("PA", 4), ("La", 4), ("RGBa", 4), ("I;16", 1), ("I", 1)],
)  # fmt: skip
def test_every_pil_mode_has_a_rule(mode: str, channels: int) -> None:
    picture = images.read(PIL.Image.new(mode, (3, 2)))
    assert (picture.height, picture.width, picture.channels) == (2, 3, channels)
    assert picture.gray == (channels == 1)


def test_palette_pictures_keep_their_transparency() -> None:
    image = PIL.Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    image.info["transparency"] = 1
    assert images.read(image).array.tolist() == [[[10, 20, 30, 255], [40, 50, 60, 0]]]


def test_palettes_with_alpha_keep_it(rng: np.random.Generator) -> None:
    image = PIL.Image.fromarray(rng.integers(0, 256, (8, 8, 4), dtype=np.uint8)).quantize(7)
    assert np.array_equal(images.read(image).array, np.asarray(image.convert("RGBA")))


def png_with_key(depth: int, color: int, row: bytes, key: bytes) -> bytes:
    """A PNG of one row of four pixels whose tRNS chunk names one value as transparent."""
    header = struct.pack(">IIBBBBB", 4, 1, depth, color, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"tRNS", key), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b""))
    packed = (struct.pack(">I", len(c)) + name + c + struct.pack(">I", zlib.crc32(name + c)) for name, c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize(
    ("depth", "color", "row", "key", "grays"),
    [
        (1, 0, b"\x50", b"\0\1", [0, 255, 0, 255]),
        (2, 0, b"\x1b", b"\0\1", [0, 85, 170, 255]),
        (4, 0, b"\x01\x2f", b"\0\1", [0, 17, 34, 255]),
        (8, 0, b"\0\7\1\xff", b"\0\7", [0, 7, 1, 255]),
        (16, 0, b"\0\0\7\7\7\6\xff\xff", b"\7\7", [0, 7, 7, 255]),
        (8, 2, b"\0\0\0\7\7\7\1\1\1\xff\xff\xff", b"\0\7" * 3, [0, 7, 1, 255]),
        (16, 2, b"\0\0" * 3 + b"\7\7" * 3 + b"\1\1" * 3 + b"\xff\xff" * 3, b"\7\7" * 3, [0, 7, 1, 255]),
    ],
)
def test_a_value_that_a_file_names_is_transparent(
    tmp_path: pathlib.Path, depth: int, color: int, row: bytes, key: bytes, grays: list[int]
) -> None:
    path = tmp_path / "key.png"
    path.write_bytes(png_with_key(depth, color, row, key))
    clear = [g == grays[1] and (depth != 16 or i == 1) for i, g in enumerate(grays)]
    expected = [[g, g, g, 0 if own else 255] for g, own in zip(grays, clear, strict=True)]
    assert images.read(path).array.tolist() == [expected]
    with PIL.Image.open(path) as image:
        assert images.read(image).array.tolist() == [expected]
        assert images.read(image.convert("RGB")).channels == 3  # who asks for RGB gets it


def test_gray_gifs_keep_their_transparency(tmp_path: pathlib.Path) -> None:
    PIL.Image.fromarray(np.array([[5, 6], [7, 5]], np.uint8)).save(tmp_path / "a.gif", transparency=5)
    assert images.read(tmp_path / "a.gif").array[..., 3].tolist() == [[0, 255], [255, 0]]


def test_16_bit_files_are_rounded(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "deep.png"
    PIL.Image.fromarray(np.array([[0, 128, 129, 65535]], np.uint16)).save(path)
    assert images.read(path).array.ravel().tolist() == [0, 0, 1, 255]


def test_exif_orientation_is_applied(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "turned.jpg"
    image = PIL.Image.fromarray(np.zeros((8, 24, 3), np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(path, exif=exif)
    assert images.read(path).shape == (24, 8, 3)
    assert images.read(str(path)).shape == (24, 8, 3)


def test_alpha_survives_a_file(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (4, 5, 4), dtype=np.uint8)
    pixels[0, :, 3] = 0
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(images.read(tmp_path / "a.png").array, pixels)


def test_many_pictures_and_the_names_of_bad_ones() -> None:
    good = np.zeros((2, 2), np.uint8)
    assert len(images.read_many([good, good])) == 2
    assert len(images.read_many(good)) == 1
    with pytest.raises(runtime.InvalidType, match=r"images\[1\] is 5; allowed"):
        images.read_many([good, 5])
    with pytest.raises(runtime.InvalidArgument, match="images is empty"):
        images.read_many([])


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (None, runtime.InvalidType, "image is None; allowed: a path"),
        (3, runtime.InvalidType, "image is 3; allowed"),
        (b"x.png", runtime.FileError, "cannot read image: not a picture"),
        ([[0, 1]], runtime.InvalidType, r"image is \[\[0, 1\]\]; allowed"),
        (np.zeros((0, 3), np.uint8), runtime.InvalidArgument, r"shape \(0, 3\), so no pixels"),
        (np.zeros((3, 0, 3), np.uint8), runtime.InvalidArgument, r"shape \(3, 0, 3\), so no pixels"),
        (np.zeros(3, np.uint8), runtime.InvalidArgument, r"shape \(3,\); allowed: \(H, W\)"),
        (np.zeros((2, 2, 2), np.uint8), runtime.InvalidArgument, r"shape \(2, 2, 2\)"),
        (np.zeros((2, 2, 5), np.uint8), runtime.InvalidArgument, r"with C 3 or 4"),
        (np.zeros((1, 2, 2, 3), np.uint8), runtime.InvalidArgument, r"shape \(1, 2, 2, 3\)"),
        (np.full((2, 2), 256), runtime.InvalidArgument, "values from 256 to 256; allowed: 0 to 255"),
        (np.full((2, 2), -1, np.int8), runtime.InvalidArgument, "values from -1 to -1"),
        (np.zeros((2, 2), complex), runtime.InvalidType, "dtype complex128"),
        (np.array([["a"]]), runtime.InvalidType, "dtype <U1"),
        (np.zeros((2, 2), "m8[s]"), runtime.InvalidType, "dtype timedelta64"),
        (np.full((2, 2), 1.5), runtime.InvalidArgument, r"outside 0\.\.1"),
        (np.full((2, 2), np.nan), runtime.InvalidArgument, r"outside 0\.\.1"),
        (np.full((2, 2), -0.1), runtime.InvalidArgument, r"outside 0\.\.1"),
        (PIL.Image.new("F", (2, 2)), runtime.InvalidType, "mode F"),
        (PIL.Image.new("I", (2, 2), 70000), runtime.InvalidType, "outside 0..65535"),
        (PIL.Image.new("RGB", (0, 2)), runtime.InvalidArgument, "no pixels"),
        ("no/such/file.png", runtime.FileError, "there is no such file"),
        (pathlib.Path("no.png"), runtime.FileError, "there is no such file"),
        (".", runtime.FileError, "cannot read '.'"),
    ],
)  # fmt: skip
def test_wrong_input_is_named(source: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        images.read(source)
    assert isinstance(caught.value, runtime.ClquantError)


def test_more_bands_only_where_allowed() -> None:
    cube = np.zeros((2, 2, 16), np.uint8)
    assert images.read(cube, max_channels=16).channels == 16
    with pytest.raises(runtime.InvalidArgument, match="C 1 to 16"):
        images.read(np.zeros((2, 2, 17), np.uint8), max_channels=16)


def test_wrong_device_arrays_are_named(queue: runtime.CommandQueue) -> None:
    with pytest.raises(runtime.InvalidType, match="float32; allowed: uint8"):
        images.read(pyopencl.array.zeros(queue, (2, 2), np.float32))
    with pytest.raises(runtime.InvalidArgument, match="shape"):
        images.read(pyopencl.array.zeros(queue, (4,), np.uint8))


@pytest.mark.parametrize("keep", [0, 1, 8, 20, 40, 60, 0.5, 0.99])
def test_truncated_files_are_errors_or_whole(tmp_path: pathlib.Path, keep: float, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for suffix in ("png", "jpg", "bmp", "gif", "tiff", "webp"):
        path = tmp_path / f"cut.{suffix}"
        PIL.Image.fromarray(pixels).save(path)
        data = path.read_bytes()
        path.write_bytes(data[: int(keep * len(data)) if keep in (0.5, 0.99) else int(keep)])
        try:
            assert images.read(path).shape == (16, 16, 3)
        except runtime.FileError as error:
            assert "cannot read" in str(error)


def test_a_file_that_claims_too_many_pixels_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bomb.png"
    PIL.Image.new("L", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = (1 << 30).to_bytes(4, "big") * 2
    path.write_bytes(data)
    before = PIL.Image.MAX_IMAGE_PIXELS
    with pytest.raises(runtime.FileError, match="cannot read"):
        images.read(path)
    assert before == PIL.Image.MAX_IMAGE_PIXELS


@pytest.mark.full
def test_a_large_file_needs_no_switch(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "wide.png"
    PIL.Image.new("1", (20000, 9500)).save(path)  # 190 Mpx: over twice Pillow's own limit
    assert images.read(path).shape == (9500, 20000)


def test_files_are_read_in_threads(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.png"
    PIL.Image.new("RGB", (8, 8), (1, 2, 3)).save(path)
    shapes: list[tuple[int, ...]] = []
    threads = [threading.Thread(target=lambda: shapes.append(images.read(path).shape)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shapes == [(8, 8, 3)] * 8


def test_a_damaged_size_is_refused_before_it_is_decoded(tmp_path):
    path = tmp_path / "picture.gif"
    PIL.Image.fromarray(np.zeros((9, 14), np.uint8)).save(path)
    content = bytearray(path.read_bytes())
    content[6:10] = b"\x4f\x4e\xda\x66"  # the screen, 20047 x 26330
    path.write_bytes(bytes(content))
    with pytest.raises(runtime.FileError, match="claims 20047 x 26330 pixels, more than its"):
        images.read(path)


@pytest.mark.full
def test_large_blank_pictures_are_read(tmp_path):
    blank = PIL.Image.new("1", (6000, 5000))
    for suffix, options in (
        (".png", {}),
        (".tif", {"compression": "group4"}),
        (".gif", {}),
        (".webp", {"lossless": True}),
    ):
        blank.save(tmp_path / f"blank{suffix}", **options)
        assert images.read(tmp_path / f"blank{suffix}").pixels == 30_000_000


def test_numpy_ma_may_be_half_imported_by_another_thread(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert images.read(np.zeros((2, 3), np.uint8)).shape == (2, 3)
