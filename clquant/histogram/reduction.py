"""Counting colours as a reduction: pictures' counts in the form that adds up best, added on a device where it can."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from clquant import flow
from clquant.histogram.color_histogram import ColorHistogram, counts_of, histogram_of, together
from clquant.histogram.device_counts import DeviceCounts, added, can_add, counted
from clquant.images import Picture
from clquant.images.batches import read_in_groups
from clquant.runtime import DeviceMemoryError, open_session

Counts = DeviceCounts | ColorHistogram


class Colors(flow.Reduce):
    """The colours of pictures and how many pixels have each."""

    def gather(self, images: Sequence[Any], state_of: Callable[[Any], Any]) -> Counts:  # noqa: ARG002
        """Count images by at most `max_bits` a value, those of 8 bits together."""
        if any(isinstance(image, str | os.PathLike) and os.path.isdir(image) for image in images):
            return ColorHistogram.of(images, max_bits=self.max_bits)
        found: list[Counts] = []

        def count(group: dict[int, Picture]) -> None:
            counts = counted(open_session(None), list(group.values()))
            found.append(counts if isinstance(counts, DeviceCounts) else histogram_of(counts))

        def alone(_: int, picture: Picture) -> None:
            found.append(ColorHistogram.of([picture]))

        def read_one(image: Any, argument: str) -> Picture:
            return flow.open_picture(image, argument=argument, max_bits=self.max_bits)

        read_in_groups(images, lambda picture: picture.store is None and picture.bits == 8, count, alone, read_one)
        return self.merge(found)

    def merge(self, states: Sequence[Counts]) -> Counts:
        """Add up counts."""
        if len(states) == 1:
            return states[0]
        own, session = addable(states), open_session(None)
        if own is not None:
            with contextlib.suppress(DeviceMemoryError), session.scope() as scope:
                return DeviceCounts.of(session, added(session, scope, own))
        return histogram_from(states)

    def conclude(self, states: Sequence[Counts]) -> Any:
        """Return the histogram."""
        return histogram_from(states)


def addable(states: Sequence[Counts]) -> list[DeviceCounts] | None:
    """Return counts that this process's device adds up; None if it does not."""
    found = [DeviceCounts.of_host(counts_of(one, 16)) if isinstance(one, ColorHistogram) else one for one in states]
    own = [one for one in found if one is not None]
    return own if len(own) == len(found) and can_add(open_session(None), own) else None


def histogram_from(states: Sequence[Counts]) -> ColorHistogram:
    """Add up counts on the host."""
    return together([histogram_of(one.on_host()) if isinstance(one, DeviceCounts) else one for one in states])
