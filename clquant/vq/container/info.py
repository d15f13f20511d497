"""The contents of a .clvq file, checked to its last byte but not decoded."""

from __future__ import annotations

import dataclasses
import io
import os

from clquant import params
from clquant.images import files
from clquant.runtime import InvalidType
from clquant.vq.container import clvq_format
from clquant.vq.container.pipes import Source


@dataclasses.dataclass(frozen=True)
class ClvqInfo:
    """Facts about a .clvq file.

    Attributes
    ----------
    version : int
    kind : str
        "picture", "picture of a shared codebook" or "codebook".
    height, width, channels : int
        Of the picture in pixels; height and width are 0 for a codebook.
    block_shape : tuple of int
        (rows, columns) in pixels.
    codebook_size : int
    codebook_id : str
        32 hexadecimal digits.
    state_size : int
        Of the side-match state codebooks that the encoder chose from; 0 for plain VQ.
    bands : int
        Parts of the picture that can be decoded by themselves.
    nbytes : int
        Of the whole file.
    """

    version: int
    kind: str
    height: int
    width: int
    channels: int
    block_shape: tuple[int, int]
    codebook_size: int
    codebook_id: str
    state_size: int
    bands: int
    nbytes: int

    @property
    def bits_per_pixel(self) -> float:
        """Bits of the whole file per pixel of the picture; 0.0 for a codebook."""
        pixels = self.height * self.width
        return 8 * self.nbytes / pixels if pixels else 0.0

    def __str__(self) -> str:
        p, q = self.block_shape
        colour = {1: "gray", 3: "RGB", 4: "RGBA"}[self.channels]
        book = f"codebook of {self.codebook_size} {colour} blocks of {p} x {q} pixels, id {self.codebook_id}"
        lines = [f".clvq version {self.version}, {self.nbytes} bytes", book]
        if self.kind != "codebook":
            where = "in this file" if self.kind == "picture" else "in a file of its own"
            lines[1:] = [
                f"{self.width} x {self.height} pixels, {self.bits_per_pixel:.3f} bits per pixel",
                f"{book}, {where}",
            ]
        if self.state_size:
            lines.append(f"side match with state codebooks of {self.state_size}")
        return "\n".join(lines)


def clvq_info(source: bytes | files.PathLike | Source, *, max_pixels: int = clvq_format.MAX_PIXELS) -> ClvqInfo:
    """Read and check a .clvq file without decoding it.

    Parameters
    ----------
    source : bytes, path-like or binary file
        Of a file or pipe no more is read than the header allows, and one byte to see that it ends.
    max_pixels : int
        Files that claim more pixels are refused; default 2^29.

    Returns
    -------
    ClvqInfo

    Raises
    ------
    FormatError
        If the bytes are damaged, truncated, or no .clvq file, or claim more than `max_pixels`.
    FileError
        If the file cannot be read.
    InvalidType
        If `source` is neither bytes nor a path nor a binary file.
    """
    most = params.integer("max_pixels", max_pixels, 1)
    if isinstance(source, str | os.PathLike):
        source = files.read_bytes(source)
    if isinstance(source, bytes | bytearray | memoryview):
        source = io.BytesIO(bytes(source))
    if not hasattr(source, "read"):
        raise InvalidType(f"source is {params.shown(source)}; allowed: bytes, a path or a binary file")
    reader = clvq_format.Reader(source, most, max_codebook=None)
    reader.check_rest()
    header = reader.header
    return ClvqInfo(
        version=header.version,
        kind=clvq_format.KINDS[header.kind],
        height=header.shape[0],
        width=header.shape[1],
        channels=header.channels,
        block_shape=header.block_shape,
        codebook_size=header.codebook_size,
        codebook_id=header.codebook_id.hex(),
        state_size=header.state_size,
        bands=0 if header.kind == clvq_format.CODEBOOK else reader.layout.count,
        nbytes=reader.nbytes,
    )
