"""Error filters: which neighbours get a pixel's error, and what share of it each."""

from __future__ import annotations

from dataclasses import dataclass

from clquant import params

Share = tuple[int, int, int]


@dataclass(frozen=True)
class ErrorFilter:
    """The shares of a pixel's error: (columns ahead in the scan, rows below, weight), weights of `divisor`.

    Their sum is below `divisor` where a part of the error is dropped (Atkinson).
    """

    divisor: int
    shares: tuple[Share, ...]

    @property
    def lag(self) -> int:
        """Pixels by which a row must be behind the row above it: one more than shares reach back."""
        return 1 - min(column for column, _, _ in self.shares)

    @property
    def depth(self) -> int:
        """Rows below that get a share."""
        return max(row for _, row, _ in self.shares)


def _filter(divisor: int, *rows: tuple[int, ...]) -> ErrorFilter:
    """Weights of each row, centred on the pixel's column."""
    shares = [
        (column - len(row) // 2, below, weight)
        for below, row in enumerate(rows)
        for column, weight in enumerate(row)
        if weight
    ]
    return ErrorFilter(divisor, tuple(shares))


# Kernels take shares up to two columns and rows away, a `lag` of 2 or 3, and a sum of weights up to `MAX_WEIGHT`.
FILTERS: dict[str, ErrorFilter] = {
    # R. W. Floyd, L. Steinberg, "An adaptive algorithm for spatial grey scale" (1976).
    "floyd-steinberg": _filter(16, (0, 0, 7), (3, 5, 1)),
    # J. F. Jarvis, C. N. Judice, W. H. Ninke, "A survey of techniques for the display of continuous tone pictures on
    # bilevel displays" (1976).
    "jarvis-judice-ninke": _filter(48, (0, 0, 0, 7, 5), (3, 5, 7, 5, 3), (1, 3, 5, 3, 1)),
    # P. Stucki, "MECCA: a multiple-error correction computation algorithm for bi-level image hardcopy reproduction"
    # (1981).
    "stucki": _filter(42, (0, 0, 0, 8, 4), (2, 4, 8, 4, 2), (1, 2, 4, 2, 1)),
    # D. Burkes (1988), the first two rows of Stucki's filter.
    "burkes": _filter(32, (0, 0, 0, 8, 4), (2, 4, 8, 4, 2)),
    # F. Sierra (1989 and 1990).
    "sierra": _filter(32, (0, 0, 0, 5, 3), (2, 4, 5, 4, 2), (0, 2, 3, 2, 0)),
    "sierra-two-row": _filter(16, (0, 0, 0, 4, 3), (1, 2, 3, 2, 1)),
    "sierra-lite": _filter(4, (0, 0, 2), (1, 1, 0)),
    # B. Atkinson's, of the early Macintosh: three quarters of the error.
    "atkinson": _filter(8, (0, 0, 0, 1, 1), (0, 1, 1, 1, 0), (0, 0, 1, 0, 0)),
}
MAX_WEIGHT = 48
"""No sum of weights is larger: bounds what arrives at a pixel."""


def error_filter(name: str) -> ErrorFilter:
    """The filter of a name."""
    return FILTERS[params.choice("filter", name, tuple(FILTERS))]
