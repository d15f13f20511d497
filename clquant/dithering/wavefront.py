"""Wavefronts of skewed tiles: the order in which the tiles of a serial scan can be done."""

from __future__ import annotations

from collections.abc import Iterator


def tiles_of(height: int, width: int, rows: int, columns: int, lag: int) -> tuple[int, int]:
    """Count tiles from top to bottom and side by side.

    Each row of a tile begins `lag` pixels left of the one above.
    """
    return -(-height // rows), -(-(width + lag * (rows - 1)) // columns)


def waves(height: int, width: int, rows: int, columns: int, lag: int) -> Iterator[tuple[int, int, int]]:
    """Yield (wave, first i, count) of the tiles (i, j) that run at once: tile (i, j) is of wave j + 2 i.

    In pictures of one or two columns every other wave is empty, and left out.
    """
    down, across = tiles_of(height, width, rows, columns, lag)
    for wave in range(across + 2 * (down - 1)):
        first = max(0, -(-(wave - across + 1) // 2))
        last = min(down - 1, wave // 2)
        if first <= last:
            yield wave, first, last - first + 1
