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
    """An actor: calls methods of a part that is on its worker.

    Parameters
    ----------
    part : Part
    share : float
        Of the calls that are verified.
    """

    def __init__(self, part: Part, share: float) -> None:
        self._part, self._share = part, share

    def call(self, method: str, *args: Any) -> Any:
        """What a method of the part gives.

        Parameters
        ----------
        method : str
        *args
        """
        return named(getattr(self._part, method), self._share)(*args)


class Actors:
    """An actor per part.

    Parameters
    ----------
    there : distributed.Client
    parts : sequence of Future
    share : float
        Of the calls that are verified.
    """

    def __init__(self, there: Any, parts: Sequence[Any], share: float) -> None:
        self._client = there
        self._parts = parts
        self._share = share
        self._actors: dict[int, Any] = {}
        self._near: dict[int, Part] = {}

    @classmethod
    def of(cls, parts: Sequence[Any], share: float) -> Actors | None:
        """Actors for some parts; None without a cluster, or if there are too many.

        Parameters
        ----------
        parts : sequence of Future, or of persisted Delayed
        share : float
            Of the calls that are verified.
        """
        there = client()
        if there is None or len(parts) > MOST_ACTORS:
            return None
        futures = [held(part) for part in parts]
        return cls(there, [one for (one,) in futures], share) if all(len(found) == 1 for found in futures) else None

    def close(self) -> None:
        """Let go of the actors: Dask's calls of them make cycles, which Python would find later."""
        actors, self._actors, self._near = self._actors, {}, {}
        release([actor._future for actor in actors.values() if actor._future is not None])

    def ask(self, method: str, shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Any]:
        """What a method of each part gives, in the parts' order; asked again if a worker is lost.

        Parameters
        ----------
        method : str
        shared : sequence
            Arguments for all.
        own : sequence of sequence
            Further ones per part.

        Raises
        ------
        ClquantError
            What the method raises.
        """
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
        """Make the actors; this process asks its own parts itself, unless they are verified, which waits for others."""
        made = [self._client.submit(Beside, part, self._share, actor=True, pure=False) for part in self._parts]
        self._actors = dict(enumerate(self._client.gather(made)))
        data = {} if self._share else _data()  # only now, as parts are there when their actors are
        self._near = {i: data[part.key] for i, part in enumerate(self._parts) if part.key in data}


def _data() -> Any:
    """What this process has as a worker."""
    from distributed import get_worker

    try:
        return get_worker().data
    except ValueError:
        return {}
