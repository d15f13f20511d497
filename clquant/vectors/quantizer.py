"""Vector quantization of rows: k-means with exact search, the same bits on every device."""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import memory_bytes
from clquant.runtime import Array, CommandQueue, InvalidArgument, InvalidType, Progress, ProgressCallback
from clquant.training.blocks import Weights
from clquant.training.schedule import ROWS
from clquant.training.search import MAX_CODEBOOK
from clquant.training.seeding import STARTS
from clquant.training.training import Plan, Trained
from clquant.vectors.base import RowQuantizer
from clquant.vectors.batches import Batches, grow, rescale
from clquant.vectors.distances import Labels
from clquant.vectors.far import scale_sum
from clquant.vectors.fit import HeldRows, rows_of
from clquant.vectors.fixed_point import FINE_BITS, FixedPoint, checked_scale, fixed_point
from clquant.vectors.rows import RowSource, finite, read_rows, row_weights
from clquant.vectors.saved import Arrays, State, fixed_of, fixed_state, words_of

METRICS = ("sqeuclidean", "cosine")


def _warn_of_rounding(fixed: FixedPoint, found: Trained, error: int) -> None:
    """Warn if rounding moves numbers by more than a fifth of their root mean squared distance to codewords."""
    total, mass = error / 4.0**FINE_BITS, int(found.totals[:, -1].sum()) * found.codebook.shape[1]
    if total != found.error and total < 2 * mass:
        spread = fixed.scale * math.sqrt(total / mass)
        warnings.warn(
            f"numbers of X are rounded to multiples of {fixed.scale:g}, but their root mean squared distance to "
            f"codewords is {spread:g}: outliers or columns of unlike range leave the others too few bits; clip or "
            "scale them",
            stacklevel=4,
        )


class VectorQuantizer(RowQuantizer):
    """Codewords for rows of numbers: k-means whose search and sums are exact in integers.

    Rows become whole numbers by a power of two (`scale_`), uint8 and int8 by none. Everything after that is integer
    arithmetic, so codewords and labels are the same bits on every device, for every way to cut rows into portions.

    Parameters
    ----------
    n_codewords : int
        k, 1..65536.
    init : {"k-means++", "splitting"} or array_like, shape (k, d)
        The start: D^2 sampling (Arthur and Vassilvitskii 2007), splitting (Linde, Buzo and Gray 1980), or codewords,
        from which plain steps go on.
    n_init : int
        Trainings, 1 to 1000, with seeds `random_state`, `random_state` + 1, ...; the one of least error is kept.
    max_iter : int
        Most Lloyd steps after the rounds, at least 1.
    refine : int
        Rounds of annealed steps, as `VQCodec` has them; 0 is plain k-means. 0 to 1000.
    metric : {"sqeuclidean", "cosine"}
        With "cosine", rows are normalized first; codewords are means of normalized rows.
    scale : float, optional
        A power of two, of which numbers become multiples. Default: the least one for which the columns of `fit`, from
        their middles on, fit their bits. Not for uint8 and int8.
    random_state : int
        Seed, 0..2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the best device.

    Attributes
    ----------
    cluster_centers_, codebook_ : ndarray, shape (k, d)
        The codewords, in increasing order of their sums; of X's dtype, float32 for float16, float64 for integers of 32
        and 64 bits. With "cosine" of a float's dtype.
    labels_ : ndarray or device array of int32, shape (n,)
        The codeword of each row of `fit`; on the device if the rows were, and lazy for a Dask array.
    inertia_ : float
        The sum of squared distances of the rows of `fit` to their codewords, weighted.
    n_iter_ : int
        Lloyd steps that were run.
    n_features_in_ : int
        d.
    scale_ : float

    Notes
    -----
    Numbers less the middle of their column have 16 bits, or as many that the sum of weights times d (2^bits)^2 is below
    2^63. Rounding changes a number by `scale_` / 2 at most, which is 2^-16 of the widest column's range at 16 bits.
    Rows beyond those of `fit` are searched exactly. `inertia_` and `score` are of the rows given, to `scale_` / 512 in
    each number. Weights keep their ratio down to 2^-30 of the largest.
    """

    stream_method = "predict"
    _kind = "clusterer"
    cluster_centers_: npt.NDArray[Any]
    codebook_: npt.NDArray[Any]
    labels_: Any
    scale_: float
    _fixed: FixedPoint
    _words: npt.NDArray[np.integer[Any]]
    _batches: Batches

    def __init__(
        self,
        n_codewords: int = 256,
        *,
        init: str | npt.ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        refine: int = 20,
        metric: str = "sqeuclidean",
        scale: float | None = None,
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        super().__init__(init, n_init, max_iter, refine, random_state, queue)
        self.n_codewords = n_codewords
        self.metric = metric
        self.scale = scale

    def partial_fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: npt.ArrayLike | None = None,
    ) -> VectorQuantizer:
        """Learn from another batch of rows.

        The first batch trains as `fit` does. Of each later one, and of those after `fit` or `load`, the rows are given
        to their nearest codewords, which then move to the rounded means of all rows that they were ever given. Where a
        batch is beyond the numbers that fit, `scale_` grows by powers of two. A call that fails changes nothing.

        Parameters
        ----------
        X : array_like, shape (n, d)
            The first batch has at least `n_codewords` rows.
        y : ignored
        sample_weight : array_like, shape (n,), optional
            In one unit for all batches; by default 1.

        Returns
        -------
        VectorQuantizer
            Itself; `labels_` and `inertia_` are those of the batch.

        Raises
        ------
        InvalidArgument, InvalidType
            As `fit`.
        """
        if not hasattr(self, "codebook_"):
            return self.fit(X, sample_weight=sample_weight)
        source, made = self._given(X), copy.copy(self)
        weights, unit = row_weights(sample_weight, source)
        with self._rows(source, len(self._words)) as rows:
            fixed = self._fixed
            if self.scale is None and fixed.dtype.kind == "f" and not fixed.is_normalized:
                fixed = grow(fixed, rows.ends())
            words = rescale(self._words, self._fixed, fixed)
            batch = Batches.of(fixed, rows.totals(fixed, weights, words), unit)
            batches = self._batches.plus(batch)
            words = batches.means(fixed, words)
            made._adopt(fixed, words)
            labels = rows.nearest(made, fixed, words)
            error = made._real_error(rows.error(made, fixed, words, weights, labels), source) * unit
        self._adopt(fixed, words)
        self._batches, self.labels_, self.inertia_, self.n_iter_ = batches, labels, error, self.n_iter_ + 1
        return self

    @overload
    def predict(self, X: Array) -> Array: ...
    @overload
    def predict(self, X: Any) -> npt.NDArray[np.int32]: ...
    def predict(self, X: Any) -> Labels:
        """The index of the nearest codeword of each row, the lowest on ties.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
            As `fit` takes it.

        Returns
        -------
        ndarray or device array of int32, shape (n,)
            On the device, on the same queue, if `X` is there; lazy for a Dask array.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType, FileError, FormatError
            If `X` is not allowed or cannot be read.
        """
        return self._nearest(self._given(X))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> Labels:
        """`fit`, then `labels_`.

        Parameters
        ----------
        X, y, sample_weight
            The arguments of `fit`.

        Returns
        -------
        ndarray or device array of int32, shape (n,)
            As `predict` gives it.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, FormatError
            If an argument is not allowed or cannot be read.
        """
        labels: Labels = self.fit(X, y, sample_weight).labels_
        return labels

    def transform(self, X: Any) -> npt.NDArray[np.float64] | Array:
        """Squared distances of each row to all codewords.

        Parameters
        ----------
        X : array_like, shape (n, d), or path

        Returns
        -------
        ndarray or device array of float64, shape (n, k)
            On the device, on the same queue, if `X` is there; lazy for a Dask array.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, FormatError
            As `predict`.
        """
        source = self._given(X)
        with self._rows(source, len(self._words)) as rows:
            return rows.distances(self, self._fixed, self._words)

    def inverse_transform(self, labels: npt.ArrayLike) -> npt.NDArray[Any]:
        """The codewords of some labels.

        Parameters
        ----------
        labels : array_like of int, shape (n,)

        Returns
        -------
        ndarray, shape (n, d)

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType
            If a label names no codeword.
        """
        self._check_fitted("codebook_")
        indices = params.array("labels", labels, "integers, (n,)")
        if indices.dtype.kind not in "ui" or indices.ndim != 1:
            raise InvalidType(f"labels is {params.shown(labels)}; allowed: integers, (n,)")
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self.codebook_):
            raise InvalidArgument(
                f"labels go from {indices.min()} to {indices.max()}; allowed: 0 to {len(self._words) - 1}"
            )
        rows: npt.NDArray[Any] = self.codebook_[indices]
        return rows

    def _nearest(self, source: RowSource) -> Labels:
        with self._rows(source, len(self._words)) as rows:
            return rows.nearest(self, self._fixed, self._words)

    def _squared_error(self, source: RowSource, sample_weight: Any) -> float:
        weights, unit = row_weights(sample_weight, source)
        return self._real_error(self._error(source, weights), source) * unit

    def _error(self, source: RowSource, weights: Weights) -> int:
        """The weighted sum of squared distances of rows to the nearest codewords; see `squared_error`."""
        with self._rows(source, len(self._words)) as rows:
            return rows.error(self, self._fixed, self._words, weights)

    def _real_error(self, total: int, source: RowSource) -> float:
        """A sum of squares of `_error` as a number."""
        fixed = self._fixed
        fine = 0 if fixed.is_exact and fixed.dtype == source.dtype else FINE_BITS
        return scale_sum(total, 2 * (math.frexp(fixed.scale)[1] - 1 - fine))

    def _rows(
        self, source: RowSource, size: int, memory: int | None = None
    ) -> contextlib.AbstractContextManager[HeldRows]:
        """Open rows for training and searching, on the device or on the workers of a cluster."""
        return rows_of(source, self.queue, memory_bytes(memory), size)

    def _fit(self, source: RowSource, sample_weight: Any, progress: ProgressCallback | None, memory: int) -> None:
        size = params.integer("n_codewords", self.n_codewords, 1, MAX_CODEBOOK)
        if source.count < size:
            raise InvalidArgument(f"X has n_samples={source.count} rows; allowed: at least n_codewords={size}")
        runs, seed = params.integer("n_init", self.n_init, 1, 1000), params.seed(self.random_state)
        weights, unit = row_weights(sample_weight, source)
        metric = params.choice("metric", self.metric, METRICS)
        rounds, steps = params.integer("refine", self.refine, 0, 1000), params.integer("max_iter", self.max_iter, 1)
        kind = params.choice("init", self.init, STARTS) if isinstance(self.init, str) else None
        scale, made = None if self.scale is None else checked_scale(self.scale), copy.copy(self)
        mass = None if weights is None else int(weights.sum(dtype=np.int64))
        with self._rows(source, size, memory) as rows:
            fixed = fixed_point(source, mass, metric == "cosine", scale, rows.ends)
            if kind is None:
                plans = [Plan(size, self._start(fixed, size, source.components), steps, 0, seed)]
            else:
                plans = [Plan(size, kind, steps, rounds, (seed + run) % 2**64, rule=ROWS) for run in range(runs)]
            found, labels = rows.train(fixed, weights, plans, Progress(progress))
            made._adopt(fixed, found.codebook)
            if labels is None or scale is not None:
                labels = rows.nearest(made, fixed, found.codebook)
            is_exact = fixed.is_exact and fixed.dtype == source.dtype
            error = found.error if is_exact else rows.error(made, fixed, found.codebook, weights, labels)
        self._adopt(fixed, found.codebook)
        self.labels_, self._batches = labels, Batches.of(fixed, found.totals, unit)
        if not is_exact:
            _warn_of_rounding(fixed, found, error)
        distinct = len(np.unique(found.codebook, axis=0))
        if distinct < size:
            warnings.warn(
                f"{distinct} codewords are different, n_codewords is {size}: X has few different rows", stacklevel=3
            )
        self.inertia_, self.n_iter_ = self._real_error(error, source) * unit, found.n_iter

    def _start(self, fixed: FixedPoint, size: int, components: int) -> npt.NDArray[np.integer[Any]]:
        """The codewords that `init` gives, as whole numbers."""
        allowed = f"allowed: {', '.join(map(repr, STARTS))} or finite numbers {(size, components)}, (n_codewords, d)"
        try:
            start = read_rows(self.init)
            if (start.count, start.components) == (size, components):
                return fixed.encode(finite(start.read(0, size), 0))
        except (InvalidArgument, InvalidType) as error:
            raise InvalidArgument(f"init is {params.shown(self.init)}; {allowed}") from error
        raise InvalidArgument(f"init has the shape {(start.count, start.components)}; {allowed}")

    def _adopt(self, fixed: FixedPoint, words: npt.NDArray[np.integer[Any]]) -> None:
        """Take codewords as if they had been learned."""
        self._fixed, self._words = fixed, words
        self._batches = Batches.of(fixed, np.zeros((len(words), words.shape[1] + 1), np.uint64), 1.0)
        self.codebook_ = self.cluster_centers_ = fixed.decode(words)
        self.n_features_in_, self.scale_ = words.shape[1], fixed.scale

    def _state(self) -> tuple[State, Arrays]:
        batches = {"fixed": fixed_state(self._batches.fixed), "exponent": self._batches.exponent}
        return {**self._plain_state(), "batches": batches}, {"words": self._words, **self._batches.halves()}

    def _width(self) -> int:
        return len(self._words)

    def _plain_state(self) -> State:
        """The state of a quantizer that learns no further batches."""
        return {"fixed": fixed_state(self._fixed), "inertia": self.inertia_, "n_iter": self.n_iter_}

    def _restore(self, state: State, arrays: Arrays) -> None:
        fixed = fixed_of(state["fixed"])
        self._adopt(fixed, words_of(arrays["words"], fixed))
        self.inertia_, self.n_iter_ = float(state["inertia"]), int(state["n_iter"])
        if "batches" in state and "sums_low" in arrays:
            own = state["batches"]
            exponent = params.integer("exponent", own["exponent"], -2000, 2000)
            self._batches = Batches.of_halves(fixed_of(own["fixed"]), arrays, exponent, self._words.shape)
