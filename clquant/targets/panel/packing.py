"""Frames as the controllers of e-paper panels and small displays read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.formats.png import packed_rows
from clquant.runtime import InvalidArgument


def pack_codes(codes: npt.ArrayLike, bits: int) -> bytes:
    """Numbers of a few bits each, the first pixel in a byte's highest bits; each row begins with a new byte.

    Parameters
    ----------
    codes : array_like
        (H, W) integers from 0 to 2^bits - 1.
    bits : int
        1, 2, 4 or 8.

    Returns
    -------
    bytes
        H * ceil(W * bits / 8) bytes; what is left of a row's last byte is 0.

    Raises
    ------
    InvalidArgument, InvalidType
        If the array is another, or a number does not fit.
    """
    params.choice("bits", bits, (1, 2, 4, 8))
    frame = _frame(codes)
    if frame.size and int(frame.max()) >> bits:
        raise InvalidArgument(f"codes go up to {frame.max()}; allowed: 0 to {(1 << bits) - 1} in {bits} bits")
    return packed_rows(frame.astype(np.uint8), bits).tobytes()


def pack_planes(indices: npt.ArrayLike, black: int = 0, color: int = 2) -> tuple[bytes, bytes]:
    """The two planes of a three-colour panel, 1 bit per pixel: 0 where there is ink, as its controllers want it.

    Parameters
    ----------
    indices : array_like
        (H, W) integers.
    black, color : int
        The numbers of black and of the third colour; every other number is white.

    Returns
    -------
    (bytes, bytes)
        Plane of black, plane of the colour; rows as in `pack_codes`.

    Raises
    ------
    InvalidArgument, InvalidType
        If the array is another, or a number no integer from 0 to 255.
    """
    frame = _frame(indices)
    params.integer("black", black, 0, 255)
    params.integer("color", color, 0, 255)
    return pack_codes(frame != black, 1), pack_codes(frame != color, 1)


def _frame(values: Any) -> npt.NDArray[Any]:
    frame = params.array("codes", values, "(H, W) integers", "iub")
    if frame.ndim != 2 or (frame.dtype.kind == "i" and frame.size and int(frame.min()) < 0):
        raise InvalidArgument(f"codes is {params.shown(frame)}; allowed: (H, W) integers of at least 0")
    return frame
