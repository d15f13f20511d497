"""Distinct colours and their counts on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Session

# Bits in which kernels note which alpha values occur.
PARTIAL, CLEAR = 1, 2


@dataclass(frozen=True)
class ColorCounts:
    """Distinct colours and how often each occurs; pixels of alpha 0 are left out."""

    # `colors` are (n_colors,) uint32: R | G << 8 | B << 16 | alpha << 24, in Z-order: by the interleaved bits of R, G,
    # B (and alpha, where `partial`), highest bits first. `cell_starts` (cells + 1,) says where the colours of each of
    # 16^3 cells of side 16 begin (16^4 where `partial`).

    n_colors: int  # of a weight above 0
    colors: Buffer
    counts: Buffer  # (n_colors,) uint32, or uint64 if `wide`
    cell_starts: npt.NDArray[np.uint32]
    total: int  # sum of `counts`: at most 2^39, and below 2^32 unless `wide`
    transparent: int  # weight of the pixels of alpha 0
    partial: bool  # whether an alpha is neither 0 nor 255, whatever its weight
    clear: bool  # whether an alpha is 0, whatever its weight
    wide: bool = False

    @classmethod
    def of_notes(
        cls, colors: Buffer, counts: Buffer, cell_starts: npt.NDArray[np.uint32], weight: int, notes: tuple[int, int]
    ) -> ColorCounts:
        """Counts in uint32 of pixels of some weight; `notes`: that of alpha 0, and which alpha values there are."""
        transparent, alphas = notes
        partial, clear = bool(alphas & PARTIAL), transparent > 0 or bool(alphas & CLEAR)
        found = int(cell_starts[-1]), colors, counts, cell_starts
        return cls(*found, weight - transparent, transparent, partial, clear)

    def to_host(self, session: Session) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.unsignedinteger]]:
        """Copy colours (n_colors, 4) uint8 and counts (n_colors,) to the host."""
        packed = session.download(self.colors, self.n_colors, np.uint32)
        counts = session.download(self.counts, self.n_colors, np.uint64 if self.wide else np.uint32)
        return packed.view(np.uint8).reshape(-1, 4), counts
