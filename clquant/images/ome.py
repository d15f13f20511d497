"""OME-Zarr: pictures of (time, channel, depth, row, column) in several levels, as (H, W) or (H, W, C)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images.stores import open_store

# The axes in versions of the format that do not name them.
_AXES = ("t", "c", "z", "y", "x")


class Planes:
    """The picture in an array that has its channels, and perhaps times and depths, before its rows."""

    def __init__(self, array: Any, axes: tuple[str, ...]) -> None:
        sides = dict(zip(axes, array.shape, strict=True))
        if axes[-2:] != ("y", "x") or not set(axes) <= set(_AXES):
            raise ValueError(f"its axes are {', '.join(axes)}; allowed: some of t, c, z, and then y, x")
        several = [f"{sides[name]} along {name}" for name in ("t", "z") if sides.get(name, 1) > 1]
        if several:
            raise ValueError(f"it has {' and '.join(several)}; allowed: one (zarr.open gives an array to choose from)")
        self._array, self._axes = array, axes
        channels = sides.get("c", 1)
        self.shape = (sides["y"], sides["x"]) if channels == 1 else (sides["y"], sides["x"], channels)
        self.ndim = len(self.shape)
        self.dtype = array.dtype
        self.chunks = (array.chunks[-2], array.chunks[-1])

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        rows = slice(None) if rows is Ellipsis else rows
        outer = tuple(slice(None) if name == "c" and len(self.shape) == 3 else 0 for name in self._axes[:-2])
        where = (*outer, rows, columns)
        found = np.asarray(self._array[where])
        return found if found.ndim == 2 else np.moveaxis(found, 0, 2)


def picture_of(found: Any, path: str, zarr: Any) -> Any:
    """The array of a store that was opened: of a group its first level."""
    is_group = not hasattr(found, "dtype")
    group = found if is_group else None
    if not is_group and found.ndim > 3:
        above = os.path.dirname(os.path.abspath(path))
        group = open_store(above, zarr) if _is_group(above) else None
    scales = _multiscales(group)
    if is_group:
        found = found[scales["datasets"][0]["path"] if scales else "0"]
    if scales is None:
        return found
    named = tuple(axis["name"] if isinstance(axis, dict) else axis for axis in scales.get("axes", _AXES))
    return found if named[-2:] != ("y", "x") else Planes(found, named)


def _is_group(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in ("zarr.json", ".zgroup"))


def _multiscales(group: Any) -> Any:
    """Return a group's description of its levels, or None."""
    if group is None:
        return None
    attributes = dict(group.attrs)
    listed = attributes.get("ome", attributes).get("multiscales")
    return listed[0] if listed else None
