"""The package's public names: each is there, imported when it is first asked for, and known to static tools."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

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
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    ]
    assert {name for _, name in seen} == {*clquant._HOME_OF, *clquant._MODULES} == set(clquant.__all__)


@pytest.mark.full
def test_importing_the_package_imports_no_engine():
    code = """
import sys
from collections.abc import Iterator
from typing import Any
import clquant.cli
clquant.cli.build_parser(["palette"])
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("clquant.")}
assert not rooms & {"kmeans", "neuquant", "vq", "quadtree", "quality"}, rooms
import clquant.video
from clquant import KMeansPalette, quantize
assert callable(quantize) and callable(clquant.quantize)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions among the public names, and the methods of public classes that this library defines."""
    for name in clquant.__all__:
        found = getattr(clquant, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found):
            for method, given in inspect.getmembers(found):
                plain = getattr(given, "__func__", given)
                if not method.startswith("_") and inspect.isfunction(plain) and plain.__module__.startswith("clquant"):
                    yield f"{name}.{method}", plain


def sections_of(text: str) -> dict[str, str]:
    """The sections of a docstring in NumPy's style, by their headings."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("name", "call"), list(public_callables()), ids=[name for name, _ in public_callables()])
def test_docstrings_name_every_parameter_and_what_is_returned(name: str, call: Any) -> None:
    signature, sections = inspect.signature(call), sections_of(call.__doc__ or "")
    heads = re.findall(r"^(\*{0,2}\w[\w*, ]*?)(?: :.*)?$", sections.get("Parameters", ""), flags=re.MULTILINE)
    named = {each.strip(" *") for head in heads for each in head.split(",")}
    assert {each for each in signature.parameters if each not in ("self", "cls")} <= named
    if signature.return_annotation not in (None, "None"):
        assert {"Returns", "Yields"} & set(sections)
