"""Philox4x32-10 in NumPy, the twin of `cl/common/philox.h`: random numbers keyed by seed and position alone.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)


def philox4x32(counter: npt.ArrayLike, key: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Four random words for each counter: uint32 (..., 4) of counters (..., 4) and a key (2,)."""
    words = np.asarray(counter, dtype=np.uint32).astype(np.uint64)
    low, high = (int(k) & 0xFFFFFFFF for k in np.asarray(key, dtype=np.uint64))
    x0, x1, x2, x3 = (words[..., i].copy() for i in range(4))
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    for _ in range(ROUNDS):
        first = x0 * np.uint64(MULTIPLIERS[0])
        second = x2 * np.uint64(MULTIPLIERS[1])
        x0, x1, x2, x3 = (
            (second >> shift) ^ x1 ^ np.uint64(low),
            second & mask,
            (first >> shift) ^ x3 ^ np.uint64(high),
            first & mask,
        )
        low = (low + WEYL[0]) & 0xFFFFFFFF
        high = (high + WEYL[1]) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=-1).astype(np.uint32)


def seed_key(seed: int) -> npt.NDArray[np.uint32]:
    """The Philox key of a seed in 0..2^64 - 1: its low and high 32-bit words."""
    return np.array([seed & 0xFFFFFFFF, seed >> 32], dtype=np.uint32)
