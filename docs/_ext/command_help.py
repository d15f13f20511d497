"""The directive `command-help`: one section for each `clquant` command, made from its parser."""

from __future__ import annotations

import argparse
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from clquant import cli


def subparsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found: list[argparse.ArgumentParser] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += action.choices.values()
    return found


def section(parser: argparse.ArgumentParser) -> nodes.section:
    """The help of a parser under its name, then that of its own commands."""
    made = nodes.section(ids=[nodes.make_id(parser.prog)], names=[parser.prog])
    made += nodes.title(text=parser.prog)
    text = parser.format_help_all()
    made += nodes.literal_block(text, text, language="text")
    for child in subparsers(parser):
        made += section(child)
    return made


class CommandHelp(SphinxDirective):
    """No arguments, no content."""

    def run(self) -> list[nodes.Node]:
        return [section(parser) for parser in subparsers(cli.build_parser())]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
