"""Terminals that show pictures, and those that do not."""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

from clquant import IndexedImage
from clquant.cli import common, main, streams
from clquant.runtime import InvalidArgument
from tests.reference.sixel import decode

ROOT = pathlib.Path(__file__).parents[2]


def test_terminals_that_can():
    assert streams.can_sixel(b"\x1b[?62;4;6c")
    assert not streams.can_sixel(b"\x1b[?62;6;22c")
    assert not streams.can_sixel(b"\x1b[?4c")
    assert not streams.can_sixel(b"")


def asked(answer):
    """What a terminal that answers so gets to see of `streams.check_terminal()`, and what goes to standard error."""
    own, theirs = os.openpty()
    # However long this process waits for a processor before it answers.
    command = (
        "from clquant.cli import streams; streams.ANSWER_SECONDS = 600; streams.check_terminal(); print('welcome')"
    )
    # Opening a terminal makes it the controlling one of a session that has none.
    command = f"import os; os.open(os.ttyname(0), os.O_RDWR); {command}"
    files = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", command], cwd=ROOT, start_new_session=True, **files) as process:
        os.close(theirs)
        seen = b""
        while not seen.endswith(b"\x1b[c"):
            seen += os.read(own, 64)
        os.write(own, answer)
        errors = process.stderr.read()
    shown = os.read(own, 64) if not errors else b""
    os.close(own)
    return shown, errors


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("delay", "shown"), [(0, "a.png [##########          ] 50 %, 0 s left"), (600, "")])
def test_what_takes_long_shows_a_bar(monkeypatch, delay, shown):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(common, "BAR_DELAY_SECONDS", delay)
    with common.progress_bar(argparse.Namespace(quiet=False), "a.png") as progress:
        progress(0, 8)
        progress(4, 8)
        progress(4, 8)
    assert screen.getvalue() == (f"\r{shown}\r{' ' * len(shown)}\r" if shown else "")
    with common.progress_bar(argparse.Namespace(quiet=True), "a.png") as progress:
        progress(4, 8)
    assert screen.getvalue().count("a.png") == bool(shown)


def test_binary_results_do_not_go_to_a_terminal(monkeypatch, tmp_path, capsys):
    PIL.Image.new("L", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setattr(common, "open_queue", lambda _: pytest.fail("there was work"))
    for command in (["palette"], ["halftone"], ["vq", "encode"]):
        assert main([*command, str(tmp_path / "a.png"), "-o", "-"]) == 2
        said = "clquant: the result is binary and standard output is a terminal; name a file with -o\n"
        assert capsys.readouterr().err == said
    assert sys.stdout.getvalue() == ""


def test_pictures_are_shown_no_wider_than_the_terminal(monkeypatch):
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    own, theirs = os.openpty()
    pixels = np.arange(25 * 4, dtype=np.uint8).reshape(4, 25) % 8
    picture = IndexedImage(pixels, np.arange(24, dtype=np.uint8).reshape(8, 3) * 10)
    shown = []
    with os.fdopen(theirs, "w") as terminal_file:
        monkeypatch.setattr(sys, "stdout", terminal_file)
        monkeypatch.setattr(streams, "show", lambda data: shown.append(data.rstrip()))
        for width in (0, 10):
            fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, width, 0))
            streams.show_picture(picture)
    os.close(own)
    assert decode(shown[0]).shape[:2] == (4, 25)
    assert np.array_equal(decode(shown[1]), decode(shown[0])[::3, ::3])
    monkeypatch.setattr(sys, "stdout", Screen())
    assert streams._width_in_pixels(70) == 70


def test_where_there_is_no_terminal_none_is_asked(monkeypatch):
    def absent(*_):
        raise OSError(6, "No such device or address")

    monkeypatch.setattr(os, "open", absent)
    monkeypatch.setattr(streams, "is_terminal", lambda: True)
    with pytest.raises(InvalidArgument, match="this terminal does not show sixel pictures"):
        streams.check_terminal()


@pytest.mark.full
def test_a_terminal_is_asked_before_the_work():
    assert asked(b"\x1b[?62;4;6c") == (b"welcome\r\n", b"")
    assert b"InvalidArgument: this terminal does not show sixel pictures" in asked(b"\x1b[?62;6c")[1]
