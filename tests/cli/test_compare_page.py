"""The page of `clquant compare --html`: whole in one file, with the pictures and figures, whatever names are."""

from __future__ import annotations

import base64
import io
import json
import math
import re

import numpy as np
import PIL.Image
import pytest

from clquant.cli import main
from clquant.cli.commands import compare

PICTURE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


def made(title="a", name="k-means", value=1.5):
    pictures = {"original": PICTURE, name: 255 - PICTURE}
    data = compare.page(title, pictures, {"mse": "MSE"}, {name: {"mse": value}})
    return data.decode("utf-8")


def literal(text, name):
    return json.loads(re.search(rf"\b{name} = (\[.*?\])(?:, \w+ =|;)", text).group(1))


def test_the_pictures_are_in_it():
    sources = literal(made(), "sources")
    pictures = [PIL.Image.open(io.BytesIO(base64.b64decode(each.split(",")[1]))) for each in sources]
    assert np.array_equal(np.asarray(pictures[0]), PICTURE)
    assert np.array_equal(np.asarray(pictures[1]), 255 - PICTURE)


def test_nothing_is_loaded_from_elsewhere():
    text = made()
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import", text)


@pytest.mark.parametrize("name", ["</script><b>", "a@TABLE@b", 'x" onload="y', "& <", "ü"])
def test_names_are_text(name):
    text = made(title=name, name=name)
    assert literal(text, "names") == ["original", name]
    assert text.count("</script>") == 1
    assert "<b>" not in text
    assert "<td>1.5</td>" in text


def test_figures_that_are_not_finite_are_dashes():
    assert "<td>-</td>" in made(value=math.inf)


@pytest.mark.full
def test_the_command_writes_it(tmp_path, monkeypatch, queue):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        PIL.Image.fromarray(np.tile(PICTURE, (4, 4, 1))).save(f"{name}.png")
    assert main(["compare", "a.png", "-q", "-k", "4", "--html", "page.html"]) == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert literal(text, "names")[:3] == ["original", "k-means", "k-means in OKLab"]
    assert "blurred CIEDE2000" in text
    assert (tmp_path / "a-compare.png").exists()
    assert main(["compare", "a.png", "b.png", "-q", "-k", "4", "--html", "pages/"]) == 0
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["a-compare.html", "b-compare.html"]


@pytest.mark.parametrize("target", ["-", "page.png", "missing/page.html"])
def test_other_places_are_refused(target, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    PIL.Image.fromarray(PICTURE).save("a.png")
    assert main(["compare", "a.png", "--html", target]) == 2
    assert target in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
