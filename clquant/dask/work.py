"""Tasks on workers: how many there are, trees of tasks, and errors that say on which worker and device."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dask import compute, delayed, is_dask_collection

from clquant.dask.verify import is_verified, verified_share, verify_elsewhere
from clquant.images.collections import is_lazy
from clquant.images.dark_values import no_warnings
from clquant.runtime import (
    ClquantError,
    DeviceError,
    DeviceMemoryError,
    FileError,
    Progress,
    default_device,
    describe,
)
from clquant.runtime.transfer.staging import sharing_lanes

MERGED_AT_ONCE = 8
MOMENT_S = 0.5
# Workers, by the client and when they were counted.
_counted: dict[tuple[str, int], int] = {}


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
    """Processes that tasks are spread over, at least 1; of a cluster as it was a moment ago, as asking takes as long
    as a small task."""
    there = client()
    if there is None:
        return 1
    moment = int(time.monotonic() / MOMENT_S)
    if (there.id, moment) not in _counted:
        _counted.clear()
        _counted[there.id, moment] = max(len(there.scheduler_info(n_workers=-1)["workers"]), 1)
    return _counted.get((there.id, moment), 1)


def release(futures: Iterable[Any]) -> None:
    """Give up what is not there yet, and forget what is. (To cancel what has failed is an error in some schedulers.)

    Parameters
    ----------
    futures : iterable of Future
    """
    for future in futures:
        future.release()


def held(value: Any) -> list[Any]:
    """The futures of a cluster behind a lazy value; none of other schedulers.

    Parameters
    ----------
    value : object
    """
    if client() is None:
        return []
    from distributed import futures_of

    return list(futures_of(value))


def begun(work: Callable[..., Any], *args: Any) -> Any:
    """The future of a call that a cluster's worker makes, with the values of futures in it.

    Parameters
    ----------
    work : callable
    *args
    """
    there = client()
    assert there is not None, "futures are a cluster's"
    return there.submit(work, *args, pure=False)


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
        release(futures)


def value_of(task: Any, report: Progress) -> Any:
    """The value of a delayed task, computed by a cluster or here, or of one that is at work.

    Parameters
    ----------
    task : Delayed or Future
    report : Progress
        Told of the beginning, of what there is to learn from, which the task has, and of the value.
    """
    report.report(0, 2)
    (found,) = compute(task) if is_dask_collection(task) else [task.result()]
    report.report(2, 2)
    return found


@contextlib.contextmanager
def located(images: Sequence[Any]) -> Iterator[None]:
    """Say which chunk could not be read if what is computed inside fails for that reason.

    Parameters
    ----------
    images : sequence of object
        Among which the Dask arrays are looked at again, chunk by chunk, after an error that is not of clquant.

    Raises
    ------
    FileError
        With the chunk's place.
    """
    try:
        yield
    except (ClquantError, MemoryError):
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "distributed":
            for number, image in enumerate(images):
                if is_lazy(image):
                    _look_again(image, f"images[{number}] ({image.name})")
        raise


def _look_again(image: Any, name: str) -> None:
    """Compute the chunks, without taking them, and stop at the first that fails."""
    origins = list(itertools.product(*([0, *itertools.accumulate(sizes)][:-1] for sizes in image.chunks)))
    blocks = list(image.to_delayed().ravel())
    there = client()
    futures = [] if there is None else there.compute(blocks)
    try:
        for i, (row, column, *_) in enumerate(origins):
            try:
                if there is None:
                    compute(blocks[i])
                else:
                    error = futures[i].exception()
                    if error is not None:
                        raise error
            except Exception as error:
                raise FileError(f"{name}: cannot read the chunk at row {row}, column {column}: {error}") from error
    finally:
        release(futures)


@contextlib.contextmanager
def told(place: str) -> Iterator[None]:
    """Begin what an error of clquant says with the place where it came about.

    Parameters
    ----------
    place : str
    """
    try:
        yield
    except (ClquantError, MemoryError) as error:
        error.args = (f"{place}: {error}", *error.args[1:])
        raise


def tree(merge: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> Any:
    """The merge of some delayed values, by tasks of a few each.

    Parameters
    ----------
    merge : callable
        From a list of values to one.
    parts : sequence of Delayed
        At least one.
    """
    few = branches(merge, parts)
    return few[0] if len(few) == 1 else delayed(merge, pure=False)(few)


def branches(merge: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> list[Any]:
    """As `tree`, up to so few values that one task merges them.

    Parameters
    ----------
    merge, parts
        As for `tree`.
    """
    level = list(parts)
    while len(level) > MERGED_AT_ONCE:
        level = [
            delayed(merge, pure=False)(level[i : i + MERGED_AT_ONCE]) for i in range(0, len(level), MERGED_AT_ONCE)
        ]
    return level


def named(work: Callable[..., Any], share: float | None = None) -> Callable[..., Any]:
    """The same, with the worker and its device in what it says when that device fails; sometimes verified.

    Parameters
    ----------
    work : callable
    share : float, optional
        Of the calls that are verified (see `clquant.dask.verify`); default: as set where this is called.
    """
    return functools.partial(_named, work, verified_share() if share is None else share)


def _named(work: Callable[..., Any], share: float, *args: Any, **options: Any) -> Any:
    try:
        with sharing_lanes(), no_warnings():  # of pictures that are parts of one
            result = work(*args, **options)
        if share and is_verified(share):
            verify_elsewhere(result, here, work, args, options)
        return result
    except (DeviceError, DeviceMemoryError) as error:
        if "place" not in vars(error):  # else a worker that this one asked has said where
            vars(error)["place"] = here()
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
