"""The parameters of `KMeansPalette`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color import spaces
from clquant.color.display import DisplayFormat, checked_format
from clquant.color.palette import MOST_COLORS, checked_colors, checked_fixed
from clquant.color.values import as_rgba, hex_texts
from clquant.kmeans.seeding import INITS, SEEDED
from clquant.kmeans.small_images import MOST_COLORS as MOST_BATCHED
from clquant.runtime import InvalidArgument


@dataclass(frozen=True)
class KMeansParams:
    """The checked arguments of an engine."""

    n_colors: int
    init: str | npt.NDArray[np.uint8]  # a name, or (n_colors, 4) uint8
    n_init: int
    max_iter: int
    tol: float
    swap_rounds: int
    fixed: npt.NDArray[np.uint8]  # (f, 4) uint8
    color_space: str
    display: DisplayFormat | None  # what entries are restricted to
    seed: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> KMeansParams:
        """Check the arguments of an engine, given by their names."""
        n_colors = params.integer("n_colors", given["n_colors"], 1, MOST_COLORS)
        display = checked_format(given["color_format"])
        return cls(
            n_colors=n_colors,
            init=_checked_init(given["init"], n_colors),
            n_init=params.integer("n_init", given["n_init"], 1, 1000),
            max_iter=params.integer("max_iter", given["max_iter"], 1),
            tol=params.real("tol", given["tol"], 0.0, 0.5),
            swap_rounds=params.integer("swap_rounds", given["swap_rounds"], 0, 1000),
            fixed=_displayable(checked_fixed(given["fixed_colors"], n_colors), display),
            color_space=params.choice("color_space", given["color_space"], spaces.NAMES),
            display=display,
            seed=params.seed(given["random_state"]),
        )

    @property
    def solid(self) -> npt.NDArray[np.uint8]:
        """The fixed colours that pixels are mapped to by their distance."""
        return self.fixed[self.fixed[:, 3] > 0]

    @property
    def starts(self) -> int:
        """Number of starts that differ: 1 without random numbers."""
        return self.n_init if isinstance(self.init, str) and self.init in SEEDED else 1

    @property
    def batched(self) -> bool:
        """Whether `clquant.kmeans.small_images` can fit small pictures by these."""
        plain = isinstance(self.init, str) and self.init == INITS[0] and self.color_space == "srgb"
        return plain and self.display is None and len(self.fixed) == 0 and self.n_colors <= MOST_BATCHED


def _checked_init(init: Any, n_colors: int) -> str | npt.NDArray[np.uint8]:
    if isinstance(init, str):
        if init in INITS:
            return init
        names = ", ".join(map(repr, INITS))
        raise InvalidArgument(f"init is {params.shown(init)}; allowed: {names}, or n_colors colours to start from")
    colors = checked_colors(init, "init")
    if len(colors) != n_colors:
        raise InvalidArgument(f"init has {len(colors)} colours; allowed: n_colors = {n_colors}")
    return as_rgba(colors)


def _displayable(fixed: npt.NDArray[np.uint8], display: DisplayFormat | None) -> npt.NDArray[np.uint8]:
    """The fixed colours, if a display has all of them."""
    if display is not None:
        nearest = display.nearest(fixed)
        for number in np.flatnonzero((nearest != fixed).any(axis=1) & (fixed[:, 3] > 0))[:1]:
            text, other = (hex_texts(colors[number : number + 1, :3])[0] for colors in (fixed, nearest))
            raise InvalidArgument(
                f"fixed_colors[{number}] is {text}, which {display.name} does not have; allowed: {other}, its nearest"
            )
    return fixed
