"""Indexed pictures for programs on small displays: C sources with plain arrays, and LVGL's images.

LVGL's indexed images (https://docs.lvgl.io, versions 8 and 9) are the palette, 2^bits colours as blue, green, red and
alpha, and then the rows, each beginning with a new byte, the first pixel in the highest bits. As a file a header is in
front: in version 8 a 32-bit number (colour format in 5 bits, 5 bits 0, width and height in 11 bits each), in version 9
six 16-bit numbers (0x19 and the colour format in the first, flags, width, height, bytes per row, 0), low bytes first.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.display import checked_format
from clquant.color.formats.png import bits_of, packed_rows
from clquant.color.values import transparent_index
from clquant.runtime import InvalidArgument

MAX_COLORS = 256
LVGL_VERSIONS = (8, 9)
# Colour formats of 1, 2, 4 and 8 bits, in both versions.
_LVGL_FORMATS = {1: 7, 2: 8, 4: 9, 8: 10}
_MOST_SIDES = {8: 2047, 9: 65535}
_MAGIC = 0x19
_BYTES_PER_LINE = 16

# Words of C, which are no names, and what a name is.
_WORDS = (
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|register|"
    "restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while"
)
_NAME = re.compile(rf"(?!({_WORDS})$)[A-Za-z_][0-9A-Za-z_]*")

Bytes = npt.NDArray[np.uint8]


class _Packed(NamedTuple):
    """A picture as programs read it."""

    rows: Bytes  # (height, stride)
    width: int
    bits: int
    rgba: Bytes  # (n, 4)

    def lvgl_palette(self) -> Bytes:
        """(2^bits, 4) uint8: blue, green, red, alpha; 0 beyond the colours."""
        palette = np.zeros((1 << self.bits, 4), np.uint8)
        palette[: len(self.rgba)] = self.rgba[:, [2, 1, 0, 3]]
        return palette


def _packed(indices: Bytes, rgba: Bytes, what: str, lvgl: int | None = None) -> _Packed:
    """Pack a picture; errors name the format by `what`, and what an LVGL version's header cannot say is one."""
    if len(rgba) > MAX_COLORS:
        raise InvalidArgument(f"{what} holds at most {MAX_COLORS} colours; this palette has {len(rgba)}")
    height, width = indices.shape
    most = 0 if lvgl is None else _MOST_SIDES[params.choice("lvgl", lvgl, LVGL_VERSIONS)]
    if most and max(width, height) > most:
        raise InvalidArgument(f"LVGL {lvgl} holds pictures of at most {most}x{most}; this one is {width}x{height}")
    bits = bits_of(len(rgba))
    return _Packed(packed_rows(indices.astype(np.uint8), bits), width, bits, rgba)


def identifier(text: str, key: str = "") -> str:
    """Make a name for C of a file's stem.

    A stem that is no name gets underscores, and digits of its hash at the end, so that unlike stems have unlike names
    whatever calls write them. With a `key` the digits are those of its hash.
    """
    if not key and (not text or _NAME.fullmatch(text)):
        return text or "picture"
    name = re.sub(r"[^0-9A-Za-z_]", "_", text)
    name += f"_{zlib.crc32((key or text).encode('utf-8', 'surrogateescape')):08x}"
    return name if _NAME.fullmatch(name) else f"_{name}"


def c_source(
    indices: Bytes,
    rgba: Bytes,
    *,
    header: bool = False,
    name: str = "picture",
    color_format: str | None = None,
    lvgl: int | None = None,
) -> bytes:
    """A picture as a C source file."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"name is {params.shown(name)}; allowed: an identifier of C")
    display = checked_format(color_format)
    if lvgl is not None and display is not None:
        raise InvalidArgument(f"color_format is {color_format!r} with lvgl={lvgl!r}, whose palettes are 32-bit")
    picture = _packed(indices, rgba, "a C source", lvgl)
    if lvgl is not None:
        return _file(_lvgl(picture, name, header, lvgl), name, header)
    if display is None:
        codes = [f"0x{code:08x}" for code in _argb(rgba).tolist()]
    elif ((rgba[:, 3] > 0) & (rgba[:, 3] < 255)).any():
        allowed = "alpha 0 and 255 alone (--alpha binary, alpha_edges), or a background"
        raise InvalidArgument(f"color_format is {color_format!r}, whose colours have no alpha; allowed: {allowed}")
    else:
        codes = [f"0x{code:04x}" for code in display.codes(rgba).tolist()]
    return _file(_plain(picture, name, header, codes), name, header)


def c_frame(data: bytes, shape: tuple[int, int], bits: int, *, header: bool = False, name: str = "frame") -> bytes:
    """A panel's packed frame as a C source file, whose array has the very bytes that the controller takes."""
    depth = f"{bits} bit{'s' * (bits > 1)} per pixel"
    rows = f"{depth}, the first one in a byte's highest bits" if bits else "two planes of 1 bit per pixel"
    about = f"The frame as the panel's controller takes it: {shape[1]}x{shape[0]}, {rows}."
    numbers = {"HEIGHT": shape[0], "WIDTH": shape[1], "BITS": bits}
    frame = "uint8_t", name if name == "frame" else f"{name}_frame", len(data), _lines(np.frombuffer(data, np.uint8))
    return _file(_arrays(about, name, header, numbers, [frame]), name, header)


def _file(text: str, name: str, header: bool) -> bytes:
    if header:
        guard = f"{name.upper()}_H"
        text = f"#ifndef {guard}\n#define {guard}\n\n{text}\n#endif\n"
    return text.encode("ascii")


def lvgl_binary(indices: Bytes, rgba: Bytes, *, lvgl: int = 9) -> bytes:
    """A picture as a file that LVGL reads from its file systems."""
    picture = _packed(indices, rgba, "an LVGL image", params.choice("lvgl", lvgl, LVGL_VERSIONS))
    kind, (height, stride) = _LVGL_FORMATS[picture.bits], picture.rows.shape
    if lvgl == 8:
        head = struct.pack("<I", kind | picture.width << 10 | height << 21)
    else:
        head = struct.pack("<BBHHHHH", _MAGIC, kind, 0, picture.width, height, stride, 0)
    return head + picture.lvgl_palette().tobytes() + picture.rows.tobytes()


def _argb(rgba: Bytes) -> npt.NDArray[np.uint32]:
    wide = rgba.astype(np.uint32)
    return np.asarray(wide[:, 3] << 24 | wide[:, 0] << 16 | wide[:, 1] << 8 | wide[:, 2], np.uint32)


def _lines(data: Bytes) -> str:
    """Bytes as the inside of a C array, `_BYTES_PER_LINE` a line."""
    text = "0x" + data.tobytes().hex(" ").replace(" ", ", 0x") + ","
    width = len("0x00, ") * _BYTES_PER_LINE
    return "".join(f"    {text[i : i + width - 1]}\n" for i in range(0, len(text), width))


def _plain(picture: _Packed, name: str, header: bool, codes: list[str]) -> str:
    clear, (height, stride) = transparent_index(picture.rgba), picture.rows.shape
    numbers = {"WIDTH": picture.width, "HEIGHT": height, "BITS": picture.bits, "STRIDE": stride}
    numbers |= {"COLORS": len(codes), "TRANSPARENT": -1 if clear is None else clear}
    about = f"{picture.width}x{height} pixels of {picture.bits} bits, the first one in a byte's highest bits; "
    palette = "".join(f"    {', '.join(codes[i : i + 8])},\n" for i in range(0, len(codes), 8))
    colors = "uint16_t" if len(codes[0]) == 6 else "uint32_t", f"{name}_palette", len(codes), palette
    pixels = "uint8_t", f"{name}_pixels", picture.rows.size, _lines(picture.rows)
    return _arrays(f"{about}{stride} bytes per row.", name, header, numbers, [colors, pixels])


def _arrays(
    about: str, name: str, header: bool, numbers: dict[str, int], arrays: list[tuple[str, str, int, str]]
) -> str:
    """C text of a comment, of numbers as macros, and of arrays: type, name, length and lines of each."""
    defined = "".join(f"#define {name.upper()}_{key} {value}\n" for key, value in numbers.items())
    begin = f"{'static ' if header else ''}const"
    written = (f"{begin} {kind} {array}[{count}] = {{\n{lines}}};\n" for kind, array, count, lines in arrays)
    return f"/* {about} */\n#include <stdint.h>\n\n{defined}\n" + "\n".join(written)


def _lvgl(picture: _Packed, name: str, header: bool, version: int) -> str:
    static = "static " if header else ""
    if version == 8:
        kind, structure = f"LV_IMG_CF_INDEXED_{picture.bits}BIT", "lv_img_dsc_t"
        fields = [("header.cf", kind), ("header.always_zero", 0), ("header.reserved", 0)]
    else:
        kind, structure = f"LV_COLOR_FORMAT_I{picture.bits}", "lv_image_dsc_t"
        fields = [("header.magic", "LV_IMAGE_HEADER_MAGIC"), ("header.cf", kind), ("header.flags", 0)]
    fields += [("header.w", picture.width), ("header.h", len(picture.rows))]
    if version == 9:
        fields.append(("header.stride", picture.rows.shape[1]))
    fields += [("data_size", f"sizeof({name}_map)"), ("data", f"{name}_map")]
    members = "".join(f"    .{field} = {value},\n" for field, value in fields)
    return (
        f"/* {picture.width}x{len(picture.rows)} pixels, {len(picture.rgba)} colours, for LVGL {version}. */\n"
        '#ifdef LV_LVGL_H_INCLUDE_SIMPLE\n#include "lvgl.h"\n#else\n#include "lvgl/lvgl.h"\n#endif\n\n'
        "#ifndef LV_ATTRIBUTE_MEM_ALIGN\n#define LV_ATTRIBUTE_MEM_ALIGN\n#endif\n\n"
        f"static const LV_ATTRIBUTE_MEM_ALIGN uint8_t {name}_map[] = {{\n"
        f"    /* palette: blue, green, red, alpha */\n{_lines(picture.lvgl_palette())}"
        f"    /* pixels */\n{_lines(picture.rows)}}};\n\n"
        f"{static}const {structure} {name} = {{\n{members}}};\n"
    )
