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
from clquant.images.dark_values import no_warnings
from clquant.images.foreign import is_dask
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
    """Return the client of the cluster that computes now; None without one."""
    try:
        from distributed import get_client  # an extra of the extra
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def workers() -> int:
    """Return how many processes tasks are spread over, at least 1."""
    # The count of a cluster is a moment old, as a new one takes as long as a small task.
    there = client()
    if there is None:
        return 1
    moment = int(time.monotonic() / MOMENT_S)
    if (there.id, moment) not in _counted:
        _counted.clear()
        _counted[there.id, moment] = max(len(there.scheduler_info(n_workers=-1)["workers"]), 1)
    return _counted.get((there.id, moment), 1)


def release(futures: Iterable[Any]) -> None:
    """Cancel unfinished futures and forget the others."""
    # To cancel what has failed is an error in some schedulers.
    for future in futures:
        future.release()


def held(value: Any) -> list[Any]:
    """Return the cluster futures behind a lazy value; none for other schedulers."""
    if client() is None:
        return []
    from distributed import futures_of

    return list(futures_of(value))


def begun(work: Callable[..., Any], *args: Any) -> Any:
    """Start a call on a cluster's worker and return its future; arguments may contain futures."""
    there = client()
    assert there is not None, "futures are a cluster's"
    return there.submit(work, *args, pure=False)


def results(tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield (index, value) of delayed tasks as they finish; closing the iterator cancels the remaining tasks."""
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
    """Compute a delayed task, or wait for a future, and return its value."""
    report.report(0, 2)
    (found,) = compute(task) if is_dask_collection(task) else [task.result()]
    report.report(2, 2)
    return found


@contextlib.contextmanager
def located(images: Sequence[Any]) -> Iterator[None]:
    """Name the chunk that could not be read if the computation inside fails for that reason."""
    # After an error that is not clquant's the Dask arrays among `images` are read again, chunk by chunk.
    try:
        yield
    except (ClquantError, MemoryError):
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "distributed":
            for number, image in enumerate(images):
                if is_dask(image):
                    _look_again(image, f"images[{number}] ({image.name})")
        raise


def _look_again(image: Any, name: str) -> None:
    """Compute the chunks, discard them, and raise FileError at the first that fails."""
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
    """Prefix the message of a clquant or memory error with the place where it came about."""
    try:
        yield
    except (ClquantError, MemoryError) as error:
        error.args = (f"{place}: {error}", *error.args[1:])
        raise


def tree(merge: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> Any:
    """Merge delayed values by tasks of a few each; returns one delayed value."""
    few = branches(merge, parts)
    return few[0] if len(few) == 1 else delayed(merge, pure=False)(few)


def branches(merge: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> list[Any]:
    """Merge like `tree`, but stop at so few values that one task can merge them."""
    level = list(parts)
    while len(level) > MERGED_AT_ONCE:
        level = [
            delayed(merge, pure=False)(level[i : i + MERGED_AT_ONCE]) for i in range(0, len(level), MERGED_AT_ONCE)
        ]
    return level


def named(work: Callable[..., Any], share: float | None = None) -> Callable[..., Any]:
    """Return `work` with its worker and device named in device errors; `share` of the calls is verified."""
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
