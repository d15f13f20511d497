"""Every public verb on a Dask array: the bits of the plain call or one clear error, never all pixels in the client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import clquant
from clquant import quality
from clquant.estimator import Estimator

PICTURE = np.random.default_rng(7).integers(0, 9, (40, 48, 3)).astype(np.uint8) * np.uint8(31)
ENGINES: dict[str, Callable[[], Any]] = {
    "KMeansPalette": lambda: clquant.KMeansPalette(5),
    "NeuQuantCL": lambda: clquant.NeuQuantCL(5),
    "PinwheelHalftoner": lambda: clquant.PinwheelHalftoner(
        palette=clquant.Palette([(0, 0, 0), (255, 255, 255), (200, 30, 30)])
    ),
    "QuadtreeBuilder": lambda: clquant.QuadtreeBuilder(30),
    "SpatialPalette": lambda: clquant.SpatialPalette(4, rounds=1),
    "TilePalettes": lambda: clquant.TilePalettes(2, 4),
    "VQCodec": lambda: clquant.VQCodec(8, refine=0),
}
ARGUMENTS: dict[str, dict[str, Any]] = {"fit_quality": {"max_mse": 9000.0}}
# Verbs that need the whole picture in one process.
REFUSED = {
    "KMeansPalette.fit_many",
    "NeuQuantCL.fit_many",
    "QuadtreeBuilder.build",
    *(f"SpatialPalette.{verb}" for verb in ("fit", "fit_many", "fit_predict", "fit_transform", "fit_quality")),
    *(f"TilePalettes.{verb}" for verb in ("fit", "predict", "transform", "quantize", "fit_predict", "fit_transform")),
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantize": lambda image: clquant.quantize(image, 5),
    "quantize dithered": lambda image: clquant.quantize(image, 5, dither="bayer4"),
    "quantize to a palette": lambda image: clquant.quantize(image, ["black", "white"]),
    "dominant_colors": lambda image: clquant.dominant_colors(image, 5),
    "mse": lambda image: float(quality.mse(image, image)),
}


def _engines() -> Iterator[str]:
    for name in clquant.__all__:
        made = getattr(clquant, name)
        if inspect.isclass(made) and issubclass(made, Estimator) and not inspect.isabstract(made):
            yield name


def _verbs() -> Iterator[tuple[str, str]]:
    for engine in _engines():
        for verb, method in inspect.getmembers(getattr(clquant, engine), inspect.isfunction):
            first = [*inspect.signature(method).parameters, "", ""][1]
            if not verb.startswith("_") and verb != "stream" and first in ("image", "images"):
                yield engine, verb


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Shapes of the Dask arrays of which somebody asks for all values."""
    asked, own = [], da.Array.__array__

    def seen(array: Any, *args: Any, **options: Any) -> Any:
        asked.append(array.shape)
        return own(array, *args, **options)

    monkeypatch.setattr(da.Array, "__array__", seen)
    with dask.config.set(scheduler="synchronous"):
        yield asked


def _learned(made: Any) -> Any:
    """What can be compared of a result."""
    if isinstance(made, Estimator):
        return [getattr(made, name) for name in ("palette_", "codebook_") if hasattr(made, name)]
    if isinstance(made, clquant.IndexedImage):
        return made.indices, made.palette
    return made.compute() if isinstance(made, da.Array) else made


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def _compare(call: Callable[[Any], Any], refused: bool, asked: list[Any]) -> None:
    lazy = da.from_array(PICTURE, (17, 20, 3))
    if refused:
        with pytest.raises((clquant.InvalidType, clquant.InvalidArgument), match=r"(?s)Dask array.*allowed: "):
            call(lazy)
    else:
        assert _same(_learned(call(lazy)), _learned(call(PICTURE)))
    assert not asked


def test_every_engine_is_here() -> None:
    assert {engine for engine, _ in _verbs()} == set(ENGINES)


@pytest.mark.parametrize(("engine", "verb"), list(_verbs()))
def test_no_verb_computes_the_picture_in_the_client(engine: str, verb: str, watched: list[Any]) -> None:
    own = ENGINES[engine]()
    if hasattr(own, "fit") and not verb.startswith("fit"):
        own.fit(PICTURE)
    options = ARGUMENTS.get(verb, {})
    method = functools.partial(getattr(own, verb), **options)
    call = (lambda image: method([image])) if verb == "fit_many" else method
    _compare(call, f"{engine}.{verb}" in REFUSED, watched)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_computes_the_picture_in_the_client(name: str, watched: list[Any]) -> None:
    _compare(FUNCTIONS[name], False, watched)
