"""Frames of animated files, composed by the rules of their formats."""

from __future__ import annotations

import io
import itertools
import struct
import zlib

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant.cli import main
from clquant.runtime import FileError
from tests.reference.composition import CLEAR, NONE, RESTORE, Drawing, shown

HEIGHT, WIDTH = 6, 8
DISPOSALS = [NONE, CLEAR, RESTORE]
PALETTE = np.random.default_rng(5).integers(1, 256, (8, 3), np.uint8)
HOLE = 3


def gif(drawings, controls=None, height=HEIGHT, width=WIDTH, shared=True):
    """A GIF of colours of `PALETTE`, alpha 0 as the entry `HOLE`; `controls` tells which have a control block."""
    table = PALETTE.tobytes()
    parts = [b"GIF89a", struct.pack("<HHBBB", width, height, 0x82 if shared else 2, 1, 0), table if shared else b""]
    for each, has_control in itertools.zip_longest(drawings, controls or (), fillvalue=True):
        rows, columns = each.pixels.shape[:2]
        codes = (each.pixels[:, :, None, :3] == PALETTE).all(axis=3).argmax(axis=2)
        codes[each.pixels[:, :, 3] == 0] = HOLE
        if has_control:
            flags = {NONE: 1, CLEAR: 2, RESTORE: 3}[each.disposal] << 2 | 1
            parts.append(b"\x21\xf9" + struct.pack("<BBHBB", 4, flags, 7, HOLE, 0))
        parts.append(b"," + struct.pack("<HHHHB", each.x, each.y, columns, rows, 0 if shared else 0x82))
        parts.append((b"" if shared else table) + lzw(codes.ravel()))
    return b"".join([*parts, b";"])


def lzw(codes):
    """Codes of 4 bits, with a clear code before every sixth pixel so that they stay that long."""
    sent = [each for i, code in enumerate(codes) for each in ([8] if i % 6 == 0 else []) + [int(code)]] + [9]
    bits = sum(code << 4 * i for i, code in enumerate(sent))
    data = bits.to_bytes(len(sent) // 2 + 1, "little")
    blocks = [data[at : at + 255] for at in range(0, len(data), 255)]
    return b"\x03" + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"


def apng(drawings, hidden=None, plain=()):
    """An APNG in full colour with alpha; `hidden` is a picture that is no frame."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def packed(pixels):
        return zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))

    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 6, 0, 0, 0)), *plain]
    parts.append(chunk(b"acTL", struct.pack(">II", len(drawings), 0)))
    parts += [] if hidden is None else [chunk(b"IDAT", packed(hidden))]
    number = 0
    for each in drawings:
        rows, columns = each.pixels.shape[:2]
        control = struct.pack(
            ">IIIIIHHBB", number, columns, rows, each.x, each.y, 7, 100, DISPOSALS.index(each.disposal), each.over
        )
        data, number = packed(each.pixels), number + 1
        parts.append(chunk(b"fcTL", control))
        if number == 1 and hidden is None:
            parts.append(chunk(b"IDAT", data))
            continue
        parts.append(chunk(b"fdAT", struct.pack(">I", number) + data))
        number += 1
    return b"".join([*parts, chunk(b"IEND", b"")])


def webp(drawings, flags=0x12):
    def chunk(kind, data):
        return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)

    def three(number):
        return number.to_bytes(3, "little")

    body = b"WEBP" + chunk(b"VP8X", bytes([flags, 0, 0, 0]) + three(WIDTH - 1) + three(HEIGHT - 1))
    body += chunk(b"ANIM", struct.pack("<IH", 0xFFFF00FF, 0))
    for each in drawings:
        out = io.BytesIO()
        PIL.Image.fromarray(each.pixels).save(out, "WEBP", lossless=True, exact=True)
        rows, columns = each.pixels.shape[:2]
        how = (0 if each.over else 2) | (each.disposal == CLEAR)
        place = three(each.x // 2) + three(each.y // 2) + three(columns - 1) + three(rows - 1) + three(70)
        body += chunk(b"ANMF", place + bytes([how]) + out.getvalue()[12:])
    return b"RIFF" + struct.pack("<I", len(body)) + body


def drawing(rng, disposal, over, is_whole, alphas, colors=None):
    """A rectangle of random colours, at even places as WebP has them."""
    height, width, y, x = HEIGHT, WIDTH, 0, 0
    if not is_whole:
        y, x = 2 * rng.integers(0, HEIGHT // 2), 2 * rng.integers(0, WIDTH // 2)
        height, width = rng.integers(1, HEIGHT - y + 1), rng.integers(1, WIDTH - x + 1)
    pixels = rng.integers(0, 256, (height, width, 4), np.uint8)
    if colors is not None:
        pixels[:, :, :3] = colors[rng.choice([i for i in range(len(colors)) if i != HOLE], (height, width))]
    pixels[:, :, 3] = rng.choice(alphas, (height, width))
    return Drawing(pixels, int(x), int(y), disposal, over)


def rgba(pixels):
    return pixels if pixels.shape[2] == 4 else np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])


def check(data, drawings, path, tolerance=0):
    path.write_bytes(data)
    found = list(clquant.video.frames(path))
    expected = shown(drawings, HEIGHT, WIDTH)
    assert len(found) == len(expected)
    for frame, picture in zip(found, expected, strict=True):
        assert frame.delay_ms == 70
        seen = picture[:, :, 3] > 0
        own = rgba(frame.pixels)
        assert np.array_equal(own[~seen, 3], picture[~seen, 3])
        assert np.abs(own[seen].astype(int) - picture[seen]).max(initial=0) <= tolerance
    first = clquant.images.read(path).array
    assert np.array_equal(rgba(first)[:, :, 3] > 0, expected[0][:, :, 3] > 0)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_gif(is_whole, shared, rng, tmp_path):
    for disposals in itertools.product(DISPOSALS, repeat=3):
        drawings = [
            drawing(rng, how, True, is_whole and number == 0, [0, 255], PALETTE) for number, how in enumerate(disposals)
        ]
        check(gif(drawings, shared=shared), drawings, tmp_path / "a.gif")


@pytest.mark.parametrize("is_hidden", [True, False])
def test_apng(is_hidden, rng, tmp_path):
    hidden = rng.integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8) if is_hidden else None
    for hows in itertools.product(itertools.product(DISPOSALS, [True, False]), repeat=2):
        drawings = [
            drawing(rng, *how, not is_hidden and number == 0, [0, 90, 255])
            for number, how in enumerate([*hows, (NONE, True)])
        ]
        check(apng(drawings, hidden), drawings, tmp_path / "a.png")


@pytest.mark.parametrize("is_whole", [True, False])
def test_webp(is_whole, rng, tmp_path):
    for hows in itertools.product(itertools.product([NONE, CLEAR], [True, False]), repeat=2):
        drawings = [
            drawing(rng, *how, is_whole and number == 0, [0, 90, 255])
            for number, how in enumerate([*hows, (NONE, True)])
        ]
        check(webp(drawings), drawings, tmp_path / "a.webp", tolerance=3)  # libwebp rounds each of several steps
        opaque = [drawing(rng, *how, is_whole and number == 0, [255]) for number, how in enumerate(hows)]
        check(webp(opaque, flags=0x02), opaque, tmp_path / "b.webp")  # whose head denies alpha


def test_apng_as_ffmpeg_shows_it(rng, tmp_path):
    av = pytest.importorskip("av")
    for hows in itertools.product(itertools.product(DISPOSALS, [True, False]), repeat=2):
        drawings = [drawing(rng, *how, number == 0, [0, 90, 255]) for number, how in enumerate([*hows, (NONE, True)])]
        (tmp_path / "a.png").write_bytes(apng(drawings))
        with av.open(str(tmp_path / "a.png")) as film:
            theirs = [frame.to_ndarray(format="rgba") for frame in film.decode(video=0)]
        ours = [rgba(frame.pixels) for frame in clquant.video.frames(tmp_path / "a.png")]
        for mine, other in zip(ours, theirs, strict=True):
            seen = mine[:, :, 3] > 0
            assert np.array_equal(seen, other[:, :, 3] > 0)
            assert np.abs(mine[seen].astype(int) - other[seen]).max(initial=0) <= 2


def test_a_control_block_is_of_one_frame_alone(rng, tmp_path):
    drawings = [drawing(rng, CLEAR, True, True, [255], PALETTE), drawing(rng, NONE, True, False, [255], PALETTE)]
    drawings.append(drawing(rng, NONE, True, False, [255], PALETTE))
    (tmp_path / "a.gif").write_bytes(gif(drawings, [True, False, False]))
    frames = list(clquant.video.frames(tmp_path / "a.gif"))
    assert [frame.delay_ms for frame in frames] == [70, 100, 100]
    for frame, picture in zip(frames, shown(drawings, HEIGHT, WIDTH), strict=True):
        assert np.array_equal(rgba(frame.pixels)[picture[:, :, 3] > 0], picture[picture[:, :, 3] > 0])


def test_every_way_to_read_a_gif_whose_first_frame_is_small(tmp_path, monkeypatch):
    """What is drawn by no frame is transparent, whether the file, its bytes or a PIL image is given."""
    monkeypatch.chdir(tmp_path)
    pixels = np.dstack([np.broadcast_to(PALETTE[1], (2, 3, 3)), np.full((2, 3), 255, np.uint8)])
    drawings = [Drawing(pixels, 2, 2, RESTORE), Drawing(pixels, 4, 0)]
    data = gif(drawings)
    (tmp_path / "a.gif").write_bytes(data)
    expected = [picture[:, :, 3] for picture in shown(drawings, HEIGHT, WIDTH)]
    for source in ("a.gif", data, io.BytesIO(data), PIL.Image.open(io.BytesIO(data))):
        assert np.array_equal(clquant.images.read(source).array[:, :, 3], expected[0])
    for source in ("a.gif", PIL.Image.open(io.BytesIO(data))):
        for frame, alpha in zip(clquant.video.frames(source), expected, strict=True):
            assert np.array_equal(frame.pixels[:, :, 3], alpha)
        made = clquant.animate(source, 4).frames
        assert [np.array_equal(rgba(one.to_array())[:, :, 3], alpha) for one, alpha in zip(made, expected, strict=True)]
    for command in ("palette", "animate"):
        assert main([command, "a.gif", "-k", "4", "-o", "b.gif", "-q"]) == 0
        for frame, alpha in zip(clquant.video.frames("b.gif"), expected, strict=True):
            assert np.array_equal(frame.pixels[:, :, 3], alpha)
    (still,) = clquant.video.frames(PIL.Image.new("RGB", (3, 2), "red"))
    assert still.pixels.shape == (2, 3, 3)


def test_a_rectangle_beyond_its_screen_takes_no_more_than_its_bytes_allow(tmp_path):
    whole = Drawing(np.full((HEIGHT, WIDTH, 4), 255, np.uint8), 0, 0)
    data = bytearray(gif([whole, whole]))
    second = data.rindex(struct.pack("<HHHH", 0, 0, WIDTH, HEIGHT)) - 1
    data[second : second + 10] = b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0)
    (tmp_path / "a.gif").write_bytes(data)
    with pytest.raises(FileError, match="pixels"):
        list(clquant.video.frames(tmp_path / "a.gif"))
