"""Residents: states that stay where their portions lie between steps, and whose answers are merged."""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from typing import Any

from clquant.flow.queues import QueueThreads
from clquant.runtime import CommandQueue

Merge = Callable[[Any, Any], Any]


class Residents(abc.ABC):
    """States of one kind, in the order of their portions; `merges` has the merge of two answers of each method."""

    def __init__(self, merges: Mapping[str, Merge]) -> None:
        self._merges = merges

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of every state, and return the answers merged."""
        return functools.reduce(self._merges[method], self._answers(method, args))

    @abc.abstractmethod
    def _answers(self, method: str, args: Sequence[Any]) -> Any:
        """Yield the answers of all states to a method."""

    @abc.abstractmethod
    def call_some(self, method: str, given: Mapping[int, Any]) -> Sequence[Any]:
        """Call a method of some states, by their numbers, each with an argument of its own."""


class InTurn(Residents):
    """States of one queue that are made when their turn comes, and dropped after it: memory holds one."""

    def __init__(self, merges: Mapping[str, Merge], count: int, make: Callable[[int], Any]) -> None:
        super().__init__(merges)
        self._count, self._make = count, make

    def _answers(self, method: str, args: Sequence[Any]) -> Any:
        return (getattr(self._make(number), method)(*args) for number in range(self._count))

    def call_some(self, method: str, given: Mapping[int, Any]) -> Sequence[Any]:
        """See `Residents`; other states are not made."""
        return [getattr(self._make(number), method)(own) for number, own in given.items()]


class OnQueues(Residents):
    """A state on each of several queues; `make` gets its number and queue, on the thread that it stays with."""

    def __init__(
        self, merges: Mapping[str, Merge], threads: QueueThreads, make: Callable[[int, CommandQueue], Any]
    ) -> None:
        super().__init__(merges)
        self._threads = threads
        self._states = threads.each(make)

    def call(self, method: str, *args: Any) -> Any:
        """See `Residents`; the threads merge answers in pairs."""
        answers, merge = self._answers(method, args), self._merges[method]
        while len(answers) > 1:
            pairs = itertools.zip_longest(answers[::2], answers[1::2])
            futures = [
                self._threads.submit(number, lambda _, a=one, b=other: a if b is None else merge(a, b))
                for number, (one, other) in enumerate(pairs)
            ]
            answers = [future.result() for future in futures]
        return answers[0]

    def _answers(self, method: str, args: Sequence[Any]) -> list[Any]:
        return self._threads.each(lambda number, _: getattr(self._states[number], method)(*args))

    def call_some(self, method: str, given: Mapping[int, Any]) -> Sequence[Any]:
        """See `Residents`."""
        futures = [
            self._threads.submit(number, lambda _, n=number, own=own: getattr(self._states[n], method)(own))
            for number, own in given.items()
        ]
        wait(futures)
        return [future.result() for future in futures]
