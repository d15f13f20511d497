"""The model of a picture's indices, learned and as files hold it (docs/clvq-format.md, "The model section").

It has curves of the sides' distances, and how rare codewords are. In learning, every value moves by how often it is
found over how often the model expects it, as in iterative proportional fitting, on a sample of the blocks. All numbers
are integers, so a model is the same on every device and host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import FormatError, LocalMemory, Scope, Session
from clquant.training.search import Table
from clquant.vq.coding.codebook_coding import decode_codebook, encode_codebook
from clquant.vq.coding.contexts import (
    BINS,
    HIGHEST,
    PRESET,
    RARITY_UNIT,
    Contexts,
    ContextShape,
    Model,
    pack_curves,
    rounded_curves,
    unpack_curves,
)
from clquant.vq.container import clvq_format

MOST_RARE = 63  # half bits
_LEAST_WORK, _MOST_WORK = 1 << 20, 1 << 22  # blocks of a sample times codewords, for small and for large pictures
_MOST_SAMPLE = 1 << 14  # blocks
_SAMPLE_PER_BLOCKS = 1 << 8  # one block in this many is in the sample, between these bounds
_BLOCKS_PER_RARITY = 4  # of the sample, at least, for each codeword
_SIDE_BY_SIDE = 16  # as in cl/vq/coding/contexts.cl
_PART_ON_CPUS = 1 << 5  # blocks whose bins a work-item adds up there
_PART = 1 << 7  # blocks whose expected codewords a work-item adds up
_ROUNDS, _ROUNDS_OF_SMALL, _SMALL = 4, 8, 64  # of the curves alone, then of all; codewords of a small codebook
_PRIOR = 1 << 14  # added to sums of probabilities in 1/2^15
_RARITY_BITS = 3  # that a codeword's rarity takes in a file, about

Values = npt.NDArray[np.int64]


@dataclass
class _Counts:
    """Counts of a round, as cl/vq/coding/contexts.cl makes them."""

    found: npt.NDArray[np.uint32]
    expected: npt.NDArray[np.uint32]
    codewords: npt.NDArray[np.int64] | None
    bits: int


def learn(session: Session, contexts: Contexts, table: Table) -> Model:
    """A model under which the indices of a picture take few bits, its own size counted."""
    size = contexts.shape.size
    pairs = sample_pairs(table, contexts.shape, contexts.ranks)
    curves, rarity = PRESET.astype(np.int64), np.zeros(size, np.int64)
    rounds = _ROUNDS if size > _SMALL else _ROUNDS_OF_SMALL
    if not len(pairs):
        return Model(PRESET, rarity.astype(np.uint8))
    with session.scope() as scope:
        sample = _Sample(session, scope, contexts, pairs)
        for _ in range(rounds):
            curves = _improved_curves(curves, sample.count(_model(curves, rarity), False), 2)
        plain = model = _model(curves, rarity)
        before = sample.count(plain, True)
        if len(pairs) < _BLOCKS_PER_RARITY * size:
            return plain
        least, counts, own = before.bits, before, np.bincount(pairs[:, 2], minlength=size)
        for _ in range(rounds):
            curves = _improved_curves(curves, counts, 3)
            rarity = _improved_rarity(rarity, own, counts, 3)
            tried = _model(curves, rarity)
            counts = sample.count(tried, True)
            if counts.bits < least:
                model, least = tried, counts.bits
    inner = (table.shape[0] - 1) * (table.shape[1] - 1)
    gain = (before.bits - least) * inner // (8 * len(pairs))
    # Blocks that are not in the sample lose what those in it seem to gain by chance: about 0.7 bits per value.
    chance = 0 if len(pairs) == inner else size * inner * 3 // (2 * len(pairs))
    return model if gain > _RARITY_BITS * size + chance else plain


def _model(curves: Values, rarity: Values) -> Model:
    halves = (rarity + RARITY_UNIT // 2) // RARITY_UNIT
    return Model(rounded_curves(curves), np.minimum(halves, MOST_RARE).astype(np.uint8))


class _Sample:
    """Blocks of a sample on the device, to be counted under one model after another."""

    def __init__(self, session: Session, scope: Scope, contexts: Contexts, pairs: npt.NDArray[np.uint16]) -> None:
        self._session = session
        self._contexts = contexts
        self._count = len(pairs)
        self._pairs = scope.copy_of(pairs)
        self._spreads = scope.empty(8 * len(pairs))

    def count(self, model: Model, codewords: bool) -> _Counts:
        """Count the symbols found, and those that a model expects."""
        session, contexts = self._session, self._contexts
        with session.scope() as scope:
            counted = scope.zeros(4 * (4 * BINS + 1))
            kernel = contexts.program.kernel("vq_sample_bins")
            group = 1 if session.limits.is_cpu else session.work_group_size(kernel, 32, 16 * BINS)
            given = {
                "pairs": self._pairs,
                "count": np.uint32(self._count),
                "size": np.uint32(contexts.shape.size),
                "above_bins": contexts.above_bins,
                "left_bins": contexts.left_bins,
                "curves": scope.copy_of(model.curves),
                "rarity": scope.copy_of(model.rarity * np.uint8(RARITY_UNIT)),
                "spreads": self._spreads,
            }
            part = _PART_ON_CPUS if session.limits.is_cpu else 1
            items = -(-self._count // part)
            room = LocalMemory(16 * BINS * group)
            session.launch(kernel, items, group, **given, part=np.uint32(part), counted=counted, room=room)
            each = self._codewords(scope, given) if codewords else None
            numbers = session.download(counted, 4 * BINS + 1, np.uint32)
        sides = numbers[:-1].reshape(2, 2, BINS)
        return _Counts(sides[0], sides[1], each, int(numbers[-1]))

    def _codewords(self, scope: Scope, given: dict[str, Any]) -> npt.NDArray[np.int64]:
        """Return how often each codeword is expected in the sample, in 1/2^15."""
        session, size = self._session, self._contexts.shape.size
        parts = -(-self._count // _PART)
        expected = scope.empty(4 * parts * size)
        kernel = self._contexts.program.kernel("vq_sample_codewords")
        group = session.work_group_size(kernel, 16)
        items = -(-size // _SIDE_BY_SIDE), parts
        session.launch(kernel, items, (group, 1), **given, part=np.uint32(_PART), expected=expected)
        sums: npt.NDArray[np.int64] = session.download(expected, (parts, size), np.uint32).sum(0, dtype=np.int64)
        return sums


def sample_pairs(
    table: Table, shape: ContextShape, ranks: npt.NDArray[np.uint16] | None = None
) -> npt.NDArray[np.uint16]:
    """(Group above, group to the left, codeword) of blocks spread over a picture that have both neighbours."""
    inner, columns = (table.shape[0] - 1) * (table.shape[1] - 1), table.shape[1] - 1
    least, most = (max(1, min(_MOST_SAMPLE, work // shape.size)) for work in (_LEAST_WORK, _MOST_WORK))
    most = min(most, max(least, _BLOCKS_PER_RARITY * shape.size, inner // _SAMPLE_PER_BLOCKS))
    step = max(1, -(-inner // most))
    while step > 1 and math.gcd(step, columns) > 1:  # else few columns would be looked at
        step += 1
    places = np.arange(0, inner, step)
    rows, across = places // max(columns, 1) + 1, places % max(columns, 1) + 1
    near = table[rows - 1, across], table[rows, across - 1], table[rows, across]
    above, left, own = near if ranks is None else (ranks[index] for index in near)
    return np.ascontiguousarray(np.stack([above >> shape.shift, left >> shape.shift, own], -1).astype(np.uint16))


def _improved_curves(curves: Values, counts: _Counts, factors: int) -> Values:
    """Each bin's value moved towards what was found; the highest of those that occur is at `HIGHEST`."""
    moved = curves + _moves(counts.found, counts.expected, factors)
    highest = np.where(counts.expected > 0, moved, 0).max(1, keepdims=True)
    raised: Values = np.clip(moved + HIGHEST - highest, 0, HIGHEST)
    return raised


def _improved_rarity(rarity: Values, found: Values, counts: _Counts, factors: int) -> Values:
    """Each codeword's rarity moved towards what was found, the least at 0."""
    assert counts.codewords is not None
    moved = rarity - _moves(found, counts.codewords, factors)
    lowered: Values = np.clip(moved - moved.min(), 0, RARITY_UNIT * MOST_RARE)
    return lowered


def _moves(found: npt.NDArray[Any], expected: npt.NDArray[Any], factors: int) -> Values:
    """A share of the logarithms of found over expected, which is in 1/2^15, in eighths of a bit."""
    # All factors of a weight move at once, so each moves by its share of the change; a little more converges faster.
    steps = _logs((found.astype(np.int64) << 15) + _PRIOR) - _logs(expected.astype(np.int64) + _PRIOR)
    return (5 * steps + 2 * factors) // (4 * factors)


def _logs(numbers: Values) -> Values:
    """Logarithms in eighths of a bit, rounded down: exact, as no number below 2^40 is near a power of 2^(1/8)."""
    mantissas, exponents = np.frexp(numbers.astype(np.float64))
    eighths = np.searchsorted([2 ** (k / 8 - 1) for k in range(1, 8)], mantissas, side="right")
    logs: Values = 8 * (exponents.astype(np.int64) - 1) + eighths
    return logs


def encode_model(session: Session, model: Model) -> tuple[int, bytes]:
    """Return a header's number for a model, and the bytes of its section."""
    if model.rarity.any():
        rarity = encode_codebook(session, model.rarity.reshape(-1, 1), clvq_format.RARITY_SHAPE)
        return clvq_format.OWN_CURVES_AND_RARITY, pack_curves(model.curves) + rarity
    if np.array_equal(model.curves, PRESET):
        return clvq_format.PRESET_CURVES, b""
    return clvq_format.OWN_CURVES, pack_curves(model.curves)


def decode_model(session: Session, header: clvq_format.Header, data: bytes) -> Model:
    """The model that `encode_model` was given."""
    curves, rarity = PRESET, np.zeros(header.codebook_size, np.uint8)
    if header.model != clvq_format.PRESET_CURVES:
        curves = unpack_curves(data[:BINS])
    if header.model == clvq_format.OWN_CURVES_AND_RARITY:
        rarity = decode_codebook(session, data[BINS:], header.codebook_size, clvq_format.RARITY_SHAPE).ravel()
    if int(rarity.max()) > MOST_RARE:
        raise FormatError("the rarities of a .clvq file are out of range")
    return Model(curves, rarity)
