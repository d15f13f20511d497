"""The documentation does as it says: code is run, commands too, and what is named exists."""

from __future__ import annotations

import ast
import glob
import importlib.util
import pathlib
import re
import shlex

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant import Palette, cli

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [page.name for page in PAGES]
PARSER = cli.build_parser()


def blocks(page):
    """The indented blocks of a page's text, dedented."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"(?:^\n)((?:^    .*\n(?:\n(?=    ))?)+)", text, flags=re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def is_python(block):
    try:
        return any(not isinstance(node, ast.Expr) for node in ast.parse(block).body) or "clquant" in block
    except SyntaxError:
        return False


def commands(text):
    """The calls of `clquant` in some text, without comments, pipes and redirections."""
    found = re.findall(r"^(?:.*(?:\||&&) )?(clquant .*)$", text, flags=re.MULTILINE)
    return [shlex.split(re.split(r" {3,}| > ", line)[0], comments=True)[1:] for line in found]


@pytest.fixture
def folder(sample, tmp_path, monkeypatch):
    """A working folder that holds what the examples name."""
    small = np.ascontiguousarray(sample[100:164, 200:296])
    for name in ("photo.jpg", "photo.png", "a.png", "b.png", "c.png"):
        PIL.Image.fromarray(small).save(tmp_path / name)
    PIL.Image.fromarray(small[:, :, 1]).save(tmp_path / "gray.png")
    for name in ("photos", "frames", "pictures"):
        (tmp_path / name).mkdir()
        for number in range(2):
            PIL.Image.fromarray(small[:, :: 1 - 2 * number]).save(tmp_path / name / f"{number}.png")
    still = [PIL.Image.fromarray(np.roll(small, shift, 1)) for shift in range(0, 40, 2)]
    still[0].save(tmp_path / "clip.mp4", "GIF", save_all=True, append_images=still[1:], duration=80)  # read by content
    Palette([[0, 0, 0], [250, 250, 250], [90, 140, 30]]).write(tmp_path / "brand.gpl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_examples_run(page, folder):
    names = {}
    for block in blocks(page):
        if is_python(block):
            exec(compile(block, page.name, "exec"), names)
        for arguments in commands(block):
            given = [name for word in arguments for name in (sorted(glob.glob(word)) or [word])]
            assert PARSER.parse_args(given).command == given[0]
            assert cli.main([*given, "-q"]) == 0


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_is_named_exists(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        # The gallery's pages are made from the examples when the site is built.
        example = re.search(r"gallery/(plot_\w+)\.rst$", target)
        path = ROOT / "examples" / f"{example[1]}.py" if example else page.parent / target
        assert path.exists() or target.endswith("gallery/index.rst"), target
    for module in re.findall(r"python -m ((?:benchmarks|portability|tests|training)[\w.]*)", text):
        assert importlib.util.find_spec(module), module
    for name in re.findall(r"`(clquant(?:\.\w+)+)", text):
        if not name.endswith(".json"):
            found = importlib.import_module("clquant")
            for part in name.split(".")[1:]:
                if not hasattr(found, part):
                    importlib.import_module(f"{found.__name__}.{part}")
                found = getattr(found, part)
    for path in re.findall(r"`((?:cl|clquant|tests|portability|benchmarks|docs|training)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path


def help_texts():
    """The help of every command and subcommand."""
    waiting = [PARSER]
    while waiting:
        parser = waiting.pop()
        yield parser.prog, getattr(parser, "format_help_all", parser.format_help)()
        for action in parser._actions:
            if isinstance(action.choices, dict):
                waiting += action.choices.values()


@pytest.mark.parametrize(("command", "text"), list(help_texts()))
def test_examples_of_the_help_parse(command, text):
    calls = commands(re.sub(r"^ +", "", text, flags=re.MULTILINE))
    assert calls
    for arguments in calls:
        assert PARSER.parse_args(arguments).command == arguments[0]


def test_every_public_name_has_a_page():
    text = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", text, flags=re.MULTILINE)
    assert set(clquant.__all__) <= {*listed}


def test_the_table_of_variables_is_whole():
    table = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "clquant").rglob("*.py"))
    assert set(re.findall(r"\bCLQUANT_[A-Z_]+\b", sources)) == set(re.findall(r"`(CLQUANT_[A-Z_]+)` \|", table))
