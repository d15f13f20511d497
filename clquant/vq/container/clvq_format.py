"""The .clvq container, as docs/clvq-format.md lays it out: header, repeats, codebook, model, bands.

Every section's check field is the CRC-32 of the header's check field, the section's number and its bytes, so that
damage, truncation and sections out of order or of another file are all found, and every band is checked by itself.
Nothing is believed before its check has passed, and no memory is taken beyond what the checked header allows, which
callers cap.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from clquant.runtime import FormatError
from clquant.training.blocks import BlockShape, Codebook
from clquant.vq.coding import codebook_coding
from clquant.vq.coding.bands import BandLayout, CodedBand
from clquant.vq.coding.contexts import BINS
from clquant.vq.coding.repeats import MOST_BYTES_PER_LINE, Repeats
from clquant.vq.container.pipes import Source, read_up_to

MAGIC = b"\x89CLVQ\r\n\x1a"
VERSION = 4
FILLED_VERSION = 3  # whose files may end in zeros
PICTURE, PICTURE_OF_SHARED, CODEBOOK = 0, 1, 2
KINDS = "picture", "picture of a shared codebook", "codebook"
PRESET_CURVES, OWN_CURVES, OWN_CURVES_AND_RARITY = 0, 1, 2
MAX_PIXELS = 1 << 29  # of a picture that is decoded if nobody says otherwise, as of picture files
MAX_CODEBOOK = 1 << 24  # bytes of its codebook, likewise
MAX_SIDE = 1 << 20  # pixels of a picture's height or width
MAX_STATE_SIZE = 255
_HEADER = struct.Struct("<8sBBBBBBBBIII16s")
_LENGTH = struct.Struct("<I")
_CHECK = struct.Struct("<I")
_NUMBER = struct.Struct("<II")
_CODEBOOK_SECTION, _MODEL_SECTION, _REPEATS_SECTION, _FIRST_BAND = 0, 1, 2, 3
_PART = 1 << 20
RARITY_SHAPE = BlockShape(1, 1, 1)


@dataclasses.dataclass(frozen=True)
class Header:
    """The header of a .clvq file."""

    kind: int  # PICTURE (carries its codebook), PICTURE_OF_SHARED (names it) or CODEBOOK (no picture)
    channels: int  # 1, 3 or 4
    block_shape: tuple[int, int]  # (rows, columns) of a block, 1..32 each and 256 pixels at most
    codebook_size: int  # 2..65536
    shape: tuple[int, int]  # (height, width) in pixels, true size; (0, 0) for a codebook
    state_size: int  # of state codebooks that the encoder chose from, 1..255; 0 if it did not, and for a codebook
    codebook_id: bytes  # `codebook_id(codebook)`
    model: int = PRESET_CURVES
    repeating: int = 0  # 1 if rows or columns of blocks that repeat the one before are left out
    version: int = VERSION

    @classmethod
    def of(cls, kind: int, codebook: Codebook, shape: tuple[int, int] = (0, 0), state_size: int = 0) -> Header:
        """The header of a file of a codebook (N, p, q[, C]), or of a picture coded by it."""
        size, p, q, channels = (*codebook.shape, 1)[:4]
        return cls(kind, channels, (p, q), size, shape, state_size, codebook_id(codebook))

    @property
    def table_shape(self) -> tuple[int, int]:
        """(rows, columns) of the index table."""
        return self.block.table_shape(*self.shape)

    @property
    def block(self) -> BlockShape:
        """Shape of blocks with their channels."""
        return BlockShape(*self.block_shape, self.channels)

    def coded_pixels(self, repeats: Repeats) -> int:
        """Pixels of the coded blocks, or of the picture if it has fewer, with which tables of contexts grow."""
        return min(math.prod(self.shape), math.prod((*repeats.coded_shape, *self.block_shape)))

    @functools.cached_property
    def check(self) -> int:
        """The check field."""
        return int(_CHECK.unpack(self.to_bytes()[_HEADER.size :])[0])

    def to_bytes(self) -> bytes:
        """The 48 bytes of the header with its check field."""
        body = _HEADER.pack(
            MAGIC, self.version, self.kind, self.channels, self.model, *self.block_shape, self.state_size,
            self.repeating, self.codebook_size, *self.shape, self.codebook_id,
        )  # fmt: skip
        return body + _CHECK.pack(zlib.crc32(body))

    @staticmethod
    def from_bytes(data: bytes) -> Header:
        """Read and check a header."""
        if data[:8] != MAGIC:
            raise FormatError("these bytes do not begin like a .clvq file")
        if len(data) < HEADER_BYTES:
            raise FormatError("a .clvq file ends in the middle of its header")
        body = data[: _HEADER.size]
        if zlib.crc32(body) != _CHECK.unpack(data[_HEADER.size :])[0]:
            raise FormatError("the header of a .clvq file is damaged: its check sum does not match")
        _, version, kind, channels, model, p, q, state, repeating, size, height, width, identity = _HEADER.unpack(body)
        if version not in (FILLED_VERSION, VERSION):
            allowed = f"this release reads versions {FILLED_VERSION} and {VERSION}"
            raise FormatError(f"a .clvq file has version {version}; {allowed}")
        header = Header(kind, channels, (p, q), size, (height, width), state, identity, model, repeating, version)
        header._check()
        return header

    def _check(self) -> None:
        p, q = self.block_shape
        height, width = self.shape
        empty = self.kind == CODEBOOK
        good = {
            "kind": self.kind < len(KINDS),
            "number of channels": self.channels in (1, 3, 4),
            "block shape": 1 <= p <= 32 and 1 <= q <= 32 and p * q <= 256,
            "codebook size": 2 <= self.codebook_size <= 65536,
            "size": (height == 0 and width == 0) if empty else (0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE),
            "state codebook": self.state_size <= (0 if empty else min(MAX_STATE_SIZE, self.codebook_size)),
            "model": self.model <= (PRESET_CURVES if empty else OWN_CURVES_AND_RARITY),
            "mark of repeats": self.repeating <= (0 if empty else 1),
        }
        for what, fine in good.items():
            if not fine:
                raise FormatError(f"the header of a .clvq file has an impossible {what}")


HEADER_BYTES = _HEADER.size + _CHECK.size


def codebook_id(codebook: Codebook) -> bytes:
    """The identity of a codebook: 16 bytes of the SHA-256 of its shape and its values."""
    shape = struct.pack("<IHHB", *(*codebook.shape, 1)[:4])
    return hashlib.sha256(shape + np.ascontiguousarray(codebook).tobytes()).digest()[:16]


def section_check(header: Header, number: int, payload: bytes | memoryview) -> int:
    """The check field of a section."""
    return zlib.crc32(payload, zlib.crc32(_NUMBER.pack(header.check, number)))


def _check_claims(header: Header, max_pixels: int | None, max_codebook: int | None) -> None:
    """Refuse a file that claims more than its reader allows."""
    height, width = header.shape
    if max_pixels is not None and height * width > max_pixels:
        claim = f"a .clvq file claims {height} x {width} pixels"
        raise FormatError(f"{claim}; at most {max_pixels} are allowed, by max_pixels")
    components = header.block.components
    nbytes = 0 if header.kind == PICTURE_OF_SHARED else header.codebook_size * components
    if max_codebook is not None and nbytes > max_codebook:
        claim = f"a .clvq file claims {header.codebook_size} codewords of {components} bytes"
        raise FormatError(f"{claim}; at most {max_codebook} bytes are allowed, by max_codebook")


def whole_file(
    header: Header,
    codebook: bytes | None,
    model: bytes = b"",
    repeats: Repeats | None = None,
    bands: Iterable[CodedBand] = (),
) -> bytes:
    """The bytes of a .clvq file."""
    sections: dict[int, bytes] = {}  # in their order in the file
    if header.repeating and repeats is not None:
        sections[_REPEATS_SECTION] = repeats.to_bytes()
    if codebook is not None:
        sections[_CODEBOOK_SECTION] = codebook
    if header.model != PRESET_CURVES:
        sections[_MODEL_SECTION] = model
    sections |= {_FIRST_BAND + number: band.to_bytes() for number, band in enumerate(bands)}
    made = [header.to_bytes()]
    for number, payload in sections.items():
        made += [_LENGTH.pack(len(payload)), payload, _CHECK.pack(section_check(header, number, payload))]
    return b"".join(made)


class Reader:
    """Reads a .clvq file piece by piece from anything with `read`."""

    # A file of a codebook has empty `repeats`, and a `layout` that means nothing. `codebook` has the bytes for
    # `decode_codebook`, None if the file names a shared one; `model` what the file says of its indices, nothing for
    # PRESET_CURVES.

    def __init__(
        self, source: Source, max_pixels: int | None = MAX_PIXELS, max_codebook: int | None = MAX_CODEBOOK
    ) -> None:
        self._source = source
        self.nbytes = 0  # that were read so far
        self._to_check: deque[tuple[int, bytes]] = deque()
        self.header = header = Header.from_bytes(self._get(HEADER_BYTES, short=True))
        _check_claims(header, max_pixels, max_codebook)
        self.repeats = Repeats.none(header.table_shape)
        if header.repeating:
            most = MOST_BYTES_PER_LINE * sum(header.table_shape)
            self.repeats = Repeats.from_bytes(self._section(_REPEATS_SECTION, 2, most), header.table_shape)
        self.layout = BandLayout(*self.repeats.coded_shape)
        self.codebook = None
        if header.kind != PICTURE_OF_SHARED:
            size, block = header.codebook_size, header.block
            bounds = codebook_coding.shortest(size, block), codebook_coding.longest(size, block)
            self.codebook = self._section(_CODEBOOK_SECTION, *bounds)
        self.model = b""
        if header.model != PRESET_CURVES:
            rarity = codebook_coding.longest(header.codebook_size, RARITY_SHAPE)
            most = BINS + (rarity if header.model == OWN_CURVES_AND_RARITY else 0)
            self.model = self._section(_MODEL_SECTION, BINS, most)

    def _get(self, size: int, short: bool = False) -> bytes:
        data = read_up_to(self._source, size)
        if len(data) != size and not short:
            raise FormatError("a .clvq file ends too early")
        self.nbytes += len(data)
        return data

    def _unchecked(self, number: int, least: int, most: int) -> bytes:
        (length,) = _LENGTH.unpack(self._get(_LENGTH.size))
        if not least <= length <= most:
            raise FormatError(f"a .clvq section claims {length} bytes; allowed: {least} to {most}")
        both = self._get(length + _CHECK.size)
        self._to_check.append((number, both))
        return both[:length]

    def _section(self, number: int, least: int, most: int) -> bytes:
        payload = self._unchecked(number, least, most)
        self.check()
        return payload

    def check(self) -> None:
        """Check the sections that were read."""
        while self._to_check:
            number, both = self._to_check.popleft()
            payload = memoryview(both)[: -_CHECK.size]
            if _CHECK.unpack(both[-_CHECK.size :])[0] != section_check(self.header, number, payload):
                raise FormatError("a .clvq section is damaged: its check sum does not match")

    def bands(self) -> Iterator[CodedBand]:
        """The picture's bands, top to bottom; whoever takes them calls `check` before giving anything of them away."""
        layout = self.layout
        for band in range(layout.count if self.header.kind != CODEBOOK else 0):
            least = 4 * layout.lanes
            data = self._unchecked(_FIRST_BAND + band, least, least + 4 * layout.rows_of(band) * layout.columns)
            if len(data) % 2:
                raise FormatError("a band of a .clvq file has half a word")
            yield CodedBand.from_bytes(data, layout.lanes)
        while rest := self._get(_PART, short=True):
            if self.header.version != FILLED_VERSION or any(rest):
                raise FormatError("a .clvq file has bytes after its end")

    def check_rest(self) -> None:
        """Go through the bands' check fields to the end of the file, but decode nothing."""
        for _ in self.bands():
            self.check()
