"""The `clquant` command: one module per subcommand, listed in `COMMANDS`.

Each module has `HELP` (one line), `configure(parser)`, and `run(args) -> int`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import clquant
from clquant.cli import common, streams

COMMANDS = (
    "bench",
    "compare",
    "devices",
    "halftone",
    "palette",
    "panel",
    "quadtree",
    "tiles",
    "tileset",
    "tune",
    "vq",
)

COMPLETION_VARIABLE = "_ARGCOMPLETE"  # set by the shell while it asks for completions

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141  # as a shell reports a process that a closed pipe ended

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


class _Command(_Parser):
    """A command's parser, which names itself in errors about arguments that it does not know."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


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
    return importlib.import_module(f"clquant.cli.{name}")


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
