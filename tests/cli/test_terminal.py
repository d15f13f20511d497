"""Terminals that show pictures, and those that do not."""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import subprocess
import sys

import pytest

from clquant.cli import common, terminal

ROOT = pathlib.Path(__file__).parents[2]


def test_terminals_that_can():
    assert terminal.can_sixel(b"\x1b[?62;4;6c")
    assert not terminal.can_sixel(b"\x1b[?62;6;22c")
    assert not terminal.can_sixel(b"\x1b[?4c")
    assert not terminal.can_sixel(b"")


def asked(answer):
    """What a terminal that answers so gets to see of `terminal.check()`, and what goes to standard error."""
    own, theirs = os.openpty()
    # However long this process waits for a processor before it answers.
    command = "from clquant.cli import terminal; terminal.ANSWER_SECONDS = 600; terminal.check(); print('welcome')"
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


@pytest.mark.full
def test_a_terminal_is_asked_before_the_work():
    assert asked(b"\x1b[?62;4;6c") == (b"welcome\r\n", b"")
    assert b"InvalidArgument: this terminal does not show sixel pictures" in asked(b"\x1b[?62;6c")[1]
