"""Contexts of indices: how well codewords continue their neighbours (docs/clvq-format.md, "Contexts")."""

from __future__ import annotations

import functools
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, FormatError, Scope, Session, cached_job
from clquant.training.blocks import BlockShape, Codebook
from clquant.training.search import MOST_KEPT

BINS = 32  # of the distance between two sides, as in cl/vq/coding/contexts.cl
HIGHEST = 211  # of a curve: two of them give a weight of the highest logarithm
_MOST_ENTRIES = 1 << 24  # of a table of groups x codewords
_MOST_PAIR_WORK = 1 << 25  # pairs of groups times codewords
_FREE_ENTRIES, _ENTRIES_PER_PIXEL = 1 << 18, 64
_MOST_KEPT_ENTRIES = 1 << 20  # of tables that stay on the device after their job, from a file's own codebook
_FALLS = (-12, -7, -4, -2, -1, 0, 1, 2, 3, 4, 6, 9, 13, 20, 32, 56)  # of a curve from bin to bin
RARITY_UNIT = 4  # eighths of a bit
_SIDE_COMPONENTS = 12  # at most, of a side, that the coding order looks at

Curves = npt.NDArray[np.uint8]

_PRESET = (
    *(211, 211, 210, 209, 207, 205, 203, 201, 199, 197, 195, 193, 190, 187, 183, 179),
    *(174, 169, 163, 156, 149, 141, 132, 123, 113, 103, 92, 81, 70, 59, 48, 37),
)
PRESET: Curves = np.array([_PRESET, _PRESET], np.uint8)
"""Curves of a photograph: what small pictures are coded by, and where learning begins."""


@dataclass(frozen=True)
class ContextShape:
    """Buckets of a codebook, and its groups, which share contexts."""

    size: int  # codewords, 2..65536
    bucket: int  # codewords of a bucket: a power of two, about the square root of `size`
    most_buckets: int  # of the largest codebook of as many bits, which kernels are built for
    shift: int  # log2 of the codewords of a group
    groups: int  # of neighbours; the last may have fewer codewords
    by_pairs: bool  # whether the ranges of buckets are computed from all codewords, for every pair of neighbours

    @classmethod
    def of(cls, size: int, pixels: int) -> ContextShape:
        """Cut a codebook for a picture; tables grow with it, so that work is in proportion to the picture."""
        bits, room = (size - 1).bit_length(), _FREE_ENTRIES + _ENTRIES_PER_PIXEL * pixels
        shift = next(s for s in range(17) if -(-size >> s) * size <= min(_MOST_ENTRIES, room))
        groups = -(-size >> shift)
        by_pairs = (groups + 1) ** 2 * size <= min(_MOST_PAIR_WORK, room)
        return cls(size, 1 << (bits + 1) // 2, 1 << bits // 2, shift, groups, by_pairs)

    @property
    def buckets(self) -> int:
        """Buckets; the last may have fewer codewords."""
        return -(-self.size // self.bucket)

    @property
    def stride(self) -> int:
        """Bytes of a table's row."""
        return self.most_buckets * self.bucket

    @property
    def constants(self) -> dict[str, int]:
        """The constants of `cl/vq/coding/buckets.h`."""
        return {"BUCKET": self.bucket, "MOST_BUCKETS": self.most_buckets}


@dataclass(frozen=True)
class Model:
    """Statistics of a file's indices, by which they are coded."""

    curves: Curves  # (2, 32), values of the bins above and to the left; each at most 211
    rarity: npt.NDArray[np.uint8]  # (N,), how much rarer codewords are than their sides tell, in half bits, 0..63


@dataclass(frozen=True)
class ContextTables:
    """Values of codewords and buckets by the groups above and to the left, on the device (`vq_side_values`)."""

    shape: ContextShape
    arguments: dict[str, np.uint32 | Buffer]  # `MODEL_PARAMETERS` of `cl/vq/coding/band_model.h`, by name
    has_pairs: bool  # else `pairs`, the ranges of buckets (`vq_pair_buckets`), is not to be read


def open_contexts(
    session: Session, codebook: Codebook, block: BlockShape, pixels: int, own: bool
) -> AbstractContextManager[Contexts]:
    """`Contexts` that last as long as the block: those of an earlier job with the codebook, if it is small."""
    shape, key = ContextShape.of(len(codebook), pixels), None
    if codebook.nbytes <= MOST_KEPT and (own or shape.groups * shape.stride <= _MOST_KEPT_ENTRIES):
        key = "contexts", codebook.tobytes(), block, shape
    return cached_job(session, key, lambda scope: Contexts(session, scope, codebook, block, pixels))


class Contexts:
    """The distances between the sides of codewords, on the device."""

    # `order` (N,) has the codewords' indices in the order of `coding_order`, which all tables have; `ranks` (N,) each
    # codeword's place in it, None if the order is the codebook's; `above_bins` and `left_bins` groups x stride bytes.

    def __init__(self, session: Session, scope: Scope, codebook: Codebook, block: BlockShape, pixels: int) -> None:
        self._session = session
        self._scope = scope
        self.shape = shape = ContextShape.of(len(codebook), pixels)
        self.program = session.program("vq/coding/contexts.cl", **shape.constants)
        self.order = coding_order(codebook, block, shape)
        self.ranks = None if shape.by_pairs else np.argsort(self.order).astype(np.uint16)
        book = codebook[self.order].reshape(len(codebook), block.rows, block.columns, block.channels)
        self.above_bins = self._bins(book[:, 0], book[:, -1])
        self.left_bins = self._bins(book[:, :, 0], book[:, :, -1])

    def _bins(self, own: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8]) -> Buffer:
        """Bins of the distances between the sides of codewords and the meeting sides of their neighbours."""
        session, shape = self._session, self.shape
        sides = np.ascontiguousarray(own).reshape(shape.size, -1)
        neighbours = group_means(np.ascontiguousarray(others).reshape(shape.size, -1), shape.shift)
        side = sides.shape[1]
        assert side <= 128  # else distances were not exact
        bins = self._scope.empty(shape.groups * shape.stride)
        bounds = np.array(distance_bounds(side), np.uint32)
        kernel = self.program.kernel("vq_side_bins")
        group = session.work_group_size(kernel, 64)
        copies = [self._scope.copy_of(array) for array in (sides, neighbours, bounds)]
        sizes = np.uint32(shape.size), np.uint32(shape.groups)
        arguments = copies[0], copies[1], np.uint32(side), copies[2], *sizes, bins
        session.launch(kernel, (shape.size, shape.groups), (group, 1), *arguments)
        return bins

    def tables(self, scope: Scope, model: Model, with_pairs: bool = True) -> ContextTables:
        """The tables that a model gives."""
        session, shape = self._session, self.shape
        kernel = self.program.kernel("vq_side_values")
        group = session.work_group_size(kernel, 64)
        made: dict[str, Buffer] = {}
        rarity = scope.copy_of(model.rarity * np.uint8(RARITY_UNIT))
        for i, (side, bins) in enumerate((("above", self.above_bins), ("left", self.left_bins))):
            made[side] = scope.empty((shape.groups + 1) * shape.stride)
            made[f"{side}_buckets"] = scope.empty((shape.groups + 1) * (-(-shape.most_buckets // 16) * 16))
            given = bins, scope.copy_of(np.ascontiguousarray(model.curves[i])), rarity
            sizes = np.uint32(shape.size), np.uint32(shape.groups), np.uint32(i == 0)
            results = made[side], made[f"{side}_buckets"]
            session.launch(kernel, (shape.buckets, shape.groups + 1), (1, group), *given, *sizes, *results)
        has_pairs = with_pairs and shape.by_pairs
        made["pairs"] = made["above"]
        if has_pairs:
            made["pairs"] = scope.empty(2 * (shape.groups + 1) ** 2 * (-(-shape.most_buckets // 8) * 8))
            kernel = self.program.kernel("vq_pair_buckets")
            group = session.work_group_size(kernel, 64)
            places = shape.groups + 1, shape.groups + 1
            session.launch(kernel, places, (group, 1), made["above"], made["left"], *sizes[:2], made["pairs"])
        numbers = {name: np.uint32(getattr(shape, name)) for name in ("size", "groups", "shift")}
        return ContextTables(shape, {**made, **numbers}, has_pairs)


def coding_order(codebook: Codebook, block: BlockShape, shape: ContextShape) -> npt.NDArray[np.int64]:
    """An order of codewords in which those of a bucket, and of a group, have similar sides."""
    # With `by_pairs` their own order; else they are halved again and again, each time by the component of their four
    # sides that varies most.
    order = np.arange(shape.size)
    if shape.by_pairs:
        return order
    book = codebook.reshape(shape.size, block.rows, block.columns, block.channels)
    edges = (edge.reshape(shape.size, -1) for edge in (book[:, 0], book[:, :, 0], book[:, -1], book[:, :, -1]))
    looked_at = [edge[:, :: -(-edge.shape[1] // _SIDE_COMPONENTS)] for edge in edges]
    sides = np.concatenate(looked_at, axis=1)
    smallest = min(shape.bucket, 1 << shape.shift) if shape.shift else shape.bucket
    begins = np.zeros(1, np.int64)
    while True:
        counts = np.diff(begins, append=shape.size)
        split = counts > smallest
        if not split.any():
            return order
        order = order[_by_widest(sides[order], begins, counts, split)]
        unit = np.where(counts > shape.bucket, shape.bucket, smallest)
        middles = begins + (-(-counts // unit) + 1) // 2 * unit
        begins = np.sort(np.concatenate([begins, middles[split]]))


def _by_widest(
    sides: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Sort the rows of each chosen part by its component of the greatest variance; return their order."""
    wide = sides.astype(np.int64)
    spread = counts[:, None] * np.add.reduceat(wide**2, begins) - np.add.reduceat(wide, begins) ** 2
    parts = np.repeat(np.arange(len(begins)), counts)
    keys = np.where(chosen[parts], sides[np.arange(len(sides)), spread.argmax(1)[parts]], np.uint8(0))
    by_key = np.argsort(keys, kind="stable")  # both by counting, as keys are short
    return by_key[np.argsort(parts.astype(np.uint16)[by_key], kind="stable")]


def distance_bounds(side: int) -> list[int]:
    """The least squared distance of each bin from 1 on: of b, what is n (2^(b/2) - 1) or more for n components."""
    return [math.isqrt((side * side << b) - 1) + 1 - side for b in range(1, BINS)]


def group_means(sides: npt.NDArray[np.uint8], shift: int) -> npt.NDArray[np.uint8]:
    """The mean side of each group of 2^shift codewords, halves rounded up."""
    if not shift:
        return sides
    starts = np.arange(0, len(sides), 1 << shift)
    sums = np.add.reduceat(sides.astype(np.int64), starts, axis=0)
    counts = np.minimum(len(sides) - starts, 1 << shift)[:, None]
    means: npt.NDArray[np.uint8] = ((2 * sums + counts) // (2 * counts)).astype(np.uint8)
    return means


def pack_curves(curves: Curves) -> bytes:
    """Curves as 32 bytes: a nibble a bin, the low one first, for how far it is below the one before."""
    falls = -np.diff(curves.astype(np.int64), axis=1, prepend=HIGHEST)
    nibbles = np.searchsorted(_FALLS, falls).astype(np.uint8).ravel()
    return (nibbles[0::2] | nibbles[1::2] << 4).tobytes()


def unpack_curves(data: bytes) -> Curves:
    """The curves of `pack_curves`."""
    packed = np.frombuffer(data, np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(2, BINS)
    values = HIGHEST - np.cumsum(np.array(_FALLS)[nibbles], axis=1)
    if int(values.min()) < 0 or int(values.max()) > HIGHEST:
        raise FormatError("the curves of a .clvq file are out of range")
    curves: Curves = values.astype(np.uint8)
    return curves


def rounded_curves(curves: npt.NDArray[np.int64]) -> Curves:
    """Curves near to these that 32 bytes hold."""
    values = np.empty_like(curves, np.uint8)
    for row, curve in zip(values, np.maximum(curves, 0).tolist(), strict=True):
        last = HIGHEST
        for b, value in enumerate(curve):
            row[b] = last = _nearest_value(last, value)
    return values


@functools.cache
def _nearest_value(last: int, wanted: int) -> int:
    """Return the first of the nearest among the values that a fall leads to from the last one."""
    allowed = [last - fall for fall in _FALLS if 0 <= last - fall <= HIGHEST]
    return min(allowed, key=lambda value: abs(value - wanted))
