"""Trees as bytes: the CLQT format, which docs/quadtree.md describes byte by byte."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from clquant.quadtree.criteria import CRITERIA, MAX_THRESHOLD, STEPS, Criterion
from clquant.quadtree.geometry import MAX_SIDE, morton, root_level
from clquant.quadtree.leaf_list import record_dtype
from clquant.runtime import FormatError

MAGIC = b"CLQT"
VERSION = 1
HEADER = struct.Struct("<4sBBBBHHIBBHII")
CRC = struct.Struct("<I")
# Most pixels of a file's picture unless its reader says otherwise: 34 bytes may claim 2^32.
MAX_PIXELS = 1 << 29
Leaves = npt.NDArray[np.void]


def encode(height: int, width: int, channels: int, gray: bool, criterion: Criterion, leaves: Leaves) -> bytes:
    """Serialize a tree, whose leaves are in Morton order, as bytes."""
    structure = np.packbits(_fork_bits(height, width, criterion.floor_level, leaves)).tobytes()
    sizes = height, width, criterion.steps, criterion.floor_level, 0, 0, len(leaves), len(structure)
    header = HEADER.pack(MAGIC, VERSION, CRITERIA.index(criterion.name), channels, int(gray), *sizes)
    body = header + bytes(criterion.weights) + structure + np.ascontiguousarray(leaves["mean"]).tobytes()
    return body + CRC.pack(zlib.crc32(body))


def encoded_size(nodes: int, channels: int, criterion: Criterion, leaves: int) -> int:
    """Bytes that `encode` would give, of so many nodes above the floor and leaves."""
    return HEADER.size + len(criterion.weights) + -(-nodes // 8) + leaves * channels + CRC.size


def _fork_bits(height: int, width: int, floor_level: int, leaves: Leaves) -> npt.NDArray[np.bool_]:
    """Fork flags of the nodes above the floor, level by level from the root, in Morton order."""
    codes = morton(leaves["x"], leaves["y"])
    levels = []
    for level in range(root_level(height, width), floor_level, -1):
        here = np.flatnonzero(leaves["size"] <= 1 << level)
        parents = codes[here] >> np.uint64(2 * level)
        first = np.ones(len(here), np.bool_)
        first[1:] = parents[1:] != parents[:-1]
        levels.append(leaves["size"][here[first]] < 1 << level)
    return np.concatenate([np.zeros(0, np.bool_), *levels])


def decode(data: bytes, max_pixels: int = MAX_PIXELS) -> tuple[int, int, int, bool, Criterion, Leaves]:
    """Parse the bytes of `encode` into its arguments; memory stays in proportion to the length of `data`."""
    if len(data) < HEADER.size + CRC.size or data[:4] != MAGIC:
        raise FormatError("this is no quadtree file: it does not begin with a CLQT header")
    if zlib.crc32(data[: -CRC.size]) != CRC.unpack(data[-CRC.size :])[0]:
        raise FormatError("this quadtree file is damaged: its checksum does not fit its content")
    _, version, kind, channels, gray, height, width, steps, floor, zero, zeros, count, nbytes = HEADER.unpack_from(data)
    if version != VERSION:
        raise FormatError(f"this quadtree file has version {version}; known: {VERSION}")
    if not (kind < len(CRITERIA) and 1 <= channels <= 16 and gray <= (channels == 1) and zero == zeros == 0):
        raise FormatError("this quadtree file's header holds impossible values")
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE and steps <= MAX_THRESHOLD * STEPS):
        raise FormatError("this quadtree file's picture size or threshold is out of bounds")
    if height * width > max_pixels:
        raise FormatError(
            f"this quadtree file claims {height} x {width} pixels; at most {max_pixels} are allowed, by max_pixels"
        )
    if floor > root_level(height, width):
        raise FormatError("this quadtree file's least region is greater than its picture")
    weights = tuple(data[HEADER.size : HEADER.size + channels]) if CRITERIA[kind] == "weighted" else ()
    at = HEADER.size + len(weights)
    if len(data) != at + nbytes + count * channels + CRC.size or (weights and not any(weights)):
        raise FormatError("this quadtree file is not as long as its header says")
    leaves = np.zeros(count, record_dtype(channels, bool(gray)))
    _read_structure(np.unpackbits(np.frombuffer(data, np.uint8, nbytes, at)), height, width, floor, leaves)
    means = np.frombuffer(data, np.uint8, count * channels, at + nbytes)
    leaves["mean"] = means.reshape(leaves["mean"].shape)
    return height, width, channels, bool(gray), Criterion(CRITERIA[kind], steps, weights, floor), leaves


def _read_structure(bits: npt.NDArray[np.uint8], height: int, width: int, floor: int, leaves: Leaves) -> None:
    """Fill in the leaves' places from the fork bits; a node has at least one leaf, which bounds every level."""
    x = y = np.zeros(1, np.int64)
    found: list[npt.NDArray[np.int64]] = []
    at = 0
    for level in range(root_level(height, width), -1, -1):
        coded = len(x) if level > floor else 0
        if at + coded > len(bits) or len(x) > len(leaves):
            raise FormatError("this quadtree file's structure is longer than its header says")
        forks = bits[at : at + coded].astype(np.bool_) if level > floor else np.zeros(len(x), np.bool_)
        at += coded
        found.append(np.stack([x[~forks], y[~forks], np.full(int((~forks).sum()), 1 << level)]))
        half = 1 << level >> 1
        x = (x[forks, None] + np.array([0, half, 0, half])).ravel()
        y = (y[forks, None] + np.array([0, 0, half, half])).ravel()
        inside = (x < width) & (y < height)
        x, y = x[inside], y[inside]
    table = np.concatenate(found, axis=1)
    if table.shape[1] != len(leaves) or len(bits) - at >= 8 or bits[at:].any():
        raise FormatError("this quadtree file's structure does not fit its header")
    order = np.argsort(morton(table[0], table[1]), kind="stable")
    for name, column in zip(("x", "y", "size"), table[:, order], strict=True):
        leaves[name] = column
