"""Verifying: a share of the tasks runs on another worker as well, and the results must be the same bits."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask

from clquant import params
from clquant.flow.file_sinks import digest_of
from clquant.runtime import DeviceError

_CHOICE = random.SystemRandom()  # which tasks are verified changes no result
_OPTION = "clquant.verify"
CONNECTION_ATTEMPTS = 5
_connecting = threading.Lock()


class MismatchError(DeviceError):
    """Two workers gave different results of one task; the message names them and their devices."""


@contextlib.contextmanager
def verify(share: float) -> Iterator[None]:
    """Verify a share of the tasks of what is called inside: `fit`, or verbs whose results are computed later.

    Parameters
    ----------
    share : float
        0 to 1. Chosen tasks run on another worker as well, or again if there is none.

    Raises
    ------
    InvalidArgument, InvalidType
        If it is no such number.
    """
    with dask.config.set({_OPTION: params.real("share", share, 0.0, 1.0)}):
        yield


def verified_share() -> float:
    """Return the share of the tasks created now that is verified."""
    return float(dask.config.get(_OPTION, 0.0))


def verify_elsewhere(share: float, result: Any, here: Callable[[], str], call: partial[Any]) -> None:
    """Repeat a share of the calls, on another worker if there is one; raise MismatchError if the results differ."""
    if _CHOICE.random() >= share:
        return
    own, (place, other) = digest_of(result), _elsewhere(here, call)
    if own != other:
        name = getattr(call.func, "__name__", None) or type(call.func).__name__
        raise MismatchError(f"results of {name} differ: sha256 {own[:16]} of {here()}, {other[:16]} of {place}")


def _elsewhere(here: Callable[[], str], call: partial[Any]) -> tuple[str, str]:
    """Repeat the call; return who did it and the digest of the result."""
    try:
        from distributed import get_worker, worker_client

        own = get_worker().address
    except (ImportError, ValueError):
        return _again(here, call)
    connect()
    with worker_client() as client:
        others = [address for address in client.nthreads() if address != own]
        if not others:
            return _again(here, call)
        given, chosen = client.scatter(call, hash=False), [_CHOICE.choice(others)]
        again = client.submit(_again, here, given, workers=chosen, allow_other_workers=True, pure=False)
        found: tuple[str, str] = again.result()
        return found


def connect() -> None:
    """Connect this worker to its scheduler as a client, if it is not yet."""
    # What a scheduler sends to all clients (such as cancelled keys) may come together with its welcome. `distributed`
    # asserts that the welcome comes alone, and leaves a client that never works but counts as the worker's own: no
    # other thread may take it before it is closed.
    from distributed import default_client, get_client

    with _connecting:
        for _ in range(CONNECTION_ATTEMPTS - 1):
            try:
                get_client()
                return
            except AssertionError:
                default_client().close()
        get_client()


def _again(here: Callable[[], str], call: partial[Any]) -> tuple[str, str]:
    return here(), digest_of(call())
