"""Leaves as GeoJSON features (RFC 7946), in pixels or in the coordinates of a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import InvalidArgument

TERMS = 6
BLOCK = 64  # leaves whose corners are computed at once: of more, Python's collector looks at the lists again and again
Affine = tuple[
    float, float, float, float, float, float
]  # x, y -> a x + b y + c, d x + e y + f, as in rasterio and GDAL


def checked_affine(transform: Sequence[float] | None, y_up: bool, height: int) -> Affine | None:
    """Check a transform of six numbers; None keeps pixels as they are, or flips y with `y_up`."""
    params.boolean("y_up", y_up)
    if transform is None:
        return (1, 0, 0, 0, -1, height) if y_up else None
    if y_up:
        raise InvalidArgument("y_up is True with a transform, which says where y goes; allowed: one of them")
    terms = params.array("transform", transform, "six numbers a, b, c, d, e, f", "iuf").ravel().tolist()
    if len(terms) == 9:  # the third row of an `affine.Affine` is 0, 0, 1
        terms = terms[:TERMS]
    if len(terms) != TERMS:
        raise InvalidArgument(f"transform has {len(terms)} numbers; allowed: six, a, b, c, d, e, f")
    a, b, c, d, e, f = (params.real(f"transform[{i}]", term, -np.inf) for i, term in enumerate(terms))
    if a * e == b * d:
        raise InvalidArgument(f"transform is {params.shown(transform)}, which makes areas 0; allowed: another one")
    return a, b, c, d, e, f


def features(
    leaves: npt.NDArray[np.void], height: int, width: int, affine: Affine | None = None, flat: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the leaves as GeoJSON features clipped to the picture; `flat` stores means as ``mean_1``, ``mean_2``..."""
    for first in range(0, len(leaves), BLOCK):
        some = leaves[first : first + BLOCK]
        left, top, sizes = (some[name].astype(np.int64) for name in ("x", "y", "size"))
        right, bottom = np.minimum(left + sizes, width), np.minimum(top + sizes, height)
        x, y = np.stack([left, right, right, left, left], 1), np.stack([top, top, bottom, bottom, top], 1)
        if affine is not None:
            a, b, c, d, e, f = affine
            x, y = a * x + b * y + c, d * x + e * y + f
            if a * e - b * d < 0:
                x, y = x[:, ::-1], y[:, ::-1]  # exterior rings go left round
        means = some["mean"].reshape(len(some), -1).tolist()
        for ring, size, mean in zip(np.stack([x, y], 2).tolist(), sizes.tolist(), means, strict=True):
            own = {f"mean_{i}": value for i, value in enumerate(mean, 1)} if flat else {"mean": mean}
            yield {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [ring]},
                "properties": {"size": size, **own},
            }
