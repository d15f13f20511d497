"""One call of `SpatialPalette.fit`: its parameters, checked, and its steps in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.color import spaces
from clquant.color.palette import Palette, checked_fixed, without
from clquant.color.spaces import Space
from clquant.color.values import as_rgba
from clquant.dithering import opponent
from clquant.dithering.eye import eye_kernel
from clquant.dithering.phase_planes import PhasePlanes
from clquant.dithering.search import MOST_SHARPNESS, REACH, WIDTH
from clquant.dithering.search_steps import SearchPalette, ToggleSearch
from clquant.histogram.counting import count_colors
from clquant.histogram.counts import ColorCounts
from clquant.histogram.weights import checked_weights
from clquant.palette.host_clusters import centers_of, sample_of
from clquant.palette.opaque_entries import settle_opaque
from clquant.runtime import Progress, ProgressCallback, Session, open_session
from clquant.spatial.atlas import Atlas, Patch, atlas_of, parts_of, uneven, weighted_parts
from clquant.spatial.solve import UNIT, best_changes
from clquant.spatial.statistics import statistics

MOST_COLORS = 256
MOST_ROUNDS = 64
# Passes of the search in a round.
PASSES = 2

Colors = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.unsignedinteger]


class SpatialFit:
    """One call of `SpatialPalette.fit`: checked parameters and pictures."""

    def __init__(
        self, given: Mapping[str, Any], sources: Any, sample_weight: Any, progress: ProgressCallback | None
    ) -> None:
        self._n_colors = params.integer("n_colors", given["n_colors"], 2, MOST_COLORS)
        self._rounds = params.integer("rounds", given["rounds"], 1, MOST_ROUNDS)
        self._sharpness = params.real("sharpness", given["sharpness"], 0, MOST_SHARPNESS)
        self._color_space = params.choice("color_space", given["color_space"], spaces.NAMES)
        self._fixed = checked_fixed(given["fixed_colors"], self._n_colors)
        self._seed = params.seed(given["random_state"])
        self._progress = Progress(params.callback("progress", progress))
        self._pictures = images.read_many(sources)
        self._weights = uneven(checked_weights(sample_weight, self._pictures, sources)[0])
        self._session: Session = open_session(given["queue"], images.device_arrays(self._pictures))

    def run(self) -> Palette:
        """The palette: the transparent entry if there is one, the fixed colours, then the others."""
        session, fixed = self._session, self._fixed
        solid = fixed[fixed[:, 3] > 0]
        with session.scope() as scope:
            self._pictures = images.sent_together(session, scope, self._pictures)
            counts = count_colors(session, scope, self._pictures, self._weights)
            clear = len(fixed) - len(solid)
            reserved = int(counts.clear and clear == 0)
            k = self._n_colors - reserved - clear
            found, times = counts.to_host(session)
            # If there are more colours than entries, some get none, whichever are fixed.
            rest = without(found, solid) if counts.n_colors <= k else found
            exact = len(solid) + len(rest) <= k
            learned = rest if exact else self._learn(counts, found, times, solid, k)
            self._progress.report(self._rounds, self._rounds)
        colors = np.concatenate([np.zeros((reserved, 4), np.uint8), fixed, learned])
        return Palette(colors if (colors[:, 3] < 255).any() else colors[:, :3])

    def _learn(self, counts: ColorCounts, found: Colors, times: Counts, solid: Colors, k: int) -> Colors:
        """(n, 4) uint8: k colours less those that are fixed."""
        session = self._session
        space = spaces.space(self._color_space, counts.partial or bool((solid[:, 3] < 255).any()))
        which, weights = sample_of(times, self._seed)

        def settle(colors: Colors) -> Colors:
            if not counts.partial:
                return colors
            return settle_opaque(colors, len(solid), space.coordinates(found[which]), weights, space)

        colors = settle(np.concatenate([solid, self._start(space, found, times, solid, k)]))
        free = np.arange(len(colors)) >= len(solid)
        gray = all(picture.channels == 1 for picture in self._pictures)
        with session.scope() as scope:
            atlas = atlas_of(session, scope, self._parts())
            for number in range(self._rounds):
                self._progress.report(number, self._rounds)
                moved = self._refit(atlas, space, colors, free)
                if gray:
                    moved[:, :3] = moved[:, 1:2]
                moved[~free] = solid
                moved = settle(moved)
                if np.array_equal(moved, colors):
                    break
                colors = moved
        return colors[free]

    def _parts(self) -> list[Patch]:
        """The parts of pictures to learn from."""
        if self._weights is None:
            return parts_of(self._pictures, self._seed)
        return weighted_parts(self._session, self._pictures, self._seed, self._weights)

    def _start(self, space: Space, found: Colors, times: Counts, solid: Colors, k: int) -> Colors:
        """The colours before the first round."""
        which, weights = sample_of(times, self._seed)
        points = opponent.points(space, found[which])
        pinned = opponent.points(space, solid)
        centers = centers_of(points, weights, pinned, k - len(solid), self._seed)[len(solid) :]
        colors = as_rgba(opponent.colors(space, centers))
        missing = k - len(solid) - len(colors)
        return np.concatenate([colors, found[np.arange(missing) * len(found) // max(missing, 1)]])

    def _refit(self, atlas: Atlas, space: Space, colors: Colors, free: npt.NDArray[np.bool_]) -> Colors:
        """The colours that reproduce the picture best with the entries that the search chose."""
        session = self._session
        kernel = eye_kernel(REACH, WIDTH, self._sharpness, opponent.most_error(space))
        with session.scope() as scope:
            palette = SearchPalette(session, scope, Palette(colors), space)
            search = ToggleSearch(scope, palette, PhasePlanes(atlas.rows, atlas.columns), kernel)
            search.begin(atlas.pixels, atlas.channels)
            for _ in range(PASSES):
                search.improve()
            found = statistics(session, search, kernel, len(colors), space.dims)
        changes = best_changes(found, int(kernel[REACH, REACH]), free)
        return as_rgba(opponent.colors(space, opponent.points(space, colors) * UNIT + changes, UNIT))
