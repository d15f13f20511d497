"""The parameters of `NeuQuantCL`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color import spaces
from clquant.color.palette import checked_fixed
from clquant.mapping.palette_on_device import METRICS
from clquant.runtime import InvalidArgument, philox4x32, seed_key

MODES = ("parallel", "sequential")
MIN_COLORS, MAX_COLORS = 2, 1024
MAX_REFINE_STEPS = 64


@dataclass(frozen=True)
class NeuQuantParams:
    """The checked arguments of an engine."""

    n_colors: int
    parallel: bool
    sample_factor: int
    metric: str
    conscience: bool
    refine_steps: int
    keep_exact: bool
    fixed: npt.NDArray[np.uint8]  # (f, 4) uint8: the fixed colours
    color_space: str
    seed: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> NeuQuantParams:
        """Check the arguments of an engine, given by their names."""
        n_colors = params.integer("n_colors", given["n_colors"], MIN_COLORS, MAX_COLORS)
        checked = cls(
            n_colors=n_colors,
            parallel=params.choice("mode", given["mode"], MODES) == "parallel",
            sample_factor=params.integer("sample_factor", given["sample_factor"], 1, 30),
            metric=params.choice("metric", given["metric"], METRICS),
            conscience=params.boolean("conscience", given["conscience"]),
            refine_steps=params.integer("refine_steps", given["refine_steps"], 0, MAX_REFINE_STEPS),
            keep_exact=params.boolean("keep_exact", given["keep_exact"]),
            fixed=checked_fixed(given["fixed_colors"], n_colors),
            color_space=params.choice("color_space", given["color_space"], spaces.NAMES),
            seed=params.seed(given["random_state"]),
        )
        if checked.conscience and checked.metric != "l1":
            raise InvalidArgument(f"conscience is True with metric {checked.metric!r}; allowed: metric 'l1'")
        return checked

    @property
    def solid(self) -> npt.NDArray[np.uint8]:
        """The fixed colours that the map works with."""
        return self.fixed[self.fixed[:, 3] > 0]

    @property
    def blended(self) -> bool:
        """Whether some fixed colours are neither opaque nor transparent."""
        return bool(((self.fixed[:, 3] > 0) & (self.fixed[:, 3] < 255)).any())

    @property
    def start(self) -> int:
        """Place of the parallel map's first sample, in 1/2^32 of all pixels."""
        return int(philox4x32(np.zeros(4, np.uint32), seed_key(self.seed))[0]) if self.seed else 0

    @property
    def steps_with_map(self) -> int:
        """Steps of refinement that follow the map's steps; beside fixed colours a map that has these does all."""
        return 0 if len(self.solid) else self.refine_steps
