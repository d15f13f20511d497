"""Groups of pictures and weights that are counted at once: their sums fit 32-bit counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.histogram.weights import total_weight
from clquant.images import Picture
from clquant.runtime import Session

Weights = Sequence[npt.NDArray[np.unsignedinteger]]


@dataclass(frozen=True)
class CountGroup:
    """Pictures counted at once."""

    pictures: list[Picture]
    weights: list[npt.NDArray[np.uint32]] | None
    shift: int = 0  # weights are digits of the given ones, worth 2^shift


def count_groups(
    session: Session, pictures: Sequence[Picture], weights: Weights | None, most: int = 2**32 - 1
) -> Iterator[CountGroup]:
    """Cut pictures and weights into groups of at most `most` pixels and weight."""
    waiting = CountGroup([], None if weights is None else [])
    room = most
    for i, picture in enumerate(pictures):
        own = picture.pixels if weights is None else max(picture.pixels, total_weight(weights[i]))
        if own > room and waiting.pictures:
            yield waiting
            waiting, room = CountGroup([], None if weights is None else []), most
        if own > most:
            yield from _rows(session, picture, None if weights is None else weights[i], most)
            continue
        waiting.pictures.append(picture)
        if waiting.weights is not None and weights is not None:
            waiting.weights.append(weights[i].astype(np.uint32, copy=False))
        room -= own
    if waiting.pictures:
        yield waiting


def _rows(
    session: Session, picture: Picture, weights: npt.NDArray[np.unsignedinteger] | None, most: int
) -> Iterator[CountGroup]:
    """Groups of one picture: as many rows as fit, or one digit of the weights of a row."""
    array: npt.NDArray[np.uint8] = (
        np.asarray(picture.array) if picture.device_array is None else picture.device_array.get(session.queue)
    )
    ones = np.full(picture.height, picture.width, np.uint64)
    sums = ones if weights is None else np.maximum(weights.sum(axis=1, dtype=np.uint64), ones)
    row = 0
    while row < picture.height:
        passed = np.cumsum(sums[row:])
        end = row + max(int(np.searchsorted(passed, np.uint64(most), side="right")), 1)
        part = dataclasses.replace(picture, height=end - row, array=array[row:end], device_array=None, sent=None)
        if weights is None:
            yield CountGroup([part], None)
        elif passed[end - row - 1] <= most:
            yield CountGroup([part], [weights[row:end].astype(np.uint32)])
        else:
            yield from _digits(part, weights[row:end].astype(np.uint64), most)
        row = end


def _digits(row: Picture, weights: npt.NDArray[np.uint64], most: int) -> Iterator[CountGroup]:
    """Groups of one row, each with so many bits of the weights that their sum fits."""
    bits = (most // row.width + 1).bit_length() - 1
    for shift in range(0, int(weights.max()).bit_length(), bits):
        digit = weights >> np.uint64(shift) & np.uint64(2**bits - 1)
        yield CountGroup([row], [digit.astype(np.uint32)], shift)
