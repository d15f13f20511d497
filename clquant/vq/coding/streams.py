"""Words of rANS streams between device and file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, FormatError, Scope, Session

TOTAL = 1 << 15  # what frequencies add up to, as in cl/vq/coding/rans.h
LOW = 1 << 16  # the least state

Words = npt.NDArray[np.uint16]
States = npt.NDArray[np.uint32]


def spread(weights: Sequence[int]) -> list[int]:
    """Cumulative frequencies, from 0 to 2^15, of symbols with these weights (`spread_of` in cl/vq/coding/rans.h)."""
    sums = np.cumsum([0, *weights])
    top = int(sums[-1]).bit_length() - 1

    def scaled(value: int) -> int:
        return value >> (top - 15) if top >= 15 else value << (15 - top)

    ratio = ((TOTAL - len(weights)) << 16) // scaled(int(sums[-1]))
    return [(scaled(int(c)) * ratio >> 16) + i for i, c in enumerate(sums[:-1])] + [TOTAL]


def join_streams(
    session: Session, scope: Scope, words: Buffer, counts: npt.NDArray[np.uint32], capacity: int
) -> list[Words]:
    """The words of every stream on the host."""
    begins = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if not begins[-1]:
        return [np.zeros(0, np.uint16)] * len(counts)
    joined = scope.empty(2 * int(begins[-1]))
    kernel = session.program("vq/coding/streams.cl").kernel("vq_join_streams")
    group = session.work_group_size(kernel, 64)
    arguments = words, np.uint32(capacity), scope.copy_of(begins.astype(np.uint32)), np.uint32(len(counts)), joined
    session.launch(kernel, (int(counts.max()), len(counts)), (group, 1), *arguments)
    whole = session.download(joined, int(begins[-1]), np.uint16)
    return [whole[a:b] for a, b in itertools.pairwise(begins)]


def sent_streams(scope: Scope, words: Sequence[Words], states: States) -> dict[str, Buffer]:
    """A decoder's arguments by name: all streams' words, where each stream's begin and the last ends; the states."""
    if states.size and int(states.min()) < LOW:
        raise FormatError("a .clvq section holds an impossible state")
    begins = np.cumsum([0, *(part.size for part in words)]).astype(np.uint32)
    joined = np.concatenate([*words, np.zeros(1, np.uint16)])  # buffers are never empty
    arrays = {"words": joined, "begins": begins, "states": np.ascontiguousarray(states, np.uint32)}
    return {name: scope.copy_of(array) for name, array in arrays.items()}
