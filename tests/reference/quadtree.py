"""Quadtree decomposition by recursion: Masina and Stedile, Algorithms 1 (top-down) and 2 (bottom-up).

Integers and fractions throughout, so no sum is ever rounded. Where the paper pads a picture with zeros, pixels
outside the picture count for nothing here and a region wholly outside does not exist. A region is written as
(x, y, size) with its top-left pixel and its side; `fork` nodes hold their children in the paper's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

ORDER = ((0, 0), (1, 0), (1, 1), (0, 1))  # (x, y) steps: top-left, top-right, bottom-right, bottom-left


@dataclass
class Node:
    """A region that meets the picture: exact count, sums and sums of squares per channel, extremes."""

    x: int
    y: int
    size: int
    count: int
    sums: list[int]
    squares: list[int]
    low: list[int]
    high: list[int]
    leaf: bool
    children: list[Node | None] = field(default_factory=list)

    def mean(self) -> list[int]:
        """Channel means rounded half up."""
        return [(2 * s + self.count) // (2 * self.count) for s in self.sums[: len(self.low)]]


def root_side(height: int, width: int) -> int:
    """Smallest power of two that covers the picture."""
    side = 1
    while side < max(height, width):
        side *= 2
    return side


def luma(pixels: np.ndarray) -> np.ndarray:
    """ITU-R BT.601 luma in 16-bit fixed point, rounded half up."""
    values: np.ndarray = (pixels[:, :3] @ np.array([19595, 38470, 7471]) + 32768) >> 16
    return values


def statistics(pixels: np.ndarray, x: int, y: int, size: int) -> Node:
    """The node of one region, from its pixels (H, W, C)."""
    region = pixels[y : y + size, x : x + size].reshape(-1, pixels.shape[2]).astype(np.int64)
    if len(region) == 1:
        return one_pixel(region[0].tolist(), x, y, size)
    node = Node(
        x,
        y,
        size,
        len(region),
        region.sum(0).tolist(),
        (region * region).sum(0).tolist(),
        region.min(0).tolist(),
        region.max(0).tolist(),
        leaf=True,
    )
    if pixels.shape[2] in (3, 4):
        values = luma(region)
        node.sums.append(int(values.sum()))
        node.squares.append(int((values * values).sum()))
    return node


def one_pixel(values: list[int], x: int, y: int, size: int) -> Node:
    """The node of a region that holds a single pixel, of its channels."""
    sums = list(values)
    if len(values) in (3, 4):
        sums.append((19595 * values[0] + 38470 * values[1] + 7471 * values[2] + 32768) >> 16)
    return Node(x, y, size, 1, sums, [value * value for value in sums], values, values, leaf=True)


def merged(children: list[Node], x: int, y: int, size: int) -> Node:
    """The node of the union of the children, from their statistics alone."""
    columns = range(len(children[0].sums))
    channels = range(len(children[0].low))
    return Node(
        x,
        y,
        size,
        sum(child.count for child in children),
        [sum(child.sums[c] for child in children) for c in columns],
        [sum(child.squares[c] for child in children) for c in columns],
        [min(child.low[c] for child in children) for c in channels],
        [max(child.high[c] for child in children) for c in channels],
        leaf=True,
    )


def uniform(node: Node, threshold: Fraction, criterion: str, weights: list[int]) -> bool:
    """Whether the region is to be considered singularly."""
    channels = range(len(node.low))
    if criterion == "range":
        return all(node.high[c] - node.low[c] <= threshold for c in channels)
    # Variances times the square of the count, and the limit with them: integers, which compare faster than fractions.
    variances = [node.count * square - total * total for total, square in zip(node.sums, node.squares, strict=True)]
    limit = threshold.numerator**2 * node.count**2
    scale = threshold.denominator**2
    if criterion == "luma":
        return scale * variances[-1] <= limit
    if criterion == "any":
        return any(scale * variances[c] <= limit for c in channels)
    if criterion == "weighted":
        return scale * sum(weights[c] * variances[c] for c in channels) <= limit * sum(weights)
    return all(scale * variances[c] <= limit for c in channels)


@dataclass
class Decomposition:
    """Pixels (H, W, C) and the rules that stop a split."""

    pixels: np.ndarray
    threshold: Fraction
    criterion: str = "deviation"
    weights: list[int] = field(default_factory=list)
    min_size: int = 1
    max_depth: int | None = None

    def stops(self, node: Node) -> bool:
        """Whether the node is a leaf."""
        side = root_side(*self.pixels.shape[:2])
        deepest = self.max_depth is not None and node.size <= max(1, side >> self.max_depth)
        return node.size <= self.min_size or deepest or uniform(node, self.threshold, self.criterion, self.weights)

    def parts(self, x: int, y: int, size: int) -> list[tuple[int, int, int] | None]:
        """The four subquadrants in the paper's order; None for one wholly outside the picture."""
        half = size // 2
        corners = [(x + dx * half, y + dy * half) for dx, dy in ORDER]
        height, width = self.pixels.shape[:2]
        return [(px, py, half) if px < width and py < height else None for px, py in corners]

    def top_down(self, x: int, y: int, size: int) -> Node:
        """Algorithm 1: split a region that is not uniform."""
        node = statistics(self.pixels, x, y, size)
        node.leaf = size == 1 or self.stops(node)
        if not node.leaf:
            node.children = [part and self.top_down(*part) for part in self.parts(x, y, size)]
        return node

    def bottom_up(self, x: int, y: int, size: int) -> Node:
        """Algorithm 2: merge the children of a region that is uniform."""
        if size == 1:
            return one_pixel(self.pixels[y, x].tolist(), x, y, 1)
        children = [part and self.bottom_up(*part) for part in self.parts(x, y, size)]
        node = merged([child for child in children if child], x, y, size)
        node.leaf = self.stops(node)
        node.children = children
        return node


def leaves(node: Node) -> list[Node]:
    """The leaves in Morton order: top-left, top-right, bottom-left, bottom-right."""
    if node.leaf:
        return [node]
    top_left, top_right, bottom_right, bottom_left = node.children
    return [leaf for child in (top_left, top_right, bottom_left, bottom_right) if child for leaf in leaves(child)]
