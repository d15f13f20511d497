"""Tasks on workers: how many there are, trees of tasks, and errors that say on which worker and device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dask import compute, delayed

from clquant.runtime import DeviceError, DeviceMemoryError, default_device, describe

MERGED_AT_ONCE = 8


def client() -> Any | None:
    """The client of a cluster that computes what is asked for now; None without one."""
    try:
        from distributed import get_client  # an extra of the extra
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def workers() -> int:
    """Processes that tasks are spread over, at least 1."""
    there = client()
    return 1 if there is None else max(len(there.scheduler_info(n_workers=-1)["workers"]), 1)


def results(tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The numbers and values of delayed tasks as they come; what is left is given up with the iterator.

    Parameters
    ----------
    tasks : sequence of Delayed
    """
    there = client()
    if there is None:
        for first in range(0, len(tasks), MERGED_AT_ONCE):
            yield from enumerate(compute(*tasks[first : first + MERGED_AT_ONCE]), first)
        return
    from distributed import as_completed

    futures = there.compute(list(tasks))
    places = {future.key: i for i, future in enumerate(futures)}
    try:
        for future in as_completed(futures):
            yield places[future.key], future.result()
    finally:
        there.cancel(futures)


def tree(merge: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> Any:
    """The merge of some delayed values, by tasks of a few each.

    Parameters
    ----------
    merge : callable
        From a list of values to one.
    parts : sequence of Delayed
        At least one.
    """
    level = list(parts)
    while len(level) > 1:
        level = [
            delayed(merge, pure=False)(level[i : i + MERGED_AT_ONCE]) for i in range(0, len(level), MERGED_AT_ONCE)
        ]
    return level[0]


def named(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with the worker and its device in what it says when that device fails.

    Parameters
    ----------
    work : callable
    """
    return functools.partial(_named, work)


def _named(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return work(*args, **options)
    except (DeviceError, DeviceMemoryError) as error:
        error.args = (f"{here()}: {error}", *error.args[1:])
        raise


def here() -> str:
    """This worker and its device."""
    try:
        from distributed import get_worker

        place = f"worker {get_worker().name!r}"
    except (ImportError, ValueError):
        place = "this process"
    return f"{place}, device {describe(default_device())!r}"
