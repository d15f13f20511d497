"""Decomposition of pictures into quadtrees of uniform squares."""

from clquant.quadtree.builder import QuadtreeBuilder
from clquant.quadtree.levels import Level, Levels
from clquant.quadtree.tree import Quadtree

__all__ = ["Level", "Levels", "Quadtree", "QuadtreeBuilder"]
