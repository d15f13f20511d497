"""Every public verb on a Dask array: the bits of the plain call or one clear error, never all pixels in the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import clquant
from clquant import quality

from ..flow import every_verb
from ..flow.every_verb import call_of, comparable, same, verbs

# Verbs that need the whole picture in one process.
REFUSED = {
    "ColorHistogram.of",
    "clquant.alpha_edges",
    "KMeansPalette.fit_many",
    "NeuQuantCL.fit_many",
    "QuadtreeBuilder.build",
    *(f"SpatialPalette.{verb}" for verb in ("fit", "fit_many", "fit_predict", "fit_transform", "fit_quality")),
    *(f"TilePalettes.{verb}" for verb in ("fit", "predict", "transform", "quantize", "fit_predict", "fit_transform")),
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantize dithered": lambda image: clquant.quantize(image, 5, dither="bayer4"),
    "quantize to a palette": lambda image: clquant.quantize(image, ["black", "white"]),
    "mse": lambda image: float(quality.mse(image, image)),
}
PICTURE = every_verb.PICTURE[:40]
ROWS = PICTURE.reshape(-1, 5)[:200]


def coder() -> clquant.ProductQuantizer:
    return clquant.ProductQuantizer(1, 2, refine=0, max_iter=2).fit(ROWS)


# Verbs of values other than pictures, and figures of merit, that need all values in one process.
REFUSING: dict[str, Callable[[], Any]] = {
    **{
        name: lambda name=name: getattr(quality, name)(da.from_array(PICTURE, 20), PICTURE)
        for name in ("color_difference", "blurred_color_difference", "speck_error", "visual_error")
    },
    "indices": lambda: clquant.IndexedImage(da.zeros((9, 9), np.uint8, chunks=4), ["black", "white"]),
    "labels": lambda: clquant.VectorQuantizer(4, refine=0).fit(ROWS).inverse_transform(da.zeros(9, np.int32, chunks=4)),
    "codes": lambda: coder().decode(da.zeros((9, 1), np.uint8, chunks=4)),
    "numbers": lambda: coder().inverse_transform(da.zeros((9, 1), np.uint8, chunks=4)),
    "values": lambda: clquant.scalar_codebook(da.zeros(9, chunks=4), 2),
    "weights of rows": lambda: clquant.VectorQuantizer(4).fit(ROWS, sample_weight=da.ones(200, chunks=40)),
    "weights": lambda: clquant.KMeansPalette(4).fit(PICTURE, sample_weight=da.ones((40, 48), chunks=20)),
    "histogram": lambda: clquant.ColorHistogram.of(da.from_array(PICTURE, 20)),
}


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


def _compare(call: Callable[[Any], Any], refused: bool, asked: list[Any], given: Any = every_verb.PICTURE) -> None:
    given = given[:40]
    lazy = da.from_array(given, (17, 20, 3)[: given.ndim])
    if refused:
        with pytest.raises((clquant.InvalidType, clquant.InvalidArgument), match=r"(?s)Dask array.*allowed: "):
            call(lazy)
    else:
        assert same(comparable(call(lazy)), comparable(call(given)))
    assert not asked


@pytest.mark.parametrize(("engine", "verb"), list(verbs()))
def test_no_verb_computes_the_picture_in_the_client(engine: str, verb: str, watched: list[Any]) -> None:
    _compare(call_of(engine, verb), f"{engine}.{verb}" in REFUSED, watched, every_verb.given_to(engine, verb))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_computes_the_picture_in_the_client(name: str, watched: list[Any]) -> None:
    _compare(FUNCTIONS[name], False, watched)


@pytest.mark.parametrize("name", REFUSING)
def test_what_needs_all_values_refuses_them(name: str, watched: list[Any]) -> None:
    with pytest.raises(clquant.ClquantError, match=r"Dask array.*allowed: "):
        REFUSING[name]()
    assert not watched
