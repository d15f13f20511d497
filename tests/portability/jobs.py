"""One small job for each way an engine can take, on fixed inputs: what every runtime must agree on to the last bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import clquant
from clquant import images, quality, runtime
from clquant.histogram import device_table
from clquant.histogram.counting import count_colors
from clquant.mapping.error import mean_squared_error
from clquant.palette import animation, engine
from tests.portability.crossed import CROSSED
from tests.portability.deep import DEEP, SMALL_DEEP, table_bytes
from tests.portability.inputs import flat, noise, photo

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A named job; `small` ones are quick enough for a simulator. No device has to hold larger buffers than OpenCL
    demands, but hostile limits may be less than the `table_bytes` that a job cannot do without.
    """

    name: str
    run: Callable[[runtime.CommandQueue], Result]
    small: bool
    table_bytes: int = 0


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


def _tiles(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        made = clquant.TilePalettes(queue=queue, random_state=7, **arguments).fit(picture)
        return {"colors": made.palette_.colors, "indices": made.predict(picture)}

    return run


def _many(pictures: list[Any], **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        palettes = clquant.KMeansPalette(queue=queue, random_state=7, **arguments).fit_many(pictures)
        return {f"colors {i}": palette.colors for i, palette in enumerate(palettes)}

    return run


def _histograms(picture: Any, most: int) -> Callable[..., Result]:
    """Palettes of a histogram in two parts, whose counts are so many times those of a picture."""

    def run(queue: runtime.CommandQueue) -> Result:
        made = clquant.KMeansPalette(24, queue=queue, random_state=7)
        half = len(picture) // 2
        parts = [clquant.ColorHistogram.of(part, queue=queue) for part in (picture[half:], picture[:half])]
        colors, counts = sum(parts[1:], parts[0]).to_arrays()
        made.fit_histogram(clquant.ColorHistogram(colors, counts * np.uint64(most)))
        other = clquant.NeuQuantCL(12, queue=queue, random_state=7).fit_histogram(parts[0])
        kept = {"counts": counts, "inertia": np.float64(made.inertia_)}
        return {"kmeans": made.palette_.colors, "neuquant": other.palette_.colors, **kept}

    return run


def _added(picture: Any) -> Callable[..., Result]:
    """Counts of the halves of a picture, added up on the device."""

    def run(queue: runtime.CommandQueue) -> Result:
        session, half = runtime.open_session(queue), len(picture) // 2
        with session.scope() as scope:
            table = device_table.DeviceTable(session, scope)
            for part in (picture[:half], picture[half:]):
                with session.scope() as inner:
                    table.add(count_colors(session, inner, [images.read(part)]))
            found = table.counted()
        return {"codes": found.codes, "counts": found.counts}

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


def _refined(picture: Any, passes: int, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        halftoner = clquant.PinwheelHalftoner(16, queue=queue, random_state=7, **arguments)
        return {"halftone": halftoner.transform(picture, refine=passes)}

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
    colors: int, channels: int, color_space: str = "srgb", side: int = 41, dither: Any = None
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


def _tuned(values: Mapping[str, int], run: Callable[..., Result]) -> Callable[..., Result]:
    """A job of a small picture that goes the way of large ones."""

    def tuned(queue: runtime.CommandQueue) -> Result:
        with runtime.force_tuning(values):
            return run(queue)

    return tuned


def _side_match(picture: Any, tolerance: float, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        codec = clquant.VQCodec(queue=queue, random_state=7, tolerance=tolerance, **arguments).fit(picture)
        file = codec.compress(picture)
        return {
            "file": np.frombuffer(file, np.uint8),
            "decoded": codec.decompress(file),
            "mse": np.float64(codec.mse_),
        }

    return run


def _errors(picture: Any, palette: clquant.Palette) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        spaces = ("srgb", "linear", "oklab")
        return {space: mean_squared_error(picture, palette, color_space=space, queue=queue) for space in spaces}

    return run


def _frames(shared: bool) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        learner = clquant.KMeansPalette(16, queue=queue, random_state=7)
        frames = animation.quantize_frames(learner, [_ODD, 255 - _ODD], shared=shared, dither="bayer4")
        made: dict[str, Any] = {}
        for number, frame in enumerate(frames):
            ordered = frame.sorted("popularity")
            made |= {f"{number} indices": frame.indices, f"{number} colors": frame.palette.colors}
            made |= {f"{number} sorted": ordered.indices, f"{number} hue": frame.palette.sorted("hue").colors}
            made |= {f"{number} sixel": ordered.to_sixel(), f"{number} counts": frame.counts()}
        return made

    return run


def _quality(engine: str, **target: float) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        made = getattr(clquant, engine)(64, queue=queue, random_state=7).fit_quality(_ODD, **target)
        return {"colors": made.palette_.colors}

    return run


def _weighted(queue: runtime.CommandQueue) -> Result:
    weights = (_ODD[..., 0] % 7).astype(np.float64) / 4
    made = clquant.KMeansPalette(12, queue=queue, random_state=7).fit(_ODD, weights)
    codec = clquant.VQCodec(16, queue=queue, random_state=7, refine=0).fit([_TINY, _TINY[::-1]], [1.0, 0.25])
    return {"colors": made.palette_.colors, "inertia": made.inertia_, "codebook": codec.codebook_, "mse": codec.mse_}


def _streamed(queue: runtime.CommandQueue) -> Result:
    made = clquant.KMeansPalette(9, queue=queue, random_state=7).fit(_TINY)
    codec = clquant.VQCodec(16, queue=queue, random_state=7, refine=0).fit(_TINY)
    pictures = [_TINY, _ODD, _TINY[::-1], _ODD[:, ::-1]]
    found = {f"picture {i}": picture for i, picture in enumerate(made.stream(pictures, "transform"))}
    return {**found, **{f"table {i}": table for i, table in enumerate(codec.stream(pictures))}}


def _neuquant_many(queue: runtime.CommandQueue) -> Result:
    made: dict[str, Any] = {}
    for mode in ("parallel", "sequential"):
        engine = clquant.NeuQuantCL(32, mode=mode, queue=queue, random_state=7)
        palettes = engine.fit_many([_ODD, _TINY, _RGBA])
        made |= {f"{mode} {i}": palette.colors for i, palette in enumerate(palettes)}
    few = clquant.NeuQuantCL(5, queue=queue, sample_factor=30).fit_many([_ODD, _TINY, _RGBA])
    return made | {f"few {i}": palette.colors for i, palette in enumerate(few)}


def _measures(picture: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        pictures = picture, (picture // 40 * 40 + 20).astype(np.uint8)
        measures = (quality.mse, quality.ssim, quality.visual_error, quality.blurred_color_difference)
        made = {measure.__name__: np.float64(measure(*pictures, queue=queue)) for measure in measures}
        formulas = ("ciede2000", "oklab")
        return made | {name: np.float64(quality.color_difference(*pictures, name, queue=queue)) for name in formulas}

    return run


def _whole_tree(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        tree = clquant.QuadtreeBuilder(queue=queue, **arguments).build(picture)
        height, width = picture.shape[:2]
        y, x = (part.ravel() for part in np.mgrid[0:height:5, 0:width:7])
        neighbours = [tree.neighbours(leaf) for leaf in range(0, len(tree), 3)]
        return {
            "file": tree.to_bytes(),
            "found": tree.find(x, y),
            "neighbours": np.concatenate(neighbours),
            "geojson": json.dumps(tree.to_geojson(), sort_keys=True).encode(),
            "error": np.int64(tree.squared_error()),
            **{f"frame {i}": frame for i, frame in enumerate(tree.frames())},
            **{f"level {i}": level.means for i, level in enumerate(tree.levels)},
        }

    return run


def _device_codec(queue: runtime.CommandQueue) -> Result:
    codec = clquant.VQCodec(300, (3, 2), init="splitting", refine=1, queue=queue, random_state=7).fit(_RGBA_ODD)
    on_device = runtime.open_session(queue).new_array(_RGBA_ODD.shape, np.uint8)
    on_device.set(_RGBA_ODD)
    table = codec.encode(on_device)
    return {"codebook": codec.codebook_, "table": table.get(), "decoded": codec.decode(table).get()}


def _strided(queue: runtime.CommandQueue) -> Result:
    on_device = runtime.open_session(queue).new_array(_RGBA_ODD.shape, np.uint8)
    on_device.set(_RGBA_ODD)
    return {"indices": engine.predict(on_device[1::2, ::3, :3], _SIX).get()}


def _device_alpha_edges(queue: runtime.CommandQueue) -> Result:
    on_device = runtime.open_session(queue).new_array(_RGBA_ODD.shape, np.uint8)
    on_device.set(_RGBA_ODD)
    return {edges: clquant.alpha_edges(on_device, edges, queue=queue).get() for edges in ("binary", "dithered")}


def _device_spatial(queue: runtime.CommandQueue) -> Result:
    pictures = [_TINY, np.ascontiguousarray(_ODD[:20, :33])]
    on_device = [runtime.open_session(queue).new_array(picture.shape, np.uint8) for picture in pictures]
    for array, picture in zip(on_device, pictures, strict=True):
        array.set(picture)
    made = clquant.SpatialPalette(5, rounds=1, queue=queue).fit(on_device)
    return {"colors": made.palette_.colors, "indices": made.predict(_TINY)}


def _read(queue: runtime.CommandQueue) -> Result:
    """What becomes of the other dtypes; no device takes part."""
    forms = {"bool": _GRAY > 99, "uint16": _ODD.astype(np.uint16) * 201, "float": _ODD / np.float32(255)}
    return {name: images.read(form[:, ::-1]).array for name, form in forms.items()}


_TINY, _ODD, _WIDE = photo(24, 40), photo(61, 83), photo(130, 257)
_BRIEF = {"max_iter": 2, "swap_rounds": 1}  # what a simulator has the patience for
_SIX = clquant.Palette(
    [(0, 0, 0, 255), (255, 255, 255, 255), (0, 160, 0, 255), (0, 0, 255, 255), (255, 0, 0, 255), (0, 0, 0, 0)]
)
_SEQUENTIAL_OKLAB = {"n_colors": 16, "mode": "sequential", "color_space": "oklab"}
_CLEAR = np.array([(9, 9, 9, 0), (200, 60, 20, 100)], np.uint8)
_RGBA, _GRAY, _FLAT = photo(24, 28, 4), photo(64, 72, 1), flat(48, 64, 12)
_RGBA_ODD, _BANDS = photo(61, 83, 4), np.concatenate([photo(40, 56), photo(40, 56, seed=5)], axis=-1)

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
    Job("kmeans rgb565", _palette_engine("KMeansPalette", _ODD, n_colors=24, color_format="rgb565"), False),
    Job("kmeans histogram", _histograms(_ODD, 1), False),
    Job("histogram table", _added(_ODD), False, 8 * device_table.COLORS),
    Job("kmeans histogram wide", _histograms(_RGBA_ODD, 2**39 // _RGBA_ODD[..., 0].size), False),
    Job("kmeans frames", _palette_engine("KMeansPalette", _ODD, fit_on=[_ODD, _TINY], n_colors=16), False),
    Job("neuquant 8", _palette_engine("NeuQuantCL", _TINY, n_colors=8, sample_factor=30), True),
    Job("neuquant starts", _palette_engine("NeuQuantCL", _TINY, n_colors=5, sample_factor=30), True),
    Job("neuquant starts alpha", _palette_engine("NeuQuantCL", _RGBA, n_colors=6, sample_factor=30), False),
    Job("neuquant 32", _palette_engine("NeuQuantCL", _TINY, n_colors=32), False),
    Job("neuquant 256", _palette_engine("NeuQuantCL", _WIDE, n_colors=256), False),
    Job("neuquant fixed", _palette_engine("NeuQuantCL", _ODD, n_colors=24, fixed_colors=_SIX.colors[:5]), False),
    Job("neuquant fixed alpha", _palette_engine("NeuQuantCL", _RGBA, n_colors=8, fixed_colors=_CLEAR), False),
    Job("neuquant sequential", _palette_engine("NeuQuantCL", _ODD, n_colors=256, mode="sequential"), False),
    Job("search 12", _mapping(12, 3, side=9, dither="search"), True),
    Job("search 300 alpha", _mapping(300, 4, "oklab", dither="search"), False),
    Job("search bands", _mapping(16, 3, "linear", side=90, dither=clquant.SearchDither(1, sharpness=2.0)), False),
    Job("spatial 5", _palette_engine("SpatialPalette", photo(16, 20), n_colors=5, rounds=1), True),
    Job("spatial 40", _palette_engine("SpatialPalette", _ODD, n_colors=40), False),
    Job("spatial rgba", _palette_engine("SpatialPalette", _RGBA_ODD, n_colors=9, color_space="linear"), False),
    Job("spatial frames", _palette_engine("SpatialPalette", _ODD, fit_on=[_ODD, _GRAY], n_colors=12), False),
    Job("tiles", _tiles(photo(16, 20), n_palettes=2, n_colors=3, swap_rounds=1), True),
    Job("tiles rgba", _tiles(_RGBA_ODD, n_palettes=4, n_colors=6, color_space="oklab", color_format="rgb555"), False),
    Job("refined", _refined(photo(20, 24, 1), 1), True),
    Job("refined rgba 5 levels", _refined(_RGBA_ODD, 2, levels=5, linear=True), False),
    Job("refined palette", _refined(_ODD, 2, palette=_SIX), False),
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
    Job("halftone blocks of ten", _halftone(photo(150, 211, 1), block_size=10), False),
    Job("halftone palette", _halftone(_ODD, block_size=16, palette=_SIX), False),
    Job("halftone palette rgba", _halftone(_RGBA, block_size=8, palette=_SIX, color_space="oklab"), False),
    Job("halftone palette small", _halftone(_TINY, block_size=8, palette=_SIX), True),
    Job("serial gray", _serial(_GRAY), True),
    Job("serial palette", _serial(_ODD, palette=_SIX), False),
    Job("serial palette small", _serial(_TINY, palette=_SIX), True),
    Job("quadtree gray", _quadtree(_GRAY), True),
    Job("quality gray", _measures(_GRAY), True),
    Job("quality rgb", _measures(_ODD), False),
    Job("quality rgba", _measures(_RGBA), False),
    Job("quadtree rgb", _quadtree(_ODD, threshold=9.5), True),
    Job("quadtree top-down", _quadtree(_WIDE, method="top-down", max_depth=5), False),
    Job("map 7", _mapping(7, 3), True),
    Job("map 256", _mapping(256, 3), True),
    Job("map 3000", _mapping(3000, 3), False),
    Job("map rgba", _mapping(60, 4), True),
    Job("map by cells", _mapping(256, 3, side=700), False),
    Job("map by cells of many", _mapping(600, 3, side=700), False),
    Job("map by cells rgba", _mapping(256, 4, side=700), False),
    Job("map by cells oklab", _mapping(256, 3, "oklab", side=700), False),
    Job("map by table", _tuned({"mapping.table_pays": 1 << 16}, _mapping(200, 3, side=260)), False),
    Job(
        "blue noise by table",
        _tuned({"mapping.table_pays": 1 << 16}, _mapping(100, 4, "oklab", side=720, dither="blue-noise")),
        False,
    ),
    Job(
        "blue noise by pairs",
        _tuned({"mapping.table_pays": 1 << 16}, _mapping(200, 3, side=400, dither="blue-noise")),
        False,
    ),
    Job("map linear", _mapping(100, 3, "linear"), False),
    Job("map oklab", _mapping(100, 3, "oklab"), False),
    Job("blue noise 16", _mapping(16, 3, dither="blue-noise"), True),
    Job("bayer rgba oklab", _mapping(16, 4, "oklab", dither="bayer8"), True),
    Job("bayer by cells linear", _mapping(256, 3, "linear", side=700, dither="bayer16"), False),
    Job("leaky", _mapping(16, 3, dither="leaky"), True),
    Job("stucki rgba oklab", _mapping(60, 4, "oklab", dither="stucki"), True),
    Job("count rgb", _counting(_ODD), True),
    Job("count rgba", _counting(_RGBA), True),
    Job("count by tiles", _tuned({"counting.table_pixels": 0}, _counting(photo(150, 263))), False),
    Job("kmeans boxes", _palette_engine("KMeansPalette", _ODD, n_colors=24, init="wu", color_space="linear"), False),
    Job("kmeans quality", _quality("KMeansPalette", target_psnr=26.0), False),
    Job("kmeans and vq weighted", _weighted, False),
    Job("neuquant quality", _quality("NeuQuantCL", max_mse=150.0), False),
    Job("neuquant many", _neuquant_many, False),
    Job("neuquant conscience", _palette_engine("NeuQuantCL", _RGBA, n_colors=24, metric="l1", conscience=True), False),
    Job("neuquant oklab", _palette_engine("NeuQuantCL", _ODD, n_colors=24, color_space="oklab"), False),
    Job("streams", _streamed, False),
    Job("frames shared", _frames(True), False),
    Job("frames apart", _frames(False), False),
    Job("vq side match", _side_match(photo(16, 20, 1), 9.0, codebook_size=12, state_size=4, refine=0), True),
    Job("vq side match gray", _side_match(_GRAY, 0.0, codebook_size=32, state_size=8), False),
    Job("vq side match rgb", _side_match(_ODD, 30.0, codebook_size=64, block_shape=(2, 3), state_size=5), False),
    Job("vq rgba on the device", _device_codec, False),
    Job("map strided on the device", _strided, True),
    Job("alpha edges on the device", _device_alpha_edges, False),
    Job("spatial on the device", _device_spatial, False),
    Job("halftone linear rgba", _halftone(_RGBA_ODD, linear=True, error_limit=60), False),
    Job("serial palette oklab", _serial(_RGBA, palette=_SIX, color_space="oklab"), False),
    Job("quadtree whole", _whole_tree(_ODD, criterion="luma", threshold=6.0, min_size=2), False),
    Job("quadtree bands", _whole_tree(_BANDS, criterion="range", threshold=60, method="top-down"), False),
    Job("quadtree weighted", _quadtree(_ODD, criterion="weighted", weights=[3, 6, 1], threshold=9), False),
    Job("dither strength", _mapping(16, 3, dither=clquant.OrderedDither("bayer", size=4, strength=0.6)), False),
    Job("errors", _errors(_ODD, _SIX), True),
    Job("errors rgba", _errors(_RGBA, _SIX), False),
    Job("read", _read, False),
    *(Job(name, run, False) for name, run in CROSSED.items()),
    *(Job(name, run, True, table_bytes(name)) for name, run in SMALL_DEEP.items()),
    *(Job(name, run, False, table_bytes(name)) for name, run in DEEP.items()),
    Job("vq side match rgba", _side_match(_RGBA, 20.0, codebook_size=24, state_size=4, refine=0), False),
    Job("neuquant gray", _palette_engine("NeuQuantCL", _GRAY, n_colors=16), False),
    Job("neuquant rgba oklab", _palette_engine("NeuQuantCL", _RGBA, n_colors=16, color_space="oklab"), False),
    Job("neuquant sequential gray", _palette_engine("NeuQuantCL", _GRAY, n_colors=16, mode="sequential"), False),
    Job("neuquant sequential oklab", _palette_engine("NeuQuantCL", _RGBA, **_SEQUENTIAL_OKLAB), False),
    Job("kmeans rgba linear", _palette_engine("KMeansPalette", _RGBA, n_colors=9, color_space="linear"), False),
    Job("kmeans lossless gray", _palette_engine("KMeansPalette", _GRAY // 32, n_colors=16), False),
)
