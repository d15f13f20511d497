"""The `clquant` command: one module per subcommand, listed in `COMMANDS`.

Each module has `HELP` (one line), `configure(parser)`, and `run(args) -> int`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import clquant
from clquant.cli import common, streams

COMMANDS = (
    "animate",
    "compare",
    "devices",
    "halftone",
    "palette",
    "panel",
    "quadtree",
    "tiles",
    "tileset",
    "vq",
)

COMPLETION_VARIABLE = "_ARGCOMPLETE"  # set by the shell while it asks for completions

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141  # as a shell reports a process that a closed pipe ended

SCREEN_LINES = 30
"""Longer helps show `EVERYDAY` options alone; ``--help-all`` shows the rest."""

EVERYDAY = (
    "--output --n-colors --use --dither --color-space --shared --animate --max-bytes --save-palette --device --gray"
    " --levels --palette --block-size --refine --dpi --threshold --criterion --max-depth --outline --gif --save"
    " --codebook --codebook-size --block-shape --state-size --tile-size --n-palettes --shared-color --map --panel"
    " --tone --device-colors --crop --html --fps --quality --help-all"
)

DESCRIPTION = "Quantize images on any OpenCL device, with the same result on every machine."
EPILOG = """examples:
  clquant palette photo.jpg -k 64 -o photo-64.png
  clquant palette frames/ -k 128 --shared -o out/
  clquant devices

Each command explains itself: clquant palette --help
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and that does not hide that its help cannot be written."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")

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
        """The whole help if it fits a screen, else `EVERYDAY` options under Python's words, and the first examples."""
        whole = self.format_help_all()
        if len(whole.splitlines()) <= SCREEN_LINES:
            return whole
        places = [action for action in self._actions if not action.option_strings]
        options = sorted(filter(_is_everyday, self._actions), key=lambda action: isinstance(action, _HelpAll))
        named = " ".join(f"{action.metavar} ..." for action in places)
        formatter = self._get_formatter()
        formatter.add_usage(f"{self.prog} [options] {named}", [], [])
        formatter.add_text(self.description)
        formatter.start_section("everyday options")
        formatter.add_arguments([*places, *map(_short, options)])
        formatter.end_section()
        formatter.add_text("\n".join((self.epilog or "").splitlines()[:4]))
        return formatter.format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def _is_everyday(action: argparse.Action) -> bool:
    return not set(EVERYDAY.split()).isdisjoint(action.option_strings)


def _short(action: argparse.Action) -> argparse.Action:
    """An option with the last of its long words, which is Python's, and the beginning of its help."""
    made = copy.copy(action)
    made.option_strings = [*(word for word in action.option_strings if word[1] != "-"), action.option_strings[-1]]
    made.help = re.split(r"; | \((?!default)", action.help or "")[0]
    return made


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line of some subcommands, whose modules are imported; by default of all."""
    parser = _Parser(
        prog="clquant",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"clquant {clquant.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Command)
    for name in names:
        module = _module(name)
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def complete() -> None:
    """Answer the shell's question for completions and end, if argcomplete is installed (extra ``cli``)."""
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(build_parser())


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"clquant.cli.commands.{name}")


def main(
    arguments: Sequence[str] | None = None, *, running: contextlib.AbstractContextManager[None] | None = None
) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: the process's own.
    running : context manager, optional
        Entered while there is work under way.

    Returns
    -------
    int
        0 where all went well; 1 where the program itself failed; 2 on bad input or usage; 130 on Ctrl-C; 141
        where the reader of a pipe went away.
    """
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        named = given[:1] if given and given[0] in COMMANDS else COMMANDS
        if COMPLETION_VARIABLE in os.environ:
            complete()
        args = build_parser(named).parse_args(given)
        with running or contextlib.nullcontext():
            status = int(args.run(args))
            common.print_records(args)
            return status
    except KeyboardInterrupt:
        return _say("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        streams.abandon(sys.stdout)
        return EXIT_PIPE
    except clquant.ClquantError as error:
        return _say(str(error), EXIT_USAGE)
    except MemoryError:
        return _say("there is not enough memory for this job", EXIT_FAILED)
    except Exception as error:
        if os.environ.get("CLQUANT_DEBUG"):
            raise
        return _say(f"unexpected {type(error).__name__}: {error} (CLQUANT_DEBUG=1 shows where)", EXIT_FAILED)


def _say(message: str, status: int) -> int:
    streams.complain(f"clquant: {message}\n")
    return status
