"""A call in a thread of its own, which a process that ends does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """Calls a function in a new thread, and gives its result or its error.

    A thread of `concurrent.futures` that an interrupt meets as it starts is waited for at the end, for ever.
    """

    def __init__(self, call: Callable[..., T], *given: Any) -> None:
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call, given), name="clquant-background", daemon=True)
        self._thread.start()

    def _run(self, call: Callable[..., T], given: tuple[Any, ...]) -> None:
        try:
            self._found.append(call(*given))
        except BaseException as error:  # raised where the result is asked for
            self._error = error

    def wait(self) -> None:
        """Wait until the call is over, whatever it gave."""
        self._thread.join()

    def result(self) -> T:
        """Wait for the call, and return its result or raise its error."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found.pop()
