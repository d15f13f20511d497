"""The conventions that every engine shares: parameters stored unchanged, learned attributes end in an underscore."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from clquant import params
from clquant.flow.threads import stream
from clquant.runtime import Array, InvalidArgument, InvalidType, NotFittedError

E = TypeVar("E", bound="Estimator")


def weights_of(y: Any, sample_weight: Any) -> Any:
    """The weights among the arguments of a `fit`: `sample_weight`, else what stands in `y`'s place and is no labels.

    Parameters
    ----------
    y : None, labels, or (H, W) weights, a gray picture or its path, or a list of them
        Labels (one value per image) are ignored, as scikit-learn's pipelines pass them to every step.
    sample_weight : weights or None
    """
    if sample_weight is not None or y is None:
        return sample_weight
    one = y[0] if isinstance(y, list | tuple) and y else y
    if isinstance(one, str | os.PathLike) or hasattr(one, "getbands") or getattr(one, "ndim", 1) > 1:
        return y
    try:
        are_labels = getattr(y, "ndim", None) == 1 or np.ndim(y) == 1
    except ValueError:  # ragged
        are_labels = False
    return None if are_labels else y


def learned_by(engine: Any) -> dict[str, Any]:
    """The attributes that an engine learned (`*_`), by name."""
    return {name: value for name, value in vars(engine).items() if name.endswith("_")}


class Estimator:
    """Base of the engines, after scikit-learn's estimator conventions and without depending on it.

    A subclass names every parameter in its ``__init__`` and stores each unchanged under the same name;
    the methods that use a parameter check it. Copies share the queue; pickling leaves it out.

    Attributes
    ----------
    stream_method : str
        The method that `stream` calls when none is named.
    stateless : bool
        Whether nothing is learned: `fit`, where there is one, only returns the engine.
    """

    stream_method = "transform"
    stateless = False

    def __init__(self, queue: Any = None) -> None:
        self.queue = queue

    @classmethod
    def _parameter_names(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return sorted(p.name for p in parameters if p.name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """The constructor's parameters by name, as they were given.

        Parameters
        ----------
        deep : bool
            Taken for compatibility with scikit-learn; engines have no nested parameters.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self: E, **changes: Any) -> E:
        """Change parameters; what was learned stays until the next `fit`.

        Parameters
        ----------
        **changes
            By the constructor's names.

        Returns
        -------
        The engine itself.

        Raises
        ------
        InvalidArgument
            If a name is no parameter; then nothing is changed.
        """
        names = self._parameter_names()
        for name in changes:
            if name not in names:
                raise InvalidArgument(f"{name!r} is no parameter of {type(self).__name__}; allowed: {', '.join(names)}")
        for name, value in changes.items():
            setattr(self, name, value)
        return self

    def stream(
        self, images: Iterable[Any], method: str | None = None, *, depth: int = 3, **arguments: Any
    ) -> Iterator[Any]:
        """Call one method for each of many pictures, several at a time, giving results in the pictures' order.

        Parameters
        ----------
        images : iterable of images
            May be endless: it is read as results are taken. Of an iterator, PIL images, such as the frames of an
            animated file, are read as they come, and arrays are copied, so that it may fill one again and again; those
            from `empty_pinned` are not, and must stay as they are until their result is there.
        method : str, optional
            The method's name; default the engine's usual one (`stream_method`).
        depth : int
            Pictures in the works at a time, 1..64; memory is bounded by it.
        **arguments
            Passed to every call.

        Yields
        ------
        What the method of a copy of the engine returns for each picture, bit for bit: what `fit` and others learn is
        in the copy that they return. Results of device arrays lie on queues beside the engine's.

        Raises
        ------
        InvalidArgument, InvalidType
            If `method` is no public method or `depth` is out of range; else what the method, or the iterable, raises,
            at its picture's turn.
        """
        name = self.stream_method if method is None else method
        if not isinstance(name, str) or name.startswith("_") or not callable(getattr(self, name, None)):
            raise InvalidArgument(
                f"method is {params.shown(name)}; allowed: the name of a method of {type(self).__name__}"
            )
        checked = params.integer("depth", depth, 1, 64)
        try:
            if isinstance(images, str | bytes | os.PathLike) or getattr(images, "ndim", 4) < 3:
                raise TypeError("one image")
            iter(images)
        except TypeError as error:
            raise InvalidType(f"images is {params.shown(images)}; allowed: an iterable of images") from error
        return stream(self, images, name, checked, arguments)

    def __copy__(self: E) -> E:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self: E, memo: dict[int, Any]) -> E:
        """A copy that shares nothing but the queue."""
        made = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            own = value.copy() if isinstance(value, Array) else value if name == "queue" else copy.deepcopy(value, memo)
            made.__dict__[name] = own
        return made

    def __getstate__(self) -> dict[str, Any]:
        """For `pickle`: all but the queue, which no other process has; device arrays become those of the host."""
        state = {name: None if name == "queue" else value for name, value in self.__dict__.items()}
        return {name: value.get() if isinstance(value, Array) else value for name, value in state.items()}

    def __sklearn_clone__(self: E) -> E:
        """For `sklearn.base.clone`: an unfitted engine of equal parameters, on the same queue."""
        given = self.get_params()
        return type(self)(**{k: v if k == "queue" else copy.deepcopy(v) for k, v in given.items()})

    def __sklearn_tags__(self) -> Any:
        """For scikit-learn: images of any shape in, nothing else required."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # only scikit-learn asks for this

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["uint8"]) if hasattr(self, "transform") else None,
            input_tags=InputTags(one_d_array=False, two_d_array=True, three_d_array=True),
            requires_fit=hasattr(self, "fit") and not self.stateless,
            no_validation=True,
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = []
        for name, parameter in defaults.items():
            if name == "self":
                continue
            value = getattr(self, name)
            if value is not parameter.default and repr(value) != repr(parameter.default):
                given.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(given)})"

    def _check_fitted(self, attribute: str) -> None:
        if not hasattr(self, attribute):
            raise NotFittedError(f"this {type(self).__name__} has no {attribute} yet; call fit first")
