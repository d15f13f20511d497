"""The help of each command fits a screen, and its options have the words of Python's parameters."""

from __future__ import annotations

import argparse
import inspect
import re
from typing import Any

import pytest

import clquant
from clquant import cli
from clquant.cli import main

# The parameters of Python's that each command takes as options.
PARAMETERS = {
    "palette": (clquant.KMeansPalette, "n_colors color_space color_format fixed_colors random_state"),
    "halftone": (clquant.PinwheelHalftoner, "block_size scan weights levels palette color_space noise random_state"),
    "quadtree": (clquant.QuadtreeBuilder, "threshold criterion weights min_size max_depth"),
    "tileset": (clquant.TilePalettes, "n_palettes n_colors tile_size shared_color color_format color_space"),
    "tiles": (clquant.tiles.quantize, "dither color_space random_state keep_empty memory"),
    "vq train": (clquant.VQCodec, "codebook_size block_shape init refine random_state"),
    "vectors train": (clquant.VectorQuantizer, "n_codewords init n_init max_iter refine metric scale random_state"),
    "vq encode": (clquant.VQCodec, "codebook_size block_shape init refine state_size tolerance"),
}


def parsers(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Every command and subcommand, without the first word."""
    found: dict[str, Any] = {}
    for action in parser._actions:
        for child in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            found[child.prog.removeprefix("clquant ")] = child
            found.update(parsers(child))
    return found


COMMANDS = parsers(cli.build_parser())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as end:
            main([*name.split(), option])
        assert end.value.code == 0
        shown[option] = capsys.readouterr().out
    assert shown["--help"].startswith(f"usage: clquant {name} ")
    assert len(shown["--help"].splitlines()) <= 24
    assert "--help-all" in shown["--help"]
    if shown["--help"] != shown["--help-all"]:
        assert len(re.findall(r"^  -", shown["--help"], flags=re.MULTILINE)) <= 11
        assert "examples:" in shown["--help"]
    every = {word for action in COMMANDS[name]._actions for word in action.option_strings}
    hidden = {action.option_strings[0] for action in COMMANDS[name]._actions if action.help == argparse.SUPPRESS}
    assert {word for word in every - hidden if word not in shown["--help-all"]} == set()


@pytest.mark.parametrize("name", ["", "vq", "vectors"])
def test_a_command_without_words_prints_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(name.split())
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: clquant {name}".strip())


@pytest.mark.parametrize("name", PARAMETERS)
def test_options_are_called_as_parameters_are(name: str) -> None:
    target, names = PARAMETERS[name]
    options = {word for action in COMMANDS[name]._actions for word in action.option_strings}
    for parameter in names.split():
        assert parameter in inspect.signature(target).parameters
        assert "--" + parameter.replace("_", "-") in options


def test_short_help_shows_pythons_words() -> None:
    shown = COMMANDS["palette"].format_help()
    assert re.search("-k( K)?, --n-colors K", shown)  # shorter from Python 3.13 on
    assert "--colors" not in shown
