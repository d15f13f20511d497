"""Residual quantization: a codebook for rows, one for what it leaves of them, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import CommandQueue, ProgressCallback
from clquant.vectors.code_quantizer import CodeQuantizer, as_dtype, read_for, share_of
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rows import RowSource
from clquant.vectors.saved import Arrays, State
from clquant.vectors.views import made


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
        self.n_stages = n_stages
        self.n_bits = n_bits
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.refine = refine
        self.random_state = random_state
        self.queue = queue

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: npt.ArrayLike | None = None,
        *,
        progress: ProgressCallback | None = None,
        memory: Any = None,
    ) -> ResidualQuantizer:
        """Train the codebooks.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
            As `VectorQuantizer.fit` takes it, at least 2^n_bits rows.
        y : ignored
            Taken for scikit-learn's sake.
        sample_weight : array_like, shape (n,), optional
            Numbers of at least 0.
        progress : callable, optional
            Called with (done, total); returning False stops the training and leaves the quantizer as it was.
        memory : int or str, optional
            Host memory for lazy rows, such as ``"1 GiB"``; default 512 MiB.

        Returns
        -------
        ResidualQuantizer
            Itself.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, FormatError
            If a parameter, `X` or `sample_weight` is not allowed or cannot be read.
        StoppedError
            If `progress` returned False.
        """
        count, callback = params.integer("n_stages", self.n_stages, 1, 64), params.callback("progress", progress)
        source = read_for(X, self.n_bits)
        parts = self._checked(count)
        for number, part in enumerate(parts):
            rows = source.source if number == 0 else _left_of(source, parts[:number])
            part.fit(rows, None, sample_weight, progress=share_of(callback, number, count), memory=memory)
        self._learn(parts, source)
        self._set()
        return self

    def _set(self) -> None:
        books = np.stack([part.codebook_.astype(np.float64) for part in self._parts])
        self.codebooks_ = books.astype(_float(self._dtype))
        self.inertia_ = self._parts[-1].inertia_

    def _restore(self, state: State, arrays: Arrays) -> None:
        super()._restore(state, arrays)
        if self._parts[0].n_features_in_ != self.n_features_in_:
            raise ValueError(f"codebooks of {self._parts[0].n_features_in_} for rows of {self.n_features_in_}")
        self._set()

    def _portion_numbers(self, rows: npt.NDArray[Any]) -> list[npt.NDArray[np.int32]]:
        left, found = rows, []
        for number, part in enumerate(self._parts):
            found.append(part.predict(left))
            if number + 1 < len(self._parts):
                left = _left(left, part, found[-1], rows.dtype)
        return found

    def _rows(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        total = np.zeros((len(numbers), self.n_features_in_))
        for number, part in enumerate(self._parts):
            total += part.codebook_[numbers[:, number]]
        return as_dtype(total, self._dtype)


def _left_of(source: RowSource, parts: Sequence[VectorQuantizer]) -> Any:
    """What some stages leave of rows: lazily of a source that is read so."""

    def leave(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        left = rows
        for part in parts:
            left = _left(left, part, part.predict(left), rows.dtype)
        return left

    return made(source, leave, source.components, _float(source.dtype))


def _left(
    rows: npt.NDArray[Any], part: VectorQuantizer, numbers: npt.NDArray[np.int32], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Rows less their codewords in a stage."""
    left: npt.NDArray[Any] = (rows.astype(np.float64) - part.codebook_[numbers]).astype(_float(dtype))
    return left


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Of what is left of rows: their numbers less others, exactly if they are integers of 16 bits."""
    return np.dtype(np.float32 if dtype.itemsize <= {"u": 2, "i": 2, "f": 4}.get(dtype.kind, 0) else np.float64)
