"""Codebooks from and to objects of faiss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType
from clquant.training.search import MAX_CODEBOOK
from clquant.vectors.fixed_point import FixedPoint, checked_scale, decoded_dtype, fixed_point
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.rotation import ROTATION_BITS, Rotation
from clquant.vectors.rows import read_rows

_BITS, _ROOM_BITS = 16, 2
Matrix = npt.NDArray[np.float64]


def _faiss() -> Any:
    return params.import_package("faiss", "exchange codebooks", "pip install faiss-cpu", InvalidArgument)


def to_faiss(codebooks: npt.NDArray[Any], matrix: Matrix | None, coarse: VectorQuantizer | None, residual: bool) -> Any:
    """See `ProductQuantizer.to_faiss`."""
    faiss = _faiss()
    count, size, width = codebooks.shape
    dimension, bits = count * width, (size - 1).bit_length()
    if coarse is not None:
        return _inverted(codebooks, matrix, coarse, residual)
    if matrix is None:
        made = faiss.ProductQuantizer(dimension, count, bits)
        _fill(made, codebooks)
        return made
    index = faiss.IndexPQ(dimension, count, bits)
    _fill(index.pq, codebooks)
    index.is_trained = True
    linear = faiss.LinearTransform(dimension, dimension, False)
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix.T, np.float32).ravel(), linear.A)
    linear.is_trained = True
    linear.set_is_orthonormal()
    return faiss.IndexPreTransform(linear, index)


def _inverted(codebooks: npt.NDArray[Any], matrix: Matrix | None, coarse: VectorQuantizer, residual: bool) -> Any:
    faiss = _faiss()
    count, size, width = codebooks.shape
    words = getattr(coarse, "codebook_", None)
    if words is None or words.shape[1] != count * width:
        raise InvalidArgument(f"coarse is {params.shown(coarse)}; allowed: a fitted one of rows of {count * width}")
    if matrix is not None:
        raise InvalidArgument("coarse is given, and there is a rotation; allowed: with rotation=None")
    flat = faiss.IndexFlatL2(count * width)
    flat.add(np.ascontiguousarray(words, np.float32))
    index = faiss.IndexIVFPQ(flat, count * width, len(words), count, (size - 1).bit_length())
    index.by_residual = residual
    _fill(index.pq, codebooks)
    index.is_trained = True
    index.precompute_table()
    return index


def _fill(quantizer: Any, codebooks: npt.NDArray[Any]) -> None:
    flat = np.ascontiguousarray(codebooks, np.float32).ravel()
    _faiss().copy_array_to_vector(flat, quantizer.centroids)


def codebooks_of(given: Any) -> tuple[npt.NDArray[np.float32], Matrix | None]:
    """The codebooks (m, 2^bits, d / m) of an object of faiss, and the matrix rows are multiplied by before."""
    faiss = _faiss()
    matrix = None
    if isinstance(given, faiss.IndexPreTransform):
        matrix = _matrix_of(given)
        given = faiss.downcast_index(given.index)
    if getattr(given, "by_residual", False):
        raise InvalidArgument(
            f"given is {params.shown(given)} with by_residual, whose codebooks are of rows less their list's centroid; "
            "allowed: its pq, to encode such differences, or an index trained with by_residual=False"
        )
    found = getattr(given, "pq", given)
    if not isinstance(found, faiss.ProductQuantizer):
        raise InvalidType(f"given is {params.shown(given)}; allowed: faiss.ProductQuantizer or an index that has one")
    books = faiss.vector_to_array(found.centroids).astype(np.float32)
    if not getattr(given, "is_trained", True) or not bool(np.isfinite(books).all()):
        raise InvalidArgument("given is not trained: it has no codebooks of finite numbers")
    return books.reshape(found.M, found.ksub, found.dsub), matrix


def _matrix_of(index: Any) -> Matrix:
    faiss = _faiss()
    steps = [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(index.chain.size())]
    if len(steps) != 1 or not isinstance(steps[0], faiss.LinearTransform) or steps[0].have_bias:
        raise InvalidArgument("given has other steps than one rotation; allowed: one linear transform without a bias")
    matrix = faiss.vector_to_array(steps[0].A)
    if matrix.size != steps[0].d_out * steps[0].d_in:
        raise InvalidArgument("given is not trained: it has no rotation")
    found = matrix.reshape(steps[0].d_out, steps[0].d_in).T.astype(np.float64)
    if found.shape[0] != found.shape[1] or float(np.abs(found.T @ found - np.eye(len(found))).max()) > 1e-3:
        raise InvalidArgument("given has a transform that is no rotation; allowed: a square orthogonal matrix")
    turned: Matrix = found
    return turned


def adopt(
    codebooks: npt.NDArray[np.float32], matrix: Matrix | None, scale: Any, queue: CommandQueue | None
) -> tuple[list[VectorQuantizer], Rotation | None]:
    """The quantizers of sub-spaces, and the rotation, of float32 rows, as if codebooks had been learned."""
    rows = _with_room(np.dtype(np.float32), codebooks, scale)
    rotation, own, unit = None, rows, 1.0
    if matrix is not None:
        rotation = Rotation(rows, np.zeros(len(matrix)), np.rint(np.ldexp(matrix, ROTATION_BITS)), 1.0)
        own, unit = FixedPoint(rotation.dtype, _BITS, 1 << (_BITS - 1), 1.0, False), rows.scale
    return [_with_codewords(own, book / unit, queue) for book in codebooks], rotation


def plain(words: Any, queue: CommandQueue | None) -> VectorQuantizer:
    """A quantizer of plain codewords (k, d), as if it had learned them; rows are decoded to these numbers."""
    source = read_rows(words)
    if source.count > MAX_CODEBOOK:
        raise InvalidArgument(f"the codebook has {source.count} codewords; allowed: at most {MAX_CODEBOOK}")
    book, dtype = source.read(0, source.count), decoded_dtype(source.dtype)
    fixed = fixed_point(source, None, False, None) if dtype.kind in "ui" else _with_room(dtype, book, None)
    made = _with_codewords(fixed, book, queue)
    made.codebook_ = made.cluster_centers_ = book.astype(dtype)
    return made


def _with_room(dtype: np.dtype[Any], books: npt.NDArray[Any], scale: Any) -> FixedPoint:
    """The fixed point of rows up to 4 times as large as codewords, or of a scale that a person gave."""
    largest = float(np.abs(books).max(initial=0)) or 1.0
    unit = math.ldexp(1.0, math.frexp(largest)[1] + _ROOM_BITS - (_BITS - 1))
    return FixedPoint(dtype, _BITS, 1 << (_BITS - 1), unit if scale is None else checked_scale(scale), False)


def _with_codewords(fixed: FixedPoint, book: npt.NDArray[Any], queue: CommandQueue | None) -> VectorQuantizer:
    made = VectorQuantizer(len(book), scale=None if fixed.bits == 8 else fixed.scale, queue=queue)
    made._adopt(fixed, fixed.encode(book if fixed.bits == 8 else np.asarray(book, np.float64)))
    made.inertia_, made.n_iter_ = 0.0, 0
    return made
