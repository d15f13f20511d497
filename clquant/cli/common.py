"""What the subcommands share: arguments, devices, messages, progress."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from clquant import runtime
from clquant.cli import streams
from clquant.runtime import InvalidArgument


def add_inputs(parser: argparse.ArgumentParser, what: str = "picture") -> None:
    """Declare ``inputs``: one or more files and folders, or ``-``."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="IN",
        help=f"{what} files, folders (searched with their subfolders), or - for standard input",
    )


def add_output(parser: argparse.ArgumentParser, suffixes: str, default: str) -> None:
    """Declare ``-o``.

    Parameters
    ----------
    parser : ArgumentParser
    suffixes : str
        What suffixes mean, for the help.
    default : str
        What happens without it, for the help.
    """
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help=f"file to write ({suffixes}), folder where IN is several files or a folder, or - for standard output; "
        f"default: {default}",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare ``--device`` and ``--quiet``."""
    parser.add_argument(
        "--device", metavar="NAME", help="OpenCL device: its number, gpu, cpu, or a part of its name (clquant devices)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def open_queue(args: argparse.Namespace) -> runtime.CommandQueue:
    """The queue of the device that ``--device`` names, else of the default device.

    Raises
    ------
    NoDeviceError
        If there is no such device.
    """
    return runtime.default_queue(runtime.find_device(args.device) if args.device is not None else None)


def refuse(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Refuse options that would have no effect.

    Parameters
    ----------
    args : Namespace
        In it an option that was not given is None.
    names : sequence of str
        The options' names there; in errors they begin with two dashes.
    why : str
        The rest of the sentence, after "--option is given ".

    Raises
    ------
    InvalidArgument
        Naming the first that was given.
    """
    for name in names:
        if getattr(args, name) is not None:
            raise InvalidArgument(f"--{name.replace('_', '-')} is given {why}")


def chosen(args: argparse.Namespace, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name, those that were not given (None) with their defaults."""
    return {name: default if getattr(args, name) is None else getattr(args, name) for name, default in defaults.items()}


def say(args: argparse.Namespace, text: str) -> None:
    """Print a line about the work to standard error, unless ``--quiet``."""
    if not args.quiet:
        streams.complain(streams.printable(text) + "\n")


@contextlib.contextmanager
def progress_bar(args: argparse.Namespace, label: str) -> Iterator[Callable[[int, int], None]]:
    """A ``progress=`` callback that shows a bar on a terminal's standard error once a second has passed.

    Uses tqdm where it is installed (extra ``cli``), else a plain percentage.

    Parameters
    ----------
    args : Namespace
        Its `quiet` silences the bar.
    label : str
    """
    if args.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    bar = _Bar(streams.printable(label))
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    DELAY_SECONDS = 1.0

    def __init__(self, label: str) -> None:
        self._label = label
        self._begin = time.monotonic()
        self._shown = False
        self._bar: Any = None

    def update(self, done: int, total: int) -> None:
        if time.monotonic() - self._begin < self.DELAY_SECONDS:
            return
        self._shown = True
        try:
            from tqdm import tqdm
        except ImportError:
            sys.stderr.write(f"\r{self._label}: {100 * done // max(total, 1)} %")
            sys.stderr.flush()
            return
        if self._bar is None:
            self._bar = tqdm(total=total, desc=self._label, leave=False, file=sys.stderr)
        self._bar.total = total
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown:
            sys.stderr.write("\r" + " " * (len(self._label) + 8) + "\r")
