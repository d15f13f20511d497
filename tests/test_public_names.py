"""The package's public names: each is there, imported when it is first asked for, and known to static tools."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

import clquant


def test_every_name_is_there():
    for name in clquant.__all__:
        assert getattr(clquant, name) is not None
    assert set(clquant.__all__) <= set(dir(clquant))
    with pytest.raises(AttributeError, match="module 'clquant' has no attribute 'nothing'"):
        clquant.nothing  # noqa: B018


def test_static_tools_see_the_same_names():
    tree = ast.parse(pathlib.Path(str(clquant.__file__)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = [
        (node.module, alias.name) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert {name for _, name in seen} == {*clquant._HOME_OF, *clquant._MODULES} == set(clquant.__all__)


def test_importing_the_package_imports_no_engine():
    code = """
import sys
import clquant.cli
clquant.cli.build_parser(["palette"])
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("clquant.")}
assert not rooms & {"kmeans", "neuquant", "vq", "quadtree", "quality"}, rooms
import clquant.video
from clquant import KMeansPalette, quantize
assert callable(quantize) and callable(clquant.quantize)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
