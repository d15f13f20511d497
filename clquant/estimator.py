"""The conventions that every engine shares: parameters stored unchanged, learned attributes end in an underscore."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from clquant.runtime import InvalidArgument, NotFittedError

E = TypeVar("E", bound="Estimator")


class Estimator:
    """Base of the engines, after scikit-learn's estimator conventions and without depending on it.

    A subclass names every parameter in its ``__init__`` and stores each unchanged under the same name;
    the methods that use a parameter check it.
    """

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

    def set_params(self: E, **params: Any) -> E:
        """Change parameters; what was learned stays until the next `fit`.

        Parameters
        ----------
        **params
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
        for name in params:
            if name not in names:
                raise InvalidArgument(f"{name!r} is no parameter of {type(self).__name__}; allowed: {', '.join(names)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

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
