"""Leaves as GeoJSON features (RFC 7946), in pixels or in the coordinates of a map."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images.tiff import geo
from clquant.runtime import InvalidArgument

TERMS = 6
BLOCK = 1 << 12  # leaves whose corners are computed at once
LIST = 64  # leaves whose corners are in lists: of more, Python's collector looks at the lists again and again
HALF_TURN = 180  # degrees
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
    leaves: npt.NDArray[np.void],
    height: int,
    width: int,
    affine: Affine | None = None,
    flat: bool = False,
    crs: Any = None,
) -> Iterator[dict[str, Any]]:
    """Yield the leaves as GeoJSON features clipped to the picture; `flat` stores means as ``mean_1``, ``mean_2``...

    With `crs`, the coordinate system that the transform leads to, coordinates are longitude and latitude.
    """
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
        rings = np.stack([x, y], 2) if crs is None else _on_earth(crs, x, y)
        for i in range(0, len(some), LIST):
            part = slice(i, i + LIST)
            means = some["mean"][part].reshape(-1, some["mean"][0].size).tolist()
            for ring, size, mean in zip(rings[part].tolist(), sizes[part].tolist(), means, strict=True):
                own = {f"mean_{i}": value for i, value in enumerate(mean, 1)} if flat else {"mean": mean}
                polygon = {"type": "Polygon", "coordinates": [ring]} if crs is None else _polygon_on_earth(ring)
                yield {"type": "Feature", "geometry": polygon, "properties": {"size": size, **own}}


def texts(found: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of a ``FeatureCollection``, as `json.dumps` writes it, a few features at a time."""
    yield '{"type": "FeatureCollection", "features": ['
    for number, some in enumerate(iter(lambda: list(itertools.islice(found, LIST)), [])):
        yield (", " if number else "") + json.dumps(some)[1:-1]
    yield "]}"


def _on_earth(crs: Any, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Longitudes and latitudes of rings, (n, 5, 2)."""
    rings = geo.to_wgs84(crs, x, y)
    if np.isnan(rings).any():
        ring, corner = np.argwhere(np.isnan(rings[..., 0]))[0]
        place = f"({x[ring, corner]:g}, {y[ring, corner]:g})"
        raise InvalidArgument(f"the transform leads to {place}, which has no longitude and latitude in {crs}")
    return rings


def _polygon_on_earth(ring: list[list[float]]) -> dict[str, Any]:
    """A polygon of one ring; two on either side of 180 degrees of longitude, if it goes over them (RFC 7946, 3.1.9)."""
    west, east = min(x for x, _ in ring), max(x for x, _ in ring)
    if west >= -HALF_TURN and east <= HALF_TURN and east - west <= HALF_TURN:
        return {"type": "Polygon", "coordinates": [ring]}
    is_torn = east - west > HALF_TURN  # some corners beyond 180 degrees have got negative longitudes
    limit = 0 if is_torn else HALF_TURN if west < -HALF_TURN else -HALF_TURN
    whole = [(x + 2 * HALF_TURN if x < limit else x, y) for x, y in ring]
    parts = [_clipped(whole, is_west) for is_west in (True, False)]
    parts[1] = [[x - 2 * HALF_TURN, y] for x, y in parts[1]]
    rings = [[part] for part in parts if part]
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings[0]}
    return {"type": "MultiPolygon", "coordinates": rings}


def _clipped(ring: list[tuple[float, float]], is_west: bool) -> list[list[float]]:
    """The closed part of a convex ring on one side of 180 degrees (Sutherland and Hodgman)."""
    made: list[list[float]] = []
    for (x0, y0), (x1, y1) in itertools.pairwise(ring):
        inside, enters = (x0 <= HALF_TURN) == is_west, (x1 <= HALF_TURN) == is_west
        if inside:
            made.append([x0, y0])
        if inside != enters:
            share = (HALF_TURN - x0) / (x1 - x0)
            made.append([float(HALF_TURN), y0 + share * (y1 - y0)])
    return [*made, made[0]] if made else made
