"""Executors that run jobs elsewhere than in this process: how to know what lies there, and what loads them."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `clquant`, which imports this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# A test of one argument, and what loads the executor that takes it.
LOADERS: list[tuple[Callable[[Any], bool], Callable[[], Any]]] = []


def is_remote(value: Any) -> bool:
    """Return whether an argument lies where another executor runs jobs."""
    return any(is_there(value) for is_there, _ in LOADERS)


def remote_executor(*given: Any) -> Any | None:
    """Return the executor of arguments that lie elsewhere, alone or in a list; None if all are in this process."""
    for one in given:
        for each in one if isinstance(one, (list, tuple)) else (one,):
            for is_there, load in LOADERS:
                if is_there(each):
                    return load()
    return None
