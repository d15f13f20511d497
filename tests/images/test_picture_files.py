"""Picture files of strangers: allowed formats, bounds on pixels, and one error for whatever is wrong with a file."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import random
import struct
import threading
import warnings

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant import images
from clquant.images import decode, moving, picture_files
from portability.fuzz import damaged
from portability.inputs import photo
from portability.picture_seeds import picture_seeds

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n{} loop\n%%EOF\n"


def file_bytes(kind: str, pixels: np.ndarray, **options: object) -> bytes:
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["photo.jpg", "photo.eps"])
def test_postscript_is_not_run_whatever_its_name_says(tmp_path, monkeypatch, name):
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_: pytest.fail("Ghostscript was started"))
    path = tmp_path / name
    path.write_bytes(EPS)
    with pytest.raises(clquant.FileError, match=r"it is of the format EPS; allowed: AVIF, BMP, .*CLQUANT_FORMATS=EPS"):
        images.read(str(path))
    with pytest.raises(clquant.FileError, match="it is of the format EPS"):
        decode.from_file(EPS, "image")
    with pytest.raises(clquant.FileError, match="as a palette: it is of the format EPS"):
        clquant.Palette.read(path)


def test_formats_are_widened_by_name_alone(tmp_path, monkeypatch):
    path = tmp_path / "picture.png"
    path.write_bytes(picture_seeds()["PSD"])
    pixels = photo(4, 6).reshape(3, 4, 6).transpose(1, 2, 0)
    with pytest.raises(clquant.FileError, match="it is of the format PSD"):
        images.read(path)
    with images.allow_formats("psd"):
        np.testing.assert_array_equal(images.read(path).array, pixels)
    with pytest.raises(clquant.FileError):
        images.read(path)
    monkeypatch.setenv("CLQUANT_FORMATS", "SUN, PSD")
    np.testing.assert_array_equal(images.read(path).array, pixels)
    monkeypatch.setenv("CLQUANT_FORMATS", "PSD,no such format")
    with pytest.raises(clquant.InvalidArgument, match="CLQUANT_FORMATS is 'PSD,no such format', but 'NO SUCH FORMAT'"):
        images.read(path)


@pytest.mark.parametrize("name", ["no such format", 3])
def test_a_format_that_pillow_does_not_read_is_named(name):
    with pytest.raises(clquant.ClquantError, match="names holds"), images.allow_formats(name):
        pass


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "GIF"])
def test_a_bound_that_the_application_chose_holds(tmp_path, monkeypatch, kind):
    path = tmp_path / "picture"
    path.write_bytes(file_bytes(kind, photo(20, 30)))
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 299)
    with pytest.raises(clquant.FileError, match="more than 598 pixels"):
        images.read(path)
    assert PIL.Image.MAX_IMAGE_PIXELS == 299
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 599)
    with warnings.catch_warnings(), pytest.raises(clquant.FileError):
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        images.read(path)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 600)
    assert images.read(path).shape == (20, 30, 3)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", None)
    assert images.read(path).shape == (20, 30, 3)


@pytest.mark.parametrize("options", [{"compression": "tiff_lzw"}, {"compression": "raw"}])
def test_pillows_own_bound_is_passed_while_a_tiff_is_decoded(monkeypatch, options):
    data = file_bytes("TIFF", photo(20, 30), **options)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)
    monkeypatch.setattr(picture_files, "PILLOWS_OWN_LIMIT", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(decode.from_file(data, "image"), photo(20, 30))
    assert PIL.Image.MAX_IMAGE_PIXELS == 100


def test_pillows_own_bound_is_passed_while_frames_are_decoded(monkeypatch):
    pictures = [PIL.Image.fromarray(photo(20, 30, 1, seed)) for seed in range(3)]
    stream = io.BytesIO()
    pictures[0].save(stream, "GIF", save_all=True, append_images=pictures[1:], disposal=2)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)
    monkeypatch.setattr(picture_files, "PILLOWS_OWN_LIMIT", 100)
    assert len(list(moving.frames(stream.getvalue(), "image"))) == 3
    assert PIL.Image.MAX_IMAGE_PIXELS == 100


def test_frames_are_bounded_before_they_are_decoded(monkeypatch):
    pictures = [PIL.Image.fromarray(photo(20, 30, 1, seed)) for seed in range(3)]
    stream = io.BytesIO()
    pictures[0].save(stream, "GIF", save_all=True, append_images=pictures[1:])
    monkeypatch.setattr(moving, "LONG_FILM_PIXELS_PER_BYTE", 0)
    monkeypatch.setattr(moving, "MAX_FRAMES_PIXELS", 1799)
    with pytest.raises(clquant.FileError, match="its 3 frames have more than 1799 pixels together"):
        list(moving.frames(stream.getvalue(), "image"))
    monkeypatch.setattr(moving, "MAX_FRAMES_PIXELS", 1800)
    assert len(list(moving.frames(stream.getvalue(), "image"))) == 3
    monkeypatch.setattr(moving, "MAX_FRAMES_PIXELS", 1)
    monkeypatch.setattr(moving, "LONG_FILM_PIXELS_PER_BYTE", 1800)
    assert len(list(moving.frames(stream.getvalue(), "image"))) == 3


def test_frames_of_few_bytes_are_bounded_by_them():
    """1.2 kB that claim 200 frames of 4096x4096 pixels."""
    head = struct.pack("<6sHHBBB", b"GIF89a", 4096, 4096, 0x80, 0, 0) + bytes(6)
    frame = struct.pack("<BHHHHB", 0x2C, 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    with pytest.raises(clquant.FileError, match="its 200 frames have more than"):
        list(moving.frames(head + frame * 200 + b";", "image"))


def test_damaged_exif_says_nothing_about_the_orientation():
    pixels = photo(8, 9)
    exif = b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x09\x01\x12\x00\xff"
    data = file_bytes("PNG", pixels)
    with PIL.Image.open(io.BytesIO(data)) as picture:
        stream = io.BytesIO()
        picture.save(stream, "PNG", exif=exif)
    np.testing.assert_array_equal(decode.from_file(stream.getvalue(), "image"), pixels)


@pytest.mark.full
@pytest.mark.parametrize("kind", sorted(picture_seeds()))
def test_damage_is_a_file_error_in_every_format(kind):
    """With all formats allowed: whatever a reader raises, the library says one thing."""
    seed = picture_seeds()[kind]
    rng = random.Random(kind)
    with warnings.catch_warnings(), images.allow_formats(*(set(picture_seeds()) - set(picture_files.FORMATS))):
        warnings.simplefilter("ignore")
        for _ in range(40):
            data = damaged(rng, seed)
            for read in (decode.from_file, lambda *given: list(moving.frames(*given))):
                with contextlib.suppress(clquant.FileError, clquant.InvalidType, clquant.InvalidArgument):
                    read(data, "image")


def test_a_piped_animation_is_read_once(tmp_path: pathlib.Path) -> None:
    pictures = [PIL.Image.fromarray(photo(6, 7, 1, seed)) for seed in range(2)]
    stream = io.BytesIO()
    pictures[0].save(stream, "GIF", save_all=True, append_images=pictures[1:])
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(stream.getvalue(),))
    writer.start()
    assert len(list(moving.frames(str(path), "image"))) == 2
    writer.join(60)
