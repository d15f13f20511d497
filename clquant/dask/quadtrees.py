"""Leaves of quadtrees from Dask arrays: a subtree per aligned square, and the few nodes above them in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import delayed
from dask.highlevelgraph import HighLevelGraph

from clquant import images, params
from clquant.dask.chunks import checked, parts_of
from clquant.dask.work import named, told
from clquant.quadtree import criteria
from clquant.quadtree.builder import QuadtreeBuilder
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.device_layout import record_dtype
from clquant.quadtree.geometry import MAX_CHANNELS, MAX_SIDE, morton, root_level
from clquant.runtime import InvalidArgument

# The least side of a square that becomes a task, as a power of two.
LEAST_LEVEL = 6
_LUMA = np.array([19595, 38470, 7471], np.int64)


@dataclass(frozen=True)
class Node:
    """The values by which a node above the subtrees is split or not."""

    pixels: int  # inside the picture
    sums: tuple[int, ...]  # of each channel, and of luma if the criterion needs it
    squares: tuple[int, ...]  # likewise
    least: tuple[int, ...]  # of each channel
    greatest: tuple[int, ...]  # likewise

    def joined(self, other: Node) -> Node:
        """Return the node of both regions."""
        return Node(
            self.pixels + other.pixels,
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            tuple(a + b for a, b in zip(self.squares, other.squares, strict=True)),
            tuple(map(min, self.least, other.least)),
            tuple(map(max, self.greatest, other.greatest)),
        )


@dataclass(frozen=True)
class Subtree:
    """The leaves of an aligned square, and its root."""

    leaves: npt.NDArray[np.void]
    root: Node


def leaves(image: Any, engine: QuadtreeBuilder) -> Any:
    """Build the lazy leaves of `QuadtreeBuilder.leaves`: one structured chunk per aligned square, in Morton order."""
    whole = checked(image)
    gray, channels = whole.ndim == 2 or whole.shape[2] == 1, 1 if whole.ndim == 2 else whole.shape[2]
    if max(whole.shape[:2]) > MAX_SIDE or not 1 <= channels <= MAX_CHANNELS:
        raise InvalidArgument(f"image has the shape {whole.shape}; allowed: up to {MAX_SIDE} per side")
    params.choice("method", engine.method, ("bottom-up", "top-down"))
    shape = (whole.shape[0], whole.shape[1], channels)
    given = engine.threshold, engine.criterion, engine.weights, engine.min_size, engine.max_depth
    criterion = criteria.check(*given, shape)
    top = root_level(*shape[:2])
    level = min(max(LEAST_LEVEL, (max(whole.chunksize[:2]) - 1).bit_length()), top)
    floor = min(criterion.floor_level, level)
    own = QuadtreeBuilder(
        engine.threshold, criterion=engine.criterion, weights=engine.weights, min_size=1 << floor, method=engine.method
    )
    places = [(y, x) for y in range(-(-shape[0] >> level)) for x in range(-(-shape[1] >> level))]
    places.sort(key=lambda place: int(morton(np.array([place[1]]), np.array([place[0]]))[0]))
    side = 1 << level
    build, finish = delayed(named(_subtree), pure=True), delayed(_kept, pure=True)
    squares = [
        ((y * side, min((y + 1) * side, shape[0])), (x * side, min((x + 1) * side, shape[1]))) for y, x in places
    ]
    found = [
        build(part, own, criterion, rows[0], columns[0])
        for part, (rows, columns) in zip(parts_of(whole, squares), squares, strict=True)
    ]
    crown = delayed(_crown, pure=True)([part.root for part in found], places, level, top, criterion)
    dtype = record_dtype(channels, gray)
    kept = [
        finish(part, crown, place, (level, top, floor), channels, dtype)
        for part, place in zip(found, places, strict=True)
    ]
    # `dask.array.concatenate` would give the records another layout.
    name = f"leaves-{kept[0].key}"
    graph = HighLevelGraph.from_collections(name, {(name, i): one.key for i, one in enumerate(kept)}, kept)
    return da.Array(graph, name, ((np.nan,) * len(kept),), dtype, meta=np.empty((0,), dtype))


def _subtree(part: npt.NDArray[Any], engine: QuadtreeBuilder, criterion: Criterion, row: int, column: int) -> Subtree:
    with told(f"part at row {row}, column {column}"):
        picture: Any = images.read(np.asarray(part), max_channels=MAX_CHANNELS)
        return Subtree(engine.leaves(picture), _root(picture.array, criterion))


def _root(array: npt.NDArray[np.uint8], criterion: Criterion) -> Node:
    """Return the node of a whole square; its sums fit 64 bits: fewer than 2^32 pixels of 8 bits."""
    values = array.reshape(-1, array.shape[2])
    sums = [int(values[:, c].sum(dtype=np.int64)) for c in range(values.shape[1])]
    squares = [int(np.arange(256, dtype=np.int64) ** 2 @ np.bincount(v, minlength=256)) for v in values.T]
    if criterion.bands(values.shape[1]) > values.shape[1]:
        luma = (values[:, :3] @ _LUMA + (1 << 15)) >> 16
        sums.append(int(luma.sum()))
        squares.append(int((luma * luma).sum()))
    least, greatest = (tuple(int(v) for v in values.max(0)) for values in (255 - values, values))
    return Node(len(values), tuple(sums), tuple(squares), tuple(255 - v for v in least), greatest)


def is_uniform(node: Node, level: int, criterion: Criterion) -> bool:
    """Whether a node is a leaf, as cl/quadtree/quadtree.h decides it."""
    if level <= criterion.floor_level:
        return True
    if criterion.name == "range":
        widths = (high - low for low, high in zip(node.least, node.greatest, strict=True))
        return all(width << 16 <= criterion.bound for width in widths)
    n = node.pixels
    limit = criterion.bound * n * n >> 32
    scaled = [n * square - total * total for total, square in zip(node.sums, node.squares, strict=True)]
    if criterion.name == "weighted":
        return sum(w * v for w, v in zip(criterion.weights, scaled, strict=True)) <= limit
    if criterion.name == "luma":
        return scaled[-1] <= limit
    within = [value <= limit for value in scaled]
    return any(within) if criterion.name == "any" else all(within)


def _crown(
    roots: list[Node], places: list[tuple[int, int]], level: int, top: int, criterion: Criterion
) -> dict[tuple[int, int, int], Node]:
    """The uniform nodes from the subtrees' roots up, by level, row and column."""
    nodes = dict(zip(places, roots, strict=True))
    uniform: dict[tuple[int, int, int], Node] = {}
    for at in range(level, top + 1):
        if at > level:
            above: dict[tuple[int, int], Node] = {}
            for (y, x), node in nodes.items():
                place = y >> 1, x >> 1
                above[place] = above[place].joined(node) if place in above else node
            nodes = above
        uniform |= {(at, *place): node for place, node in nodes.items() if is_uniform(node, at, criterion)}
    return uniform


def _kept(
    part: Subtree,
    crown: dict[tuple[int, int, int], Node],
    place: tuple[int, int],
    levels: tuple[int, int, int],
    channels: int,
    dtype: np.dtype[np.void],
) -> npt.NDArray[np.void]:
    """Return a subtree's leaves in the picture: none, or one, if a node above is uniform."""
    # `levels` are those of the subtrees' roots, of the picture's root, and the least that a leaf can have.
    (y, x), (level, top, floor) = place, levels
    for at in range(top, level - 1, -1):
        shift = at - level
        node = crown.get((at, y >> shift, x >> shift))
        if node is not None:
            first = (y >> shift << shift, x >> shift << shift) == place
            return _leaf(node, place, level, at, channels, dtype) if first else np.empty((0,), dtype)
    found = np.frombuffer(bytearray(part.leaves.tobytes()), dtype)
    found["x"] += x << level
    found["y"] += y << level
    found["size"] = np.maximum(found["size"], 1 << floor)  # a square that the picture's end cuts has a lower root
    return found


def _leaf(
    node: Node, place: tuple[int, int], level: int, at: int, channels: int, dtype: np.dtype[np.void]
) -> npt.NDArray[np.void]:
    leaf = np.zeros(1, dtype)
    leaf["y"], leaf["x"], leaf["size"] = place[0] << level, place[1] << level, 1 << at
    means = [(2 * total + node.pixels) // (2 * node.pixels) for total in node.sums[:channels]]
    leaf["mean"] = means[0] if leaf["mean"].ndim == 1 else means
    return leaf
