"""Metadata that take more than their bytes are refused before they are unpacked; those of people's files are not."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import PIL.Image
import PIL.ImageOps
import PIL.PngImagePlugin
import pytest

from clquant import runtime
from clquant.images import decode, moving
from clquant.images.guards import metadata_work
from portability.inputs import photo
from tests.images import costly_files

TEXTS = "its packed texts take more memory than its"
TAGS = "its tags take more memory than its"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((make, TEXTS) for make in (costly_files.png_texts, costly_files.png_profiles, costly_files.ico_texts)),
        *((make, TAGS) for make in (costly_files.png_exif, costly_files.jpeg_exif, costly_files.webp_exif)),
        *((make, TAGS) for make in (costly_files.png_hex_exif, costly_files.jpeg_pictures, costly_files.tiff_values)),
    ],
)
def test_metadata_are_refused_unread(make: Callable[[int], bytes], message: str) -> None:
    data = make(150_000)
    for read in (lambda: decode.from_file(data, "image"), lambda: list(moving.frames(data, "image"))):
        with pytest.raises(runtime.FileError, match=message):
            read()


def test_marks_between_parts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_work, "_PART", 13)
    for place in range(40, 60):
        data = b"\0\0\0\x1cftypavif".ljust(place, b"x") + costly_files.exif(100_000)
        with pytest.raises(ValueError, match=TAGS):
            metadata_work.check_head(io.BytesIO(data), len(data))
    many = b"\0\0\0\x1cftypavif" + b"II*\0" * 17
    with pytest.raises(ValueError, match="the mark of EXIF data more than 16 times"):
        metadata_work.check_head(io.BytesIO(many), len(many))


def test_pages_that_go_in_a_circle_have_an_end() -> None:
    page = struct.pack("<H", 5000) + struct.pack("<HHII", 1000, 99, 1, 0) * 5000
    data = b"II*\0" + struct.pack("<I", 8) + page + struct.pack("<I", 8)
    with pytest.raises(ValueError, match=TAGS):
        metadata_work.check_pages(io.BytesIO(data), len(data))


def test_metadata_of_people_are_read() -> None:
    pixels = photo(20, 30)
    exif = PIL.Image.Exif()
    exif[0x010E], exif[0x0112] = "a description " * 3000, 1
    info = PIL.PngImagePlugin.PngInfo()
    for number in range(6):
        info.add_text(f"text {number}", "words and numbers " * 50_000, zip=True)
    info.add_itxt("XML:com.adobe.xmp", "<x>é</x>" * 20_000, zip=True)
    for kind, how in (("PNG", {"pnginfo": info}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        stream = io.BytesIO()
        PIL.Image.fromarray(pixels).save(stream, kind, exif=exif, **how)
        np.testing.assert_array_equal(decode.from_file(stream.getvalue(), "image"), pixels)


def test_a_damaged_packed_text_says_nothing_of_the_pixels() -> None:
    data = costly_files.png(costly_files._chunk(b"zTXt", b"k\0\0" + zlib.compress(b"words" * 99)[:-8] + b"12345678"))
    assert decode.from_file(data, "image").shape == (4, 4)


@pytest.mark.parametrize("orientation", range(10))
def test_pictures_are_turned_as_pillow_turns_them(orientation: int) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    PIL.Image.fromarray(photo(5, 8)).save(stream, "PNG", exif=exif)
    with PIL.Image.open(stream) as image:
        expected = np.asarray(PIL.ImageOps.exif_transpose(image))
    np.testing.assert_array_equal(decode.from_file(stream.getvalue(), "image"), expected)
