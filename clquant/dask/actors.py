"""Dask's actors beside the parts of a training: a step is one message to each that is on another worker than who asks,
without a graph for the scheduler.

An actor has no state but its part, which Dask makes anew if a worker is lost; then actors are made anew as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clquant.dask.work import client, held, named, release
from clquant.runtime import ClquantError
from clquant.training.part import Part

# Parts that are asked by messages, 0.8 ms each; of more, tasks add sums as a tree, at 2 ms each. Losses of workers in a
# row before an end.
MOST_ACTORS, MOST_LOSSES = 256, 8


class Beside:
    """Dask actor that calls methods of a part on its own worker; `share` of the calls is verified."""

    def __init__(self, part: Part, share: float) -> None:
        self._part, self._share = part, share

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the part and return its result."""
        return named(getattr(self._part, method), self._share)(*args)


class Actors:
    """One actor per part; `share` of their calls is verified."""

    def __init__(self, there: Any, parts: Sequence[Any], share: float) -> None:
        self._client = there
        self._parts = parts
        self._share = share
        self._actors: dict[int, Any] = {}
        self._near: dict[int, Part] = {}

    @classmethod
    def of(cls, parts: Sequence[Any], share: float) -> Actors | None:
        """Start actors for futures or persisted delayed parts; None without a cluster, or if there are too many."""
        there = client()
        if there is None or len(parts) > MOST_ACTORS:
            return None
        futures = [held(part) for part in parts]
        return cls(there, [one for (one,) in futures], share) if all(len(found) == 1 for found in futures) else None

    def close(self) -> None:
        """Release the actors now: Dask's calls of them make reference cycles, which Python would collect later."""
        actors, self._actors, self._near = self._actors, {}, {}
        release([actor._future for actor in actors.values() if actor._future is not None])

    def ask(self, method: str, shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Any]:
        """Call a method of each part, again if a worker is lost, and return the results; `own` is per part."""
        for losses in range(MOST_LOSSES):
            try:
                if not self._actors:
                    self._find()
                calls = {i: (method, *shared, *own[i]) for i in range(len(own))}
                asked = {i: actor.call(*calls[i]) for i, actor in self._actors.items() if i not in self._near}
                found = {i: getattr(part, method)(*shared, *own[i]) for i, part in self._near.items()}
                found.update((i, answer.result()) for i, answer in asked.items())
                return [found[i] for i in calls]
            except (ClquantError, MemoryError):
                raise
            except Exception:  # a lost worker shows in many ways
                self.close()
                if losses == MOST_LOSSES - 1:
                    raise
        raise AssertionError("unreachable")

    def _find(self) -> None:
        """Start the actors; unless verifying, this process calls the parts that it has directly."""
        made = [self._client.submit(Beside, part, self._share, actor=True, pure=False) for part in self._parts]
        self._actors = dict(enumerate(self._client.gather(made)))
        data = {} if self._share else _data()  # only now, as parts are there when their actors are
        self._near = {i: data[part.key] for i, part in enumerate(self._parts) if part.key in data}


def _data() -> Any:
    """Return the data that this process has as a worker; empty if it is none."""
    from distributed import get_worker

    try:
        return get_worker().data
    except ValueError:
        return {}
