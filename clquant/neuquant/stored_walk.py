"""The pixels of Dekker's walk through pictures that are read in parts: as many samples as memory holds, by a pass each.

Sample s is pixel s q mod total, q a prime. So the samples that lie in some rows are every q-th pixel of these, for each
time that the walk has begun at the top again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clquant.flow import PictureSource
from clquant.histogram.distinct import DistinctColors
from clquant.images import Picture
from clquant.images.decode import Samples
from clquant.neuquant.sampling import Band, Pixels, checked_total, put_samples, walk_step
from clquant.neuquant.stored_sampling import StreamedColors
from clquant.runtime import Scope, Session


@dataclass(frozen=True)
class WalkedPixels(Pixels):
    """Pixels elsewhere, of which some samples of order `WALK` are on the device."""

    window: Window

    def walked(self, first: int) -> tuple[Pixels, int]:
        """Samples from `first` on, and the number of the first that is missing."""
        return self.window.at(first)


def walked_pixels(
    session: Session, scope: Scope, pictures: Sequence[Picture], sample_factor: int, most: int
) -> tuple[WalkedPixels, DistinctColors]:
    """Return pixels for the sequential map, read while `scope` is open, and up to `most` distinct colours."""
    window, colors = Window(session, pictures, sample_factor), StreamedColors(session, most)
    scope.at_end(window.close)
    window.draw(0, colors.add)
    return WalkedPixels((), window.total, window), colors.found()


class Window:
    """Samples that follow one another."""

    def __init__(self, session: Session, pictures: Sequence[Picture], sample_factor: int) -> None:
        self._session, self._pictures = session, pictures
        self.total = checked_total(pictures)
        self._step = walk_step(self.total)
        self._channels = max(picture.channels for picture in pictures)
        memory = min(picture.store.memory for picture in pictures if picture.store is not None)
        self._samples = max(self.total // sample_factor, 1)
        # On the host and on the device.
        self._room = min(max(memory // (2 * self._channels), 1), self._samples)
        self._held = contextlib.ExitStack()
        self._first, self._pixels = 0, Pixels((), self.total)

    def at(self, first: int) -> tuple[Pixels, int]:
        """Samples from one that is given on, and where they end."""
        if not self._first <= first < self._first + self._room:
            self.draw(first)
        return self._pixels, min(self._first + self._room, self._samples)

    def draw(self, first: int, inspect: Callable[[Picture, Samples], None] | None = None) -> None:
        """Read all rows for the samples from one on; `inspect` gets each part and its values (pixels, channels)."""
        self.close()
        count = min(self._room, self._samples - first)
        drawn = np.full((count, self._channels), 255, np.uint8)
        begin = 0
        for picture in self._pictures:
            for piece in PictureSource(picture).parts_in_memory():
                values = piece.on_host(self._session).reshape(-1, piece.channels)
                if inspect is not None:
                    inspect(piece, values)
                self._take(values, begin, first, drawn)
                begin += len(values)
        scope = self._held.enter_context(self._session.scope())
        band = Band(scope.copy_of(drawn), self._channels, count, first, drawn=True)
        self._first, self._pixels = first, Pixels((band,), self.total)

    def _take(self, values: Samples, begin: int, first: int, drawn: Samples) -> None:
        """Copy those samples from `first` on that are among the pixels from `begin` on."""
        step, end, last = self._step, begin + len(values), first + len(drawn)
        for turn in range(first * step // self.total, (last - 1) * step // self.total + 1):
            low = max(-(-(turn * self.total + begin) // step), first)
            high = min(-(-(turn * self.total + end) // step), last)
            if low < high:
                at = low * step - turn * self.total - begin
                put_samples(
                    drawn, slice(low - first, high - first), values[at : at + (high - low - 1) * step + 1 : step]
                )

    def close(self) -> None:
        """Let the samples go."""
        self._held.close()
