"""Choosing the smallest of keys on the device, in time that grows with their number alone."""

from __future__ import annotations

import numpy as np

from clquant.runtime import Buffer, LocalMemory, Scope, Session

_GROUP = 256
_DIGITS = 256


class Selection:
    """A choice among keys that is queued many times."""

    # `places` has a uint32 per key: 2^32 - 1 if it is chosen, else how many of those before it are not. `chosen` has
    # the increasing uint32 indices of the chosen.

    def __init__(
        self, session: Session, scope: Scope, keys: Buffer, capacity: int, digits: int, number: Buffer | None = None
    ) -> None:
        kernel = session.program("training/selection.cl").kernel("vq_select")
        lanes = session.work_group_size(kernel, _GROUP, 8)
        self.places, self.chosen = scope.empty(4 * capacity), scope.empty(4 * capacity)
        buffers = {"keys": keys, "state": number or keys, "places": self.places, "chosen": self.chosen}
        sizes = {"size": 0, "number": 0, "digits": digits, "from_state": number is not None}
        local = {"counts": 4 * _DIGITS, "found": 8, "before": 8 * lanes}
        numbers = {name: np.uint32(size) for name, size in sizes.items()}
        rooms = {name: LocalMemory(nbytes) for name, nbytes in local.items()}
        self._launch = session.prepare(scope, kernel, lanes, lanes, **buffers, **numbers, **rooms)

    def queue(self, size: int, number: int = 0) -> None:
        """Queue the choice."""
        self._launch.set(size=np.uint32(size), number=np.uint32(number))
        self._launch.queue()
