"""A small undamaged file of every format that Pillow reads pixels from, where this Pillow has it."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Iterator, Mapping

import PIL.Image

from portability.inputs import photo

# EPS would start Ghostscript; stubs read nothing without a handler of the application's; MPEG has no pixels. Icons of
# Apple's are written with a picture of 1024x1024 pixels.
_NOT_READ = {"BUFR", "EPS", "GRIB", "HDF5", "ICNS", "MPEG", "PALM", "PDF", "WMF"}
# The marks of files that no reader may give pixels of.
UNREADABLE = {
    "BUFR": b"BUFR" + bytes(60),
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n{} loop\n%%EOF\n",
    "GRIB": b"GRIB" + bytes(3) + b"\1" + bytes(60),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(60),
    "MPEG": b"\0\0\1\xb3\x01\x00\x10" + bytes(60),
    "WMF": b"\xd7\xcd\xc6\x9a\0\0" + struct.pack("<4hH", 0, 0, 100, 100, 72) + bytes(4) + b"\1\0\t\0" + bytes(40),
}


@functools.cache
def picture_seeds() -> Mapping[str, bytes]:
    """Files by format."""
    PIL.Image.init()
    found = {name: data for name, data in (*_saved(), *_made()) if name in PIL.Image.OPEN}
    return {name: data for name, data in found.items() if _opens(name, data)}


def _opens(name: str, data: bytes) -> bool:
    try:
        with PIL.Image.open(io.BytesIO(data), formats=[name]) as picture:
            picture.load()
    except Exception:  # an older Pillow that has the writer alone
        return False
    return True


def _saved() -> Iterator[tuple[str, bytes]]:
    """What Pillow writes: the first of a few pictures that each format takes."""
    rgb, gray = PIL.Image.fromarray(photo(9, 14)), PIL.Image.fromarray(photo(9, 14, 1))
    candidates = (rgb, gray, gray.convert("1"), rgb.convert("RGBA"), rgb.resize((32, 32)), rgb.quantize(8))
    for name in sorted(set(PIL.Image.SAVE) - _NOT_READ):
        for picture in candidates:
            stream = io.BytesIO()
            try:
                picture.save(stream, name)
            except Exception:  # writers refuse modes in ways of their own
                continue
            yield name, stream.getvalue()
            break


def _made() -> Iterator[tuple[str, bytes]]:
    """Formats that Pillow reads alone."""
    gray = photo(4, 6, 1).tobytes()
    rgb = photo(4, 6).tobytes()
    yield "PSD", struct.pack(">4sH6xHIIHH", b"8BPS", 1, 3, 4, 6, 8, 3) + bytes(12) + b"\0\0" + rgb
    yield "SUN", struct.pack(">8I", 0x59A66A95, 6, 4, 8, 24, 1, 0, 0) + gray
    cards = ("SIMPLE  =                    T", "BITPIX  = 8", "NAXIS   = 2", "NAXIS1  = 6", "NAXIS2  = 4", "END")
    header = "".join(card.ljust(80) for card in cards)
    yield "FITS", header.ljust(2880).encode() + gray.ljust(2880, b"\0")
    yield "XPM", b'/* XPM */\nstatic char *a[] = {\n"2 2 2 1",\n"a c #ff0000",\n"b c #0000ff",\n"ab",\n"ba"\n};\n'
    bmp = io.BytesIO()
    PIL.Image.fromarray(photo(8, 6)).save(bmp, "DIB")
    dib = bmp.getvalue()
    yield "CUR", struct.pack("<HHHBBBBHHII", 0, 2, 1, 6, 4, 0, 0, 0, 0, len(dib), 22) + dib
    pcx = io.BytesIO()
    PIL.Image.fromarray(photo(4, 6)).save(pcx, "PCX")
    yield "DCX", struct.pack("<III", 987654321, 12, 0) + pcx.getvalue()
    yield "GBR", struct.pack(">5I4sI", 32, 2, 6, 4, 1, b"GIMP", 10) + b"ab\0\0" + gray
    yield "XVTHUMB", b"P7 332\n#END_OF_COMMENTS\n6 4 255\n" + gray
    yield "ICNS", struct.pack(">4sI4sI", b"icns", 784, b"is32", 776) + photo(16, 16).tobytes()
    yield "IMT", b"width 6\nheight 4\npixel n8\n" + b"\x0c" + gray
    fields = ((3, 60, b"\1\0"), (3, 20, b"\0\0\0\6"), (3, 30, b"\0\0\0\4"), (3, 120, b"\1"), (8, 10, gray))
    yield "IPTC", b"".join(struct.pack(">BBBH", 0x1C, *tag, len(held)) + held for *tag, held in fields)
    yield "PCD", bytes(2048) + b"PCD_".ljust(194560, b"\x80") + bytes(768 * 512 * 3 // 2)
    chunk = struct.pack("<IHH8xIH", 46, 0xF1FA, 1, 30, 16) + gray
    yield "FLI", struct.pack("<IHHHHHHI", 128, 0xAF11, 1, 6, 4, 8, 0, 70).ljust(128, b"\0") + chunk
    fields = [0] * 64
    fields[1], fields[8], fields[9], fields[10], fields[13], fields[33] = 4, 4, 6, 1, 1, 256
    yield "MCIDAS", struct.pack(">64i", *fields) + gray
    yield "PIXAR", struct.pack("<4s412xHHIHH", b"\x80\xe8\0\0", 4, 6, 0, 14, 2).ljust(1024, b"\0") + rgb
    yield (
        "FTEX",
        struct.pack("<4siiiiiii", b"FTEX", 0, 8, 8, 1, 1, 1, 32) + struct.pack("<i", 192) + photo(8, 8).tobytes(),
    )
