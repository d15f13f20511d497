"""Dominant colours with shares, palettes as colormaps, answers to a shell that completes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import clquant
from clquant import Palette
from clquant.runtime import InvalidArgument, InvalidType


def test_shares_are_those_of_the_picture(queue, rng):
    colors = np.array([[255, 0, 0], [0, 0, 255], [9, 9, 9]], np.uint8)
    image = colors[rng.choice(3, (30, 40), p=[0.2, 0.7, 0.1])]
    found = clquant.dominant_colors(image, 3, queue=queue)
    assert [one.color for one in found] == ["#0000ff", "#ff0000", "#090909"]
    for one, color in zip(found, (colors[1], colors[0], colors[2]), strict=True):
        assert one.share == (image == color).all(axis=2).mean()
    assert len(clquant.dominant_colors(image, 200, queue=queue)) == 3
    with pytest.raises(InvalidArgument, match="count is 0; allowed: an integer from 1 to 256"):
        clquant.dominant_colors(image, 0)


def test_one_colour_is_the_mean_and_clear_pixels_do_not_count(queue, rng):
    image = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    mean = np.floor(image.reshape(-1, 3).mean(axis=0) + 0.5)
    palette = clquant.KMeansPalette(1, queue=queue).fit(image).palette_
    assert np.abs(palette.colors - mean).max() <= 1
    result = clquant.quantize(image, 1, dither="blue-noise", queue=queue)
    assert (result.palette, result.indices.max()) == (palette, 0)
    logo = np.dstack([image, np.zeros((20, 30), np.uint8)])
    logo[3:5, :, 3] = 255
    (found,) = clquant.dominant_colors(logo, 1, color_space="srgb", queue=queue)
    want = clquant.KMeansPalette(1, queue=queue).fit(image[3:5]).palette_
    assert found == (want.hex()[0], 1)
    assert len(clquant.dominant_colors(logo, 4, queue=queue)) == 4
    assert clquant.dominant_colors(logo[:3], 4, queue=queue) == []
    with pytest.raises(InvalidArgument, match="n_colors is 1, which the image's fully transparent pixels take"):
        clquant.KMeansPalette(1, queue=queue).fit(logo)


def test_colormaps():
    colors = pytest.importorskip("matplotlib.colors", reason="matplotlib")
    made = Palette(["#ff0000", "#00ff0080"]).to_colormap("two")
    assert isinstance(made, colors.ListedColormap)
    assert (made.name, made.N) == ("two", 2)
    assert made(1) == (0, 1, 0, 128 / 255)


def test_colormaps_need_matplotlib(monkeypatch):
    with pytest.raises(InvalidType, match="name is 5; allowed: text"):
        Palette(["red"]).to_colormap(5)
    monkeypatch.setitem(sys.modules, "matplotlib.colors", None)
    with pytest.raises(InvalidArgument, match="cannot make a colormap: matplotlib is not installed"):
        Palette(["red"]).to_colormap()


@pytest.mark.full
@pytest.mark.parametrize(("line", "expected"), [("clquant hal", "halftone"), ("clquant palette --dit", "--dither")])
def test_shells_complete(line, expected, tmp_path):
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    subprocess.run([sys.executable, "-m", "clquant"], env=environment, check=True)
    assert expected in answer.read_text()
