"""The base of quantizers of rows: parameters of training, `fit`, `score`, files, scikit-learn's conventions."""

from __future__ import annotations

import abc
import os
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.estimator import Estimator
from clquant.images import memory_bytes
from clquant.params import reason_of, shown
from clquant.runtime import CommandQueue, FormatError, InvalidArgument, ProgressCallback
from clquant.vectors.rows import RowSource, read_rows
from clquant.vectors.saved import Arrays, State, read, write

Q = TypeVar("Q", bound="RowQuantizer")


class RowQuantizer(Estimator, abc.ABC):
    """Base of `VectorQuantizer` and of the quantizers of several codebooks."""

    _kind: str | None = None  # of estimators, for scikit-learn
    inertia_: float
    n_iter_: int
    n_features_in_: int
    feature_names_in_: npt.NDArray[Any]

    def __init__(
        self, init: Any, n_init: int, max_iter: int, refine: int, random_state: int, queue: CommandQueue | None
    ) -> None:
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.refine = refine
        self.random_state = random_state
        self.queue = queue

    def fit(
        self: Q,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: npt.ArrayLike | None = None,
        *,
        progress: ProgressCallback | None = None,
        memory: Any = None,
    ) -> Q:
        """Train the codewords.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
            Integers or floats; d at most 2048, at least as many rows as a codebook has codewords. Device arrays,
            whatever has DLPack, `numpy.memmap`, zarr and h5py arrays, and the paths of .npy, .fvecs and .bvecs files.
            What is lazy and does not fit `memory` is read in portions in each step.
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
        The quantizer itself.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, FormatError
            If a parameter, `X` or `sample_weight` is not allowed or cannot be read.
        StoppedError
            If `progress` returned False.
        """
        callback, most = params.callback("progress", progress), memory_bytes(memory)
        self._fit(read_rows(X, most), sample_weight, callback, most)
        self._name_features(_names_of(X))
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> Any:
        """`fit`, then `transform` of the same rows.

        Parameters
        ----------
        X, y, sample_weight
            As `fit` takes them.

        Returns
        -------
        As `transform`.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, FormatError
            As `fit`.
        """
        return self.fit(X, y, sample_weight).transform(X)

    @abc.abstractmethod
    def transform(self, X: Any) -> Any:
        """See the classes."""

    def score(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their codewords, or to what their codes stand for.

        Parameters
        ----------
        X : array_like, shape (n, d), or path
        y : ignored
        sample_weight : array_like, shape (n,), optional

        Returns
        -------
        float
            In integers as `inertia_` is, so the same however rows are cut into portions.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType, FileError, FormatError
            If `X` or `sample_weight` is not allowed or cannot be read.
        """
        return -self._squared_error(self._given(X), sample_weight)

    def save(self, path: Any) -> None:
        """Write what was learned, and the parameters, to a file (.npz), whole or not at all.

        Parameters
        ----------
        path : path_like
            An existing file is replaced.

        Raises
        ------
        NotFittedError
            Before `fit`.
        FileError
            If it cannot be written.
        """
        self._check_fitted("n_features_in_")
        state, arrays = self._state()
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in self.get_params().items() if k != "queue"}
        given = {k: v for k, v in plain.items() if isinstance(v, str | int | float | None)}
        if not isinstance(self.init, str):
            arrays = {**arrays, "init": params.array("init", self.init, "numbers, (k, d)", "buif")}
        if hasattr(self, "feature_names_in_"):
            state = {**state, "names": self.feature_names_in_.tolist()}
        write(path, {"kind": type(self).__name__, "parameters": given, **state}, arrays)

    @classmethod
    def load(cls: type[Q], path: Any, *, queue: CommandQueue | None = None) -> Q:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path_like
        queue : pyopencl.CommandQueue, optional
            Default: the best device.

        Returns
        -------
        The quantizer.

        Raises
        ------
        FileError, FormatError
            If it cannot be read, or is no such file.
        """
        header, arrays = read(path)
        what = shown(os.fspath(path))
        if header.get("kind") != cls.__name__:
            raise FormatError(f"{what} holds a {shown(header.get('kind'))}; allowed: a {cls.__name__}")
        try:
            made = cls(**header["parameters"])
            made.set_params(queue=queue, init=arrays.get("init", made.init))
            made._name_features(header.get("names"))
            made._restore(header, arrays)
        except Exception as error:  # a damaged header has anything in it
            raise FormatError(f"{what} is no saved {cls.__name__}: {reason_of(error)}") from error
        return made

    @abc.abstractmethod
    def _fit(self, source: RowSource, sample_weight: Any, progress: ProgressCallback | None, memory: int) -> None:
        """Check the parameters, train, and keep what was learned."""

    @abc.abstractmethod
    def _squared_error(self, source: RowSource, sample_weight: Any) -> float:
        """The weighted sum of squared distances."""

    @abc.abstractmethod
    def _state(self) -> tuple[State, Arrays]:
        """Return the learned attributes, as JSON and arrays."""

    @abc.abstractmethod
    def _restore(self, state: State, arrays: Arrays) -> None:
        """Take what `_state` gave; `ValueError` if it is not that."""

    def _given(self, rows: Any) -> RowSource:
        """Rows to be looked at by the codewords."""
        self._check_fitted("n_features_in_")
        source, names = read_rows(rows), _names_of(rows)
        known = getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and names != known.tolist():
            raise InvalidArgument(
                f"The feature names should match those that were passed during fit: X has the columns "
                f"{shown(names)}; allowed: {shown(known.tolist())}, in this order"
            )
        if source.components != self.n_features_in_:
            expecting = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise InvalidArgument(f"X has {source.components} features, but {expecting}")
        return source

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:  # noqa: ARG002
        """The names of the columns of `transform`: the class in lower case and a number.

        Parameters
        ----------
        input_features : ignored
            Taken for scikit-learn's sake.

        Returns
        -------
        ndarray of str objects

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        self._check_fitted("n_features_in_")
        name = type(self).__name__.lower()
        return np.array([f"{name}{number}" for number in range(self._width())], object)

    @abc.abstractmethod
    def _width(self) -> int:
        """Columns of what `transform` gives."""

    def _name_features(self, names: list[str] | None) -> None:
        """Keep the names of columns, if they have any."""
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, object)

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: an estimator of tables."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # only scikit-learn asks for this

        return Tags(
            estimator_type=self._kind,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=False, two_d_array=True),
        )


def _names_of(rows: Any) -> list[str] | None:
    """The names of the columns of a table, if all are text."""
    if not hasattr(rows, "columns"):
        return None
    names = list(rows.columns)
    return names if names and all(isinstance(name, str) for name in names) else None
