"""What each kernel form gains on whole calls, in turns with the next form of its table. `python -m benchmarks.forms`.

A form stays in the library if it gives 1.3 times somewhere; its `Variant` carries the figure.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyopencl.array

import clquant
from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from clquant import runtime
from clquant.runtime.program import variants
from clquant.runtime.program.variants import Variant

Form = tuple[str, str]  # name, kernel file
Job = Callable[[], object]

SECONDS_PER_FORM = 1.2
MAX_CALLS = 9
SEARCHED = 2048  # longest side of pictures for the jobs that search
CALLS_PER_ROOM = {
    "dithering": ("blue noise", "leaky", "stucki", "Floyd", "search"),
    "halftone": ("pinwheel", "serial", "Floyd"),
    "histogram": ("k-means",),
    "kmeans": ("k-means",),
    "mapping": ("map", "k-means fit_predict"),
    "neuquant": ("NeuQuant",),
    "quadtree": ("quadtree",),
    "spatial": ("spatial",),
    "training": ("VQ",),
    "vq": ("VQ",),
}
"""With what words the names of the jobs begin that a room's kernels can be part of."""


def forms_of(limits: runtime.Limits) -> dict[Form, Variant]:
    """Every form but the portable ones that a device admits."""
    found: dict[Form, Variant] = {}
    for info in pkgutil.walk_packages(clquant.__path__, "clquant."):
        with contextlib.suppress(ImportError):  # a module of an extra that is not installed
            module = None if info.name.endswith("__main__") else importlib.import_module(info.name)
            for value in vars(module).values() if module else ():
                for one in value if isinstance(value, tuple | list) else (value,):
                    if isinstance(one, Variant) and one.name != "portable" and one.admits(limits):
                        found[one.name, one.file] = one
    return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0])))


def jobs(queue: runtime.CommandQueue, rgb: Picture) -> dict[str, Job]:
    """Whole calls by name, from host arrays or from an array on the device."""
    gray, small = np.ascontiguousarray(rgb[..., 1]), rgb[:SEARCHED, :SEARCHED]
    icons = harness.batch_of(rgb, 400, 32)
    on_device = pyopencl.array.to_device(queue, rgb)
    found: dict[str, Job] = {}

    def finished(call: Job) -> Job:
        return lambda: (call(), queue.finish())

    for k in (16, 256):
        fitted = clquant.KMeansPalette(k, max_iter=4, swap_rounds=2, queue=queue).fit(rgb)
        engine, network = partial(clquant.KMeansPalette, k, queue=queue), partial(clquant.NeuQuantCL, k, queue=queue)
        found[f"k-means fit_predict {k}"] = lambda engine=engine: engine().fit_predict(rgb)
        found[f"k-means fit {k}, device"] = finished(lambda engine=engine: engine().fit(on_device))
        found[f"NeuQuant fit {k}"] = lambda network=network: network().fit(rgb)
        for name, dither in (
            ("map", None),
            ("blue noise", "blue-noise"),
            ("Floyd", "floyd-steinberg"),
            ("leaky", "leaky"),
            ("stucki", "stucki"),
        ):
            found[f"{name} {k}"] = partial(fitted.predict, rgb, dither)
            found[f"{name} {k}, device"] = finished(partial(fitted.predict, on_device, dither))
        codec = clquant.VQCodec(4 * k, max_iter=3, refine=0, queue=queue).fit(gray[:512, :512])
        packed = codec.compress(gray)
        found[f"VQ encode {4 * k}"] = partial(codec.encode, gray)
        found[f"VQ compress {4 * k}"] = partial(codec.compress, gray)
        found[f"VQ decompress {4 * k}"] = partial(codec.decompress, packed)
        found[f"VQ fit {4 * k}"] = lambda k=k: clquant.VQCodec(4 * k, queue=queue).fit(gray)
    sixteen = clquant.KMeansPalette(16, queue=queue).fit(small)
    found["k-means many icons"] = lambda: clquant.KMeansPalette(16, queue=queue).fit_many(icons)
    found["search 16"] = partial(sixteen.predict, small, "search")
    found["spatial fit 16"] = lambda: clquant.SpatialPalette(16, queue=queue).fit(small)
    found["serial gray"] = lambda: clquant.floyd_steinberg(gray, queue=queue)
    for size in (8, 32, 64):
        found[f"pinwheel {size}"] = partial(clquant.PinwheelHalftoner(size, queue=queue).transform, gray)
    halftoner = clquant.PinwheelHalftoner(32, palette=sixteen.palette_, queue=queue)
    found["pinwheel to 16 colours"] = partial(halftoner.transform, rgb)
    found["pinwheel refined"] = partial(
        clquant.PinwheelHalftoner(32, queue=queue).transform, np.ascontiguousarray(small[..., 1]), refine=2
    )
    for method in ("bottom-up", "top-down"):
        builder = clquant.QuadtreeBuilder(13.0, method=method, queue=queue)
        found[f"quadtree leaves {method} gray"] = partial(builder.leaves, gray)
        found[f"quadtree build {method} RGB"] = partial(builder.build, rgb)
    return found


class Choices:
    """What chooses forms within the block, without those in `blocked`; remembers in `chosen` what it gave."""

    def __init__(self) -> None:
        self.blocked: set[Form] = set()
        self.chosen: set[Form] = set()
        self._original = variants.choose

    def __enter__(self) -> Choices:
        variants.choose = self._choose
        return self

    def __exit__(self, *_: object) -> None:
        variants.choose = self._original

    def _choose(self, table: Sequence[Variant], limits: runtime.Limits) -> Variant:
        taken = self._original([v for v in table if (v.name, v.file) not in self.blocked], limits)
        self.chosen.add((taken.name, taken.file))
        return taken


def in_turns(call: Job, form: Form, choices: Choices) -> tuple[float, float]:
    """Least milliseconds of a call with a form and without it."""
    times: tuple[list[float], list[float]] = [], []
    end = time.perf_counter() + SECONDS_PER_FORM
    while len(times[0]) < 2 or (len(times[0]) < MAX_CALLS and time.perf_counter() < end):
        for blocked, found in zip(((), (form,)), times, strict=True):
            choices.blocked = set(blocked)
            runtime.release_memory()
            call()
            begun = time.perf_counter()
            call()
            found.append(1e3 * (time.perf_counter() - begun))
    choices.blocked = set()
    return min(times[0]), min(times[1])


def gains(options: Options, side: int) -> Table:
    """The table of all forms on a picture of a size."""
    queue = options.queue()
    columns = {
        "file": "file",
        "form": "form",
        "call": "call",
        "with": "with, ms",
        "without": "without, ms",
        "gain": "gain",
    }
    table = Table(f"Kernel forms, {side}x{side}", columns, "Without a form the next one of its table runs.")
    picture = harness.photo_of_size(next(iter(harness.pictures(options).values())), side, side)
    calls = jobs(queue, picture)
    with Choices() as choices:
        for form in forms_of(runtime.Limits.of(queue.device)):
            for name, call in calls.items():
                if options.is_over or not name.startswith(CALLS_PER_ROOM[form[1].split("/")[0]]):
                    continue
                choices.chosen.clear()
                runtime.release_memory()
                call()
                if form in choices.chosen:
                    with_it, without = in_turns(call, form, choices)
                    figures = {"with": with_it, "without": without, "gain": without / with_it}
                    table.add(file=form[1], form=form[0], call=name, **figures)
    return table


def run(options: Options) -> Iterator[Table]:
    """The tables of all sizes."""
    for side in options.sizes(512, 2048, 8192):
        yield gains(options, side)


if __name__ == "__main__":
    harness.main(run)
