"""What counting gives: distinct colours and their counts on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Session

# Bits in which kernels note which alpha values occur.
PARTIAL, CLEAR = 1, 2


@dataclass(frozen=True)
class ColorCounts:
    """Distinct colours and how often each occurs; pixels of alpha 0 are left out.

    Attributes
    ----------
    n_colors : int
        Distinct colours with a weight above 0.
    colors : pyopencl.Buffer
        (n_colors,) uint32: R | G << 8 | B << 16 | alpha << 24, in Z-order: by the interleaved bits of R, G, B
        (and alpha, where `partial`), highest bits first.
    counts : pyopencl.Buffer
        (n_colors,) uint32, or uint64 if `wide`: the pixels, or the sums of their weights.
    cell_starts : ndarray
        (cells + 1,) uint32: where the colours of each of 16^3 cells of side 16 begin (16^4 where `partial`).
    total : int
        Sum of `counts`: at most 2^39, and below 2^32 unless `wide`.
    transparent : int
        Sum over the pixels of alpha 0, which are not among the colours.
    partial : bool
        Whether some pixel's alpha is neither 0 nor 255, whatever its weight.
    clear : bool
        Whether some pixel's alpha is 0, whatever its weight.
    wide : bool
        Whether counts are 64-bit numbers.
    """

    n_colors: int
    colors: Buffer
    counts: Buffer
    cell_starts: npt.NDArray[np.uint32]
    total: int
    transparent: int
    partial: bool
    clear: bool
    wide: bool = False

    def to_host(self, session: Session) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.unsignedinteger]]:
        """Copies on the host.

        Returns
        -------
        colors : ndarray
            (n_colors, 4) uint8.
        counts : ndarray
            (n_colors,) uint32, or uint64 if `wide`.
        """
        packed = session.download(self.colors, self.n_colors, np.uint32)
        counts = session.download(self.counts, self.n_colors, np.uint64 if self.wide else np.uint32)
        return packed.view(np.uint8).reshape(-1, 4), counts
