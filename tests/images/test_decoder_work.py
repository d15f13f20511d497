"""Files that ask for more work than their bytes and pixels pay for."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import PIL.Image
import pytest

from clquant import runtime
from clquant.images import decode, moving
from clquant.images.guards import decoder_work, jpeg_segments, metadata_work
from portability.inputs import photo
from tests.images import costly_files

SIZE = 300_000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (costly_files.jpeg_scans, "it has more than 100 scans"),
        (costly_files.ppm_comments, "it has 150000 comments, more than its 300043 bytes are allowed"),
        (costly_files.tiff_strips, "it has 150000 strips or tiles, more than"),
        (costly_files.gif_frames, r"it has \d{5} frames; allowed in its 300020 bytes: 16384"),
    ],
)
def test_what_costs_too_much_is_refused(make: Callable[[int], bytes], message: str) -> None:
    with pytest.raises(runtime.FileError, match=message):
        list(moving.frames(make(SIZE), "image"))


@pytest.mark.parametrize("make", [costly_files.tiff_frames, costly_files.webp_frames, costly_files.png_frames])
def test_frames_have_a_bound_however_long_the_file(
    make: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make(20_000)
    count = moving.about(data, "image").count
    assert count == sum(1 for _ in moving.frames(data, "image")) > 100
    monkeypatch.setattr(decoder_work, "MAX_FRAMES", count)
    assert moving.about(data, "image").count == count
    monkeypatch.setattr(decoder_work, "MAX_FRAMES", count - 1)
    for read in (moving.about, lambda *given: next(moving.frames(*given))):
        found = f"more than {count - 1}" if make is costly_files.tiff_frames else str(count)
        with pytest.raises(runtime.FileError, match=f"it has {found} frames; allowed in its .* bytes: {count - 1}"):
            read(data, "image")


def test_a_claim_of_frames_is_named_as_it_is() -> None:
    pixels = PIL.Image.new("L", (2, 2))
    film = io.BytesIO()
    pixels.save(film, "PNG", save_all=True, append_images=[PIL.Image.new("L", (2, 2), 9)])
    head, _, rest = film.getvalue().partition(b"acTL")
    claim = b"acTL" + struct.pack(">II", 10**6, 0)
    data = head + claim + struct.pack(">I", zlib.crc32(claim)) + rest[12:]
    with pytest.raises(runtime.FileError, match=f"it has 1000000 frames; allowed in its {len(data)} bytes: "):
        moving.about(data, "image")


def test_scans_are_counted_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decoder_work, jpeg_segments):
        monkeypatch.setattr(module, "_PART", 7)  # markers between parts
    stream = io.BytesIO()
    PIL.Image.fromarray(photo(40, 56)).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    scans = data.count(b"\xff\xda")
    segment = b"\xff\xe5" + struct.pack(">H", 802) + b"\xff\xda" * 400
    behind = data[:2] + segment + data[2:] + b"\xff\xda" * 300
    for most, refused in ((scans, False), (scans - 1, True)):
        monkeypatch.setattr(decoder_work, "MAX_SCANS", most)
        for content in (data, behind):
            if refused:
                with pytest.raises(runtime.FileError, match=f"more than {most} scans"):
                    decode.from_file(content, "image")
            else:
                assert decode.from_file(content, "image").shape == (40, 56, 3)


def test_each_picture_of_several_in_a_file_has_its_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    pictures = [PIL.Image.fromarray(photo(40, 56, 3, seed)) for seed in range(3)]
    pictures[0].save(stream, "MPO", save_all=True, append_images=pictures[1:], progressive=True)
    monkeypatch.setattr(decoder_work, "MAX_SCANS", 12)
    assert len(list(moving.frames(stream.getvalue(), "image"))) == 3
    monkeypatch.setattr(decoder_work, "MAX_SCANS", 2)
    with pytest.raises(runtime.FileError, match="its frame 0 has more than 2 scans"):
        list(moving.frames(stream.getvalue(), "image"))


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_strips_are_counted_before_they_are_listed(big: bool, order: str) -> None:
    mark = {"<": b"II", ">": b"MM"}[order]
    tags = [(256, 1, 1), (273, 70_000, 16)]
    if big:
        head = mark + struct.pack(order + "HHHQ", 43, 8, 0, 16) + struct.pack(order + "Q", len(tags))
        entries = b"".join(struct.pack(order + "HHQQ", tag, 4, count, value) for tag, count, value in tags)
    else:
        head = mark + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", len(tags))
        entries = b"".join(struct.pack(order + "HHII", tag, 4, count, value) for tag, count, value in tags)
    data = head + entries + bytes(1000)
    with pytest.raises(ValueError, match="it has 70000 strips or tiles, more than its"):
        metadata_work.check_head(io.BytesIO(data), len(data))
    for end in range(len(head) + 20):  # cut short, it says nothing
        metadata_work.check_head(io.BytesIO(data[:end]), 1 << 20)


def test_files_of_people_are_read() -> None:
    pixels = photo(300, 20)
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels).save(stream, "TIFF", tiffinfo={278: 1})  # a strip per row
    np.testing.assert_array_equal(decode.from_file(stream.getvalue(), "image"), pixels)
    rows = b"".join(b" ".join(b"%d" % value for value in row) + b" # a row\n" for row in pixels.reshape(300, -1))
    np.testing.assert_array_equal(decode.from_file(b"P3\n20 300\n255\n" + rows, "image"), pixels)
