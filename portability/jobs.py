"""One small job for each way an engine can take, on fixed inputs: what every runtime must agree on to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import clquant
from clquant import runtime
from clquant.histogram import device_table
from portability import job_runs as runs
from portability.crossed import CROSSED
from portability.deep import DEEP, SMALL_DEEP, table_bytes
from portability.inputs import photo
from portability.job_runs import Result as Result


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


NEAR = clquant.OrderedDither("bayer", size=16, means="near")

JOBS = (
    Job("kmeans rgb 8", runs.palette_engine("KMeansPalette", runs.TINY, n_colors=8, **runs.BRIEF), True),
    Job("kmeans rgb 256", runs.palette_engine("KMeansPalette", runs.WIDE, n_colors=256), False),
    Job("kmeans rgb 1000", runs.palette_engine("KMeansPalette", runs.ODD, n_colors=1000, max_iter=2), False),
    Job("kmeans random", runs.palette_engine("KMeansPalette", runs.ODD, n_colors=24, init="random", n_init=2), False),
    Job(
        "kmeans given",
        runs.palette_engine("KMeansPalette", runs.ODD, n_colors=24, init=runs.TINY.reshape(-1, 3)[::40]),
        False,
    ),
    Job("kmeans oklab", runs.palette_engine("KMeansPalette", runs.ODD, n_colors=24, color_space="oklab"), False),
    Job(
        "kmeans fixed",
        runs.palette_engine("KMeansPalette", runs.ODD, n_colors=16, fixed_colors=runs.SIX.colors[:5]),
        False,
    ),
    Job(
        "kmeans fixed alpha",
        runs.palette_engine("KMeansPalette", runs.RGBA, n_colors=8, fixed_colors=runs.CLEAR, **runs.BRIEF),
        True,
    ),
    Job("kmeans rgba", runs.palette_engine("KMeansPalette", runs.RGBA, n_colors=16, **runs.BRIEF), True),
    Job("kmeans gray", runs.palette_engine("KMeansPalette", runs.GRAY, n_colors=8, **runs.BRIEF), True),
    Job("kmeans many", runs.many_palettes([runs.TINY, photo(20, 20, 1), runs.FLAT], n_colors=5), True),
    Job("kmeans many 16", runs.many_palettes([runs.ODD, runs.TINY, runs.FLAT], n_colors=16), False),
    Job("kmeans lossless", runs.palette_engine("KMeansPalette", runs.FLAT, n_colors=16), True),
    Job("kmeans rgb565", runs.palette_engine("KMeansPalette", runs.ODD, n_colors=24, color_format="rgb565"), False),
    Job("kmeans histogram", runs.histograms(runs.ODD, 1), False),
    Job("histogram table", runs.added(runs.ODD), False, 8 * device_table.COLORS),
    Job("kmeans histogram wide", runs.histograms(runs.RGBA_ODD, 2**39 // runs.RGBA_ODD[..., 0].size), False),
    Job(
        "kmeans frames",
        runs.palette_engine("KMeansPalette", runs.ODD, fit_on=[runs.ODD, runs.TINY], n_colors=16),
        False,
    ),
    Job("neuquant 8", runs.palette_engine("NeuQuantCL", runs.TINY, n_colors=8, sample_factor=30), True),
    Job("neuquant starts", runs.palette_engine("NeuQuantCL", runs.TINY, n_colors=5, sample_factor=30), True),
    Job("neuquant starts alpha", runs.palette_engine("NeuQuantCL", runs.RGBA, n_colors=6, sample_factor=30), False),
    Job("neuquant 32", runs.palette_engine("NeuQuantCL", runs.TINY, n_colors=32), False),
    Job("neuquant 256", runs.palette_engine("NeuQuantCL", runs.WIDE, n_colors=256), False),
    Job(
        "neuquant fixed",
        runs.palette_engine("NeuQuantCL", runs.ODD, n_colors=24, fixed_colors=runs.SIX.colors[:5]),
        False,
    ),
    Job(
        "neuquant fixed alpha", runs.palette_engine("NeuQuantCL", runs.RGBA, n_colors=8, fixed_colors=runs.CLEAR), False
    ),
    Job("neuquant sequential", runs.palette_engine("NeuQuantCL", runs.ODD, n_colors=256, mode="sequential"), False),
    Job("search 12", runs.mapped(12, 3, side=9, dither="search"), True),
    Job("search 300 alpha", runs.mapped(300, 4, "oklab", dither="search"), False),
    Job("search bands", runs.mapped(16, 3, "linear", side=90, dither=clquant.SearchDither(1, sharpness=2.0)), False),
    Job("spatial 5", runs.palette_engine("SpatialPalette", photo(16, 20), n_colors=5, rounds=1), True),
    Job("spatial 40", runs.palette_engine("SpatialPalette", runs.ODD, n_colors=40), False),
    Job("spatial rgba", runs.palette_engine("SpatialPalette", runs.RGBA_ODD, n_colors=9, color_space="linear"), False),
    Job(
        "spatial frames",
        runs.palette_engine("SpatialPalette", runs.ODD, fit_on=[runs.ODD, runs.GRAY], n_colors=12),
        False,
    ),
    Job("tiles", runs.tile_palettes(photo(16, 20), n_palettes=2, n_colors=3, swap_rounds=1), True),
    Job(
        "tiles rgba",
        runs.tile_palettes(runs.RGBA_ODD, n_palettes=4, n_colors=6, color_space="oklab", color_format="rgb555"),
        False,
    ),
    Job("refined", runs.refined(photo(20, 24, 1), 1), True),
    Job("refined rgba 5 levels", runs.refined(runs.RGBA_ODD, 2, levels=5, linear=True), False),
    Job("refined palette", runs.refined(runs.ODD, 2, palette=runs.SIX), False),
    Job("vq gray 4x4", runs.codec(runs.GRAY, codebook_size=16), True),
    Job("vq rgb 4x4", runs.codec(runs.WIDE, codebook_size=64), False),
    Job("vq rgb 2x3", runs.codec(runs.ODD, codebook_size=37, block_shape=(2, 3)), False),
    Job("halftone 8", runs.halftone(runs.GRAY, block_size=8), True),
    Job("halftone 16", runs.halftone(photo(150, 211, 1), block_size=16), False),
    Job("halftone 32 serpentine", runs.halftone(photo(150, 211, 1), scan="serpentine"), False),
    Job("halftone constant noise", runs.halftone(runs.GRAY, block_size=16, weights="constant", noise=0.5), False),
    Job("halftone 4 levels", runs.halftone(photo(150, 211, 1), levels=4), False),
    Job("halftone bits", runs.packed_halftone(runs.GRAY), True),
    Job("halftone rgb", runs.halftone(runs.ODD, block_size=16), False),
    Job("halftone 32", runs.halftone(photo(150, 211, 1)), False),
    Job("halftone 64", runs.halftone(photo(150, 211, 1), block_size=64), False),
    Job("halftone blocks of ten", runs.halftone(photo(150, 211, 1), block_size=10), False),
    Job("halftone palette", runs.halftone(runs.ODD, block_size=16, palette=runs.SIX), False),
    Job("halftone palette rgba", runs.halftone(runs.RGBA, block_size=8, palette=runs.SIX, color_space="oklab"), False),
    Job("halftone palette small", runs.halftone(runs.TINY, block_size=8, palette=runs.SIX), True),
    Job("serial gray", runs.serial(runs.GRAY), True),
    Job("serial palette", runs.serial(runs.ODD, palette=runs.SIX), False),
    Job(
        "serial palette of 27",
        runs.tuned({"mapping.table_pays": 1 << 16}, runs.serial(runs.ODD, palette=runs.CUBE)),
        False,
    ),
    Job(
        "diffused to 300 in a table",
        runs.tuned({"mapping.table_pays": 1 << 16}, runs.mapped(300, 3, side=520, dither="floyd-steinberg")),
        False,
    ),
    Job("serial palette small", runs.serial(runs.TINY, palette=runs.SIX), True),
    Job("quadtree gray", runs.quadtree(runs.GRAY), True),
    Job("quality gray", runs.measures(runs.GRAY), True),
    Job("quality rgb", runs.measures(runs.ODD), False),
    Job("quality rgba", runs.measures(runs.RGBA), False),
    Job("quadtree rgb", runs.quadtree(runs.ODD, threshold=9.5), True),
    Job("quadtree top-down", runs.quadtree(runs.WIDE, method="top-down", max_depth=5), False),
    Job("map 7", runs.mapped(7, 3), True),
    Job("map 256", runs.mapped(256, 3), True),
    Job("map 3000", runs.mapped(3000, 3), False),
    Job("map rgba", runs.mapped(60, 4), True),
    Job("map by cells", runs.mapped(256, 3, side=700), False),
    Job("map by cells of many", runs.mapped(600, 3, side=700), False),
    Job("map by cells rgba", runs.mapped(256, 4, side=700), False),
    Job("map by cells oklab", runs.mapped(256, 3, "oklab", side=700), False),
    Job("blue noise oklab rgba", runs.mapped(100, 4, "oklab", side=720, dither="blue-noise"), False),
    Job("blue noise 200", runs.mapped(200, 3, side=400, dither=clquant.OrderedDither(means="near")), False),
    Job("map linear", runs.mapped(100, 3, "linear"), False),
    Job("map oklab", runs.mapped(100, 3, "oklab"), False),
    Job("blue noise 16", runs.mapped(16, 3, dither="blue-noise"), True),
    Job("bayer rgba oklab", runs.mapped(16, 4, "oklab", dither="bayer8"), True),
    Job("bayer by cells linear", runs.mapped(256, 3, "linear", side=700, dither=NEAR), False),
    Job("leaky", runs.mapped(16, 3, dither="leaky"), True),
    Job("stucki rgba oklab", runs.mapped(60, 4, "oklab", dither="stucki"), True),
    Job("count rgb", runs.counting(runs.ODD), True),
    Job("count rgba", runs.counting(runs.RGBA), True),
    Job("count by bins", runs.tuned({"counting.table_pixels": 0}, runs.counting(photo(150, 263))), False),
    Job(
        "kmeans boxes",
        runs.palette_engine("KMeansPalette", runs.ODD, n_colors=24, init="wu", color_space="linear"),
        False,
    ),
    Job("kmeans quality", runs.to_quality("KMeansPalette", target_psnr=26.0), False),
    Job("kmeans and vq weighted", runs.weighted, False),
    Job("neuquant quality", runs.to_quality("NeuQuantCL", max_mse=150.0), False),
    Job("neuquant many", runs.neuquant_many, False),
    Job(
        "neuquant conscience",
        runs.palette_engine("NeuQuantCL", runs.RGBA, n_colors=24, metric="l1", conscience=True),
        False,
    ),
    Job("neuquant oklab", runs.palette_engine("NeuQuantCL", runs.ODD, n_colors=24, color_space="oklab"), False),
    Job("streams", runs.streamed, False),
    Job("frames shared", runs.frames(True), False),
    Job("frames apart", runs.frames(False), False),
    Job("vq side match", runs.side_match(photo(16, 20, 1), 9.0, codebook_size=12, state_size=4, refine=0), True),
    Job("vq side match gray", runs.side_match(runs.GRAY, 0.0, codebook_size=32, state_size=8), False),
    Job(
        "vq side match rgb", runs.side_match(runs.ODD, 30.0, codebook_size=64, block_shape=(2, 3), state_size=5), False
    ),
    Job("vq rgba on the device", runs.device_codec, False),
    Job("vq framed", runs.framed, False),
    Job("map strided on the device", runs.strided, True),
    Job("alpha edges on the device", runs.device_alpha_edges, False),
    Job("spatial on the device", runs.device_spatial, False),
    Job("halftone linear rgba", runs.halftone(runs.RGBA_ODD, linear=True, error_limit=60), False),
    Job("serial palette oklab", runs.serial(runs.RGBA, palette=runs.SIX, color_space="oklab"), False),
    Job("quadtree whole", runs.whole_tree(runs.ODD, criterion="luma", threshold=6.0, min_size=2), False),
    Job("quadtree bands", runs.whole_tree(runs.BANDS, criterion="range", threshold=60, method="top-down"), False),
    Job("quadtree weighted", runs.quadtree(runs.ODD, criterion="weighted", weights=[3, 6, 1], threshold=9), False),
    Job("dither strength", runs.mapped(16, 3, dither=clquant.OrderedDither("bayer", size=4, strength=0.6)), False),
    Job("errors", runs.errors_of(runs.ODD, runs.SIX), True),
    Job("errors rgba", runs.errors_of(runs.RGBA, runs.SIX), False),
    Job("read", runs.read, False),
    *(Job(name, run, False) for name, run in CROSSED.items()),
    *(Job(name, run, True, table_bytes(name)) for name, run in SMALL_DEEP.items()),
    *(Job(name, run, False, table_bytes(name)) for name, run in DEEP.items()),
    Job("vq side match rgba", runs.side_match(runs.RGBA, 20.0, codebook_size=24, state_size=4, refine=0), False),
    Job("neuquant gray", runs.palette_engine("NeuQuantCL", runs.GRAY, n_colors=16), False),
    Job("neuquant rgba oklab", runs.palette_engine("NeuQuantCL", runs.RGBA, n_colors=16, color_space="oklab"), False),
    Job(
        "neuquant sequential gray", runs.palette_engine("NeuQuantCL", runs.GRAY, n_colors=16, mode="sequential"), False
    ),
    Job("neuquant sequential oklab", runs.palette_engine("NeuQuantCL", runs.RGBA, **runs.SEQUENTIAL_OKLAB), False),
    Job("kmeans rgba linear", runs.palette_engine("KMeansPalette", runs.RGBA, n_colors=9, color_space="linear"), False),
    Job("scalar", runs.scalar_codebooks, True),
    Job("scalar of long rows", runs.counted_scalars, True),
    Job("vectors", runs.vectors, False),
    Job("codes of vectors", runs.codes, False),
    Job("codes on the device", runs.device_codes, False),
    Job("moving pictures", runs.moving, False),
    Job("kmeans lossless gray", runs.palette_engine("KMeansPalette", runs.GRAY // 32, n_colors=16), False),
)
