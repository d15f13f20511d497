"""`clquant halftone`: files in, files out, and one plain sentence where something is wrong."""

from __future__ import annotations

import io
import sys

import numpy as np
import PIL.Image
import pytest

from clquant import cli
from clquant.color.palette import Palette
from clquant.halftone import PinwheelHalftoner

COLORS = [(0, 0, 0), (255, 255, 255), (200, 0, 0)]


@pytest.fixture
def photo(tmp_path, rng):
    path = tmp_path / "photo.png"
    PIL.Image.fromarray(rng.integers(0, 256, (20, 33, 3), np.uint8)).save(path)
    return path


def pixels(path):
    with PIL.Image.open(path) as image:
        return np.asarray(image)


def test_gray_writes_one_bit_a_pixel_beside_the_input(photo):
    assert cli.main(["halftone", str(photo), "--gray", "--block", "8", "-q"]) == 0
    with PIL.Image.open(photo.with_name("photo-halftone.png")) as image, PIL.Image.open(photo) as original:
        assert image.mode == "1"
        expected = PinwheelHalftoner(8).transform(original.convert("L"))
        assert np.array_equal(np.asarray(image), expected == 255)


@pytest.mark.full
def test_options_reach_the_halftoner(photo, tmp_path):
    out = tmp_path / "out.tif"
    options = ["--levels", "4", "--scan", "serpentine", "--weights", "constant", "--noise", "0.1", "--linear"]
    assert cli.main(["halftone", str(photo), "-o", str(out), *options, "--seed", "3", "-q"]) == 0
    made = {"levels": 4, "scan": "serpentine", "weights": "constant", "noise": 0.1, "linear": True, "random_state": 3}
    assert np.array_equal(pixels(out), PinwheelHalftoner(**made).transform(pixels(photo)))


@pytest.mark.full
def test_a_palette_gives_an_indexed_picture(photo, tmp_path):
    Palette(COLORS).write(tmp_path / "three.gpl")
    out = tmp_path / "out.png"
    arguments = ["--palette", str(tmp_path / "three.gpl"), "--space", "oklab", "-o", str(out)]
    assert cli.main(["halftone", str(photo), *arguments, "-q"]) == 0
    expected = PinwheelHalftoner(palette=COLORS, color_space="oklab").transform(pixels(photo))
    with PIL.Image.open(out) as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(image.convert("RGB")), np.array(COLORS, np.uint8)[expected])


def test_a_folder_becomes_a_folder(photo, tmp_path, capsys):
    assert cli.main(["halftone", str(photo.parent), "-o", f"{tmp_path}/made/", "--gray"]) == 0
    assert (tmp_path / "made" / "photo-halftone.png").exists()
    assert "2 levels" in capsys.readouterr().err


def test_a_pipe_goes_through(photo, monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(photo.read_bytes())))
    assert cli.main(["halftone", "-", "--gray", "-q"]) == 0
    with PIL.Image.open(io.BytesIO(capfdbinary.readouterr().out)) as image:
        assert image.size == (33, 20)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--block", "1"], "--block is 1"),
        (["--levels", "1"], "levels is 1"),
        (["--noise", "2"], "noise is 2"),
        (["--seed", "-1"], "--seed is -1"),
        (["-o", "x.jpg"], "a lossy format"),
        (["--palette", "missing.gpl"], "missing.gpl"),
        (["--scan", "hilbert"], "invalid choice"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_a_sentence(photo, capsys, options, said):
    try:
        code = cli.main(["halftone", str(photo), *options])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not photo.with_name("photo-halftone.png").exists()
