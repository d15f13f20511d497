"""Picture files that ask for most work per byte: what damage by chance does not find.

Each function gives a file of about so many bytes.
"""

from __future__ import annotations

import io
import struct
import zlib

import PIL.Image


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(before: bytes = b"", side: int = 4, after: bytes = b"") -> bytes:
    """A gray PNG with further chunks before and behind its pixels."""
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    pixels = _chunk(b"IDAT", zlib.compress(bytes(side * (side + 1)), 9))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + before + pixels + after + _chunk(b"IEND", b"")


def _packed(text: bytes) -> bytes:
    return zlib.compress(text, 9)


def png_texts(nbytes: int) -> bytes:
    """Packed texts of a megabyte, in letters of four bytes."""
    text = _packed(b"a" * ((1 << 20) - 8) + "\U0001f600".encode())
    chunks = (_chunk(b"iTXt", b"k%d\0\1\0\0\0" % n + text) for n in range(nbytes // len(text) + 1))
    return png(b"".join(chunks))


def png_profiles(nbytes: int) -> bytes:
    """Packed profiles of a megabyte, behind the pixels."""
    chunk = _chunk(b"iCCP", b"k\0\0" + _packed(bytes(1 << 20)))
    return png(after=chunk * (nbytes // len(chunk) + 1))


def png_frames(nbytes: int) -> bytes:
    """Frames of one pixel."""
    count, data = nbytes // 68, zlib.compress(b"\0\0", 9)

    def control(number: int) -> bytes:
        return _chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 1, 1, 0, 0, 1, 1, 0, 0))

    frames = (control(2 * n - 1) + _chunk(b"fdAT", struct.pack(">I", 2 * n) + data) for n in range(1, count))
    return png(_chunk(b"acTL", struct.pack(">II", count, 0)) + control(0), 1, b"".join(frames))


def _tags(*tags: tuple[int, int, int, int]) -> bytes:
    entries = (
        struct.pack("<HHII" if kind == 4 or count > 2 else "<HHIHxx", tag, kind, count, value)
        for tag, kind, count, value in tags
    )
    return struct.pack("<H", len(tags)) + b"".join(entries)


def tiff_strips(nbytes: int) -> bytes:
    """Strips of one row of one pixel, all at the same place."""
    count = nbytes // 2
    tags = _tags(
        *((256, 4, 1, 1), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)),
        *((273, 3, count, 10), (277, 3, 1, 1), (278, 3, 1, 1)),
    )
    return b"II*\0" + struct.pack("<I", 10 + 2 * count) + b"\0\0" + struct.pack("<H", 8) * count + tags + bytes(4)


def tiff_frames(nbytes: int) -> bytes:
    """Pages of one pixel."""
    page = _tags(
        *((256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)),
        *((277, 3, 1, 1), (278, 3, 1, 1), (279, 4, 1, 1)),
    )
    count, size = nbytes // (len(page) + 4), len(page) + 4
    following = (8 + size * (n + 1) if n + 1 < count else 0 for n in range(count))
    return b"II*\0" + struct.pack("<I", 8) + b"".join(page + struct.pack("<I", at) for at in following)


def tiff_values(nbytes: int) -> bytes:
    """Tags whose values are all the same half of the file."""
    half = nbytes // 2
    tags = (struct.pack("<HHII", 1000 + n, 1, half, 8) for n in range(half // 12))
    entries = _tags((256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (278, 3, 1, 1))
    entries = struct.pack("<H", 6 + half // 12) + entries[2:] + b"".join(tags)
    return b"II*\0" + struct.pack("<I", 8 + half) + bytes(half) + entries + bytes(4)


def exif(nbytes: int) -> bytes:
    """EXIF data of a picture that is turned, with tags whose values are all the same half."""
    half = nbytes // 2
    tags = struct.pack("<HHIHxx", 274, 3, 1, 6)
    tags += b"".join(struct.pack("<HHII", 1000 + n, 1, half - 8, 8) for n in range(half // 12))
    head = b"II*\0" + struct.pack("<I", half) + bytes(half - 8)
    return head + struct.pack("<H", len(tags) // 12) + tags + bytes(4)


def png_exif(nbytes: int) -> bytes:
    """EXIF data in a chunk."""
    return png(_chunk(b"eXIf", exif(nbytes)))


def png_hex_exif(nbytes: int) -> bytes:
    """EXIF data in a text of digits."""
    return png(_chunk(b"tEXt", b"Raw profile type exif\0\nexif\n  10\n" + exif(nbytes // 2).hex().encode()))


def jpeg_exif(nbytes: int) -> bytes:
    """EXIF data in as many segments as it takes."""
    data, held, size = _jpeg(), exif(nbytes), 65_000
    parts = (b"Exif\0\0" + held[at : at + size] for at in range(0, len(held), size))
    return data[:2] + b"".join(b"\xff\xe1" + struct.pack(">H", 2 + len(part)) + part for part in parts) + data[20:]


def jpeg_pictures(nbytes: int) -> bytes:
    """The list of a file's pictures, with tags as EXIF's."""
    data, held = _jpeg(), b"MPF\0" + exif(min(nbytes, 65_000))
    return data[:2] + b"\xff\xe2" + struct.pack(">H", 2 + len(held)) + held + data[20:]


def webp_exif(nbytes: int) -> bytes:
    """EXIF data in a chunk."""
    stream = io.BytesIO()
    PIL.Image.new("RGB", (4, 4)).save(stream, "WEBP", exif=exif(nbytes))
    return stream.getvalue()


def _gif(blocks: bytes) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + blocks + b";"


_GIF_FRAME = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"


def gif_frames(nbytes: int) -> bytes:
    """Frames of one pixel."""
    return _gif(_GIF_FRAME * (nbytes // len(_GIF_FRAME)))


def webp_frames(nbytes: int) -> bytes:
    """Frames of one pixel."""
    stream = io.BytesIO()
    PIL.Image.new("RGB", (1, 1)).save(stream, "WEBP", lossless=True)
    pixels = stream.getvalue()[12:]
    frame = b"ANMF" + struct.pack("<I", 16 + len(pixels)) + bytes(12) + b"\1\0\0\0" + pixels
    head = b"VP8X" + struct.pack("<I", 10) + b"\2\0\0\0" + bytes(6) + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    body = b"WEBP" + head + frame * (nbytes // len(frame))
    return b"RIFF" + struct.pack("<I", len(body)) + body


def ppm_comments(nbytes: int) -> bytes:
    """Comments of no letter among plain numbers."""
    return b"P2\n4 4\n255\n" + b"#\n" * (nbytes // 2) + b"1 " * 16


def _jpeg(side: int = 8, progressive: bool = False) -> bytes:
    stream = io.BytesIO()
    PIL.Image.new("L", (side, side)).save(stream, "JPEG", progressive=progressive)
    return stream.getvalue()


def jpeg_scans(nbytes: int) -> bytes:
    """Passes of refinement over 4 million pixels, in which nothing changes."""
    data = _jpeg(2048, progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + scan * max(1, (nbytes - len(data)) // len(scan)) + data[-2:]


def ico_texts(nbytes: int) -> bytes:
    """A PNG of packed texts."""
    picture = png_texts(nbytes)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 4, 4, 0, 0, 1, 32, len(picture), 22) + picture
