"""Residual quantization: a codebook for rows, one for what it leaves of them, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import CommandQueue, ProgressCallback
from clquant.vectors.code_quantizer import CodeQuantizer, share_of
from clquant.vectors.distances import Labels
from clquant.vectors.fixed_point import as_dtype
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rows import RowSource
from clquant.vectors.saved import Arrays, State


class ResidualQuantizer(CodeQuantizer):
    """Codes for rows of numbers: each stage has a codebook for what the stages before it leave.

    Each row takes the nearest codeword of each stage in turn (B.-H. Juang, A. H. Gray, "Multiple stage vector
    quantization for speech coding", ICASSP 1982). The codebooks are those of `VectorQuantizer`, so they and the codes
    are the same bits on every device, for every way to cut rows into portions.

    Parameters
    ----------
    n_stages : int
        M, 1 to 64.
    n_bits : int
        Bits of a codeword number: 2^n_bits codewords in each stage. 1 to 16.
    init, n_init, max_iter, refine, random_state, queue
        As `VectorQuantizer` has them; stage i has the seeds from `random_state` + i * `n_init` on.

    Attributes
    ----------
    codebooks_ : ndarray, shape (M, 2^n_bits, d)
        float32, or float64 for rows of 64 bits.
    inertia_ : float
        The sum of squared distances of the rows of `fit` to the sums of their codewords, weighted, before these are
        rounded to the dtype of rows.
    n_iter_ : int
        Most Lloyd steps of a stage.
    n_features_in_ : int
        d.

    Examples
    --------
    >>> model = clquant.ResidualQuantizer(4).fit(rows)
    >>> restored = model.decode(model.encode(rows))
    """

    def __init__(
        self,
        n_stages: int = 4,
        n_bits: int = 8,
        *,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        refine: int = 20,
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        super().__init__(init, n_init, max_iter, refine, random_state, queue)
        self.n_stages = n_stages
        self.n_bits = n_bits

    def _fit(self, source: RowSource, sample_weight: Any, progress: ProgressCallback | None, memory: int) -> None:
        count, source = params.integer("n_stages", self.n_stages, 1, 64), source.on_host()
        parts = self._checked(count, source)
        for number, part in enumerate(parts):
            rows = _left_of(source, parts[:number])
            part._fit(rows, sample_weight, share_of(progress, number, count), memory)
        self._learn(parts, source)
        self._set()

    def _given(self, rows: Any) -> RowSource:
        return super()._given(rows).on_host()

    def _squared_error(self, source: RowSource, sample_weight: Any) -> float:
        return self._parts[-1]._squared_error(_left_of(source, self._parts[:-1]), sample_weight)

    def _labels(self, source: RowSource) -> Iterator[Labels]:
        left = source.source
        for part in self._parts:
            labels = part._nearest(RowSource(left))
            yield labels
            left = _left(left, part, labels, source.dtype)

    def _set(self) -> None:
        books = np.stack([part.codebook_.astype(np.float64) for part in self._parts])
        self.codebooks_ = books.astype(_float(self._dtype))
        self.inertia_ = self._parts[-1].inertia_

    def _restore(self, state: State, arrays: Arrays) -> None:
        super()._restore(state, arrays)
        if self._parts[0].n_features_in_ != self.n_features_in_:
            raise ValueError(f"codebooks of {self._parts[0].n_features_in_} for rows of {self.n_features_in_}")
        self._set()

    def _rows(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        total = np.zeros((len(numbers), self.n_features_in_))
        for number, part in enumerate(self._parts):
            total += part.codebook_[numbers[:, number]]
        return as_dtype(total, self._dtype)


def _left_of(source: RowSource, parts: Sequence[VectorQuantizer]) -> RowSource:
    """Return the rows less what some stages decode to; see `RowSource.mapped`."""
    if not parts:
        return source

    def leave(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        left = rows
        for part in parts:
            left = _left(left, part, part.predict(left), rows.dtype)
        return left

    return source.mapped(leave, source.components, _float(source.dtype))


def _left(rows: npt.NDArray[Any], part: VectorQuantizer, numbers: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Rows less their codewords in a stage."""
    left: npt.NDArray[Any] = (rows.astype(np.float64) - part.codebook_[numbers]).astype(_float(dtype))
    return left


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of rows less decoded ones: exact if they are integers of 16 bits."""
    return np.dtype(np.float32 if dtype.itemsize <= {"u": 2, "i": 2, "f": 4}.get(dtype.kind, 0) else np.float64)
