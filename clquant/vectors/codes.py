"""Codes of several numbers of some bits each, packed as faiss packs them.

The kernel is in `cl/vectors/codes.cl`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import Array, InvalidArgument, InvalidType, Session

_GROUP = 64


def code_bytes(count: int, bits: int) -> int:
    """Bytes of a code of so many numbers."""
    return -(-count * bits // 8)


def number_dtype(bits: int) -> np.dtype[Any]:
    """Return the dtype of a code's numbers of so many bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16)


def pack(numbers: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint8]:
    """(n, m) numbers as (n, bytes) codes: number i takes the bits from i * bits on, the lowest bit of a byte first."""
    if bits == 8:
        return numbers.astype(np.uint8)
    digits = (numbers[:, :, None] >> np.arange(bits, dtype=numbers.dtype)) & 1
    return np.packbits(digits.astype(np.uint8).reshape(len(numbers), -1), axis=1, bitorder="little")


def pack_there(session: Session, numbers: Any, first_bit: int, bits: int, codes: Array) -> None:
    """Queue packing (n,) numbers of the device into their bits of codes, behind those that are packed already."""
    kernel = session.program("vectors/codes.cl").kernel("pack_numbers")
    width = codes.shape[1] * codes.dtype.itemsize
    sizes = (np.uint32(size) for size in (first_bit, bits, width))
    group = session.work_group_size(kernel, _GROUP)
    session.launch(kernel, len(numbers), group, numbers.data, np.uint64(len(numbers)), *sizes, codes.data)


def unpack(codes: npt.NDArray[np.uint8], count: int, bits: int) -> npt.NDArray[Any]:
    """(n, bytes) codes as (n, count) numbers."""
    if bits == 8:
        return codes
    digits = np.unpackbits(codes, axis=1, count=count * bits, bitorder="little").reshape(len(codes), count, bits)
    places = np.left_shift(1, np.arange(bits), dtype=np.int64)
    numbers: npt.NDArray[Any] = (digits @ places).astype(number_dtype(bits))
    return numbers


def checked_codes(codes: Any, count: int, bits: int) -> npt.NDArray[np.uint8]:
    """Codes that a person gave."""
    width = code_bytes(count, bits)
    found = params.array("codes", codes, f"uint8, (n, {width})")
    if found.dtype != np.uint8:
        raise InvalidType(f"codes is {params.shown(codes)}; allowed: uint8, (n, {width})")
    if found.ndim != 2 or found.shape[1] != width:
        raise InvalidArgument(f"codes has the shape {found.shape}; allowed: (n, {width}), for {count} x {bits} bits")
    return found


def checked_numbers(numbers: Any, count: int, bits: int) -> npt.NDArray[Any]:
    """Plain codes that a person gave: codeword numbers."""
    found = params.array("numbers", numbers, f"integers, (n, {count})")
    if found.dtype.kind not in "ui":
        raise InvalidType(f"numbers is {params.shown(numbers)}; allowed: integers, (n, {count})")
    if found.ndim != 2 or found.shape[1] != count:
        raise InvalidArgument(f"numbers has the shape {found.shape}; allowed: (n, {count})")
    if found.size and not 0 <= found.min() <= found.max() < 1 << bits:
        raise InvalidArgument(f"numbers go from {found.min()} to {found.max()}; allowed: 0 to {(1 << bits) - 1}")
    return found
