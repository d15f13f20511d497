"""The base of quantizers of several codebooks: their codes and the verbs on them."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import Array, InvalidArgument, ProgressCallback, open_session
from clquant.training.seeding import STARTS
from clquant.vectors.base import RowQuantizer
from clquant.vectors.codes import checked_codes, checked_numbers, code_bytes, number_dtype, pack, pack_there, unpack
from clquant.vectors.distances import Labels
from clquant.vectors.fixed_point import decoded_dtype
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rows import RowSource
from clquant.vectors.saved import Arrays, State, dtype_of

MOST_BITS = 16


class CodeQuantizer(RowQuantizer):
    """Rows as codes of several codeword numbers."""

    stream_method = "encode"
    n_bits: int
    codebooks_: npt.NDArray[Any]
    _parts: list[VectorQuantizer]
    _dtype: np.dtype[Any]

    def encode(self, X: Any) -> npt.NDArray[np.uint8] | Array:
        """The codes of rows, packed.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
            As `fit` takes it.

        Returns
        -------
        ndarray or device array of uint8, shape (n, ceil(m * n_bits / 8))
            As faiss packs codes: number i has the bits from i * n_bits on, the lowest bit of a byte first. With 8 bits
            byte i is number i. On the device, on the same queue, if `X` is there; lazy for a Dask array.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType, FileError, FormatError
            If `X` is not allowed or cannot be read.
        """
        source, bits = self._given(X), self._bits()
        return self._packed(source, bits, code_bytes(len(self._parts), bits), np.dtype(np.uint8))

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

    def transform(self, X: Any) -> npt.NDArray[Any] | Array:
        """The codeword numbers of rows, not packed.

        Parameters
        ----------
        X : array_like, shape (n, d), or path

        Returns
        -------
        ndarray or device array of uint8, shape (n, m)
            uint16 for more than 8 bits. The lowest number on ties. Where `X` is, as `encode`.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, FormatError
            As `encode`.
        """
        source, dtype = self._given(X), number_dtype(self._bits())
        return self._packed(source, 8 * dtype.itemsize, len(self._parts), dtype)

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

    @abc.abstractmethod
    def _rows(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows of some numbers."""

    def _given(self, rows: Any) -> RowSource:
        source = super()._given(rows)
        for part in self._parts:
            part.queue = self.queue
        return source

    @abc.abstractmethod
    def _labels(self, source: RowSource) -> Iterator[Labels]:
        """The numbers of rows that are in memory in each codebook, one after the other."""

    def _packed(self, source: RowSource, bits: int, width: int, dtype: np.dtype[Any]) -> npt.NDArray[Any] | Array:
        """The numbers of rows in so many bits each, (n, width) of a dtype, where the rows are."""
        if isinstance(source.source, Array):
            session = open_session(self.queue, [source.source])
            made = session.new_array((source.count, width), dtype)
            for number, labels in enumerate(self._labels(source)):
                pack_there(session, labels, number * bits, bits, made)
            return session.hand_over(made)
        codes: npt.NDArray[Any] = source.map(functools.partial(self._packed_portion, bits, dtype), width, dtype)
        return codes

    def _packed_portion(self, bits: int, dtype: np.dtype[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        owns = [np.asarray(own) for own in self._labels(RowSource(rows))]
        numbers = np.stack(owns, axis=1).astype(number_dtype(bits))
        return numbers if dtype.itemsize * 8 == bits else pack(numbers, bits)

    def _width(self) -> int:
        return len(self._parts)

    def _bits(self) -> int:
        """Bits of a number of a fitted quantizer."""
        return int(self.codebooks_.shape[1] - 1).bit_length()

    def _checked(self, count: int, source: RowSource) -> list[VectorQuantizer]:
        """A quantizer for each of so many codebooks, by rows and parameters that are checked here."""
        size, seed = 1 << params.integer("n_bits", self.n_bits, 1, MOST_BITS), params.seed(self.random_state)
        if source.count < size:
            raise InvalidArgument(f"X has n_samples={source.count} rows; allowed: at least {size}, 2^n_bits")
        runs = params.integer("n_init", self.n_init, 1, 1000)
        if not isinstance(self.init, str):
            raise InvalidArgument(f"init is {params.shown(self.init)}; allowed: {' or '.join(map(repr, STARTS))}")
        shared = {name: getattr(self, name) for name in ("init", "n_init", "max_iter", "refine", "queue")}
        return [VectorQuantizer(size, random_state=(seed + i * runs) % 2**64, **shared) for i in range(count)]

    def _learn(self, parts: list[VectorQuantizer], source: RowSource) -> None:
        """Keep what was trained; labels are not kept."""
        for part in parts:
            del part.labels_, part._batches
        self._parts, self.n_features_in_ = parts, source.components
        self._dtype = decoded_dtype(source.dtype)
        self.n_iter_ = max(part.n_iter_ for part in parts)

    def _state(self) -> tuple[State, Arrays]:
        parts = [(part._plain_state(), part._words) for part in self._parts]
        state = {"parts": [own for own, _ in parts], "dtype": self._dtype.str[1:], "features": self.n_features_in_}
        return state, {f"words{i}": words for i, (_, words) in enumerate(parts)}

    def _restore(self, state: State, arrays: Arrays) -> None:
        self._parts = []
        for number, own in enumerate(state["parts"]):
            part = VectorQuantizer(queue=self.queue)
            part._restore(own, {"words": arrays[f"words{number}"]})
            self._parts.append(part)
        shapes = {part._words.shape for part in self._parts}
        if len(shapes) != 1 or next(iter(shapes))[0].bit_count() != 1:
            raise ValueError(f"codebooks of the shapes {sorted(shapes)}")
        self._dtype, self.n_features_in_ = dtype_of(state), int(state["features"])
        self.n_iter_ = max(part.n_iter_ for part in self._parts)


def share_of(progress: ProgressCallback | None, number: int, count: int) -> Callable[[int, int], object] | None:
    """Report the progress of one of several trainings as a share of all."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, count * total)
