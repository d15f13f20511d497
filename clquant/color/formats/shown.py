"""Frames as the writers of animations take them, one at a time, and what must be known of all before the first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Shown(NamedTuple):
    """One frame.

    Attributes
    ----------
    indices : ndarray of unsigned integers, shape (H, W)
    rgba : ndarray of uint8, shape (n, 4)
        The colours that they stand for.
    delay_ms : int
        How long it stands.
    kept : ndarray of bool, shape (H, W), or None
        Pixels that keep the colour of the frame before, whatever their indices are.
    """

    indices: npt.NDArray[np.unsignedinteger[Any]]
    rgba: npt.NDArray[np.uint8]
    delay_ms: int
    kept: npt.NDArray[np.bool_] | None = None


class About(NamedTuple):
    """Properties that all frames of an animation share.

    Attributes
    ----------
    width, height : int
    plays : int
        How often they are shown; 0 for ever.
    rgba : ndarray of uint8, shape (n, 4), or None
        Their palette, if they have one together.
    holes, opaque : bool
        Whether a palette may have entries of alpha below 128; whether all have alpha 255.
    comment : str
    reserve : bool
        Whether a GIF's tables get an entry for what does not change, so that no frame needs a table of its own for it.
    """

    width: int
    height: int
    plays: int
    rgba: npt.NDArray[np.uint8] | None
    holes: bool
    opaque: bool
    comment: str = ""
    reserve: bool = False


def bounds(mask: npt.NDArray[np.bool_]) -> tuple[slice, slice]:
    """The smallest rectangle, as (rows, columns), around what is set; one pixel where nothing is."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
