"""Tasks on workers: how many there are, and errors that say on which worker and device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from dask import compute, delayed

from clquant.dask.verify import verified_share, verify_elsewhere
from clquant.images.dark_values import warned_once
from clquant.runtime import ClquantError, DeviceError, DeviceMemoryError, default_device, describe
from clquant.runtime.transfer.staging import sharing_lanes

MOMENT_S = 0.5
# By their names, as `distributed` need not be there.
_CLUSTER_ERRORS = {
    "concurrent.futures._base.CancelledError",
    "distributed.comm.core.CommClosedError",
    "distributed.scheduler.KilledWorker",
}


@contextlib.contextmanager
def cluster_errors() -> Iterator[None]:
    """Make `DeviceError` of errors of a cluster that is gone, or that ended the work."""
    try:
        yield
    except Exception as error:
        names = {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
        if not names & _CLUSTER_ERRORS:
            raise
        raise DeviceError(f"the Dask cluster is gone, or ended the work: {' '.join(str(error).split())}") from error


def client() -> Any | None:
    """Return the client of the cluster that computes now; None without one."""
    try:
        from distributed import get_client  # an extra of the extra

        return get_client()
    except (ImportError, ValueError):
        return None


def workers() -> int:
    """Return how many processes tasks are spread over, at least 1."""
    # The count of a cluster is a moment old, as a new one takes as long as a small task.
    cluster = client()
    return 1 if cluster is None else _count_workers(cluster.id, int(time.monotonic() / MOMENT_S))


@lru_cache(1)
def _count_workers(client_id: str, moment: int) -> int:  # noqa: ARG001
    cluster = client()
    # A scheduler that is gone names none.
    return 1 if cluster is None else max(len(cluster.scheduler_info(n_workers=-1).get("workers", ())), 1)


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


@cluster_errors()
def wait(futures: Sequence[Any]) -> None:
    """Wait for futures of the cluster; raise the first error among them."""
    from distributed import wait as wait_for

    wait_for(futures)
    for future in futures:
        if future.status != "finished":
            future.result()


def named(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work` with its worker and device named in device errors; a share of the calls is verified."""
    return partial(_named, work, verified_share())


def _named(work: Callable[..., Any], share: float, *args: Any) -> Any:
    call = partial(work, *args)
    try:
        with sharing_lanes(), warned_once(before=True):  # of pictures that are parts of one
            result = call()
        verify_elsewhere(share, result, here, call)
        return result
    except (DeviceError, DeviceMemoryError) as error:
        if "place" not in vars(error):  # else a worker that this one asked has said where
            vars(error)["place"] = here()
            error.args = (f"{here()}: {error}", *error.args[1:])
        raise


def later(place: str, work: Callable[..., Any], *args: Any) -> Any:
    """Return a delayed call on a worker; errors begin with a place."""
    return delayed(at_place, pure=False)(place, named(work), *args)


def at_place(place: str, work: Callable[..., Any], *args: Any) -> Any:
    """Call `work`; clquant's and memory errors begin with a place."""
    try:
        return work(*args)
    except (ClquantError, MemoryError) as error:
        error.args = (f"{place}: {error}", *error.args[1:])
        raise


@cluster_errors()
def values(tasks: Sequence[Any]) -> list[Any]:
    """Compute delayed calls."""
    return list(compute(*tasks))


def here() -> str:
    """Name this worker and its device."""
    try:
        from distributed import get_worker

        place = f"worker {get_worker().name!r}"
    except (ImportError, ValueError):
        place = "this process"
    return f"{place}, device {describe(default_device())!r}"
