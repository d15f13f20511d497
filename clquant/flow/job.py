"""The kinds of job: what an engine declares of itself, and how it steps on a portion of a picture."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.images.storage import MOST_SIDE
from clquant.runtime import Buffer, Progress, Scope, Session


@dataclass(slots=True)
class Portion:
    """Rows of a picture on the device, and the buffer that their result goes to: what a job steps on."""

    picture: Picture  # the whole one
    pixels: Buffer  # rows `first` to `last` - 1
    out: Any  # Buffer of the result of rows `row0` to `row1` - 1, or of all of `pixels`; None in a reduction
    first: int
    last: int
    row0: int
    row1: int
    progress: Progress  # of this portion, for steps of several turns
    others: tuple[Buffer, ...] = ()  # the same rows of other pictures, in a reduction of several

    @property
    def count(self) -> int:
        """Pixels whose result is asked for."""
        return (self.row1 - self.row0) * self.picture.width

    @property
    def arguments(self) -> dict[str, Any]:
        """Pixels, result and count by the names that kernels have for them."""
        return {"pixels": self.pixels, "out": self.out, "n": np.uint64(self.count)}


Step = Callable[[Session, Scope, Portion], Any]


@dataclass(slots=True)
class Steps:
    """A job ready on a device: its step, and what bands of rows it takes."""

    step: Step
    rows: int = 1  # a band but the last has a multiple of so many rows
    reach: int = 0  # rows above and below a band that are loaded with it
    row_bytes: int = 0  # of a row in the largest buffer besides the picture's and the result's
    least_rows: int = 0  # of a band of a picture in memory, where the device has room
    fills_reach: bool = False  # whether a step writes results of the rows in reach, too
    most_rows: int = MOST_SIDE  # on the device at a time
    turns: int = 1  # a step of several reports each to `Portion.progress`
    unit: int = 1  # of progress, in a row of the result
    carried: tuple[Buffer, int] | None = None  # a scan's state, and its bytes
    value: Callable[[], Any] | None = None  # of a reduction whose steps return no state, that of all of them

    def cutting(self, out_row_bytes: int = 0) -> dict[str, int]:
        """Return how `Source.portions` cuts; `out_row_bytes` are those of the result for a row of pixels."""
        row_bytes = max(self.row_bytes, out_row_bytes)
        how = {"multiple": self.rows, "reach": self.reach, "row_bytes": row_bytes}
        return how | {"least": self.least_rows, "most": self.most_rows}


class Job:
    """Declarations that maps, scans and reductions share."""

    # Jobs go to other processes: they hold parameters, and `open` makes what a device needs.

    max_bits: int = 16  # of the values that steps take
    max_side: int = MOST_SIDE  # of pictures
    takes_rows: bool = False  # whether an array that looks like rows of vectors is taken

    @property
    def grid(self) -> int:
        """Parts that are cut out of a picture begin at multiples of so many pixels."""
        return 1

    @property
    def halo(self) -> int:
        """Pixels around a part on which its result depends, where the part cannot know that the picture goes on."""
        return 0

    def around(self, begin: int, end: int, length: int) -> tuple[int, int]:
        """Range of the pixels, along an axis of `length`, that decide the result of those from begin to end."""
        first, last = begin // self.grid * self.grid - self.halo, -(-end // self.grid) * self.grid + self.halo
        return max(first // self.grid * self.grid, 0), min(last, length)

    def open(
        self,
        session: Session,  # noqa: ARG002
        scope: Scope,  # noqa: ARG002
        picture: Picture,  # noqa: ARG002
    ) -> contextlib.AbstractContextManager[Steps]:
        """Make what lies on the device for all portions of a picture."""
        return contextlib.nullcontext(Steps(self.step))

    def step(self, session: Session, scope: Scope, portion: Portion) -> Any:
        """Queue what fills a portion's `out`; return a reduction's state."""
        raise NotImplementedError


class Reduce(Job):
    """A job that makes a state of each portion, merges these in any order, and makes a value of the last."""

    def merge(self, states: Sequence[Any]) -> Any:
        """Return the state of several portions together; here their sum."""
        return sum(states[1:], states[0])

    def finish(self, state: Any) -> Any:
        """Return the value of the whole picture's state."""
        return state

    def gather(self, images: Sequence[Any], state_of: Callable[[Any], Any]) -> Any:
        """Return the state of several images that are not read yet; `state_of` makes that of one."""
        return self.merge([state_of(image) for image in images])

    def conclude(self, states: Sequence[Any]) -> Any:
        """Merge a few states and return their value."""
        return self.finish(self.merge(states))

    def value(self, images: Sequence[Any], state_of: Callable[[Any], Any]) -> Any:
        """Return the value of all images, which this process has."""
        return self.conclude([self.gather(images, state_of)])


class Map(Job):
    """A job that makes of each portion of a picture the same portion of the result."""

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of pixels that a value of the result stands for."""
        return 1, 1

    @property
    def scale(self) -> int:
        """Rows of the result that a row of pixels stands for; 1 unless `block` is one pixel."""
        return 1

    @property
    def is_serial(self) -> bool:
        """Whether a portion depends on all those above it."""
        return False

    def stacked(self, count: int) -> Map | None:  # noqa: ARG002
        """Return the job of `count` pictures of one size below each other, each mapped on its own, if there is one."""
        return None

    def result(self, picture: Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """Return shape and dtype of a picture's result; here 8 bits for each of its values."""
        return picture.shape, np.uint8


@dataclass
class Carried:
    """State that the rows of a scan pass on to those below, on any device."""

    rows: int = 0  # above
    state: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))


class Scan(Map):
    """A map whose portions are made from top to bottom, each with what those above pass on: `Steps.carried`."""

    @property
    def is_serial(self) -> bool:
        """Whether a portion depends on all those above it."""
        return True

    def open_below(self, session: Session, scope: Scope, picture: Picture) -> contextlib.AbstractContextManager[Steps]:
        """Open the scan in a form that takes and gives a state, for rows of a picture that begin at its origin."""
        return self.open(session, scope, picture)
