"""Rows of colours or vectors are refused where a picture is asked for: as a gray picture they would give nonsense.

Rows is what a two-dimensional array of at least `FEWEST_ROWS` rows is if it is more than `STEEP` times as high as wide
and has 3 or 4 columns or floats, or more than `STEEPEST` times and 2 to `MOST_COLUMNS` columns. Files and PIL images
are pictures whatever their sides, and so is an array (H, W, 1).
"""

from __future__ import annotations

import math
from typing import Any

from clquant.runtime import InvalidArgument

FEWEST_ROWS = 65
STEEP = 4
STEEPEST = 32
MOST_COLUMNS = 2048  # of vectors; more are a line scan


def refuse_rows(source: Any, argument: str = "image") -> None:
    """Refuse an array that holds rows instead of a gray picture."""
    shape = getattr(source, "shape", None)
    if getattr(source, "ndim", None) != 2 or not isinstance(shape, tuple) or any(map(math.isnan, shape)):
        return
    rows, columns = shape
    steep = STEEP if columns in (3, 4) or "float" in str(getattr(source, "dtype", "")) else STEEPEST
    if not 2 <= columns <= MOST_COLUMNS or rows < FEWEST_ROWS or rows <= steep * columns:
        return
    pixels = f"reshape(h, w, {columns}) for pixels of a picture, " if columns in (3, 4) else ""
    gray = f"reshape({rows}, {columns}, 1)" if hasattr(source, "reshape") else f"the shape ({rows}, {columns}, 1)"
    raise InvalidArgument(
        f"{argument} has the shape {shape}, which looks like rows and no gray picture; allowed: {pixels}"
        f"for vectors clquant.VectorQuantizer, for a gray picture {gray}"
    )
