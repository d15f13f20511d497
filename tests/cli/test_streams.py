"""The command's pipes: what they carry is read as files are, and what cannot be read or written is said plainly."""

from __future__ import annotations

import io
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import PIL.Image
import pytest

from clquant import QuadtreeBuilder, images
from clquant.cli import main, streams
from clquant.runtime import FileError

ROOT = pathlib.Path(__file__).parents[2]


def png(pixels, **options):
    data = io.BytesIO()
    image = PIL.Image.fromarray(pixels)
    image.save(data, "PNG", **options)
    return data.getvalue()


@pytest.fixture
def picture(rng):
    return rng.integers(0, 256, (12, 16, 3), np.uint8)


@pytest.fixture
def piped(monkeypatch, tmp_path):
    """Calls with some bytes on standard input, in a folder of its own; gives the exit code."""
    monkeypatch.chdir(tmp_path)

    def call(data, *arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return main([*arguments, "-q"])

    return call


def test_a_pipe_is_read_as_a_file(piped, tmp_path):
    image = PIL.Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) % 4)
    image.putpalette([0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255])
    gray = image.convert("L")
    data = _two_bits(np.asarray(gray) // 85, clear=2)
    (tmp_path / "key.png").write_bytes(data)
    expected = images.read(tmp_path / "key.png").array
    assert expected.shape == (4, 4, 4)
    assert (expected[:, :, 3] == 0).sum() == 4
    assert piped(data, "palette", "-", "-k", "8", "-o", "pipe.png") == 0
    assert main(["palette", "key.png", "-k", "8", "-o", "file.png", "-q"]) == 0
    assert (tmp_path / "pipe.png").read_bytes() == (tmp_path / "file.png").read_bytes()


def _two_bits(values, clear):
    """A PNG of gray values of two bits, one of them transparent, which Pillow does not write."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([int("".join(f"{v:02b}" for v in row), 2)]) for row in values)
    header = struct.pack(">IIBBBBB", 4, 4, 2, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"tRNS", struct.pack(">H", clear)), chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def test_a_pipe_has_the_pixel_bound_of_files(piped, monkeypatch, picture, capsys):
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 10)
    assert piped(png(picture), "palette", "-", "-o", "o.png") == 2
    assert capsys.readouterr().err == "clquant: cannot read standard input: more than 20 pixels\n"


@pytest.mark.parametrize("command", ["palette", "halftone", "quadtree", "compare"])
def test_no_picture_in_a_pipe(piped, command, capsys):
    assert piped(b"no picture", command, "-", "-o", "o.png") == 2
    said = "clquant: cannot read standard input: not a picture in a format that Pillow knows\n"
    assert capsys.readouterr().err == said


def test_a_pipe_to_frames_and_to_a_shared_palette(piped, picture, tmp_path):
    frames = [PIL.Image.fromarray(picture[:, :, i]) for i in range(3)]
    data = io.BytesIO()
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:])
    assert piped(data.getvalue(), "palette", "-", "--animate", "50", "-o", "again.gif") == 0
    with PIL.Image.open(tmp_path / "again.gif") as film:
        assert film.n_frames == 3
    assert piped(png(picture), "palette", "-", "--shared", "-k", "4", "-o", "shared.png") == 0


def test_a_tree_in_a_pipe(piped, picture, tmp_path):
    tree = QuadtreeBuilder().build(picture)
    assert piped(tree.to_bytes(), "quadtree", "-", "-o", "tree.png") == 0
    with PIL.Image.open(tmp_path / "tree.png") as image:
        assert np.array_equal(np.asarray(image), tree.render())
    assert piped(png(picture), "quadtree", "-", "-o", "again.png") == 0
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "tree.png").read_bytes()


def test_named_pipes(tmp_path, picture, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = png(picture)

    def feed():
        pipe.write_bytes(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert main(["palette", str(pipe), "-k", "256", "-o", str(tmp_path / "o.png"), "-q"]) == 0
    feeder.join()
    feeder = threading.Thread(target=feed)
    feeder.start()
    assert np.array_equal(images.read(pipe).array, picture)
    feeder.join()
    assert main(["palette", str(pipe)]) == 2
    assert "pipe' is no regular file; name an output with -o" in capsys.readouterr().err


def shell(line, **more):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    line = line.replace("clquant", f"'{sys.executable}' -m clquant")
    done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False, **more)
    return done.returncode, done.stderr


@pytest.mark.full
def test_full_disks(tmp_path, picture):
    full = "clquant: cannot write to standard output: No space left on device\n"
    (tmp_path / "a.png").write_bytes(png(picture))
    assert shell("clquant devices >/dev/full") == (2, full)
    assert shell("clquant --help >/dev/full") == (2, full)
    assert shell("clquant palette - -q <a.png >/dev/full", cwd=tmp_path) == (2, full)
    assert shell("clquant palette missing.png 2>/dev/full") == (2, "")


def test_closed_streams(tmp_path, picture):
    (tmp_path / "a.png").write_bytes(png(picture))
    assert shell("clquant devices >&-") == (2, "clquant: standard output is closed\n")
    assert shell("clquant palette - <&-") == (2, "clquant: standard input is closed\n")
    assert shell("clquant palette a.png 2>&-", cwd=tmp_path) == (0, "")
    assert shell("clquant palette missing.png 2>&-") == (2, "")
    assert (tmp_path / "a-256.png").exists()


def test_streams_that_are_not_there(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    for command in (["palette", "-"], ["vq", "info", "-"]):
        assert main(command) == 2
        assert capsys.readouterr().err == "clquant: standard input is closed\n"
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["devices"]) == 2
    assert capsys.readouterr().err == "clquant: standard output is closed\n"


def test_a_job_that_memory_does_not_suffice_for(monkeypatch, capsys):
    def exhausted():
        raise MemoryError

    monkeypatch.setattr("clquant.runtime.list_devices", exhausted)
    assert main(["devices"]) == 1
    assert capsys.readouterr().err == "clquant: there is not enough memory for this job\n"


def test_a_stream_without_end(monkeypatch):
    """As much is read as is allowed, and no more."""

    class Endless:
        class buffer:  # noqa: N801
            @staticmethod
            def read(size: int) -> bytes:
                return bytes(min(size, 1 << 16))

    monkeypatch.setattr(sys, "stdin", Endless)
    with pytest.raises(FileError, match="cannot read standard input: it is longer than 100000 bytes"):
        streams.read(100_000)


NASTY = "a\x1b[31m\x07\u202egnp\x9b1A.png"


@pytest.mark.full
def test_names_of_files_do_not_command_the_terminal(tmp_path, picture, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NASTY).write_bytes(png(picture))
    assert main(["palette", NASTY, "-k", "4"]) == 0
    assert main(["palette", NASTY, "-k", "0"]) == 2
    assert main(["vq", "encode", NASTY, "-n", "4", "-o", "x.clvq"]) == 0
    (tmp_path / "x.clvq").rename(tmp_path / "x\x1b]0;title\n.clvq")
    assert main(["vq", "info", "x\x1b]0;title\n.clvq"]) == 0
    shown = "".join(capsys.readouterr())
    assert "\\x1b[31m" in shown
    assert "x\\x1b]0;title\\n.clvq: " in shown
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(shown)


def test_what_is_no_stream_to_read(monkeypatch):
    class Unreadable:
        class buffer:  # noqa: N801
            @staticmethod
            def read(_: int):
                raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdin", Unreadable)
    with pytest.raises(FileError, match="cannot read standard input: Input/output error"):
        streams.read()


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", ["out.zarr", "out.tif"])
def test_a_command_that_is_ended_leaves_nothing(tmp_path, number, name):
    zarr = pytest.importorskip("zarr")
    pytest.importorskip("tifffile")
    zarr.open(str(tmp_path / "in.zarr"), mode="w", shape=(8192, 8192, 3), chunks=(512, 512, 3), dtype="u1")
    (tmp_path / "out").mkdir()
    options = ["--use", "black,white,red", "--dither", "bayer8", "--memory", "8MiB", "-o", str(tmp_path / "out" / name)]
    with subprocess.Popen(
        [sys.executable, "-m", "clquant", "palette", str(tmp_path / "in.zarr"), *options], stderr=subprocess.PIPE
    ) as child:
        while not os.listdir(tmp_path / "out"):
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(number)
        said = child.stderr.read()
    assert (child.returncode, said) == (128 + number, b"clquant: terminated\n")
    assert not os.listdir(tmp_path / "out")
