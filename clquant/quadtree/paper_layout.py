"""A tree's nodes in other layouts: the paper's complete array, GeoJSON features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.quadtree.geometry import paper_positions
from clquant.quadtree.levels import Levels


def complete_array(levels: Levels, channels: int) -> npt.NDArray[np.void]:
    """All nodes of the complete tree, the children of i at 4i + 1 to 4i + 4 (see `Quadtree.to_array`)."""
    fields: list[Any] = [("kind", "u1"), ("mean", "u1", (channels,)), ("deviation", "f8", (channels,))]
    nodes = np.zeros((4 ** len(levels) - 1) // 3, fields)
    for depth, level in enumerate(levels):
        at = (4**depth - 1) // 3 + paper_positions(*level.kinds.shape)
        nodes["kind"][at], nodes["mean"][at], nodes["deviation"][at] = level.kinds, level.means, level.deviations
    return nodes


def features(leaves: npt.NDArray[np.void], height: int, width: int) -> Iterator[dict[str, Any]]:
    """The leaves as GeoJSON features, clipped to the picture (see `Quadtree.records`)."""
    places = leaves[["x", "y", "size"]].tolist()
    means = leaves["mean"].reshape(len(leaves), -1).tolist()
    for (x, y, size), mean in zip(places, means, strict=True):
        right, bottom = min(x + size, width), min(y + size, height)
        ring = [[x, y], [right, y], [right, bottom], [x, bottom], [x, y]]
        yield {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": {"size": size, "mean": mean},
        }
