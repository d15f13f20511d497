"""The command line: subcommands, helps that fit a screen, errors of one sentence."""

from __future__ import annotations

import argparse
import copy
import difflib
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import clquant
from clquant.cli import commands, streams

COMMANDS = tuple(module.name for module in pkgutil.iter_modules(commands.__path__))
"""Modules of `clquant.cli.commands`."""

OF_ALL = ("-h", "--help", "--version")
"""Options that stand before a command."""

EXIT_USAGE = 2

SCREEN_LINES, SCREEN_COLUMNS = 24, 80
"""Longer helps show everyday options alone; ``--help-all`` shows the rest."""

EPILOG = """examples:
  clquant palette photo.jpg -k 64 -o photo-64.png
  clquant palette frames/ -k 128 --shared -o out/
  clquant devices

Each command explains itself: clquant palette --help
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and that does not hide that its help cannot be written."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._subparsers is not None and args == [] and "_ARGCOMPLETE" not in os.environ:
            self.print_help()
            self.exit()
        return super().parse_known_args(args, namespace)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            streams.write_text(message)
        else:
            streams.complain(message)


class _HelpAll(argparse.Action):
    """``--help-all``: print every option, and end."""

    def __call__(self, parser: Any, *_: Any) -> None:
        parser._print_message(parser.format_help_all(), sys.stdout)
        parser.exit()


class _Command(_Parser):
    """A command's parser: its help fits a screen, and errors about arguments that it does not know name it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_argument("--help-all", nargs=0, action=_HelpAll, help="show every option and example, and exit")

    def format_help_all(self) -> str:
        """Every option, in the parser's groups, and every example."""
        return super().format_help()

    def format_help(self) -> str:
        """The whole help if it fits a screen, else everyday options under Python's words, and the first examples."""
        whole = self.format_help_all()
        if len(whole.splitlines()) <= SCREEN_LINES:
            return whole
        places = [action for action in self._actions if not action.option_strings]
        declared = self.get_default("options") or {}
        options = [one for one in self._actions if "everyday" in getattr(declared.get(one.dest), "traits", ())]
        options += [one for one in self._actions if isinstance(one, _HelpAll)]
        named = " ".join(f"{action.metavar} ..." for action in places)
        formatter = self._get_formatter()
        formatter.add_usage(f"{self.prog} [options] {named}", [], [])
        formatter.add_text(self.description)
        formatter.start_section("everyday options")
        formatter.add_arguments(map(_short, [*places, *options]))
        formatter.end_section()
        examples = (self.epilog or "").splitlines()[:3]
        short = [re.sub(r"(?<=\S)   .*", "", one) if len(one) > SCREEN_COLUMNS else one for one in examples]
        formatter.add_text("\n".join(short))
        return formatter.format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = _Words(self, args)
        found, unknown = super().parse_known_args(args if self._subparsers else words.sorted(), namespace)
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._option_string_actions, 1)
            hint = f"; the nearest option is {near[0]}" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        if not self._subparsers:
            found.typed = words.typed
        return found, unknown


class _Words:
    """A command's words: its options first, so that inputs may stand anywhere and none is taken for an option's value.

    `typed`: of each option that is given the word for it, by the name of its value.
    """

    def __init__(self, parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
        self._known = parser._option_string_actions
        self._rest, self.typed = list(words), dict[str, str]()
        self._options, self._inputs = list[str](), list[str]()

    def sorted(self) -> list[str]:
        """Return options with their values, ``--`` and inputs."""
        while self._rest:
            word = self._rest.pop(0)
            if word == "--":
                self._inputs += self._rest
                break
            if word == "-" or not word.startswith("-"):
                self._inputs.append(word)
                continue
            self._options.append(word)
            if (action := self._action(word)) is not None and "=" not in word:
                self._take_values(action)
        return [*self._options, "--", *self._inputs] if self._inputs else self._options

    def _action(self, word: str) -> argparse.Action | None:
        """Find the option that takes the next words as values, and note how the last one was typed."""
        name = word.partition("=")[0]
        if word.startswith("--"):
            action = self._known.get(name) or next(
                (self._known[one] for one in self._known if one.startswith(name)), None
            )
            if action is not None:
                self.typed[action.dest] = name
            return action
        for place, letter in enumerate(word[1:], 2):  # such as -qk 16 and -k16
            action = self._known.get(f"-{letter}")
            if action is None:
                return None
            self.typed[action.dest] = f"-{letter}"
            if action.nargs != 0:
                return action if place == len(word) else None
        return None

    def _take_values(self, action: argparse.Action) -> None:
        if action.nargs is None and self._rest:
            self._options.append(self._rest.pop(0))
        while action.nargs in ("?", "+") and self._rest and _may_be_value(action, self._rest[0]):
            self._options.append(self._rest.pop(0))
            if action.nargs == "?":
                break


def _may_be_value(action: argparse.Action, word: str) -> bool:
    """Whether a word is a value of an option rather than an input or an option; a mistyped value is one too."""
    if word.startswith("-"):
        return False
    try:
        if action.choices is None:
            action.type(word)  # type: ignore[operator,misc]
            return True
    except ValueError:
        return False
    return word in action.choices or not ("." in word or os.path.exists(word) or os.sep in word)


def _short(action: argparse.Action) -> argparse.Action:
    """Copy an option with the last of its long words, which is Python's, and the beginning of its help."""
    made = copy.copy(action)
    made.option_strings = [*(word for word in action.option_strings if word[1] != "-"), *action.option_strings[-1:]]
    made.help = re.split(r"; | \((?!default)", action.help or "")[0]
    return made


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Make the command line of some subcommands, whose modules are imported; by default of all."""
    parser = _Parser(
        prog="clquant",
        description="Quantize images on any OpenCL device, with the same result on every machine.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"clquant {clquant.__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Command)
    for name in names:
        module = importlib.import_module(f"clquant.cli.commands.{name}")
        description = module.HELP[0].upper() + module.HELP[1:] + "."
        command = subparsers.add_parser(name, help=module.HELP, description=description, epilog=module.EPILOG)
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser
