"""Rows of pixels of a few bits each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def packed_rows(pixels: Bytes, bits: int) -> Bytes:
    """Numbers of a few bits each, the first pixel in a byte's highest bits; each row begins with a new byte."""
    if bits == 1:
        return np.packbits(pixels, axis=1)
    if bits == 8:
        return np.ascontiguousarray(pixels)
    per_byte = 8 // bits
    height, width = pixels.shape
    packed = np.zeros((height, -(-width // per_byte)), np.uint8)
    for place in range(per_byte):
        values = pixels[:, place::per_byte]
        packed[:, : values.shape[1]] |= values << np.uint8(8 - bits * (place + 1))
    return packed


def bits_of(count: int) -> int:
    """The least bits per pixel, 1, 2, 4 or 8, that hold so many colours, at most 256."""
    return next(bits for bits in (1, 2, 4, 8) if count <= 1 << bits)
