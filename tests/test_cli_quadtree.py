"""`clquant quadtree`: files in, pictures and trees out."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from clquant.cli import main
from clquant.quadtree import Quadtree, QuadtreeBuilder
from tests.test_quadtree import patches


@pytest.fixture
def photo(rng, tmp_path):
    image = patches(rng, 30, 41, 3)
    PIL.Image.fromarray(image).save(tmp_path / "photo.png")
    return tmp_path / "photo.png", image


def test_picture_outline_tree_and_back(photo, tmp_path, capsys):
    path, image = photo
    assert main(["quadtree", str(path), "--save", str(tmp_path / "t.clqt")]) == 0
    tree = QuadtreeBuilder().build(image)
    assert np.array_equal(np.asarray(PIL.Image.open(tmp_path / "photo-quadtree.png")), tree.render())
    assert Quadtree.load(tmp_path / "t.clqt") == tree
    assert f"41x30, {len(tree)} leaves" in capsys.readouterr().err
    out = tmp_path / "again.png"
    assert main(["quadtree", str(tmp_path / "t.clqt"), "--outline", "-q", "-o", str(out)]) == 0
    assert np.array_equal(np.asarray(PIL.Image.open(out)), tree.outline())
    assert capsys.readouterr().err == ""


def test_animation(photo, tmp_path):
    path, _ = photo
    assert main(["quadtree", str(path), "--gif", "--outline", "-o", str(tmp_path / "a.gif")]) == 0
    with PIL.Image.open(tmp_path / "a.gif") as animation:
        assert animation.size == (41, 30)
        assert animation.n_frames >= 7


def test_a_folder(photo, tmp_path):
    path, image = photo
    (tmp_path / "in").mkdir()
    for name in ("a.png", "b.bmp"):
        PIL.Image.fromarray(image).save(tmp_path / "in" / name)
    arguments = ["quadtree", str(tmp_path / "in"), "-t", "20", "-o", f"{tmp_path}/out/", "--save", f"{tmp_path}/trees/"]
    assert main(arguments) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a-quadtree.png", "b-quadtree.png"]
    assert Quadtree.load(tmp_path / "trees" / "b.clqt").threshold == 20
    assert path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "300"], "threshold is 300"),
        (["--criterion", "weighted"], "weights is None"),
        (["--min-size", "3"], "min_size is 3"),
        (["-o", "out.xyz"], "suffix '.xyz'"),
        (["--gif", "-o", "out.png"], "suffix '.png'; allowed: .gif"),
        (["--save", "tree.png"], "suffix '.png'; allowed: .clqt"),
    ],
)
def test_bad_usage(photo, capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["quadtree", str(photo[0]), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["photo.png"]


def test_a_damaged_tree(tmp_path, capsys):
    (tmp_path / "t.clqt").write_bytes(b"CLQT" + bytes(60))
    assert main(["quadtree", str(tmp_path / "t.clqt")]) == 2
    assert "damaged" in capsys.readouterr().err
