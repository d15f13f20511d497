"""Dispatch of Dask's collections to `clquant.dask`, which lies above and is found by name."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from clquant.images import materialize
from clquant.params import is_dask

F = TypeVar("F", bound=Callable[..., Any])


def executor_of(*given: Any) -> Any | None:
    """Return the module that runs jobs on Dask's collections if there is one, alone or in a list; None without."""
    each = itertools.chain.from_iterable(one if isinstance(one, list | tuple) else [one] for one in given)
    spread = any(is_dask(one) or getattr(one, "spread_by_dask", False) is True for one in each)
    return dask_executor() if spread else None


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
