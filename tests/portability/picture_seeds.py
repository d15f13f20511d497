"""A small undamaged file of every format that Pillow reads pixels from, where this Pillow has it."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Iterator, Mapping

import PIL.Image

from tests.portability.inputs import photo

# EPS would start Ghostscript; stubs read nothing without a handler of the application's; MPEG has no pixels.
_NOT_READ = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "PALM", "PDF", "WMF"}


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
