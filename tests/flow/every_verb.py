"""The public verbs of all engines, found by introspection, and what can be compared of their results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import clquant
from clquant.estimator import Estimator

PICTURE = np.random.default_rng(7).integers(0, 9, (96, 48, 3)).astype(np.uint8) * np.uint8(31)
SIX = clquant.Palette([(0, 0, 0), (255, 255, 255), (200, 30, 30), (30, 200, 30), (30, 30, 200), (128, 128, 128)])
ENGINES: dict[str, Callable[[], Any]] = {
    "KMeansPalette": lambda: clquant.KMeansPalette(5),
    "NeuQuantCL": lambda: clquant.NeuQuantCL(5),
    "PinwheelHalftoner": lambda: clquant.PinwheelHalftoner(8, palette=SIX),
    "QuadtreeBuilder": lambda: clquant.QuadtreeBuilder(30),
    "SpatialPalette": lambda: clquant.SpatialPalette(4, rounds=1),
    "TilePalettes": lambda: clquant.TilePalettes(2, 4),
    "VQCodec": lambda: clquant.VQCodec(8, refine=0, max_iter=3),
}
ARGUMENTS: dict[str, dict[str, Any]] = {"fit_quality": {"max_mse": 9000.0}}


def verbs() -> Iterator[tuple[str, str]]:
    """Engines' public methods of a picture, or pictures."""
    for name in clquant.__all__:
        made = getattr(clquant, name)
        if not inspect.isclass(made) or not issubclass(made, Estimator) or inspect.isabstract(made):
            continue
        for verb, method in inspect.getmembers(made, inspect.isfunction):
            first = [*inspect.signature(method).parameters, "", ""][1]
            if not verb.startswith("_") and verb != "stream" and first in ("image", "images"):
                yield name, verb


def call_of(engine: str, verb: str) -> Callable[..., Any]:
    """A verb of a new engine, fitted where it must be, as a function of a picture."""
    own = ENGINES[engine]()
    if hasattr(own, "fit") and not verb.startswith("fit"):
        own.fit(PICTURE)
    method = functools.partial(getattr(own, verb), **ARGUMENTS.get(verb, {}))
    if verb == "fit_many":
        return lambda image, **given: method([image], **given)
    return method


def comparable(made: Any) -> Any:
    """What can be compared of a result."""
    if isinstance(made, Estimator):
        return [np.asarray(getattr(made, name)) for name in ("palette_", "codebook_") if hasattr(made, name)]
    if isinstance(made, clquant.IndexedImage):
        return [made.indices, made.palette]
    if isinstance(made, clquant.Quadtree):
        return made.leaves()
    return made.compute() if hasattr(made, "compute") else made


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def takes(call: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(call).parameters
