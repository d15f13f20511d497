"""Subclasses of PyOpenCL's arrays go in and come out as their own kind, and stay on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl.array
import pytest

import clquant
from clquant import runtime


class Measured(pyopencl.array.Array):
    """An array with a constructor of its own, an attribute, and operators that are no comparisons."""

    def __init__(self, spacing: float, like: pyopencl.array.Array) -> None:
        vars(self).update(vars(like))
        self.spacing = spacing

    def __eq__(self, other: object) -> Any:
        raise AssertionError("compared")

    __hash__ = None

    def get(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("downloaded")


def on_host(array: Measured) -> Any:
    return pyopencl.array.Array.get(array)


CALLS: dict[str, Callable[[Any], Any]] = {
    "predict": lambda image: clquant.KMeansPalette(4).fit(image).predict(image),
    "transform": lambda image: clquant.KMeansPalette(4).fit(image).transform(image),
    "fit_predict": lambda image: clquant.KMeansPalette(4).fit_predict(image),
    "neuquant": lambda image: clquant.NeuQuantCL(4).fit(image).predict(image),
    "quantize": lambda image: clquant.quantize(image, 4).indices,
    "blue noise": lambda image: clquant.quantize(image, ["black", "white"], dither="blue-noise").indices,
    "error diffusion": lambda image: clquant.quantize(image, ["black", "white"], dither="stucki").indices,
    "pinwheel": lambda image: clquant.quantize(image, ["black", "white"], dither="pinwheel").indices,
    "search": lambda image: clquant.quantize(image, ["black", "white"], dither="search").indices,
    "spatial": lambda image: clquant.SpatialPalette(3).fit_transform(image),
    "tiles": lambda image: clquant.TilePalettes(2, 4).fit(image).predict(image),
    "encode": lambda image: clquant.VQCodec(4).fit(image).encode(image),
    "decode": lambda image: (codec := clquant.VQCodec(4).fit(image)).decode(codec.encode(image)),
    "halftone": lambda image: clquant.PinwheelHalftoner(8).transform(image),
    "refined": lambda image: clquant.PinwheelHalftoner(8).transform(image, refine=1),
    "floyd_steinberg": lambda image: clquant.floyd_steinberg(image, palette=["black", "red"]),
    "leaves": lambda image: clquant.QuadtreeBuilder().leaves(image),
    "alpha_edges": lambda image: clquant.alpha_edges(image, "binary"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_result_is_of_the_inputs_kind(queue: runtime.CommandQueue, name: str, rng: np.random.Generator) -> None:
    host = rng.integers(0, 256, (16, 24, 4 if name == "alpha_edges" else 3), np.uint8)
    given = Measured(0.5, pyopencl.array.to_device(queue, host))
    made = CALLS[name](given)
    assert type(made) is Measured
    assert made.spacing == 0.5
    assert made.queue is queue
    assert np.array_equal(on_host(made), on_host(Measured(0, CALLS[name](pyopencl.array.to_device(queue, host)))))
    assert np.array_equal(on_host(given), host)


@pytest.mark.full
def test_strides_and_16_bits(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    host = rng.integers(0, 65536, (16, 24, 3), np.uint16)
    plain = pyopencl.array.to_device(queue, host)[::2, 1:]
    made = clquant.quantize(Measured(2.0, plain), 4).indices
    assert type(made) is Measured
    assert np.array_equal(on_host(made), clquant.quantize(host[::2, 1:], 4).indices)
