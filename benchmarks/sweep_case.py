"""What the rows of `benchmarks.sweep` work on: one picture in the forms and files that they want."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image

import clquant
from benchmarks.harness import Picture
from clquant import KMeansPalette, NeuQuantCL, QuadtreeBuilder, SpatialPalette, TilePalettes, VQCodec, runtime

ICON = 64
MAP_TILE = 256
ENGINES: dict[str, Callable[..., Any]] = {
    "KMeansPalette": functools.partial(KMeansPalette, 64),
    "NeuQuantCL": functools.partial(NeuQuantCL, 64),
    "SpatialPalette": functools.partial(SpatialPalette, 16),
    "TilePalettes": TilePalettes,
}


class Case:
    """What the rows of one size work on; each thing is made when a row first asks for it."""

    def __init__(self, rgb: Picture, queue: runtime.CommandQueue, folder: pathlib.Path) -> None:
        self.rgb, self.queue, self.folder = rgb, queue, folder
        self.gray = np.ascontiguousarray(rgb[..., 1])
        self.palette, self.engine = functools.cache(self._palette), functools.cache(self._engine)
        self.codec, self.file = functools.cache(self._codec), functools.cache(self._file)

    @functools.cached_property
    def rgba(self) -> Picture:
        """The picture, from transparent above to opaque below."""
        alpha = np.linspace(0, 255, len(self.rgb)).astype(np.uint8)
        return np.dstack([self.rgb, np.broadcast_to(alpha[:, None], self.gray.shape)])

    @functools.cached_property
    def other(self) -> Picture:
        """The picture, a row lower."""
        return np.roll(self.rgb, 1, axis=0)

    @functools.cached_property
    def icons(self) -> list[Picture]:
        """The picture in icons."""
        rows, columns = (max(1, side // ICON) for side in self.gray.shape)
        cuts = [(y * ICON, x * ICON) for y in range(rows) for x in range(columns)]
        return [np.ascontiguousarray(self.rgb[y : y + ICON, x : x + ICON]) for y, x in cuts]

    @functools.cached_property
    def bands(self) -> list[Picture]:
        """The picture in four frames."""
        height = max(1, len(self.rgb) // 4)
        return [np.ascontiguousarray(self.rgb[i * height : (i + 1) * height]) for i in range(min(4, len(self.rgb)))]

    @functools.cached_property
    def device_rgb(self) -> Any:
        """The picture as a PyOpenCL array."""
        array = runtime.Array(self.queue, self.rgb.shape, np.uint8)
        array.set(self.rgb)
        return array

    def _palette(self, colors: int, kind: str = "rgb") -> KMeansPalette:
        """A palette engine that has quickly learned; of ``"rgb"``, ``"rgba"``, or a colour space."""
        space, picture = ("srgb", getattr(self, kind)) if kind in ("rgb", "rgba") else (kind, self.rgb)
        learner = KMeansPalette(colors, max_iter=4, swap_rounds=2, color_space=space, queue=self.queue)
        return learner.fit(picture)

    @functools.cached_property
    def indexed(self) -> clquant.IndexedImage:
        """The picture in 256 colours."""
        return self.palette(256).quantize(self.rgb)

    def _engine(self, name: str) -> Any:
        """One of `ENGINES` that has learned the picture."""
        return ENGINES[name](queue=self.queue).fit(self.rgb)

    @functools.cached_property
    def histogram(self) -> clquant.ColorHistogram:
        """The picture's colours."""
        return clquant.ColorHistogram.of(self.rgb, queue=self.queue)

    @functools.cached_property
    def tree(self) -> clquant.Quadtree:
        """The picture's quadtree."""
        return QuadtreeBuilder(20.0, queue=self.queue).build(self.rgb)

    def _codec(self, size: int, shape: tuple[int, int], kind: str, states: int = 0) -> VQCodec:
        """A codec that has quickly learned a corner of ``"rgb"`` or ``"gray"``."""
        codec = VQCodec(size, shape, state_size=states, max_iter=2, refine=0, queue=self.queue)
        return codec.fit(np.ascontiguousarray(getattr(self, kind)[:512, :512]))

    def _file(self, suffix: str) -> pathlib.Path:
        """The picture, or what the suffix stands for, as a file."""
        path = self.folder / f"picture{suffix}"
        if suffix == ".cqh":
            self.histogram.save(path)
        elif suffix == ".cqt":
            self.tree.save(path)
        elif suffix == ".gif":
            self.animation.save(path)
        elif suffix == ".clvq":
            path.write_bytes(self.codec(256, (4, 4), "gray").compress(self.gray))
        elif suffix == ".npz":
            self.codec(256, (4, 4), "gray").save(path)
        else:
            PIL.Image.fromarray(self.rgb).save(path)
        return path

    @functools.cached_property
    def pyramid(self) -> pathlib.Path:
        """The picture as one zoom of a map, in a folder z/x/y."""
        side = min(MAP_TILE, len(self.rgb))
        across = len(self.rgb) // side
        for y in range(across):
            for x in range(across):
                path = self.folder / "map" / str((across - 1).bit_length()) / str(x) / f"{y}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                tile = self.rgb[y * side : (y + 1) * side, x * side : (x + 1) * side]
                PIL.Image.fromarray(tile).save(path, compress_level=1)
        return self.folder / "map"

    @functools.cached_property
    def animation(self) -> clquant.Animation:
        """Four frames in 64 colours."""
        return clquant.animate(self.bands, 64, queue=self.queue)
