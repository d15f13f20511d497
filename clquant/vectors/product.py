"""Product quantization: a codebook for each of several sub-spaces of rows, after a rotation if wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import CommandQueue, InvalidArgument, ProgressCallback
from clquant.vectors import exchange
from clquant.vectors.code_quantizer import CodeQuantizer, share_of
from clquant.vectors.distances import Labels
from clquant.vectors.fixed_point import as_dtype, checked_scale
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rotation import Rotation, learn_rotation
from clquant.vectors.rows import RowSource, row_weights
from clquant.vectors.saved import Arrays, State, fixed_of, fixed_state

ROTATIONS = (None, "opq")


class ProductQuantizer(CodeQuantizer):
    """Codes for rows of numbers: each of m sub-spaces of d / m numbers has a codebook of its own.

    H. Jegou, M. Douze, C. Schmid, "Product quantization for nearest neighbor search", PAMI 33 (2011). The codebooks
    are those of `VectorQuantizer`, so they and the codes are the same bits on every device, for every way to cut rows
    into portions.

    Parameters
    ----------
    n_subspaces : int
        m, a divisor of d.
    n_bits : int
        Bits of a codeword number: 2^n_bits codewords in each sub-space. 1 to 16.
    rotation : {None, "opq"}
        "opq" learns a rotation of the rows before they are cut (T. Ge, K. He, Q. Ke, J. Sun, "Optimized product
        quantization", PAMI 36 (2014)), on the host, from at most 32,768 rows, or 64 for each codeword.
    init, n_init, max_iter, refine, random_state, queue
        As `VectorQuantizer` has them; sub-space i has the seeds from `random_state` + i * `n_init` on.

    Attributes
    ----------
    codebooks_ : ndarray, shape (m, 2^n_bits, d / m)
        Of the dtype of `VectorQuantizer`'s codewords; of rotated rows float32, or float64 for rows of 64 bits.
    rotation_ : ndarray of float64, shape (d, d), or None
        Rows are multiplied by it from the right; multiples of 2^-20.
    inertia_ : float
        The sum of squared distances of the rows of `fit` to what their codes stand for, weighted.
    n_iter_ : int
        Most Lloyd steps of a sub-space.
    n_features_in_ : int
        d.

    Notes
    -----
    What is read in portions is read for each sub-space. Rotated rows are rounded to 8 bits if rows have 8, such that at
    most one number of 2^14 is beyond them, else to 16 bits, such that the longest row of `fit` fits; `inertia_` is of
    these. The rotation is learned on the host by sums and products of floats that are exact, or rounded one by one, so
    it has the same bits with every BLAS.

    Examples
    --------
    >>> model = clquant.ProductQuantizer(8).fit(rows)
    >>> codes = model.encode(rows)          # (n, 8) uint8
    >>> restored = model.decode(codes)
    """

    rotation_: npt.NDArray[np.float64] | None
    _rotation: Rotation | None

    def __init__(
        self,
        n_subspaces: int = 8,
        n_bits: int = 8,
        *,
        rotation: str | None = None,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        refine: int = 20,
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        super().__init__(init, n_init, max_iter, refine, random_state, queue)
        self.n_subspaces = n_subspaces
        self.n_bits = n_bits
        self.rotation = rotation

    @classmethod
    def from_faiss(
        cls, given: Any, *, scale: float | None = None, queue: CommandQueue | None = None
    ) -> ProductQuantizer:
        """A quantizer with the codebooks of faiss's.

        Parameters
        ----------
        given : faiss.ProductQuantizer, or an index that has one
            Behind an OPQ matrix or another linear transform without a bias: `IndexPreTransform`.
        scale : float, optional
            A power of two, of which numbers are multiples. Default: the least one for which 4 times the largest number
            of the codebooks fits 16 bits; rows beyond are taken as the nearest that fit.
        queue : pyopencl.CommandQueue, optional
            Default: the best device.

        Returns
        -------
        ProductQuantizer
            Of float32 rows.

        Raises
        ------
        InvalidType, InvalidArgument
            If `given` is none of these or is not trained.
        """
        codebooks, matrix = exchange.codebooks_of(given)
        made = cls(len(codebooks), (codebooks.shape[1] - 1).bit_length(), queue=queue)
        made._parts, rotation = exchange.adopt(codebooks, matrix, scale, queue)
        made._dtype, made.n_features_in_, made.n_iter_ = np.dtype(np.float32), len(codebooks) * codebooks.shape[2], 0
        made._set(rotation, 0.0)
        return made

    def to_faiss(self, coarse: VectorQuantizer | None = None, *, by_residual: bool = True) -> Any:
        """The codebooks as an object of faiss, which has to be installed.

        Parameters
        ----------
        coarse : VectorQuantizer, optional
            Codewords of whole rows: lists of an inverted file.
        by_residual : bool
            Whether the codes are of what `coarse` leaves: then this quantizer is one of ``X - coarse's codewords``.

        Returns
        -------
        faiss.ProductQuantizer
            With a rotation a `faiss.IndexPreTransform` of an `IndexPQ`; with `coarse` an `IndexIVFPQ`. Both are
            trained, and empty.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument
            If `coarse` has rows of another length, or there is a rotation too.
        """
        self._check_fitted("codebooks_")
        residual = params.boolean("by_residual", by_residual)
        return exchange.to_faiss(self.codebooks_, self.rotation_, coarse, residual)

    def _fit(self, source: RowSource, sample_weight: Any, progress: ProgressCallback | None, memory: int) -> None:
        count = params.integer("n_subspaces", self.n_subspaces, 1)
        rotation, learned = params.choice("rotation", self.rotation, ROTATIONS), None
        if source.components % count:
            raise InvalidArgument(f"X has {source.components} features; allowed: a multiple of n_subspaces={count}")
        parts = self._checked(count, source)
        if rotation == "opq":
            source = source.on_host()
            weights, _ = row_weights(sample_weight, source)
            learned = learn_rotation(source, weights, parts, progress and share_of(progress, 0, 2))
            progress = progress and share_of(progress, 1, 2)
        for number, part in enumerate(parts):
            rows = self._own(source, learned, number, count)
            part._fit(rows, sample_weight, share_of(progress, number, count), memory)
        self._learn(parts, source)
        self._set(learned, sum(part.inertia_ for part in parts))

    def _own(self, source: RowSource, rotation: Rotation | None, number: int, count: int) -> RowSource:
        """The rows in one of several sub-spaces."""
        width = source.components // count
        own = slice(number * width, (number + 1) * width)
        return source.columns(own, self.queue) if rotation is None else rotation.rotated(source, own)

    def _owns(self, source: RowSource) -> Iterator[tuple[VectorQuantizer, RowSource]]:
        """The quantizer of each sub-space and its rows."""
        for number, part in enumerate(self._parts):
            yield part, self._own(source, self._rotation, number, len(self._parts))

    def _given(self, rows: Any) -> RowSource:
        source = super()._given(rows)
        return source if self._rotation is None else source.on_host()

    def _squared_error(self, source: RowSource, sample_weight: Any) -> float:
        unit = 1.0 if self._rotation is None else self._rotation.scale**2
        return sum(part._squared_error(rows, sample_weight) for part, rows in self._owns(source)) * unit

    def _labels(self, source: RowSource) -> Iterator[Labels]:
        for part, rows in self._owns(source):
            yield part._nearest(rows)

    def _set(self, rotation: Rotation | None, inertia: float) -> None:
        """Keep a rotation, and state the codebooks in the units of rows."""
        self._rotation = rotation
        self.rotation_ = None if rotation is None else rotation.matrix
        books = [part.codebook_ for part in self._parts]
        if rotation is not None:
            dtype = np.float64 if self._dtype == np.float64 else np.float32
            books = [rotation.shown(book, i * book.shape[1]).astype(dtype) for i, book in enumerate(books)]
        self.codebooks_ = np.stack(books)
        self.inertia_ = inertia * (1.0 if rotation is None else rotation.scale**2)

    def _state(self) -> tuple[State, Arrays]:
        state, arrays = super()._state()
        if self._rotation is None:
            return state, arrays
        whole, center = self._rotation.whole.astype(np.int32), self._rotation.center.astype(np.int32)
        state["rotation"] = {"fixed": fixed_state(self._rotation.fixed), "unit": self._rotation.unit}
        return state, {**arrays, "rotation": whole, "center": center}

    def _restore(self, state: State, arrays: Arrays) -> None:
        super()._restore(state, arrays)
        size, rotation = self.n_features_in_, None
        if len(self._parts) * self._parts[0].n_features_in_ != size:
            raise ValueError(f"{len(self._parts)} sub-spaces of rows of {size}")
        if "rotation" in state:
            whole, center, own = arrays["rotation"], arrays["center"], state["rotation"]
            if (whole.shape, center.shape) != ((size, size), (size,)) or {whole.dtype, center.dtype} != {
                np.dtype("i4")
            }:
                raise ValueError("a rotation of the wrong shape or dtype")
            floats = center.astype(np.float64), whole.astype(np.float64)
            rotation = Rotation(fixed_of(own["fixed"]), *floats, checked_scale(own["unit"]))
        self._set(rotation, sum(part.inertia_ for part in self._parts))

    def _rows(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        found = [part.codebook_[numbers[:, number]] for number, part in enumerate(self._parts)]
        rows = np.concatenate(found, axis=1)
        if self._rotation is None:
            return rows
        return as_dtype(self._rotation.undone(rows), self._dtype)
