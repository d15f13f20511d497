"""When a region is uniform: the criterion, its threshold as an exact number, and the limits on a node's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clquant import params
from clquant.quadtree.geometry import root_level
from clquant.runtime import InvalidArgument, InvalidType

CRITERIA = ("deviation", "any", "weighted", "luma", "range")  # their places are the numbers in cl/quadtree/quadtree.h
STEPS = 1 << 16  # steps of the threshold a gray level
MAX_THRESHOLD = 255


@dataclass(frozen=True)
class Criterion:
    """The test that makes a node a leaf."""

    name: str  # one of `CRITERIA`
    steps: int  # the threshold in units of 1/65536 gray level
    weights: tuple[int, ...]  # one for each channel where `name` is "weighted", else empty
    floor_level: int  # nodes up to this level are leaves whatever they hold

    @property
    def threshold(self) -> float:
        """The threshold in gray levels; exact, for it has at most 24 bits."""
        return self.steps / STEPS

    @property
    def bound(self) -> int:
        """Return the number that the kernels compare with."""
        # n^2 times the variance is at most bound * n^2 / 2^32; with weights their sum times that. Below 2^48 * 2^12 =
        # 2^60. For "range" the threshold's steps themselves.
        if self.name == "range":
            return self.steps
        return self.steps**2 * (sum(self.weights) or 1)

    def constants(self, channels: int) -> dict[str, int | str]:
        """Return the compile-time constants that `cl/quadtree/quadtree.h` needs."""
        # Gray is its own luma, so the deviation of its one channel decides.
        name = "deviation" if self.name == "luma" and channels == 1 else self.name
        return {
            "CHANNELS": channels,
            "BANDS": self.bands(channels),
            "CRITERION": CRITERIA.index(name),
            "WEIGHT_LIST": ",".join(str(w) for w in self.weights or (1,) * channels),
        }

    def bands(self, channels: int) -> int:
        """Return how many values are summed for each pixel: the channels, and luma if the criterion needs it."""
        return channels + (self.name == "luma" and channels > 1)


def fixed_threshold(threshold: Any) -> int:
    """Convert a threshold in gray levels to steps of 1/65536, rounded to nearest, ties to even."""
    return round(params.real("threshold", threshold, 0, MAX_THRESHOLD) * STEPS)  # by a power of two: exact


def _check_weights(weights: Any, channels: int) -> tuple[int, ...]:
    array = isinstance(weights, np.ndarray) and weights.ndim == 1
    if not array and (not isinstance(weights, Sequence) or isinstance(weights, str | bytes)):
        raise InvalidType(f"weights is {params.shown(weights)}; allowed: a list or array of one integer per channel")
    if len(weights) != channels:
        raise InvalidArgument(f"weights has {len(weights)} entries; allowed: one per channel, here {channels}")
    checked = tuple(params.integer(f"weights[{i}]", w, 0, 255) for i, w in enumerate(weights))
    if not any(checked):
        raise InvalidArgument("weights are all 0; allowed: at least one above 0")
    return checked


def check(
    threshold: Any,
    name: Any,
    weights: Any,
    min_size: Any,
    max_depth: Any,
    shape: tuple[int, int, int],
) -> Criterion:
    """Check the arguments of `QuadtreeBuilder` for a picture of shape (H, W, C) and return their criterion."""
    height, width, channels = shape
    steps = fixed_threshold(threshold)
    chosen = params.choice("criterion", name, CRITERIA)
    size = params.integer("min_size", min_size, 1, 65536)
    if size & (size - 1):
        raise InvalidArgument(f"min_size is {size}; allowed: a power of two from 1 to 65536")
    floor_level = size.bit_length() - 1
    if max_depth is not None:
        depth = params.integer("max_depth", max_depth, 0)
        floor_level = max(floor_level, root_level(height, width) - depth)
    if chosen == "weighted":
        checked = _check_weights(weights, channels)
    elif weights is None:
        checked = ()
    else:
        raise InvalidArgument(f"weights is given with criterion={chosen!r}; allowed: only with criterion='weighted'")
    if chosen == "luma" and channels not in (1, 3, 4):
        raise InvalidArgument(f"criterion is 'luma' and the picture has {channels} channels; allowed: 1, 3 or 4")
    return Criterion(chosen, steps, checked, min(floor_level, root_level(height, width)))
