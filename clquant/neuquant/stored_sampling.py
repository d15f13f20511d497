"""Samples and distinct colours of pictures that are read in parts, for the mini-batch map.

One pass over the rows, from top to bottom, gives what `clquant.neuquant.sampling` and `clquant.histogram.distinct` give
of the whole pictures in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clquant.flow import PictureSource
from clquant.histogram.distinct import MAX_DISTINCT, DistinctColors, distinct_colors
from clquant.histogram.merging import summed
from clquant.images import Picture
from clquant.neuquant.sampling import Band, Pixels, checked_total, put_samples, spread_places
from clquant.runtime import Scope, Session


def streamed_pixels(
    session: Session, scope: Scope, pictures: Sequence[Picture], start: int, count: int
) -> tuple[Pixels, DistinctColors]:
    """Read the first `count` samples of order `SPREAD`, and the distinct colours if few; small pictures whole."""
    total = checked_total(pictures)
    if total <= count:
        pixels = Pixels.of(session, scope, pictures)
        with session.scope() as inner:
            return pixels, distinct_colors(session, inner, pixels.triples(), MAX_DISTINCT)
    places = spread_places(total, start, count)
    order = np.argsort(places, kind="stable")
    places = places[order]
    channels = max(picture.channels for picture in pictures)
    colors, drawn, begin = StreamedColors(session, MAX_DISTINCT), np.full((count, channels), 255, np.uint8), 0
    for picture in pictures:
        for piece in PictureSource(picture).parts_in_memory():
            values = piece.on_host(session).reshape(-1, piece.channels)
            colors.add(piece, values)
            low, high = np.searchsorted(places, (begin, begin + len(values)))
            put_samples(drawn, order[low:high], values[places[low:high] - begin])
            begin += len(values)
    band = Band(scope.copy_of(drawn), channels, count, 0, drawn=True)
    return Pixels((band,), total), colors.found()


class StreamedColors:
    """Collects up to `most` distinct colours, part by part."""

    def __init__(self, session: Session, most: int) -> None:
        self._session, self._most = session, most
        self._codes = np.zeros(0, np.uint32)  # R, G, B, alpha, red highest
        self._counts = np.zeros(0, np.uint64)
        self._few, self._transparent, self._partial = True, False, False

    def add(self, piece: Picture, values: npt.NDArray[np.uint8]) -> None:
        """Count a part, whose values are (pixels, channels)."""
        if self._few:
            with self._session.scope() as scope:
                bands = Pixels.of(self._session, scope, [piece]).triples()
                part = distinct_colors(self._session, scope, bands, self._most)
            self._transparent |= part.transparent
            self._partial |= part.partial
            self._merge(part)
        elif piece.channels == 4:
            alpha = values[:, 3]
            self._transparent |= bool((alpha == 0).any())
            self._partial |= bool(((alpha > 0) & (alpha < 255)).any())

    def _merge(self, part: DistinctColors) -> None:
        if part.colors is None or part.counts is None:
            self._few = False
            return
        codes = np.concatenate([self._codes, np.ascontiguousarray(part.colors).view(">u4").ravel().astype(np.uint32)])
        self._codes, self._counts = summed(codes, np.concatenate([self._counts, part.counts.astype(np.uint64)]))
        self._few = len(self._codes) <= self._most

    def found(self) -> DistinctColors:
        """The colours of all parts."""
        if not self._few:
            return DistinctColors(None, None, self._transparent, self._partial)
        colors = self._codes.astype(">u4").view(np.uint8).reshape(-1, 4)
        return DistinctColors(colors, self._counts.astype(np.uint32), self._transparent, self._partial)
