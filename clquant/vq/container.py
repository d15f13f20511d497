"""The .clvq container, as docs/clvq-format.md lays it out: header, codebook, bands of coded block rows.

Every check field is the CRC-32 of all bytes of the file before it except earlier check fields, so that damage,
truncation and sections out of order are all found. Nothing is believed before its check has passed, and no memory is
taken beyond what the checked header allows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from clquant.runtime import FormatError, InvalidArgument
from clquant.vq import entropy
from clquant.vq.pipes import Sink, Source, read_up_to, write_all

MAGIC = b"\x89CLVQ\r\n\x1a"
VERSION = 1
PICTURE, PICTURE_OF_SHARED, CODEBOOK = 0, 1, 2
MAX_PIXELS = 1 << 29  # of a picture that is decoded where nobody says otherwise, as of picture files
MAX_SIDE = 1 << 20  # pixels of a picture's height or width
MAX_BAND_BLOCKS = 1 << 20
MAX_STATE_SIZE = 255
MAX_SIDE_MATCHES = 1 << 36  # blocks times codewords of a side-match picture
ESCAPE = 255
_HEADER = struct.Struct("<8sBBBBHHIIIIIHH16sI")
_SECTION = struct.Struct("<BI")
_BAND = struct.Struct("<IIBB")
_CHECK = struct.Struct("<I")


@dataclasses.dataclass(frozen=True)
class Header:
    """What a .clvq file says of itself before its first section.

    Attributes
    ----------
    kind : int
        PICTURE (carries its codebook), PICTURE_OF_SHARED (names it) or CODEBOOK (no picture).
    channels : int
        1, 3 or 4.
    block_shape : tuple of int
        (rows, columns) of a block, 1..32 each and 256 pixels at most.
    codebook_size : int
        2..65536.
    shape : tuple of int
        (height, width) in pixels, true size; (0, 0) for a codebook.
    state_size : int
        Codewords in a side-match state codebook, 1..255; 0 for plain VQ and for a codebook.
    codebook_id : bytes
        16 bytes, `codebook_id(codebook)`.
    version : int
    """

    kind: int
    channels: int
    block_shape: tuple[int, int]
    codebook_size: int
    shape: tuple[int, int]
    state_size: int
    codebook_id: bytes
    version: int = VERSION

    @property
    def table_shape(self) -> tuple[int, int]:
        """(rows, columns) of the index table."""
        return tuple(-(-side // block) for side, block in zip(self.shape, self.block_shape, strict=True))  # type: ignore[return-value]

    @property
    def padded_shape(self) -> tuple[int, int]:
        """(height, width) in pixels with the edge blocks made whole."""
        return tuple(n * block for n, block in zip(self.table_shape, self.block_shape, strict=True))  # type: ignore[return-value]

    def to_bytes(self) -> bytes:
        """The 64 bytes of the header with its check field."""
        body = _HEADER.pack(
            MAGIC, self.version, self.kind, self.channels, 0, *self.block_shape, self.codebook_size, *self.shape,
            *self.padded_shape, self.state_size, 0, self.codebook_id, 0,
        )  # fmt: skip
        return body + _CHECK.pack(zlib.crc32(body))

    @staticmethod
    def from_bytes(data: bytes) -> Header:
        """Read and check a header.

        Parameters
        ----------
        data : bytes
            The 64 bytes that `to_bytes` makes.

        Returns
        -------
        Header

        Raises
        ------
        FormatError
            If they are damaged, of a later version, or say something impossible.
        """
        if data[:8] != MAGIC:
            raise FormatError("these bytes do not begin like a .clvq file")
        if len(data) < HEADER_BYTES:
            raise FormatError("a .clvq file ends in the middle of its header")
        body = data[: _HEADER.size]
        if zlib.crc32(body) != _CHECK.unpack(data[_HEADER.size :])[0]:
            raise FormatError("the header of a .clvq file is damaged: its check sum does not match")
        _, version, kind, channels, zero, p, q, size, height, width, *rest = _HEADER.unpack(body)
        padded, (state, zero2, identity, zero3) = tuple(rest[:2]), rest[2:]
        if version != VERSION:
            raise FormatError(f"a .clvq file has version {version}; this release reads version {VERSION}")
        header = Header(kind, channels, (p, q), size, (height, width), state, identity, version)
        header._check(padded, zero or zero2 or zero3)
        return header

    def _check(self, padded: tuple[int, ...], reserved: int) -> None:
        p, q = self.block_shape
        height, width = self.shape
        empty = self.kind == CODEBOOK
        good = {
            "kind": self.kind in (PICTURE, PICTURE_OF_SHARED, CODEBOOK),
            "number of channels": self.channels in (1, 3, 4),
            "block shape": 1 <= p <= 32 and 1 <= q <= 32 and p * q <= 256,
            "codebook size": 2 <= self.codebook_size <= 65536,
            "size": (height == 0 and width == 0) if empty else (0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE),
            "state codebook": self.state_size <= (0 if empty else min(MAX_STATE_SIZE, self.codebook_size)),
            "reserved field": reserved == 0,
        }
        for what, fine in good.items():
            if not fine:
                raise FormatError(f"the header of a .clvq file has an impossible {what}")
        rows, columns = self.table_shape
        if self.state_size and rows * columns * self.codebook_size > MAX_SIDE_MATCHES:
            raise FormatError("a .clvq file claims a side-match picture of more work than is allowed")
        if padded != self.padded_shape:
            raise FormatError("the header of a .clvq file has an impossible padded size")


HEADER_BYTES = _HEADER.size + _CHECK.size


def codebook_id(codebook: npt.NDArray[np.uint8]) -> bytes:
    """The identity of a codebook: 16 bytes of the SHA-256 of its shape and its values.

    Parameters
    ----------
    codebook : ndarray of uint8, shape (N, p, q) or (N, p, q, C)

    Returns
    -------
    bytes
        16 of them.
    """
    size, p, q = codebook.shape[:3]
    channels = codebook.shape[3] if codebook.ndim == 4 else 1
    shape = struct.pack("<IHHB", size, p, q, channels)
    return hashlib.sha256(shape + np.ascontiguousarray(codebook).tobytes()).digest()[:16]


class Writer:
    """Writes a .clvq file piece by piece to anything with `write`.

    Parameters
    ----------
    sink : Sink
    header : Header
    codebook : ndarray of uint8 or None
        Written unless the header's kind is PICTURE_OF_SHARED.
    """

    def __init__(self, sink: Sink, header: Header, codebook: npt.NDArray[np.uint8] | None) -> None:
        self._sink = sink
        self._header = header
        self._check = 0
        self._rows_left = header.table_shape[0]
        data = header.to_bytes()
        self._check = zlib.crc32(data[: -_CHECK.size])
        write_all(sink, data)
        if header.kind != PICTURE_OF_SHARED:
            if codebook is None or codebook_id(codebook) != header.codebook_id:
                raise InvalidArgument("codebook is not the one that the header names")
            self._section(*entropy.pack(np.ascontiguousarray(codebook).tobytes()))

    def _put(self, data: bytes) -> None:
        self._check = zlib.crc32(data, self._check)
        write_all(self._sink, data)

    def _section(self, method: int, payload: bytes) -> None:
        self._put(_SECTION.pack(method, len(payload)))
        self._put(payload)
        write_all(self._sink, _CHECK.pack(self._check))

    def write(self, table: entropy.Values, escapes: entropy.Values | None = None) -> None:
        """Write the next block rows.

        Parameters
        ----------
        table : ndarray of int, shape (rows, columns)
            Codeword indices; with side match, ranks in the state codebook or ESCAPE.
        escapes : ndarray of int, shape (n,)
            With side match: the codeword indices of the ESCAPEs in raster order.

        Raises
        ------
        InvalidArgument
            If these are not rows of the header's table.
        """
        rows, columns = table.shape
        if not 1 <= rows <= self._rows_left or columns != self._header.table_shape[1]:
            raise InvalidArgument(
                f"table has the shape {table.shape}; what is left of the picture is "
                f"({self._rows_left}, {self._header.table_shape[1]})"
            )
        self._rows_left -= rows
        size = self._header.codebook_size
        if escapes is None:
            transform, method, payload = entropy.pack_table(table, size)
            self._put(_BAND.pack(rows, 0, transform, 0))
            self._section(method, payload)
            return
        transform, method, payload = entropy.pack_table(table, ESCAPE + 1)
        inner, inner_method, inner_payload = entropy.pack_table(escapes.reshape(1, -1), size)
        self._put(_BAND.pack(rows, escapes.size, transform, inner))
        self._section(method, payload)
        self._section(inner_method, inner_payload)

    def close(self) -> None:
        """Check that every row was written.

        Raises
        ------
        InvalidArgument
            If rows are missing.
        """
        if self._rows_left:
            raise InvalidArgument(f"{self._rows_left} block rows of the picture were never written")


class Reader:
    """Reads a .clvq file piece by piece from anything with `read`.

    Parameters
    ----------
    source : Source
    max_pixels : int or None
        Larger pictures are refused before anything else of theirs is read; None for readers that decode none.

    Attributes
    ----------
    header : Header
    codebook : ndarray of uint8, shape (N, p, q) or (N, p, q, C), or None
        None when the file names a shared codebook.

    Raises
    ------
    FormatError
        If the bytes are damaged, truncated, of another format, or ask for more than `max_pixels`.
    """

    def __init__(self, source: Source, max_pixels: int | None = MAX_PIXELS) -> None:
        self._source = source
        data = read_up_to(source, HEADER_BYTES)
        self.header = Header.from_bytes(data)
        height, width = self.header.shape
        if max_pixels is not None and height * width > max_pixels:
            raise FormatError(
                f"a .clvq file claims {height} x {width} pixels; at most {max_pixels} are allowed, by max_pixels"
            )
        self._check = zlib.crc32(data[: -_CHECK.size])
        self.codebook = None if self.header.kind == PICTURE_OF_SHARED else self._codebook()

    def _get(self, size: int) -> bytes:
        data = read_up_to(self._source, size)
        if len(data) != size:
            raise FormatError("a .clvq file ends too early")
        self._check = zlib.crc32(data, self._check)
        return data

    def _section(self, length: int) -> bytes:
        return entropy.unpack(*self._payload(length), length)

    def _payload(self, length: int) -> tuple[int, bytes]:
        """A section's method and payload, checked but not unpacked."""
        method, stored = _SECTION.unpack(self._get(_SECTION.size))
        if method not in entropy.METHODS:
            raise FormatError(f"a .clvq section has the unknown method {method}")
        if stored > entropy.longest_payload(length):
            raise FormatError(f"a .clvq section claims {stored} bytes for {length}")
        payload = self._get(stored)
        expected = self._check
        if _CHECK.unpack(self._get(_CHECK.size))[0] != expected:
            raise FormatError("a .clvq section is damaged: its check sum does not match")
        self._check = expected
        return method, payload

    def _codebook(self) -> npt.NDArray[np.uint8]:
        header = self.header
        shape: tuple[int, ...] = (header.codebook_size, *header.block_shape)
        if header.channels > 1:
            shape = (*shape, header.channels)
        codebook = np.frombuffer(self._section(int(np.prod(shape))), np.uint8).reshape(shape)
        if codebook_id(codebook) != header.codebook_id:
            raise FormatError("the codebook of a .clvq file is not the one that its header names")
        return codebook

    def bands(self) -> Iterator[tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16] | None]]:
        """The picture's block rows, a band at a time, top to bottom.

        Yields
        ------
        table : ndarray of uint16, shape (rows, columns)
            Codeword indices; with side match, ranks in the state codebook or ESCAPE.
        escapes : ndarray of uint16 or None
            With side match: the codeword indices of the ESCAPEs in raster order.

        Raises
        ------
        FormatError
            If the bytes are damaged or truncated, or bytes follow the last band.
        """
        columns = self.header.table_shape[1]
        for rows, *head in self._heads():
            yield self._band(rows, columns, *head)

    def check_rest(self) -> None:
        """Go through the bands' heads and check fields to the end of the file, but unpack nothing.

        Raises
        ------
        FormatError
            If the bytes are damaged or truncated, or bytes follow the last band.
        """
        size, columns = self.header.codebook_size, self.header.table_shape[1]
        for rows, escaped, transform, inner in self._heads():
            limit = ESCAPE + 1 if self.header.state_size else size
            self._payload(entropy.plain_length(rows * columns, limit, transform))
            if self.header.state_size:
                self._payload(entropy.plain_length(escaped, size, inner))

    def _heads(self) -> Iterator[tuple[int, int, int, int]]:
        """(rows, escapes, transform, transform of the escapes) of every band; whoever asks reads its sections."""
        left, columns = self.header.table_shape
        while left:
            rows, escaped, transform, inner = _BAND.unpack(self._get(_BAND.size))
            known = {transform, inner} <= set(entropy.TRANSFORMS)
            if not 1 <= rows <= left or rows * columns > MAX_BAND_BLOCKS or escaped > rows * columns or not known:
                raise FormatError("a band of a .clvq file has an impossible head")
            if (escaped or inner) and not self.header.state_size:
                raise FormatError("a band of a .clvq file has escapes without side match")
            left -= rows
            yield rows, escaped, transform, inner
        self.check_end()

    def check_end(self) -> None:
        """Refuse bytes after the end.

        Raises
        ------
        FormatError
            If there are any.
        """
        if read_up_to(self._source, 1):
            raise FormatError("a .clvq file goes on after its end")

    def _band(
        self, rows: int, columns: int, escaped: int, transform: int, inner: int
    ) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16] | None]:
        size, state = self.header.codebook_size, self.header.state_size
        limit = ESCAPE + 1 if state else size
        plain = self._section(entropy.plain_length(rows * columns, limit, transform))
        table = entropy.from_plain(plain, (rows, columns), limit, transform)
        if not state:
            return table, None
        if ((table >= state) & (table != ESCAPE)).any() or int((table == ESCAPE).sum()) != escaped:
            raise FormatError("a band of a .clvq file has ranks outside its state codebook")
        if (table[0] != ESCAPE).any() or (table[:, 0] != ESCAPE).any():
            raise FormatError("a band of a .clvq file has ranks where blocks have no neighbours")
        plain = self._section(entropy.plain_length(escaped, size, inner))
        return table, entropy.from_plain(plain, (1, escaped), size, inner)[0]
