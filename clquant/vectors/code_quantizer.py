"""What quantizers of several codebooks share: their codes and the verbs on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import CommandQueue, InvalidArgument, ProgressCallback
from clquant.vectors.codes import checked_codes, checked_numbers, number_dtype, pack, unpack
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rows import RowSource, read_rows, row_weights
from clquant.vectors.saved import Arrays, Saved, State

MOST_BITS = 16
Q = TypeVar("Q", bound="CodeQuantizer")


class CodeQuantizer(Saved):
    """Rows as codes of several codeword numbers."""

    stream_method = "encode"
    n_bits: int
    init: str
    n_init: int
    max_iter: int
    refine: int
    random_state: int
    queue: CommandQueue | None
    codebooks_: npt.NDArray[Any]
    inertia_: float
    n_iter_: int
    n_features_in_: int
    _parts: list[VectorQuantizer]
    _dtype: np.dtype[Any]

    def encode(self, X: Any) -> npt.NDArray[np.uint8]:
        """The codes of rows, packed.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
            As `fit` takes it.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(m * n_bits / 8))
            As faiss packs codes: number i has the bits from i * n_bits on, the lowest bit of a byte first. With 8 bits
            byte i is number i. Lazy for a Dask array.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType, FileError, FormatError
            If `X` is not allowed or cannot be read.
        """
        source, bits = self._given(X), len(self._parts) * self._bits()
        codes: npt.NDArray[np.uint8] = source.map(self._packed, -(-bits // 8), np.uint8)
        return codes

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """The rows that packed codes stand for.

        Parameters
        ----------
        codes : array_like of uint8, shape (n, ceil(m * n_bits / 8))
            As `encode` gives them.

        Returns
        -------
        ndarray, shape (n, d)
            Of the dtype of the rows of `fit`; float32 for float16, float64 for integers of 32 and 64 bits.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType
            If `codes` are none of this quantizer.
        """
        self._check_fitted("codebooks_")
        count, bits = len(self._parts), self._bits()
        return self._rows(unpack(checked_codes(codes, count, bits), count, bits))

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """The codeword numbers of rows, not packed.

        Parameters
        ----------
        X : array_like, shape (n, d), or path

        Returns
        -------
        ndarray of uint8, shape (n, m)
            Lazy for a Dask array. uint16 for more than 8 bits. The lowest number on ties.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, FormatError
            As `encode`.
        """
        numbers: npt.NDArray[Any] = self._given(X).map(self._numbers, len(self._parts), number_dtype(self._bits()))
        return numbers

    def inverse_transform(self, numbers: npt.ArrayLike) -> npt.NDArray[Any]:
        """The rows that codeword numbers stand for.

        Parameters
        ----------
        numbers : array_like of int, shape (n, m)
            As `transform` gives them.

        Returns
        -------
        ndarray, shape (n, d)
            As `decode`.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType
            As `decode`.
        """
        self._check_fitted("codebooks_")
        return self._rows(checked_numbers(numbers, len(self._parts), self._bits()))

    def fit_transform(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> npt.NDArray[Any]:
        """`fit`, then `transform` of the same rows.

        Parameters
        ----------
        X, y, sample_weight
            As `fit` takes them.

        Returns
        -------
        ndarray, shape (n, m)

        Raises
        ------
        InvalidArgument, InvalidType, FileError, FormatError
            As `fit`.
        """
        return self.fit(X, y, sample_weight).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to what their codes stand for.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
        y : ignored
        sample_weight : array_like, shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, FormatError
            As `encode`.
        """
        source = self._given(X)
        row_weights(sample_weight, source.count)  # refuses wrong ones
        weights = np.ones(source.count) if sample_weight is None else np.asarray(sample_weight, np.float64)
        return -sum(source.each(self._errors, weights), 0.0)

    def fit(
        self: Q,
        X: Any,
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        progress: ProgressCallback | None = None,
        memory: Any = None,
    ) -> Q:
        """See the classes that learn."""
        raise NotImplementedError

    def _rows(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows of some numbers."""
        raise NotImplementedError

    def _portion_numbers(self, rows: npt.NDArray[Any]) -> list[npt.NDArray[np.int32]]:
        """The numbers of some rows in each codebook."""
        raise NotImplementedError

    def _numbers(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The codeword numbers of some rows."""
        for part in self._parts:
            part.queue = self.queue
        return np.stack(self._portion_numbers(rows), axis=1).astype(number_dtype(self._bits()))

    def _packed(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """The codes of some rows."""
        return pack(self._numbers(rows), self._bits())

    def _errors(self, rows: npt.NDArray[Any], _: int, weights: npt.NDArray[np.float64]) -> float:
        """The weighted sum of squared distances of some rows to what their codes stand for."""
        errors = ((rows.astype(np.float64) - self._rows(self._numbers(rows))) ** 2) * weights[:, None]
        return math.fsum(errors.ravel().tolist())

    def _bits(self) -> int:
        """Bits of a number of a fitted quantizer."""
        return int(self.codebooks_.shape[1] - 1).bit_length()

    def _checked(self, count: int) -> list[VectorQuantizer]:
        """A quantizer for each of so many codebooks, by parameters that are checked here."""
        size, seed = 1 << params.integer("n_bits", self.n_bits, 1, MOST_BITS), params.seed(self.random_state)
        runs = params.integer("n_init", self.n_init, 1)
        if not isinstance(self.init, str):
            raise InvalidArgument(f"init is {params.shown(self.init)}; allowed: 'k-means++' or 'splitting'")
        shared = {name: getattr(self, name) for name in ("init", "n_init", "max_iter", "refine", "queue")}
        return [VectorQuantizer(size, random_state=(seed + i * runs) % 2**64, **shared) for i in range(count)]

    def _learn(self, parts: list[VectorQuantizer], source: RowSource) -> None:
        """Keep what was trained; labels are not kept."""
        for part in parts:
            del part.labels_
        self._parts, self.n_features_in_ = parts, source.components
        self._dtype = decoded_dtype(source.dtype)
        self.n_iter_ = max(part.n_iter_ for part in parts)

    def _state(self) -> tuple[State, Arrays]:
        parts = [part._state() for part in self._parts]
        state = {"parts": [own for own, _ in parts], "dtype": self._dtype.str[1:], "features": self.n_features_in_}
        return state, {f"words{i}": arrays["words"] for i, (_, arrays) in enumerate(parts)}

    def _restore(self, state: State, arrays: Arrays) -> None:
        self._parts = []
        for number, own in enumerate(state["parts"]):
            part = VectorQuantizer(queue=self.queue)
            part._restore(own, {"words": arrays[f"words{number}"]})
            self._parts.append(part)
        shapes = {part._words.shape for part in self._parts}
        if len(shapes) != 1 or next(iter(shapes))[0].bit_count() != 1:
            raise ValueError(f"codebooks of the shapes {sorted(shapes)}")
        self._dtype, self.n_features_in_ = np.dtype(str(state["dtype"])), int(state["features"])
        self.n_iter_ = max(part.n_iter_ for part in self._parts)

    def _given(self, rows: Any) -> RowSource:
        """Rows to be coded."""
        self._check_fitted("codebooks_")
        source = read_rows(rows).on_host()
        if source.components != self.n_features_in_:
            expecting = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise InvalidArgument(f"X has {source.components} features, but {expecting}")
        return source

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: a transformer of tables."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # only scikit-learn asks for this

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=False, two_d_array=True),
        )


def read_for(rows: Any, n_bits: Any) -> RowSource:
    """Rows of `fit`, at least as many as codewords."""
    source = read_rows(rows).on_host()
    size = 1 << params.integer("n_bits", n_bits, 1, MOST_BITS)
    if source.count < size:
        raise InvalidArgument(f"X has n_samples={source.count} rows; allowed: at least {size}, 2^n_bits")
    return source


def decoded_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Of decoded rows, by that of the rows of `fit`."""
    if dtype.kind in "ui" and dtype.itemsize <= 2:
        return dtype
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def as_dtype(rows: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Numbers of a dtype, integers by rounding, halves to even, and cutting."""
    if dtype.kind in "ui":
        ends = np.iinfo(dtype)
        return np.clip(np.rint(rows), ends.min, ends.max).astype(dtype)
    return rows.astype(dtype)


def share_of(progress: ProgressCallback | None, number: int, count: int) -> Callable[[int, int], object] | None:
    """The progress of one of several trainings, as that of all."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, count * total)
