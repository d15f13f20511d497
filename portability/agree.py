"""`python -m portability.agree`: random jobs give the same bits in every form, under any limits, on every device.

The golden jobs are few and fixed; these are drawn: shapes from one pixel on, one row or one column, primes, flat, noisy
and transparent pictures, with arguments from the whole of their ranges. Cases are numbered; a finding names its seed
and number and is repeated by `--seed S --first N --cases 1`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import clquant
from clquant import runtime
from clquant.kmeans.seeding import INITS
from clquant.mapping.error import mean_squared_error
from clquant.palette import engine
from portability.inputs import flat, photo
from portability.jobs import Result, digest

Random = random.Random
Made = tuple[str, Callable[[runtime.CommandQueue], Result]]

_SIDES = (1, 1, 2, 3, 5, 7, 13, 16, 31, 32, 33, 61, 64, 97, 131, 257)
_SPACES = ("srgb", "srgb", "linear", "oklab")


def _picture(rng: Random, channels: tuple[int, ...] = (1, 3, 3, 4)) -> Any:
    height, width, own = rng.choice(_SIDES), rng.choice(_SIDES), rng.choice(channels)
    if rng.random() < 0.1:
        height, width = rng.choice(((1, 4099), (4099, 1), (700, 701), (2, 1031)))
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    shape = (height, width) if own == 1 else (height, width, own)
    kind = rng.randrange(5)
    if kind == 0:
        return numbers.integers(0, 256, shape, np.uint8)
    if kind == 1:
        return np.broadcast_to(numbers.integers(0, 256, shape[2:], np.uint8), shape)
    if kind == 2 and own == 3:
        return flat(height, width, rng.choice((2, 5, 40)), rng.randrange(9))
    made = photo(height, width, own, rng.randrange(9)) if own <= 4 else numbers.integers(0, 30, shape, np.uint8)
    if own == 4 and kind == 3:
        made[..., 3] = numbers.choice([0, 1, 127, 128, 254, 255], shape[:2])
    return made


def _colors(rng: Random, most: int) -> Any:
    return min(most, rng.choice((2, 3, 4, 7, 8, 15, 16, 17, 60, 64, 100, 255, 256, 257, 1000)))


def _fixed(rng: Random, channels: tuple[int, ...] = (3, 4)) -> Any:
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    return (
        None if rng.random() < 0.7 else numbers.integers(0, 256, (rng.randrange(1, 3), rng.choice(channels)), np.uint8)
    )


def _palette_engine(rng: Random) -> Made:
    image, space = _picture(rng), rng.choice(_SPACES)
    options: dict[str, Any] = {"n_colors": _colors(rng, 1000), "color_space": space, "random_state": rng.randrange(99)}
    name = rng.choice(("KMeansPalette", "NeuQuantCL"))
    if name == "KMeansPalette":
        init = rng.choice(INITS)
        options |= {"init": init, "max_iter": rng.choice((1, 5, 100)), "swap_rounds": rng.choice((0, 3, 24))}
        options |= {"n_init": rng.choice((1, 2)), "tol": rng.choice((0.0, 1e-4))}
    else:
        options |= {"mode": rng.choice(("parallel", "sequential")), "sample_factor": rng.choice((1, 3, 30))}
        options |= {"conscience": rng.random() < 0.3, "keep_exact": rng.random() < 0.5, "n_colors": _colors(rng, 256)}
        options |= {"refine_steps": rng.choice((0, 1, 4)), "metric": rng.choice(("l2", "l2", "l1"))}
        options["color_space"] = "srgb" if "l1" in options.values() else space
    options["fixed_colors"] = _fixed(rng)
    dither = rng.choice((None, None, "bayer4", "blue-noise", "pinwheel", "floyd-steinberg"))

    def run(queue: runtime.CommandQueue) -> Result:
        made = getattr(clquant, name)(queue=queue, **options).fit(image)
        return {
            "colors": made.palette_.colors,
            "indices": made.predict(image),
            "picture": made.transform(image, dither=dither),
        }

    return f"{name} {options} {dither} on {image.shape}", run


def _many(rng: Random) -> Made:
    pictures = [_picture(rng) for _ in range(rng.randrange(2, 12))]
    options: dict[str, Any] = {"n_colors": _colors(rng, 256), "random_state": rng.randrange(99)}
    name = rng.choice(("KMeansPalette", "NeuQuantCL"))
    options["color_space"] = rng.choice(_SPACES)
    if name == "NeuQuantCL":
        options |= {"mode": rng.choice(("parallel", "parallel", "sequential")), "keep_exact": rng.random() < 0.5}
        options |= {"refine_steps": rng.choice((0, 1, 4)), "sample_factor": rng.choice((1, 3, 30))}

    def run(queue: runtime.CommandQueue) -> Result:
        made = getattr(clquant, name)(queue=queue, **options)
        palettes = [palette.colors for palette in made.fit_many(pictures)]
        if name == "NeuQuantCL":  # KMeansPalette.fit_many starts otherwise than fit
            for number, (picture, colors) in enumerate(zip(pictures, palettes, strict=True)):
                assert np.array_equal(colors, made.fit(picture).palette_.colors), f"picture {number} alone"
        return {str(number): colors for number, colors in enumerate(palettes)}

    return f"{name}.fit_many {options} on {[picture.shape for picture in pictures]}", run


def _mapping(rng: Random) -> Made:
    image = _picture(rng)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    table = numbers.integers(0, 256, (rng.choice((1, 2, 9, 16, 64, 250, 256, 300, 5000)), rng.choice((3, 4))), np.uint8)
    if table.shape[1] == 4:
        table[:, 3] = numbers.choice([255, 255, 255, 128, 0], len(table))
        table[0] = 0
    options = {"color_space": rng.choice(_SPACES), "dither": rng.choice((None, "bayer2", "blue-noise"))}

    def run(queue: runtime.CommandQueue) -> Result:
        palette = clquant.Palette(table)
        mse = mean_squared_error(image, palette, color_space=options["color_space"], queue=queue)
        picture = engine.transform(image, palette, queue=queue, **options)
        return {"indices": engine.predict(image, palette, queue=queue, **options), "picture": picture, "mse": mse}

    return f"mapping {options} through {table.shape} on {image.shape}", run


def _codec(rng: Random) -> Made:
    image = _picture(rng)
    options: dict[str, Any] = {
        "codebook_size": _colors(rng, 1000),
        "block_shape": (rng.randrange(1, 9), rng.randrange(1, 9)),
        "init": rng.choice(("k-means++", "splitting")),
        "max_iter": rng.choice((1, 10)),
        "refine": rng.choice((0, 3)),
        "state_size": rng.choice((0, 0, 2, 9)),
        "tolerance": rng.choice((0.0, 5.0)),
        "random_state": rng.randrange(99),
    }

    def run(queue: runtime.CommandQueue) -> Result:
        codec = clquant.VQCodec(queue=queue, **options).fit(image)
        decoded = codec.decompress(codec.compress(image))
        return {"codebook": codec.codebook_, "table": codec.encode(image), "decoded": decoded, "mse": codec.mse_}

    return f"VQCodec {options} on {image.shape}", run


def _halftone(rng: Random) -> Made:
    image = _picture(rng)
    palette = np.array([(0, 0, 0), (255, 255, 255), (200, 9, 9), (9, 99, 200)], np.uint8)[: rng.randrange(1, 5)]
    with_palette = image.ndim == 3 and rng.random() < 0.5
    options: dict[str, Any] = {
        "block_size": rng.choice((2, 3, 7, 8, 12, 16, 24, 31, 32, 64)),
        "scan": rng.choice(("spiral", "spiral", "serpentine")),
        "weights": rng.choice(("tone-dependent", "tone-dependent", "constant")),
        "noise": rng.choice((0.0, 0.0, 0.4)),
        "random_state": rng.randrange(99),
        "error_limit": rng.choice((None, None, 50)),
        **(
            {"palette": palette, "color_space": rng.choice(_SPACES)}
            if with_palette
            else {"levels": rng.choice((2, 2, 3, 17, 256)), "linear": rng.random() < 0.3}
        ),
    }

    def run(queue: runtime.CommandQueue) -> Result:
        return {"halftone": clquant.PinwheelHalftoner(queue=queue, **options).transform(image)}

    return f"PinwheelHalftoner {options} on {image.shape}", run


def _serial(rng: Random) -> Made:
    image = _picture(rng)
    table = np.random.default_rng(rng.randrange(99)).integers(0, 256, (rng.choice((2, 6, 40, 256)), 3), np.uint8)
    palette, space = (None, "srgb") if image.ndim == 2 and rng.random() < 0.5 else (table, rng.choice(_SPACES))

    def run(queue: runtime.CommandQueue) -> Result:
        return {"serial": np.asarray(clquant.floyd_steinberg(image, palette, color_space=space, queue=queue))}

    return f"floyd_steinberg {'without' if palette is None else palette.shape} {space} on {image.shape}", run


def _quadtree(rng: Random) -> Made:
    image = _picture(rng, (1, 3, 3, 4, 2, 7, 16))
    criteria = ("deviation", "range", "luma") if image.shape[2:] == (3,) else ("deviation", "range")
    options: dict[str, Any] = {
        "threshold": rng.choice((0.0, 2.5, 13.0, 60.0, 300.0)),
        "criterion": rng.choice(criteria),
        "min_size": rng.choice((1, 1, 2, 8)),
        "max_depth": rng.choice((None, None, 1, 4)),
        "method": rng.choice(("bottom-up", "top-down")),
    }

    def run(queue: runtime.CommandQueue) -> Result:
        tree = clquant.QuadtreeBuilder(queue=queue, **options).build(image)
        leaves = tree.leaves()
        fields = {f"leaf {name}": leaves[name] for name in ("x", "y", "size", "mean")}
        return {"array": tree.to_array(), "render": tree.render(), **fields}

    return f"QuadtreeBuilder {options} on {image.shape}", run


ENGINES = (_palette_engine, _palette_engine, _many, _mapping, _codec, _halftone, _halftone, _serial, _quadtree)


def _settings(rng: Random) -> list[Mapping[str, str]]:
    """As the device chooses, the portable form, and two devices that are worse in some ways."""
    worse = []
    for _ in range(2):
        limits = [f"work_group={rng.choice((1, 2, 7, 8, 32, 64, 100, 256))}", "int64_atomics=0,fp64=0"]
        limits += [f"local_memory={rng.choice((16384, 32768))}"] * (rng.random() < 0.5)
        limits += [f"max_alloc={rng.choice((1 << 16, 1 << 18, 1 << 20))}"] * (rng.random() < 0.5)
        limits += rng.sample(("is_cpu=0", "unified_memory=0"), rng.randrange(3))
        worse.append({"CLQUANT_LIMITS": ",".join(limits)})
    worse[1]["CLQUANT_VARIANT"] = "portable"
    return [{}, {"CLQUANT_VARIANT": "portable"}, *worse]


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    names = ("CLQUANT_LIMITS", "CLQUANT_VARIANT")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def outcome(run: Callable[[runtime.CommandQueue], Result], device: Any) -> str:
    """A job's hash, or its error; one that is no `ClquantError` with where it was raised."""
    try:
        return digest(run(runtime.default_queue(device)))
    except clquant.DeviceMemoryError:
        return ""  # a buffer that cannot be cut smaller, on a device made so small; it says so
    except clquant.ClquantError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"WRONG {type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"


def case(seed: int, number: int, devices: list[Any], verbose: bool = False) -> str | None:
    """Run one case everywhere; what did not agree, or None."""
    rng = Random(f"{seed} {number}")
    name, run = rng.choice(ENGINES)(rng)
    if verbose:  # before it runs: a driver may end the process
        print(f"seed {seed}, case {number}: {name}", flush=True)
    found: dict[str, list[str]] = {}
    for changes in _settings(rng):
        for device in devices:
            if verbose:
                print(f"  {runtime.describe(device)} {dict(changes)}", flush=True)
            with _environment(changes):
                told = outcome(run, device)
            found.setdefault(told, []).append(f"{runtime.describe(device)} {dict(changes)}")
    found.pop("", None)
    if len(found) <= 1 and not any(told.startswith("WRONG") for told in found):
        return None
    return f"{name}\n" + "\n".join(f"  {told}\n    {where}" for told, where in found.items())


def main(arguments: list[str] | None = None) -> int:
    """Run cases; 1 if any did not agree."""
    parser = argparse.ArgumentParser(description="Random jobs, in every form, under random limits, on every device.")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--verbose", action="store_true", help="name each case before it runs")
    parser.add_argument("--device", default="", help="only devices whose name contains this")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    devices = [own for own in runtime.list_devices() if options.device.lower() in runtime.describe(own).lower()]
    devices = [own for own in devices if "oclgrind" not in runtime.describe(own).lower()]
    until, wrong, tried = time.monotonic() + options.seconds, 0, 0
    for number in range(options.first, options.first + options.cases):
        if time.monotonic() > until:
            break
        told, tried = case(options.seed, number, devices, options.verbose), tried + 1
        if told:
            wrong += 1
            print(f"seed {options.seed}, case {number}: {told}", flush=True)
    print(f"{tried} cases on {len(devices)} devices, {wrong} do not agree")
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
