"""Dask's actors beside the parts of a training: a step is one message to each, without a graph for the scheduler.

An actor has no state but its part, which Dask makes anew if a worker is lost; then actors are made anew as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clquant.dask.verify import verified_share
from clquant.dask.work import client, held, named, release
from clquant.runtime import ClquantError
from clquant.vq.part import Part

# Parts whose sums the client adds; of more, tasks add them as a tree. Losses of workers in a row before giving up.
MOST_ACTORS, MOST_LOSSES = 16, 8


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
    """

    def __init__(self, there: Any, parts: Sequence[Any]) -> None:
        self._client = there
        self._parts = parts
        self._actors: list[Any] = []

    @classmethod
    def of(cls, parts: Sequence[Any]) -> Actors | None:
        """Actors for some parts; None without a cluster, or if there are too many.

        Parameters
        ----------
        parts : sequence of Delayed
            Persisted.
        """
        there = client()
        if there is None or len(parts) > MOST_ACTORS:
            return None
        futures = [held(part) for part in parts]
        return cls(there, [found[0] for found in futures]) if all(len(found) == 1 for found in futures) else None

    def close(self) -> None:
        """Let go of the actors: Dask's calls of them make cycles, which Python would find later."""
        actors, self._actors = self._actors, []
        release([actor._future for actor in actors if actor._future is not None])

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
                    share = verified_share()
                    made = [self._client.submit(Beside, part, share, actor=True, pure=False) for part in self._parts]
                    self._actors = self._client.gather(made)
                asked = [actor.call(method, *shared, *mine) for actor, mine in zip(self._actors, own, strict=True)]
                return [answer.result() for answer in asked]
            except (ClquantError, MemoryError):
                raise
            except Exception:  # a lost worker shows in many ways
                self.close()
                if losses == MOST_LOSSES - 1:
                    raise
        raise AssertionError("unreachable")
