"""Dispatch of Dask's collections to `clquant.dask`, which lies above and is found by name."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

from clquant.images import materialize
from clquant.params import is_dask

F = TypeVar("F", bound=Callable[..., Any])


def executor_of(*given: Any) -> Any | None:
    """Return the module that runs jobs on Dask's collections if there is one, alone or in a list; None without."""
    for one in given:
        for each in one if isinstance(one, list | tuple) else (one,):
            if is_dask(each) or getattr(each, "spread_by_dask", False) is True:
                return dask_executor()
    return None


def dask_executor() -> Any:
    """Return the module that runs jobs on Dask's collections."""
    return importlib.import_module("clquant.dask.verbs")


def on_collections(other: str | Callable[..., Any]) -> Callable[[F], F]:
    """Let the executor's verb of a name, or a callable that is given the executor first, do a verb on collections."""

    def declare(verb: F) -> F:
        @functools.wraps(verb)
        def either(*args: Any, **options: Any) -> Any:
            args = tuple(map(materialize, args))
            executor = executor_of(*args, *options.values())
            if executor is None:
                return verb(*args, **options)
            if isinstance(other, str):
                return getattr(executor, other)(*args, **options)
            return other(executor, *args, **options)

        return cast(F, either)

    return declare
