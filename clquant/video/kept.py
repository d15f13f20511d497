"""Held frames that are looked at more than once: few are kept, of more what changes in a temporary file, if small."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clquant.images.moving import Frame, bounds
from clquant.video.hold import Held
from clquant.video.spool import Spool

FEW_BYTES, MOST_BYTES = 1 << 24, 1 << 26  # of frames in memory, of the file


class _Change(NamedTuple):
    """The rectangle of a frame that holds all new pixels: which of its pixels stay, as bits, and the new ones."""

    delay_ms: int
    shape: tuple[int, ...]
    place: tuple[slice, slice]
    stays: npt.NDArray[np.uint8]
    new: npt.NDArray[np.void]

    @classmethod
    def of(cls, held: Held) -> _Change:
        pixels, place = held.frame.pixels, bounds(~held.stays)
        stays = held.stays[place]
        new = _items(np.ascontiguousarray(pixels[place]))
        new = new.take(np.flatnonzero(~stays)) if stays.any() else new
        return cls(held.frame.delay_ms, pixels.shape, place, np.packbits(stays), new)

    def after(self, before: Held | None) -> Held:
        """The frame, given the one before."""
        if self.new.nbytes == math.prod(self.shape):  # all is new
            frame = Frame(self.new.view(np.uint8).reshape(self.shape), self.delay_ms)
            return Held(frame, np.zeros(self.shape[:2], np.bool_))
        alike = before is not None and before.frame.pixels.shape == self.shape
        pixels = before.frame.pixels.copy() if before is not None and alike else np.empty(self.shape, np.uint8)
        stays = np.ones(self.shape[:2], np.bool_)
        part = stays[self.place]
        part[...] = np.unpackbits(self.stays, count=part.size).reshape(part.shape)
        _items(pixels)[np.flatnonzero(~stays)] = self.new
        return Held(Frame(pixels, self.delay_ms), stays)


def _items(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.void]:
    """Pixels in a row, each one item, which NumPy picks several times as fast as rows of channels."""
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    return pixels.reshape(-1).view(f"V{channels}")


class Kept:
    """Held frames, made once if they or what changes in them take few bytes, else for each iteration."""

    def __init__(self, make: Callable[[], Iterable[Held]]) -> None:
        self._make = make
        self._fits = True
        self._few: list[Held] = []  # of all frames, these or
        self._changes: Spool[_Change] | None = None

    def __iter__(self) -> Iterator[Held]:
        before: Held | None = None
        for change in self._changes or ():
            before = change.after(before)
            yield before
        if self._changes is not None:
            yield from self._few
            return
        few: list[Held] = []
        room, spool = FEW_BYTES, Spool[_Change](packs=False)
        for held in self._make():
            if self._fits:
                few.append(held)
                room -= held.frame.pixels.nbytes + held.stays.nbytes
            if few and room < 0:
                self._fits = False
                with contextlib.suppress(OSError):  # the disk is full
                    for one in few:
                        spool.add(_Change.of(one))
                    self._fits = spool.nbytes <= MOST_BYTES
                few = []
            yield held
        if self._fits:
            self._few, self._changes = few, spool
