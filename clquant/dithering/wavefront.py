"""Wavefronts of skewed tiles: the order in which the tiles of a serial scan can be done."""

from __future__ import annotations

from collections.abc import Iterator


def tiles_of(height: int, width: int, rows: int, columns: int, lag: int) -> tuple[int, int]:
    """How many tiles are below each other, and how many side by side.

    Parameters
    ----------
    rows, columns : int
        Of a tile, each of whose rows begins `lag` pixels left of the one above, so that the last row of a tile ends
        lag (rows - 1) pixels left of its first.
    """
    return -(-height // rows), -(-(width + lag * (rows - 1)) // columns)


def waves(height: int, width: int, rows: int, columns: int, lag: int) -> Iterator[tuple[int, int, int]]:
    """The tiles that run at once, one wave after another: tile (i, j) is of wave j + 2 i.

    Yields
    ------
    (wave, first, count)
        Number of the wave, first i, and how many tiles it has, at least one: in pictures of one or two columns every
        other wave is empty, and left out.
    """
    down, across = tiles_of(height, width, rows, columns, lag)
    for wave in range(across + 2 * (down - 1)):
        first = max(0, -(-(wave - across + 1) // 2))
        last = min(down - 1, wave // 2)
        if first <= last:
            yield wave, first, last - first + 1
