"""Dispatch of Dask's collections to `clquant.dask`, which lies above and is found by name."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from clquant.images import materialize
from clquant.images.foreign import is_dask

F = TypeVar("F", bound=Callable[..., Any])


def executor_of(*given: Any) -> Any | None:
    """Return the module that runs jobs on Dask's collections if there is one, alone or in a list; None without."""
    each = itertools.chain.from_iterable(one if isinstance(one, list | tuple) else [one] for one in given)
    spread = any(is_dask(one) or getattr(one, "spread_by_dask", False) is True for one in each)
    return importlib.import_module("clquant.dask.verbs") if spread else None


def on_collections(other: str | Callable[..., Any]) -> Callable[[F], F]:
    """Let another callable, or the executor's of a name, do a verb with the same arguments if collections are given."""

    def declare(verb: F) -> F:
        @functools.wraps(verb)
        def either(*args: Any, **options: Any) -> Any:
            args = tuple(map(materialize, args))
            executor = executor_of(*args, *options.values())
            if executor is None:
                return verb(*args, **options)
            return (getattr(executor, other) if isinstance(other, str) else other)(*args, **options)

        return cast(F, either)

    return declare
