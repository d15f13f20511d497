"""Palettes by Lloyd's k-means."""

from clquant.kmeans.engine import KMeansPalette

__all__ = ["KMeansPalette"]
