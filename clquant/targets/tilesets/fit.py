"""One call of `TilePalettes.fit`: palettes and the choice among them, in turns."""

# Lloyd's algorithm on two levels: every tile takes the palette that it costs least in, then every entry moves to the
# mean of the pixels that are nearest to it in the tiles of its palette. The first palettes are those of clusters of
# tiles, by their mean colours, and by these and the mean deviations from them. Then the palette that is missed least is
# given up for a second one for a part of the tiles of the palette that costs most; what lowers the cost stays.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color.display import nearest_displayable
from clquant.images import Picture
from clquant.palette.host_clusters import centers_of, sample_of, stretches
from clquant.runtime import Buffer, Progress, Scope, philox4x32, seed_key
from clquant.targets.tilesets.params import TileParams
from clquant.targets.tilesets.steps import TileSteps

MOST_PIXELS = 1 << 17  # that palettes are learned from; if there are more, tiles are drawn at random
_STEPS, _LAST_STEPS, _SHOWN_STEPS = 5, 30, 12  # after each start and swap, at the end, and over 8-bit colours
_FALL = 10_000  # steps end where the cost falls by less than this part of it
_DRAW_TILES = 0x7469_6C70

Int = npt.NDArray[np.int64]
Colors = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Choice:
    """Costs of tiles in palettes, and the palettes chosen."""

    costs: Int  # (tiles, palettes) int64
    chosen: Int  # (tiles,) int64: the palette of each

    @property
    def total(self) -> int:
        """The cost of all tiles in their palettes."""
        return int(self.costs.min(axis=1).sum())


class TileFit:
    """Palettes for tiles on the device."""

    def __init__(
        self, given: TileParams, steps: TileSteps, scope: Scope, pictures: Sequence[Picture], reserved: bool
    ) -> None:
        self._given = given
        self._device = steps
        self._reserved = reserved
        tiles = drawn_tiles([math.prod(steps.grid(p.height, p.width)) for p in pictures], steps.size, given.seed)
        self._count = sum(map(len, tiles))
        self._points: Buffer = steps.points(scope, pictures, tiles)
        self.steps = 0
        points = steps.session.download(self._points, (self._count, steps.size, 4), np.int32)
        self._there = points[..., 3] > 0
        self._places = points[..., :3].astype(np.int64)
        self._opaque = self._places[self._there]
        self._axes = np.ascontiguousarray(self._opaque.T, np.float64)  # as sums take them

    def run(self, progress: Progress) -> tuple[Colors, int]:
        """The palettes, and what the tiles that were learned from cost in units of the points."""
        total = self._given.rounds + 2
        best, choice = self._settled(self._start(self._means()), _STEPS)
        progress.report(1, total)
        other, found = self._settled(self._start(self._features()), _STEPS)
        if found.total < choice.total:
            best, choice = other, found
        rank = 0
        for number in range(self._given.rounds):
            progress.report(2 + number, total)
            swapped = self._swapped(best, choice, rank, number)
            if swapped is None:
                break
            other, found = self._settled(swapped, _STEPS)
            rank += 1
            if found.total < choice.total:
                best, choice, rank = other, found, 0
        return self.shown(self._settled(best, _LAST_STEPS)[0])

    def shown(self, centers: Int) -> tuple[Colors, int]:
        """8-bit colours, as the display has them, after steps that keep them so; and their cost."""
        best = self._as_colors(centers)
        colors, lowest = best, None
        for _ in range(_SHOWN_STEPS):
            places = self._as_places(colors)
            choice = self._choice(places)
            if lowest is not None and choice.total >= lowest:
                break
            best, lowest = colors, choice.total
            colors = self._as_colors(self._moved(places, choice))
            if np.array_equal(colors, best):
                break
        return best, int(lowest or 0)

    def cost(self, colors: Colors) -> int:
        """Return the cost of all tiles in their best palettes."""
        return self._choice(self._as_places(colors)).total

    def _as_colors(self, centers: Int) -> Colors:
        steps, display = self._device, self._given.display
        flat = centers.reshape(-1, 3)
        if display is None:
            colors = steps.space.colors((flat + steps.scale // 2) // steps.scale)
        else:
            colors = nearest_displayable(display, steps.space, flat, steps.scale)
        shaped: Colors = colors.reshape(centers.shape).copy()
        if self._given.shared is not None:
            shaped[:, 0] = self._given.shared
        return shaped

    def _as_places(self, colors: Colors) -> Int:
        places = self._device.space.coordinates(colors.reshape(-1, 3)).astype(np.int64) * self._device.scale
        return np.asarray(places.reshape(colors.shape), np.int64)

    def _choice(self, centers: Int) -> Choice:
        steps, palettes = self._device, len(centers)
        with steps.session.scope() as scope:
            sent = steps.centers(scope, centers)
            costs = steps.costs(scope, self._points, self._count, sent, palettes)
            found = steps.session.download(costs, (self._count, palettes), np.uint32).astype(np.int64)
        return Choice(found, found.argmin(axis=1))

    def _settled(self, centers: Int, most: int) -> tuple[Int, Choice]:
        """Move centers by at most so many steps, while the cost falls; return them and the last choice."""
        choice = self._choice(centers)
        for _ in range(most):
            moved = self._moved(centers, choice)
            after = self._choice(moved)
            self.steps += 1
            if after.total >= choice.total:
                break
            fell = choice.total - after.total
            centers, choice = moved, after
            if fell * _FALL < choice.total:
                break
        return centers, choice

    def _moved(self, centers: Int, choice: Choice) -> Int:
        """Move centers to the means of their pixels, rounded half up; those without pixels by `_fill`."""
        steps, (palettes, colors, _) = self._device, centers.shape
        with steps.session.scope() as scope:
            chosen = scope.copy_of(choice.chosen.astype(np.uint16))
            sent = steps.centers(scope, centers)
            entries = steps.entries(scope, self._points, self._count, sent, chosen)
            found = steps.session.download(entries, (self._count, steps.size), np.uint16)[self._there]
        # Sums are below 2^53, which fp64 holds: 2^17 pixels of less than 2^12.
        total = np.bincount(found, minlength=palettes * colors).reshape(palettes, colors)
        axes = [np.bincount(found, axis, palettes * colors) for axis in self._axes]
        sums = np.stack(axes, axis=1).astype(np.int64).reshape(centers.shape)
        if self._given.learns_shared and not self._reserved:
            total[:, 0], sums[:, 0] = total[:, 0].sum(), sums[:, 0].sum(axis=0)
        means: Int = (2 * sums + total[..., None]) // np.maximum(2 * total, 1)[..., None]
        moved: Int = np.where(total[..., None] > 0, means, centers)
        if self._reserved or self._given.shared is not None:
            moved[:, 0] = centers[:, 0]
        self._fill(moved, centers, total, found)
        return moved

    def _fill(self, moved: Int, centers: Int, total: Int, found: npt.NDArray[np.uint16]) -> None:
        """Move entries without pixels to the pixels of their palette that are farthest from their entries."""
        empty = total == 0
        empty[:, : self._taken] = False
        if not empty.any():
            return
        colors, places = centers.shape[1], self._opaque
        distances = ((places - centers.reshape(-1, 3)[found]) ** 2).sum(axis=1)
        for palette in np.flatnonzero(empty.any(axis=1)):
            mine = np.flatnonzero(found // colors == palette)
            wanted = np.flatnonzero(empty[palette])
            far = mine[np.argsort(-distances[mine], kind="stable")]
            at = np.unique(_packed(places[far]), return_index=True)[1]
            farthest = far[np.sort(at)]
            farthest = farthest[distances[farthest] > 0][: len(wanted)]
            moved[palette, wanted[: len(farthest)]] = places[farthest]

    @property
    def _taken(self) -> int:
        """First entries that are not learned for each palette alone."""
        return int(self._reserved or self._given.shared is not None or self._given.learns_shared)

    def _means(self) -> Int:
        """(tiles, 3): mean places of tiles; 0 for those without opaque pixels."""
        number = np.maximum(self._there.sum(axis=1), 1)[:, None]
        return np.asarray(np.where(self._there[..., None], self._places, 0).sum(axis=1) // number, np.int64)

    def _features(self) -> Int:
        """(tiles, 6): mean places of tiles and mean distances to them on each axis, halved."""
        means = self._means()
        number = np.maximum(self._there.sum(axis=1), 1)[:, None]
        apart = np.where(self._there[..., None], np.abs(self._places - means[:, None]), 0).sum(axis=1) // number
        return np.concatenate([means, apart], axis=1) // 2

    def _start(self, features: Int) -> Int:
        """Palettes of clusters of tiles."""
        palettes, seed = self._given.n_palettes, self._given.seed
        label, shared = _clusters(features, palettes, seed), self._first_shared()
        return np.stack([self._palette(np.flatnonzero(label == one), shared, seed) for one in range(palettes)])

    def _first_shared(self) -> Int:
        """(0 or 1, 3): where the shared entry begins."""
        if self._reserved:
            return np.zeros((1, 3), np.int64)
        if self._given.shared is not None:
            return self._as_places(self._given.shared[None, None])[0]  # type: ignore[no-any-return]
        if not self._given.learns_shared:
            return np.zeros((0, 3), np.int64)
        distinct, counts = np.unique(self._opaque, axis=0, return_counts=True)
        return np.asarray(distinct[[int(counts.argmax())]], np.int64)

    def _palette(self, tiles: Int, shared: Int, seed: int) -> Int:
        """(n_colors, 3): a palette of some tiles by k-means."""
        wanted = self._given.n_colors
        places = self._places[tiles][self._there[tiles]]
        free = np.zeros((0, 3), np.int64)
        if len(places):
            distinct, counts = np.unique(_packed(places), return_counts=True)
            which, weights = sample_of(counts.astype(np.uint32), seed)
            fixed = shared[:0] if self._reserved else shared
            points = _unpacked(distinct[which])
            free = centers_of(points, weights, fixed, wanted - len(shared), seed)[len(fixed) :]
        missing = wanted - len(shared) - len(free)
        # Equal to the first free entry, so nearest to no pixel: ties go to the first.
        filler = np.repeat(free[:1] if len(free) else np.zeros((1, 3), np.int64), missing, axis=0)
        return np.concatenate([shared, free, filler])

    def _swapped(self, centers: Int, choice: Choice, rank: int, number: int) -> Int | None:
        """Palettes of which one is given up for a second one of another's tiles; None if nothing is left to try."""
        palettes = len(centers)
        ordered = np.sort(choice.costs, axis=1)
        if palettes < 2:
            return None
        loss, cost = np.zeros(palettes, np.int64), np.zeros(palettes, np.int64)
        np.add.at(loss, choice.chosen, ordered[:, 1] - ordered[:, 0])
        np.add.at(cost, choice.chosen, ordered[:, 0])
        pairs = [(2 * int(loss[a]) - int(cost[b]), a, b) for a in range(palettes) for b in range(palettes) if a != b]
        pairs = [pair for pair in sorted(pairs) if (choice.chosen == pair[2]).sum() > 1]
        if rank >= len(pairs):
            return None
        _, given_up, split = pairs[rank]
        tiles = np.flatnonzero(choice.chosen == split)
        seed = (self._given.seed + number + 1) % 2**64
        label = _clusters(self._features()[tiles], 2, seed)
        shared = centers[0, : self._taken]
        swapped: Int = centers.copy()
        swapped[split] = self._palette(tiles[label == 0], shared, seed)
        swapped[given_up] = self._palette(tiles[label == 1], shared, seed) if label.any() else centers[given_up]
        return swapped


def _clusters(features: Int, count: int, seed: int) -> Int:
    """The cluster of each row of features, by k-means."""
    none = np.zeros((0, features.shape[1]), np.int64)
    centers = centers_of(features, np.ones(len(features), np.int64), none, count, seed)
    return np.asarray(((features[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1), np.int64)


def drawn_tiles(counts: Sequence[int], size: int, seed: int) -> list[npt.NDArray[np.uint32]]:
    """Choose the tiles to learn from: all, or of many some drawn by position."""
    ends = np.cumsum(counts)
    wanted = MOST_PIXELS // size
    if int(ends[-1]) <= wanted:
        return [np.arange(count, dtype=np.uint32) for count in counts]
    counters = np.zeros((wanted, 4), np.uint32)
    counters[:, 0], counters[:, 3] = np.arange(wanted), _DRAW_TILES
    drawn = stretches(int(ends[-1]), philox4x32(counters, seed_key(seed))[:, 0])
    begins = ends - np.asarray(counts)
    parts = [drawn[(drawn >= begin) & (drawn < end)] - begin for begin, end in zip(begins, ends, strict=True)]
    return [np.unique(part).astype(np.uint32) for part in parts]


def _packed(places: Int) -> Int:
    return places[:, 0] << 24 | places[:, 1] << 12 | places[:, 2]


def _unpacked(packed: Int) -> Int:
    return np.stack([packed >> 24, packed >> 12 & 4095, packed & 4095], axis=1)
