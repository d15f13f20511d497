"""Terminals that show pictures, and those that do not."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pathlib
import re
import struct
import subprocess
import sys
import types

import numpy as np
import PIL.Image
import pytest

from clquant import IndexedImage
from clquant.cli import bar, common, main, streams
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


def test_a_step_is_shown_with_its_share_and_the_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(bar, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    task = bar.Task("a\x1b.png")
    assert re.fullmatch(r"a\\x1b.png \[ *#### *\] 3 s", task.text(103.0))
    task.report(0, 8)
    assert task.text(103.0) == f"a\\x1b.png [{' ' * 20}] 0 %"
    now[0] = 110.0
    task.report(4, 8)
    assert task.text(112.0) == "a\\x1b.png [##########          ] 50 %, 8 s left"
    task.report(1, 3)  # of something else: what is left is not known yet
    assert task.text(120.0) == "a\\x1b.png [######              ] 33 %"


LONG = """
import sys, time
from clquant.cli import bar, main
from clquant.cli.commands import vectors
bar.DELAY_SECONDS = 0
arguments = sys.argv[1:]
fit = vectors.clquant.VectorQuantizer.fit
def slow(model, *given, progress, **more):
    progress(1, 4)
    time.sleep(0.6)
    return fit(model, *given, progress=progress, **more)
vectors.clquant.VectorQuantizer.fit = slow
sys.exit(main(arguments))
"""


def screen_of(arguments):
    """What a terminal at standard error gets to see of a command."""
    own, theirs = os.openpty()
    command, shown = [sys.executable, "-c", LONG, *arguments], b""
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # at the end
            while found := os.read(own, 4096):
                shown += found
    os.close(own)
    assert process.returncode == 0
    return shown.decode()


def test_long_work_shows_a_bar_that_messages_replace(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(300, dtype=np.float32).reshape(60, 5))
    arguments = [
        "vectors",
        "train",
        str(tmp_path / "rows.npy"),
        "-n",
        "4",
        "--refine",
        "0",
        "-o",
        str(tmp_path / "b.npz"),
    ]
    shown = screen_of(arguments)
    assert "\rcodebook [#####               ] 25 %" in shown
    *_, last = (line for line in re.split("[\r\n]", shown) if line.strip() and "[" not in line)
    assert last.startswith("rows.npy -> ")
    assert screen_of([*arguments, "--quiet"]) == ""


def test_no_bar_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(bar, "DELAY_SECONDS", 0)
    with common.progress_bar(argparse.Namespace(), "a.png") as progress:
        progress(4, 8)
    assert capsys.readouterr().err == ""


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
