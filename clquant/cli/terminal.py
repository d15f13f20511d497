"""Showing a picture in the terminal."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator

from clquant.cli import streams
from clquant.color.formats import sixel
from clquant.color.indexed import IndexedImage
from clquant.runtime import InvalidArgument

ANSWER_SECONDS = 1.0
# DEC's "primary device attributes": the answer lists what a terminal can, 4 being sixel.
_QUESTION = b"\x1b[c"
_SIXEL = "4"


def check() -> None:
    """Refuse a terminal that cannot show pictures, before there is work for nothing; a file or pipe takes them all."""
    if streams.is_terminal() and not _can_sixel():
        raise InvalidArgument("this terminal does not show sixel pictures; write a file with -o instead of --show")


def show(picture: IndexedImage) -> None:
    """Print a picture as sixel; in a terminal narrower than it, every second or third pixel."""
    step = -(-picture.shape[1] // _width_in_pixels(picture.shape[1])) if streams.is_terminal() else 1
    streams.show(sixel.encode(picture.host_indices()[::step, ::step], picture.palette.rgba()) + b"\n")


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
