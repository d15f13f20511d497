"""Philox4x32-10 in Python integers: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as
easy as 1, 2, 3", SC 2011, section 4.3."""

from __future__ import annotations

import functools

LOW = 0xFFFFFFFF


@functools.lru_cache(maxsize=1 << 16)
def _words(counter: tuple[int, ...], key: tuple[int, ...]) -> list[int]:
    a, b, c, d = counter
    left, right = key
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (second >> 32) ^ b ^ left, second & LOW, (first >> 32) ^ d ^ right, first & LOW
        left, right = (left + 0x9E3779B9) & LOW, (right + 0xBB67AE85) & LOW
    return [a, b, c, d]


def philox4x32(counter: list[int], key: tuple[int, int]) -> list[int]:
    """Four words of a counter of four."""
    return _words(tuple(int(word) for word in counter), key)


def seed_key(seed: int) -> tuple[int, int]:
    """The key of a seed below 2^64: its low word, then its high one."""
    return seed & LOW, seed >> 32
