"""Standard input, output and error: what cannot be read or written there is said in one plain sentence.

Terminals that can are shown pictures.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from clquant.color.formats import sixel
from clquant.color.indexed import IndexedImage
from clquant.images import files
from clquant.runtime import FileError, InvalidArgument

_LAYOUT = "\n\t"
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ANSWER_SECONDS = 1.0
# DEC's "primary device attributes": the answer lists what a terminal can, 4 being sixel.
_QUESTION = b"\x1b[c"
_SIXEL = "4"
_WRITING = threading.RLock()
_status = [""]  # the line that `show_status` has left


def read(limit: int = files.MOST_BYTES) -> bytes:
    """Read all bytes of standard input."""
    data = files.read_rest(source(), "standard input", limit)
    if not data:
        raise FileError("standard input is empty")
    return data


def printable(text: str, keep: str = "") -> str:
    """Escape control characters, so that names of files cannot command the terminal."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def source() -> BinaryIO:
    """Return standard input as a binary file."""
    if sys.stdin is None:
        raise FileError("standard input is closed")
    return sys.stdin.buffer


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def refuse_terminal() -> None:
    """Refuse to write a result to standard output if that is a terminal."""
    if is_terminal():
        raise InvalidArgument("the result is binary and standard output is a terminal; name a file with -o")


def write(data: bytes) -> None:
    """Write a result to standard output."""
    refuse_terminal()
    show(data)


def show(data: bytes) -> None:
    """Write what terminals take to standard output, also into a terminal."""
    with _output_errors():
        show_status("")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write_text(text: str) -> None:
    """Print text to standard output."""
    with _output_errors():
        # What the stream's encoding lacks, of names for instance, is written as escapes, as on standard error.
        encoding = sys.stdout.encoding or "utf-8"
        text = printable(text, _LAYOUT)
        show_status("")
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
    with _WRITING:
        show_status("")
        _complain(printable(text, _LAYOUT))


def show_status(text: str) -> None:
    """Show a line on standard error, a terminal, instead of the last one; all other texts take its place."""
    with _WRITING:
        if text != _status[0]:
            end = "" if text else "\r"
            _complain(f"\r{text:{len(_status[0])}}{end}")
            _status[0] = text


def _complain(text: str) -> None:
    if sys.stderr is not None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            abandon(sys.stderr)


def check_terminal() -> None:
    """Refuse a terminal that cannot show pictures, before there is work for nothing; a file or pipe takes them all."""
    if is_terminal() and not _can_sixel():
        raise InvalidArgument("this terminal does not show sixel pictures; write a file with -o instead of --show")


def show_picture(picture: IndexedImage) -> None:
    """Print a picture as sixel; in a terminal narrower than it, every second or third pixel."""
    step = -(-picture.shape[1] // _width_in_pixels(picture.shape[1])) if is_terminal() else 1
    show(sixel.encode(picture.host_indices()[::step, ::step], picture.palette.rgba()) + b"\n")


def _width_in_pixels(default: int) -> int:
    try:
        import fcntl
        import struct
        import termios

        answer = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError):
        return default
    return int(struct.unpack("HHHH", answer)[2]) or default


def _can_sixel() -> bool:
    """Whether the terminal says that it can."""
    try:
        with _raw_terminal() as terminal:
            os.write(terminal, _QUESTION)
            answer = b""
            while not answer.endswith(b"c") and select.select([terminal], [], [], ANSWER_SECONDS)[0]:
                answer += os.read(terminal, 64)
    except (ImportError, OSError):
        return False
    return can_sixel(answer)


def can_sixel(answer: bytes) -> bool:
    """Whether a terminal's answer to the question for its attributes, ``ESC [ ? ... c``, names sixel."""
    text = answer.decode("ascii", "replace")
    return text.startswith("\x1b[?") and text.endswith("c") and _SIXEL in text[3:-1].split(";")[1:]


@contextlib.contextmanager
def _raw_terminal() -> Iterator[int]:
    import termios
    import tty

    terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    try:
        before = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal)
            yield terminal
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    finally:
        os.close(terminal)
