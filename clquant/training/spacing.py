"""Strided block indices; sample t uses offset t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spacing:
    """Strided numbers: number i is i d + (i + turn) mod d."""

    distance: int  # d
    turn: int  # which of d consecutive numbers

    def numbers(self, which: Any) -> Any:
        """The numbers of some indices."""
        return which * self.distance + (which + self.turn) % self.distance

    def first_at(self, number: int) -> int:
        """The index of the first number that is not below one."""
        which = number // self.distance
        return which + int(self.numbers(which) < number)
