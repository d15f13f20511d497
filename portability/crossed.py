"""Jobs for what the engines' own leave apart: channels, alignment, criteria, palettes and block shapes, crossed.

The offline builds are of the constants that jobs pass, so that what a public call can pass needs a job here or there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import clquant
from clquant import runtime
from clquant.mapping.error import mean_squared_error
from clquant.palette import engine
from portability.inputs import noise, photo

Result = Mapping[str, Any]


def _trees(picture: Any, *criteria: str, **arguments: Any) -> Callable[..., Result]:
    """A picture's statistics by several criteria, and the leaves alone by the first, both ways."""

    def run(queue: runtime.CommandQueue) -> Result:
        made: dict[str, Any] = {}
        channels = picture.shape[2] if picture.ndim == 3 else 1
        for criterion in criteria:
            weights = [(3 + 50 * c) % 256 for c in range(channels)] if criterion == "weighted" else None
            options = {"criterion": criterion, "weights": weights, "queue": queue, **arguments}
            tree = clquant.QuadtreeBuilder(14, **options).build(picture)
            made[criterion] = tree.to_bytes()
            made |= {f"{criterion} {i} sums": level.sums for i, level in enumerate(tree.levels)}
            made |= {f"{criterion} {i} squares": level.squares for i, level in enumerate(tree.levels)}
            if criterion == criteria[0]:
                for method in ("bottom-up", "top-down"):
                    leaves = clquant.QuadtreeBuilder(14, method=method, **options).leaves(picture)
                    made |= {f"{method} {name}": leaves[name] for name in ("x", "y", "size", "mean")}
        return made

    return run


def _crossed(spaces: tuple[str, ...], *cases: tuple[Any, clquant.Palette]) -> Callable[..., Result]:
    """All that maps pictures to palettes, each case in each space."""

    def run(queue: runtime.CommandQueue) -> Result:
        made: dict[str, Any] = {}
        for number, (picture, palette) in enumerate(cases):
            for space in spaces:
                name, options = f"{number} {space}", {"color_space": space, "queue": queue}
                halftoner = clquant.PinwheelHalftoner(8, palette=palette, random_state=7, **options)
                made[f"{name} nearest"] = engine.predict(picture, palette, **options)
                made[f"{name} ordered"] = engine.predict(picture, palette, dither="bayer4", **options)
                made[f"{name} error"] = mean_squared_error(picture, palette, **options)
                made[f"{name} halftone"] = halftoner.transform(picture)
                made[f"{name} serial"] = np.asarray(clquant.floyd_steinberg(picture, palette=palette, **options))
        return made

    return run


def _codecs(queue: runtime.CommandQueue) -> Result:
    """Blocks that are large, tiny or alone, and more codewords than a byte counts."""
    made: dict[str, Any] = {}
    cases = ((_GRAY, (8, 8), 24), (_GRAY, (1, 2), 300), (_ODD, (16, 16), 8), (_RGBA, (4, 4), 20), (_TINY, (4, 4), 12))
    for number, (picture, shape, size) in enumerate(cases):
        codec = clquant.VQCodec(size, shape, refine=0, queue=queue, random_state=7).fit(picture)
        table = codec.encode(picture)
        made |= {
            f"{number} codebook": codec.codebook_,
            f"{number} table": table,
            f"{number} decoded": codec.decode(table),
        }
    return made


_TINY, _ODD, _GRAY, _RGBA = photo(24, 40), photo(61, 83), photo(64, 72, 1), photo(24, 28, 4)
_FIVE = np.concatenate([photo(40, 56), photo(40, 56, seed=5)[..., :2]], axis=-1)
_SIXTEEN = np.concatenate([photo(37, 41, 4, seed=seed) for seed in range(4)], axis=-1)
_CLEAR = clquant.Palette(
    [(0, 0, 0, 255), (255, 255, 255, 255), (0, 160, 0, 255), (0, 0, 255, 255), (255, 0, 0, 255), (0, 0, 0, 0)]
)
_OPAQUE = clquant.Palette(_CLEAR.colors[:5, :3])
_MANY = clquant.Palette(noise(300, 1, 3, seed=9).astype(np.uint8).reshape(300, 3))

# Of quadtrees, by name: channels, rows of whole words or not. Each has whole tiles and tiles that the edge cuts.
CROSSED: Mapping[str, Callable[[runtime.CommandQueue], Result]] = {
    "quadtree rgb words": _trees(photo(66, 68), "deviation", "any", "weighted", "luma", "range"),
    "quadtree rgb bytes": _trees(photo(66, 69), "luma", "any", "range"),
    "quadtree rgba": _trees(photo(66, 69, 4), "deviation", "any", "weighted", "luma", "range"),
    "quadtree gray words": _trees(photo(66, 68, 1), "range", "deviation", "any"),
    "quadtree gray bytes": _trees(photo(66, 69, 1), "deviation", "range"),
    "quadtree two bands": _trees(photo(66, 69)[..., :2], "deviation", "range"),
    "quadtree five bands": _trees(_FIVE, "deviation", "weighted"),
    "quadtree sixteen bands": _trees(_SIXTEEN, "weighted", "deviation", "range"),
    "palettes of gray": _crossed(("srgb", "oklab"), (_GRAY, _OPAQUE), (_GRAY, _CLEAR)),
    "palettes of rgb": _crossed(("srgb", "linear", "oklab"), (_TINY, _OPAQUE)),
    "palettes with alpha": _crossed(("srgb", "linear"), (_TINY, _CLEAR), (_RGBA, _CLEAR)),
    "palettes of 300": _crossed(("srgb",), (_TINY, _MANY), (_GRAY, _MANY)),
    "vq shapes": _codecs,
}
