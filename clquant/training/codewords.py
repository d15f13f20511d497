"""A codebook that moves, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Scope, Session
from clquant.training.blocks import BlockShape
from clquant.training.search import Search

MOST_CHANGES = 16  # steps that are told of between two readings


class Codewords:
    """A codebook on the device whose codewords move."""

    def __init__(self, session: Session, scope: Scope, shape: BlockShape, capacity: int) -> None:
        self._session = session
        self._shape = shape
        self.capacity = capacity
        self.size = 1
        self.codebook = scope.zeros(capacity * shape.nbytes)  # rows of K bytes
        self.moved = scope.empty(capacity * shape.nbytes)  # where a step puts them; `commit` makes them the codebook
        self.changes = scope.zeros(4 * MOST_CHANGES)  # a uint32 for each of the last steps: whether it moved anything
        self.search = Search(session, scope, capacity, shape)  # over the codebook
        self._load = self.search.prepare_load(scope, self.moved, self.codebook)

    def commit(self, size: int) -> None:
        """Make the first of the moved codewords the codebook."""
        self.size = size
        self.search.queue_load(self._load, size)

    def read(self) -> npt.NDArray[np.integer[Any]]:
        """The codebook, (size, K); waits for it."""
        return self._session.download(self.codebook, (self.size, self._shape.components), self._shape.dtype)
