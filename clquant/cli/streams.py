"""Standard input, output and error: what cannot be read or written there is said in one plain sentence."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from clquant.runtime import FileError, InvalidArgument


def read() -> bytes:
    """All bytes of standard input.

    Raises
    ------
    FileError
        If it is closed, empty, or cannot be read.
    """
    if sys.stdin is None:
        raise FileError("standard input is closed")
    try:
        data = sys.stdin.buffer.read()
    except OSError as error:
        raise FileError(f"cannot read standard input: {error.strerror or error}") from error
    if not data:
        raise FileError("standard input is empty")
    return data


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def write(data: bytes) -> None:
    """Write a result to standard output.

    Raises
    ------
    FileError
        If it is closed, or its disk is full.
    InvalidArgument
        If it would be printed into a terminal.
    """
    if is_terminal():
        raise InvalidArgument("the result is binary and standard output is a terminal; name a file with -o")
    show(data)


def show(data: bytes) -> None:
    """As `write`, into terminals too: what terminals take."""
    with _output_errors():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write_text(text: str) -> None:
    """Print text to standard output.

    Raises
    ------
    FileError
        If it is closed, or its disk is full.
    """
    with _output_errors():
        # What the stream's encoding lacks, of names for instance, is written as escapes, as on standard error.
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()


@contextlib.contextmanager
def _output_errors() -> Iterator[None]:
    """Make `FileError` of all that fails but a reader that went away, of which `main` knows what to do."""
    if sys.stdout is None:
        raise FileError("standard output is closed")
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon(sys.stdout)
        raise FileError(f"cannot write to standard output: {error.strerror or error}") from error


def abandon(stream: TextIO) -> None:
    """Give a standard stream another place to write to: Python fails at exit where something is left in it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """Print text to standard error, where there is one."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            abandon(sys.stderr)
