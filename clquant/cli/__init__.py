"""The `clquant` command: `main`, shared modules, and one module or folder per subcommand in `commands`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import clquant
from clquant.cli import common, streams
from clquant.cli.common import EXIT_FAILED
from clquant.cli.parser import COMMANDS, EXIT_USAGE, OF_ALL, build_parser
from clquant.params import reason_of
from clquant.runtime import InvalidArgument

COMPLETION_VARIABLE = "_ARGCOMPLETE"  # set by the shell while it asks for completions

_NO_MEMORY = "there is not enough memory for this job"
EXIT_PIPE = 141  # as a shell reports a process that a closed pipe ended


def main(
    arguments: Sequence[str] | None = None, *, running: contextlib.AbstractContextManager[None] | None = None
) -> int:
    """Run the command."""
    args = argparse.Namespace()
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        named = given[:1] if given and given[0] in COMMANDS else COMMANDS
        if COMPLETION_VARIABLE in os.environ:
            with contextlib.suppress(ImportError):  # of the extra ``cli``
                import argcomplete

                argcomplete.autocomplete(build_parser())  # which ends
        if given and given[0] not in COMMANDS and given[0] not in OF_ALL:
            example = given[0] if os.path.exists(given[0]) else "photo.jpg"
            allowed = f"{', '.join(COMMANDS)}, such as clquant palette {example}"
            raise InvalidArgument(f"the first word is {given[0]!r}; allowed: a command: {allowed}")
        args = build_parser(named).parse_args(given)
        if getattr(args, "dither", None) == common.NO_DITHER:
            args.dither = None
        with running or contextlib.nullcontext(), _plain_warnings():
            with common.progress_bar(args, f"clquant {args.command}"):
                status = int(args.run(args))
            common.print_losses(args)
            common.print_records(args)
            return status
    except KeyboardInterrupt as error:
        number = error.args[0] if error.args else None  # of the signal, where that is not Ctrl-C's
        return _say("interrupted" if number is None else "terminated", 128 + (number or signal.SIGINT))
    except BrokenPipeError:
        streams.abandon(sys.stdout)
        return EXIT_PIPE
    except clquant.ClquantError as error:
        return _say(common.as_typed(args, str(error)), EXIT_USAGE)
    except MemoryError:
        return _say(_NO_MEMORY, EXIT_FAILED)
    except OSError as error:  # of the system: no more processes or open files, a folder that is gone
        if os.environ.get("CLQUANT_DEBUG"):
            raise
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
        return _say(f"{where}{reason_of(error)}", EXIT_FAILED)
    except Exception as error:
        if os.environ.get("CLQUANT_DEBUG"):
            raise
        if "can't start new thread" in str(error):
            return _say(f"{_NO_MEMORY}, or there are too many threads", EXIT_FAILED)
        return _say(f"unexpected {type(error).__name__}: {error} (CLQUANT_DEBUG=1 shows where)", EXIT_FAILED)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Within the block warnings are sentences, each said once, without places in the code."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            streams.complain(f"clquant: {message}\n")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _say(message: str, status: int) -> int:
    streams.complain(f"clquant: {message}\n")
    return status
