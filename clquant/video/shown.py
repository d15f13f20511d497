"""Frames as the writers of animations take them, one at a time, and what must be known of all before the first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Shown(NamedTuple):
    """One frame."""

    indices: npt.NDArray[np.unsignedinteger[Any]]  # (H, W)
    rgba: npt.NDArray[np.uint8]  # (n, 4): the colours that they stand for
    delay_ms: int  # how long it stands
    kept: npt.NDArray[np.bool_] | None = None  # (H, W): pixels that keep the colour of the frame before


class About(NamedTuple):
    """Properties that all frames of an animation share."""

    width: int
    height: int
    plays: int  # how often they are shown; 0 for ever
    rgba: npt.NDArray[np.uint8] | None  # (n, 4): their palette, if they have one together
    holes: bool  # whether a palette may have entries of alpha below 128
    opaque: bool  # whether all have alpha 255
    comment: str = ""
    reserve: bool = False  # whether a GIF's tables get an entry for what does not change, so that all share one table
