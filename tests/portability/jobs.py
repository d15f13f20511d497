"""One small job for each way an engine can take, on fixed inputs: what every runtime must agree on to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import clquant
from clquant import images, runtime
from clquant.palette import engine
from clquant.palette.counting import count_colors
from tests.portability.inputs import flat, noise, photo

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A named job; `small` ones are quick enough for a simulator."""

    name: str
    run: Callable[[runtime.CommandQueue], Result]
    small: bool


def digest(result: Result) -> str:
    """SHA-256 of a result's arrays (name, dtype, shape, bytes, little-endian) and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name, value in sorted(result.items()):
        if isinstance(value, bytes):
            total.update(f"{name} bytes {len(value)}\n".encode() + value)
            continue
        array = np.asarray(value)
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return total.hexdigest()


def _palette_engine(engine: str, picture: Any, *, fit_on: Any = None, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        made = getattr(clquant, engine)(queue=queue, random_state=7, **arguments)
        made.fit(picture if fit_on is None else fit_on)
        return {
            "colors": made.palette_.colors,
            "indices": made.predict(picture),
            "picture": made.transform(picture),
        }

    return run


def _many(pictures: list[Any], **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        palettes = clquant.KMeansPalette(queue=queue, random_state=7, **arguments).fit_many(pictures)
        return {f"colors {i}": palette.colors for i, palette in enumerate(palettes)}

    return run


def _codec(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        codec = clquant.VQCodec(queue=queue, random_state=7, **arguments).fit(picture)
        # The container's bytes are left out: they depend on the zlib that Python was built with.
        return {
            "codebook": codec.codebook_,
            "indices": codec.encode(picture),
            "decoded": codec.decompress(codec.compress(picture)),
        }

    return run


def _halftone(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        return {"halftone": clquant.PinwheelHalftoner(queue=queue, random_state=7, **arguments).transform(picture)}

    return run


def _packed_halftone(picture: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        on_device = runtime.open_session(queue).new_array(picture.shape, np.uint8)
        on_device.set(picture)
        engine = clquant.PinwheelHalftoner(16, queue=queue)
        return {
            "device": engine.transform(on_device, output="bits").get(),
            "host": engine.transform(picture, output="bits"),
        }

    return run


def _serial(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        return {"serial": np.asarray(clquant.floyd_steinberg(picture, queue=queue, **arguments))}

    return run


def _quadtree(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        tree = clquant.QuadtreeBuilder(queue=queue, **arguments).build(picture)
        leaves = tree.leaves()
        fields = {f"leaf {name}": leaves[name] for name in ("x", "y", "size", "mean")}
        return {"array": tree.to_array(), "render": tree.render(), "outline": tree.outline(), **fields}

    return run


def _mapping(
    colors: int, channels: int, color_space: str = "srgb", side: int = 41, dither: str | None = None
) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        table = noise(colors, 1, channels, seed=9).astype(np.uint8).reshape(colors, channels)
        if channels == 4:
            table[0] = 0  # the entry for pixels of alpha 0
        picture, palette = photo(side, side + 26, channels), clquant.Palette(table)
        options = {"color_space": color_space, "dither": dither, "queue": queue}
        return {
            "indices": engine.predict(picture, palette, **options),
            "picture": engine.transform(picture, palette, **options),
        }

    return run


def _counting(picture: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        session = runtime.open_session(queue)
        with session.scope() as scope:
            colors, counts = count_colors(session, scope, [images.read(picture)]).to_host(session)
        return {"colors": colors, "counts": counts}

    return run


_TINY, _ODD, _WIDE = photo(24, 40), photo(61, 83), photo(130, 257)
_BRIEF = {"max_iter": 2, "swap_rounds": 1}  # what a simulator has the patience for
_SIX = clquant.Palette(
    [(0, 0, 0, 255), (255, 255, 255, 255), (0, 160, 0, 255), (0, 0, 255, 255), (255, 0, 0, 255), (0, 0, 0, 0)]
)
_CLEAR = np.array([(9, 9, 9, 0), (200, 60, 20, 100)], np.uint8)
_RGBA, _GRAY, _FLAT = photo(24, 28, 4), photo(64, 72, 1), flat(48, 64, 12)

JOBS = (
    Job("kmeans rgb 8", _palette_engine("KMeansPalette", _TINY, n_colors=8, **_BRIEF), True),
    Job("kmeans rgb 256", _palette_engine("KMeansPalette", _WIDE, n_colors=256), False),
    Job("kmeans rgb 1000", _palette_engine("KMeansPalette", _ODD, n_colors=1000, max_iter=2), False),
    Job("kmeans random", _palette_engine("KMeansPalette", _ODD, n_colors=24, init="random", n_init=2), False),
    Job("kmeans given", _palette_engine("KMeansPalette", _ODD, n_colors=24, init=_TINY.reshape(-1, 3)[::40]), False),
    Job("kmeans oklab", _palette_engine("KMeansPalette", _ODD, n_colors=24, color_space="oklab"), False),
    Job("kmeans fixed", _palette_engine("KMeansPalette", _ODD, n_colors=16, fixed_colors=_SIX.colors[:5]), False),
    Job("kmeans fixed alpha", _palette_engine("KMeansPalette", _RGBA, n_colors=8, fixed_colors=_CLEAR, **_BRIEF), True),
    Job("kmeans rgba", _palette_engine("KMeansPalette", _RGBA, n_colors=16, **_BRIEF), True),
    Job("kmeans gray", _palette_engine("KMeansPalette", _GRAY, n_colors=8, **_BRIEF), True),
    Job("kmeans many", _many([_TINY, photo(20, 20, 1), _FLAT], n_colors=5), True),
    Job("kmeans many 16", _many([_ODD, _TINY, _FLAT], n_colors=16), False),
    Job("kmeans lossless", _palette_engine("KMeansPalette", _FLAT, n_colors=16), True),
    Job("kmeans frames", _palette_engine("KMeansPalette", _ODD, fit_on=[_ODD, _TINY], n_colors=16), False),
    Job("neuquant 8", _palette_engine("NeuQuantCL", _TINY, n_colors=8, sample_factor=30), True),
    Job("neuquant 32", _palette_engine("NeuQuantCL", _TINY, n_colors=32), False),
    Job("neuquant 256", _palette_engine("NeuQuantCL", _WIDE, n_colors=256), False),
    Job("neuquant fixed", _palette_engine("NeuQuantCL", _ODD, n_colors=24, fixed_colors=_SIX.colors[:5]), False),
    Job("neuquant fixed alpha", _palette_engine("NeuQuantCL", _RGBA, n_colors=8, fixed_colors=_CLEAR), False),
    Job("neuquant sequential", _palette_engine("NeuQuantCL", _ODD, n_colors=256, mode="sequential"), False),
    Job("vq gray 4x4", _codec(_GRAY, codebook_size=16), True),
    Job("vq rgb 4x4", _codec(_WIDE, codebook_size=64), False),
    Job("vq rgb 2x3", _codec(_ODD, codebook_size=37, block_shape=(2, 3)), False),
    Job("halftone 8", _halftone(_GRAY, block_size=8), True),
    Job("halftone 16", _halftone(photo(150, 211, 1), block_size=16), False),
    Job("halftone 32 serpentine", _halftone(photo(150, 211, 1), scan="serpentine"), False),
    Job("halftone constant noise", _halftone(_GRAY, block_size=16, weights="constant", noise=0.5), False),
    Job("halftone 4 levels", _halftone(photo(150, 211, 1), levels=4), False),
    Job("halftone bits", _packed_halftone(_GRAY), True),
    Job("halftone rgb", _halftone(_ODD, block_size=16), False),
    Job("halftone 32", _halftone(photo(150, 211, 1)), False),
    Job("halftone 64", _halftone(photo(150, 211, 1), block_size=64), False),
    Job("halftone palette", _halftone(_ODD, block_size=16, palette=_SIX), False),
    Job("halftone palette rgba", _halftone(_RGBA, block_size=8, palette=_SIX, color_space="oklab"), False),
    Job("halftone palette small", _halftone(_TINY, block_size=8, palette=_SIX), True),
    Job("serial gray", _serial(_GRAY), True),
    Job("serial palette", _serial(_ODD, palette=_SIX), False),
    Job("serial palette small", _serial(_TINY, palette=_SIX), True),
    Job("quadtree gray", _quadtree(_GRAY), True),
    Job("quadtree rgb", _quadtree(_ODD, threshold=9.5), True),
    Job("quadtree top-down", _quadtree(_WIDE, method="top-down", max_depth=5), False),
    Job("map 7", _mapping(7, 3), True),
    Job("map 256", _mapping(256, 3), True),
    Job("map 3000", _mapping(3000, 3), False),
    Job("map rgba", _mapping(60, 4), True),
    Job("map by cells", _mapping(256, 3, side=700), False),
    Job("map by cells rgba", _mapping(256, 4, side=700), False),
    Job("map by cells oklab", _mapping(256, 3, "oklab", side=700), False),
    Job("map linear", _mapping(100, 3, "linear"), False),
    Job("map oklab", _mapping(100, 3, "oklab"), False),
    Job("blue noise 16", _mapping(16, 3, dither="blue-noise"), True),
    Job("bayer rgba oklab", _mapping(16, 4, "oklab", dither="bayer8"), True),
    Job("bayer by cells linear", _mapping(256, 3, "linear", side=700, dither="bayer16"), False),
    Job("count rgb", _counting(_ODD), True),
    Job("count rgba", _counting(_RGBA), True),
)
