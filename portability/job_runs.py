"""What golden jobs run: from pictures and arguments to functions of a queue, whose results have names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import clquant
from clquant import images, quality, runtime
from clquant.histogram import device_table
from clquant.histogram.counting import count_colors
from clquant.mapping.error import mean_squared_error
from clquant.palette import engine
from clquant.video import animation
from portability.inputs import flat, noise, photo

Result = Mapping[str, Any]


def palette_engine(engine: str, picture: Any, *, fit_on: Any = None, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        made = getattr(clquant, engine)(queue=queue, random_state=7, **arguments)
        made.fit(picture if fit_on is None else fit_on)
        return {
            "colors": made.palette_.colors,
            "indices": made.predict(picture),
            "picture": made.transform(picture),
        }

    return run


def tile_palettes(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        made = clquant.TilePalettes(queue=queue, random_state=7, **arguments).fit(picture)
        return {"colors": made.palette_.colors, "indices": made.predict(picture)}

    return run


def many_palettes(pictures: list[Any], **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        palettes = clquant.KMeansPalette(queue=queue, random_state=7, **arguments).fit_many(pictures)
        return {f"colors {i}": palette.colors for i, palette in enumerate(palettes)}

    return run


def histograms(picture: Any, most: int) -> Callable[..., Result]:
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


def added(picture: Any) -> Callable[..., Result]:
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


def codec(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        codec = clquant.VQCodec(queue=queue, random_state=7, **arguments).fit(picture)
        return {
            "codebook": codec.codebook_,
            "indices": codec.encode(picture),
            "decoded": codec.decompress(codec.compress(picture)),
        }

    return run


def framed(queue: runtime.CommandQueue) -> Result:
    """A .clvq file with repeated rows and columns of blocks, of so many codewords that contexts are made of buckets."""
    picture = np.full((112, 120), 90, np.uint8)
    picture[24:88, 28:92] = GRAY[:64, :64]
    codec = clquant.VQCodec(128, block_shape=(2, 2), refine=0, random_state=7, queue=queue).fit(picture)
    file = codec.compress(picture)
    return {"file": np.frombuffer(file, np.uint8), "decoded": codec.decompress(file)}


def halftone(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        return {"halftone": clquant.PinwheelHalftoner(queue=queue, random_state=7, **arguments).transform(picture)}

    return run


def refined(picture: Any, passes: int, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        halftoner = clquant.PinwheelHalftoner(16, queue=queue, random_state=7, **arguments)
        return {"halftone": halftoner.transform(picture, refine=passes)}

    return run


def packed_halftone(picture: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        on_device = runtime.open_session(queue).new_array(picture.shape, np.uint8)
        on_device.set(picture)
        engine = clquant.PinwheelHalftoner(16, queue=queue)
        return {
            "device": engine.transform(on_device, output="bits").get(),
            "host": engine.transform(picture, output="bits"),
        }

    return run


def serial(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        return {"serial": np.asarray(clquant.floyd_steinberg(picture, queue=queue, **arguments))}

    return run


def quadtree(picture: Any, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        tree = clquant.QuadtreeBuilder(queue=queue, **arguments).build(picture)
        leaves = tree.leaves()
        fields = {f"leaf {name}": leaves[name] for name in ("x", "y", "size", "mean")}
        return {"array": tree.to_array(), "render": tree.render(), "outline": tree.outline(), **fields}

    return run


def mapped(
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


def counting(picture: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        session = runtime.open_session(queue)
        with session.scope() as scope:
            colors, counts = count_colors(session, scope, [images.read(picture)]).to_host(session)
        return {"colors": colors, "counts": counts}

    return run


def tuned(values: Mapping[str, int], run: Callable[..., Result]) -> Callable[..., Result]:
    """A job of a small picture that goes the way of large ones."""

    def tuned(queue: runtime.CommandQueue) -> Result:
        with runtime.force_tuning(values):
            return run(queue)

    return tuned


def side_match(picture: Any, tolerance: float, **arguments: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        codec = clquant.VQCodec(queue=queue, random_state=7, tolerance=tolerance, **arguments).fit(picture)
        file = codec.compress(picture)
        return {
            "file": np.frombuffer(file, np.uint8),
            "decoded": codec.decompress(file),
            "mse": np.float64(codec.mse_),
        }

    return run


def vectors(queue: runtime.CommandQueue) -> Result:
    """Rows of bytes and of floats, with weights, by annealed and by plain steps, in batches, normalized."""
    bytes_ = photo(24, 40, 3).reshape(-1, 12)
    floats = (bytes_.astype(np.float32) - 100) * np.float32(0.37)
    annealed = clquant.VectorQuantizer(9, refine=4, queue=queue).fit(bytes_)
    weighted = clquant.VectorQuantizer(9, refine=4, queue=queue).fit(floats, sample_weight=np.arange(len(floats)))
    plain = clquant.VectorQuantizer(9, refine=0, metric="cosine", init="splitting", queue=queue).fit(floats)
    batches = clquant.VectorQuantizer(5, refine=0, queue=queue).partial_fit(floats[:90]).partial_fit(floats[90:])
    models = {"annealed": annealed, "weighted": weighted, "plain": plain, "batches": batches}
    found = {f"{name} codebook": model.codebook_ for name, model in models.items()}
    found |= {f"{name} labels": model.labels_ for name, model in models.items()}
    return {**found, "distances": weighted.transform(floats[:20])}


def codes(queue: runtime.CommandQueue) -> Result:
    """Rows by sub-spaces, rotated ones of bytes and of floats, and by stages."""
    bytes_ = photo(24, 40, 3).reshape(-1, 12)
    floats = (bytes_.astype(np.float32) - 100) * np.float32(0.37)
    rotated = {"n_subspaces": 3, "n_bits": 4, "rotation": "opq", "refine": 3, "queue": queue}
    models: dict[str, Any] = {
        "plain": clquant.ProductQuantizer(4, 5, refine=3, queue=queue).fit(bytes_),
        "bytes": clquant.ProductQuantizer(**rotated).fit(bytes_),
        "floats": clquant.ProductQuantizer(**rotated).fit(floats),
        "stages": clquant.ResidualQuantizer(2, 4, refine=3, queue=queue).fit(floats),
    }
    found = {f"{name} codebooks": model.codebooks_ for name, model in models.items()}
    for name, model in models.items():
        given = floats if name in ("floats", "stages") else bytes_
        found |= {f"{name} codes": model.encode(given), f"{name} rows": model.decode(model.encode(given))}
    return {**found, "rotation": models["floats"].rotation_}


def device_codes(queue: runtime.CommandQueue) -> Result:
    """Codes of whole bytes and across them, of rows that the device holds."""
    rows = photo(40, 40, 3).reshape(-1, 12)
    on_device = runtime.open_session(queue).new_array(rows.shape, np.uint8)
    on_device.set(rows)
    bits = {f"{bits} bits": clquant.ProductQuantizer(3, bits, refine=0, queue=queue).fit(rows) for bits in (5, 8)}
    return {name: model.encode(on_device).get() for name, model in bits.items()}


def scalar_codebooks(queue: runtime.CommandQueue) -> Result:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, 150)).astype(np.float16)
    weights = rng.integers(0, 4, values.shape)
    return {
        "plain": clquant.scalar_codebook(values, 7, axis=1, queue=queue),
        "weighted": clquant.scalar_codebook(values, 7, weights, axis=1, queue=queue),
    }


def counted_scalars(queue: runtime.CommandQueue) -> Result:
    """Rows that are so long that they are counted."""
    values = np.random.default_rng(2).normal(size=(2, 1100)).astype(np.float16)
    return {"codebooks": clquant.scalar_codebook(values, 7, axis=1, queue=queue)}


def errors_of(picture: Any, palette: clquant.Palette) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        spaces = ("srgb", "linear", "oklab")
        return {space: mean_squared_error(picture, palette, color_space=space, queue=queue) for space in spaces}

    return run


def frames(shared: bool) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        learner = clquant.KMeansPalette(16, queue=queue, random_state=7)
        frames = animation.quantize_frames(learner, [ODD, 255 - ODD], shared=shared, dither="bayer4")
        made: dict[str, Any] = {}
        for number, frame in enumerate(frames):
            ordered = frame.sorted("popularity")
            made |= {f"{number} indices": frame.indices, f"{number} colors": frame.palette.colors}
            made |= {f"{number} sorted": ordered.indices, f"{number} hue": frame.palette.sorted("hue").colors}
            made |= {f"{number} sixel": ordered.to_sixel(), f"{number} counts": frame.counts()}
        return made

    return run


def moving(queue: runtime.CommandQueue) -> Result:
    """A GIF of noisy frames: pixels are held, and LZW is lossy. Two threads use the device."""
    rng = np.random.default_rng(3)
    shown = [np.clip(SMALL + rng.integers(-6, 7, SMALL.shape), 0, 255).astype(np.uint8) for _ in range(3)]
    shown.append(np.roll(shown[-1], 5, axis=1))
    colors = clquant.Palette(np.unique(SMALL.reshape(-1, 3)[::7], axis=0))
    made = clquant.animate(shown, colors, quality=90, lossy=40, dither="bayer4", queue=queue)
    return {"file": made.to_bytes("gif"), **{f"frame {i}": frame.to_array() for i, frame in enumerate(made.frames)}}


def to_quality(engine: str, **target: float) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        made = getattr(clquant, engine)(64, queue=queue, random_state=7).fit_quality(ODD, **target)
        return {"colors": made.palette_.colors}

    return run


def weighted(queue: runtime.CommandQueue) -> Result:
    weights = (ODD[..., 0] % 7).astype(np.float64) / 4
    made = clquant.KMeansPalette(12, queue=queue, random_state=7).fit(ODD, weights)
    codec = clquant.VQCodec(16, queue=queue, random_state=7, refine=0).fit([TINY, TINY[::-1]], [1.0, 0.25])
    return {"colors": made.palette_.colors, "inertia": made.inertia_, "codebook": codec.codebook_, "mse": codec.mse_}


def streamed(queue: runtime.CommandQueue) -> Result:
    made = clquant.KMeansPalette(9, queue=queue, random_state=7).fit(TINY)
    codec = clquant.VQCodec(16, queue=queue, random_state=7, refine=0).fit(TINY)
    pictures = [TINY, ODD, TINY[::-1], ODD[:, ::-1]]
    found = {f"picture {i}": picture for i, picture in enumerate(made.stream(pictures, "transform"))}
    return {**found, **{f"table {i}": table for i, table in enumerate(codec.stream(pictures))}}


def neuquant_many(queue: runtime.CommandQueue) -> Result:
    made: dict[str, Any] = {}
    for mode in ("parallel", "sequential"):
        engine = clquant.NeuQuantCL(32, mode=mode, queue=queue, random_state=7)
        palettes = engine.fit_many([ODD, TINY, RGBA])
        made |= {f"{mode} {i}": palette.colors for i, palette in enumerate(palettes)}
    few = clquant.NeuQuantCL(5, queue=queue, sample_factor=30).fit_many([ODD, TINY, RGBA])
    return made | {f"few {i}": palette.colors for i, palette in enumerate(few)}


def measures(picture: Any) -> Callable[..., Result]:
    def run(queue: runtime.CommandQueue) -> Result:
        pictures = picture, (picture // 40 * 40 + 20).astype(np.uint8)
        measures = (quality.mse, quality.ssim, quality.visual_error, quality.blurred_color_difference)
        made = {measure.__name__: np.float64(measure(*pictures, queue=queue)) for measure in measures}
        formulas = ("ciede2000", "oklab")
        return made | {name: np.float64(quality.color_difference(*pictures, name, queue=queue)) for name in formulas}

    return run


def whole_tree(picture: Any, **arguments: Any) -> Callable[..., Result]:
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


def device_codec(queue: runtime.CommandQueue) -> Result:
    codec = clquant.VQCodec(300, (3, 2), init="splitting", refine=1, queue=queue, random_state=7).fit(RGBA_ODD)
    on_device = runtime.open_session(queue).new_array(RGBA_ODD.shape, np.uint8)
    on_device.set(RGBA_ODD)
    table = codec.encode(on_device)
    return {"codebook": codec.codebook_, "table": table.get(), "decoded": codec.decode(table).get()}


def strided(queue: runtime.CommandQueue) -> Result:
    on_device = runtime.open_session(queue).new_array(RGBA_ODD.shape, np.uint8)
    on_device.set(RGBA_ODD)
    return {"indices": engine.predict(on_device[1::2, ::3, :3], SIX).get()}


def device_alpha_edges(queue: runtime.CommandQueue) -> Result:
    on_device = runtime.open_session(queue).new_array(RGBA_ODD.shape, np.uint8)
    on_device.set(RGBA_ODD)
    return {edges: clquant.alpha_edges(on_device, edges, queue=queue).get() for edges in ("binary", "dithered")}


def device_spatial(queue: runtime.CommandQueue) -> Result:
    pictures = [TINY, np.ascontiguousarray(ODD[:20, :33])]
    on_device = [runtime.open_session(queue).new_array(picture.shape, np.uint8) for picture in pictures]
    for array, picture in zip(on_device, pictures, strict=True):
        array.set(picture)
    made = clquant.SpatialPalette(5, rounds=1, queue=queue).fit(on_device)
    return {"colors": made.palette_.colors, "indices": made.predict(TINY)}


def read(queue: runtime.CommandQueue) -> Result:
    """What becomes of the other dtypes; no device takes part."""
    forms = {"bool": GRAY > 99, "uint16": ODD.astype(np.uint16) * 201, "float": ODD / np.float32(255)}
    return {name: images.read(form[:, ::-1]).array for name, form in forms.items()}


SMALL, TINY, ODD, WIDE = photo(16, 20), photo(24, 40), photo(61, 83), photo(130, 257)
BRIEF = {"max_iter": 2, "swap_rounds": 1}  # what a simulator has the patience for
CUBE = clquant.Palette([(r, g, b) for r in (0, 128, 255) for g in (0, 128, 255) for b in (0, 128, 255)])
SIX = clquant.Palette(
    [(0, 0, 0, 255), (255, 255, 255, 255), (0, 160, 0, 255), (0, 0, 255, 255), (255, 0, 0, 255), (0, 0, 0, 0)]
)
SEQUENTIAL_OKLAB = {"n_colors": 16, "mode": "sequential", "color_space": "oklab"}
CLEAR = np.array([(9, 9, 9, 0), (200, 60, 20, 100)], np.uint8)
RGBA, GRAY, FLAT = photo(24, 28, 4), photo(64, 72, 1), flat(48, 64, 12)
RGBA_ODD, BANDS = photo(61, 83, 4), np.concatenate([photo(40, 56), photo(40, 56, seed=5)], axis=-1)
