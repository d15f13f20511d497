"""The public verbs of all engines, found by introspection, and what can be compared of their results."""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import clquant
from clquant.estimator import Estimator

PICTURE = np.random.default_rng(7).integers(0, 9, (96, 48, 3)).astype(np.uint8) * np.uint8(31)
SIX = clquant.Palette([(0, 0, 0), (255, 255, 255), (200, 30, 30), (30, 200, 30), (30, 30, 200), (128, 128, 128)])
ENGINES: dict[str, Callable[[], Any]] = {
    "KMeansPalette": lambda: clquant.KMeansPalette(5, max_iter=3, swap_rounds=1),
    "NeuQuantCL": lambda: clquant.NeuQuantCL(5),
    "PinwheelHalftoner": lambda: clquant.PinwheelHalftoner(8, palette=SIX),
    "QuadtreeBuilder": lambda: clquant.QuadtreeBuilder(30),
    "SpatialPalette": lambda: clquant.SpatialPalette(3, rounds=1),
    "TilePalettes": lambda: clquant.TilePalettes(2, 4),
    "VQCodec": lambda: clquant.VQCodec(9, refine=0, max_iter=3),
    "ColorHistogram": lambda: clquant.ColorHistogram,
    "clquant": lambda: clquant,
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "fit_quality": {"max_mse": 9000.0},
    "clquant.quantize": {"colors": 5},
    "clquant.floyd_steinberg": {"palette": SIX},
}
TABLE = np.random.default_rng(8).integers(0, 8, (24, 12)).astype(np.uint8)


def verbs() -> Iterator[tuple[str, str]]:
    """Public functions of a picture, and the methods of classes that take one, several, or an index table."""
    for name in clquant.__all__:
        made = getattr(clquant, name)
        if inspect.isfunction(made) and _takes_pictures(made):
            yield "clquant", name
        elif (
            inspect.isclass(made) and (name in ENGINES or issubclass(made, Estimator)) and not inspect.isabstract(made)
        ):
            for verb, method in inspect.getmembers(made, inspect.isroutine):
                if not verb.startswith("_") and verb != "stream" and _takes_pictures(method):
                    yield name, verb


def _takes_pictures(method: Callable[..., Any]) -> bool:
    names = [name for name in inspect.signature(method).parameters if name not in ("self", "file")]
    return bool(names) and names[0] in ("image", "images", "indices")


def given_to(engine: str, verb: str) -> Any:
    """What a verb takes."""
    return TABLE if f"{engine}.{verb}" == "VQCodec.decode" else PICTURE


def options_of(engine: str, verb: str) -> dict[str, Any]:
    """Arguments that a verb needs beside its picture."""
    return ARGUMENTS.get(f"{engine}.{verb}", ARGUMENTS.get(verb, {}))


def call_of(engine: str, verb: str, queue: Any = None) -> Callable[..., Any]:
    """A verb of a new engine, fitted where it must be, as a function of a picture; on some queues if they are given."""
    own = ENGINES[engine]()
    if queue is not None and hasattr(own, "set_params"):
        own.set_params(queue=queue)
    if hasattr(own, "fit") and not verb.startswith("fit"):
        own.fit(PICTURE)
    method = functools.partial(getattr(own, verb), **options_of(engine, verb))
    if queue is not None and takes(method, "queue"):
        method = functools.partial(method, queue=queue)
    if verb == "fit_many":
        return lambda image, **given: method([image], **given)
    if verb == "compress_to":
        return functools.partial(_to_bytes, method)
    return method


def _to_bytes(method: Callable[..., Any], image: Any, **given: Any) -> bytes:
    file = io.BytesIO()
    method(file, image, **given)
    return file.getvalue()


def comparable(made: Any) -> Any:
    """What can be compared of a result."""
    if isinstance(made, Estimator):
        return [np.asarray(getattr(made, name)) for name in ("palette_", "codebook_") if hasattr(made, name)]
    if isinstance(made, clquant.IndexedImage):
        return [made.indices, made.palette]
    if isinstance(made, clquant.Quadtree):
        return made.leaves()
    if isinstance(made, clquant.ColorHistogram):
        return list(made.to_arrays())
    return made.compute() if hasattr(made, "compute") else made


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def takes(call: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(call).parameters
