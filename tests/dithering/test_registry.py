"""Names of dithers: each built-in one is registered by the module that the registry imports for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from clquant.dithering import registry
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
