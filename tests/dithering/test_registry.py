"""Names of dithers: each built-in one is registered by the module that the registry imports for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from clquant.dithering import registry
from clquant.palette import engine
from clquant.runtime import InvalidArgument


@pytest.mark.full
def test_built_in_names_are_those_that_modules_register():
    code = """
import importlib
from clquant.dithering import registry
for module, names in registry._BUILT_IN.items():
    before = set(registry._DITHERERS)
    importlib.import_module(module)
    assert set(names) <= set(registry._DITHERERS), module
assert set(registry._DITHERERS) == set(registry.dither_names()) == set(registry._MODULE_OF)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_found():
    for name in registry.dither_names():
        assert registry.find_dither(name) is not None
    assert registry.find_dither(True) is registry.find_dither(registry.DEFAULT)
    with pytest.raises(InvalidArgument, match="dither is 'none'; allowed: None, a bool, "):
        registry.find_dither("none")


@pytest.mark.parametrize("dither", ["floyd-steinberg", "pinwheel", "search"])
def test_errors_of_other_regions_draw_no_specks(queue, dither):
    """A soft ramp beside a blue that the palette lacks shows none of the bright entries around it."""
    steps = np.arange(0, 256, 16)
    soft = np.stack([60 + steps // 4, 90 + steps // 4, 130 + steps // 3], axis=1)
    bright = [[255, 120, 0], [120, 255, 0], [130, 0, 0], [255, 255, 0], [255, 0, 255], [0, 255, 255]]
    ramp = np.arange(0, 240)[None].repeat(64, axis=0)
    image = np.stack([62 + ramp // 4, 88 + ramp // 4, 131 + ramp // 3], axis=2).astype(np.uint8)
    image[:, :40] = 0, 0, 255
    shown = engine.transform(image, np.concatenate([soft, bright]), dither=dither, queue=queue).astype(int)
    assert np.abs(shown - image)[:, 40:].max() <= 60
    assert len(np.unique(shown[:, 40:].reshape(-1, 3), axis=0)) > 8
