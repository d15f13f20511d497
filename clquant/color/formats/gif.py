"""The limits of GIF, and colours with one transparent entry as it holds them; `clquant.video.gif` writes animations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.color.formats import parallel
from clquant.runtime import InvalidArgument

MAX_SIDE = 65535
MAX_COLORS = 256
# A GIF has one transparent entry: colours of less alpha than this become it.
OPAQUE_ALPHA = 128


def with_one_hole(
    indices: npt.NDArray[np.unsignedinteger[Any]], rgba: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint8], int | None]:
    """A picture's indices as a GIF holds them, and the entry that all of alpha below 128 became, if any."""
    if len(rgba) > MAX_COLORS:
        raise InvalidArgument(f"a GIF holds at most {MAX_COLORS} colours; this palette has {len(rgba)}")
    height, width = indices.shape
    if max(height, width) > MAX_SIDE:
        raise InvalidArgument(
            f"a GIF is at most {MAX_SIDE} pixels wide and high; this picture is {width} wide and {height} high"
        )
    clear = np.flatnonzero(rgba[:, 3] < OPAQUE_ALPHA)
    if len(clear) < 2:
        return indices.astype(np.uint8, copy=False), int(clear[0]) if len(clear) else None
    merged = np.arange(len(rgba), dtype=np.uint8)
    merged[clear] = clear[0]
    return parallel.looked_up(merged, indices), int(clear[0])
