"""Leaves as GeoJSON features (RFC 7946), in pixels or in the coordinates of a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import InvalidArgument

TERMS = 6


@dataclass(frozen=True)
class Affine:
    """Map from pixels (x right, y down): ``(a x + b y + c, d x + e y + f)``, as in rasterio and GDAL."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    @property
    def mirrors(self) -> bool:
        """Whether it turns left round into right round."""
        return self.a * self.e - self.b * self.d < 0

    def point(self, x: int, y: int) -> list[float]:
        """Map a corner of pixels."""
        return [self.a * x + self.b * y + self.c, self.d * x + self.e * y + self.f]


def checked_affine(transform: Sequence[float] | None, y_up: bool, height: int) -> Affine | None:
    """Check a transform of six numbers; None keeps pixels as they are, or flips y with `y_up`."""
    params.boolean("y_up", y_up)
    if transform is None:
        return Affine(1, 0, 0, 0, -1, height) if y_up else None
    if y_up:
        raise InvalidArgument("y_up is True with a transform, which says where y goes; allowed: one of them")
    terms = params.array("transform", transform, "six numbers a, b, c, d, e, f", "iuf").ravel().tolist()
    if len(terms) == 9:  # the third row of an `affine.Affine` is 0, 0, 1
        terms = terms[:TERMS]
    if len(terms) != TERMS:
        raise InvalidArgument(f"transform has {len(terms)} numbers; allowed: six, a, b, c, d, e, f")
    made = Affine(*(params.real(f"transform[{i}]", term, -np.inf) for i, term in enumerate(terms)))
    if made.a * made.e == made.b * made.d:
        raise InvalidArgument(f"transform is {params.shown(transform)}, which makes areas 0; allowed: another one")
    return made


def features(
    leaves: npt.NDArray[np.void], height: int, width: int, affine: Affine | None = None, flat: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the leaves as GeoJSON features clipped to the picture; `flat` stores means as ``mean_1``, ``mean_2``..."""
    places = leaves[["x", "y", "size"]].tolist()
    means = leaves["mean"].reshape(len(leaves), -1).tolist()
    for (x, y, size), mean in zip(places, means, strict=True):
        right, bottom = min(x + size, width), min(y + size, height)
        corners = [[x, y], [right, y], [right, bottom], [x, bottom], [x, y]]
        ring: list[list[Any]] = corners if affine is None else [affine.point(*corner) for corner in corners]
        if affine is not None and affine.mirrors:
            ring.reverse()  # exterior rings go left round
        own = {f"mean_{i}": value for i, value in enumerate(mean, 1)} if flat else {"mean": mean}
        yield {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": {"size": size, **own},
        }
