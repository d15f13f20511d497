"""`clquant quadtree`: files in, pictures and trees out."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from clquant.cli import main
from clquant.quadtree import Quadtree, QuadtreeBuilder
from tests.gif_decoder import decoded
from tests.quadtree.test_builder import patches


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


@pytest.mark.full
@pytest.mark.parametrize("bands", [0, 2, 3, 4])
def test_animation(bands, rng, tmp_path):
    """Few colours: every frame shows its level as it is, holes too."""
    shape = (30, 41, bands) if bands else (30, 41)
    picture = rng.integers(0, 2, shape, dtype=np.uint8) * 255
    picture[:16] //= 3
    tree = QuadtreeBuilder(threshold=60).build(picture)
    tree.save(tmp_path / "t.clqt")
    assert main(["quadtree", str(tmp_path / "t.clqt"), "--gif", "--outline", "-o", str(tmp_path / "a.gif")]) == 0
    shown, loops = decoded((tmp_path / "a.gif").read_bytes())
    assert loops == 0
    frames = [*Quadtree.load(tmp_path / "t.clqt").frames(), tree.outline()]
    assert [one.milliseconds for one in shown] == [400] * (len(frames) - 1) + [2000]
    for one, frame in zip(shown, frames, strict=True):
        wanted = np.full((30, 41, 4), 255, np.uint8)
        if frame.ndim == 2 or frame.shape[2] == 2:
            wanted[..., :3] = frame.reshape(30, 41, -1)[..., :1]
        else:
            wanted[..., : frame.shape[2]] = frame
        wanted[..., 3] = np.where(wanted[..., 3] < 128, 0, 255)
        wanted[wanted[..., 3] == 0] = 0
        assert np.array_equal(one.picture, wanted)


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
        (["-t", "300"], "-t is 300"),
        (["--criterion", "weighted"], "weights is None"),
        (["--min-size", "3"], "--min-size is 3"),
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


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_trees_beyond_memory_are_written_square_by_square(channels, rng, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    image = patches(rng, 150, 211, channels)
    image[:64, :140] = 9
    PIL.Image.fromarray(image if channels > 1 else image[..., 0]).save("a.png")
    for output in ("t.geojson", "t.png", "t.bmp"):
        for more in ([], ["--outline"], ["-t", "255"]):
            said = []
            for name, memory in (("whole", "1 GiB"), ("parts", "1 MiB")):
                assert main(["quadtree", "a.png", *more, "--memory", memory, "-o", f"{name}-{output}"]) == 0
                said.append(capsys.readouterr().err.partition("211x150")[2].rpartition(",")[0])
            assert said[0] == said[1] != ""
            if output == "t.png":
                whole, parts = (np.asarray(PIL.Image.open(f"{name}-{output}")) for name in ("whole", "parts"))
                assert np.array_equal(whole, parts)
            else:
                assert (tmp_path / f"whole-{output}").read_bytes() == (tmp_path / f"parts-{output}").read_bytes()


def test_whole_trees_beyond_memory_are_refused(rng, tmp_path, capsys):
    PIL.Image.fromarray(rng.integers(0, 256, (150, 211, 3), np.uint8)).save(tmp_path / "a.png")
    out = str(tmp_path / "b.png")
    call = ["quadtree", str(tmp_path / "a.png"), "-t", "0", "-o", out, "--save", str(tmp_path / "b.clqt")]
    assert main([*call, "--memory", "1 MiB"]) == 2
    assert "--save takes about 3 MiB for 31650 leaves; allowed: 1 MiB (--memory)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert main([*call, "--memory", "1"]) == 2
    assert "--memory is 1; allowed" in capsys.readouterr().err


@pytest.mark.filterwarnings("always::UserWarning")
def test_masks_of_one_leaf_are_named(tmp_path, capsys):
    mask = np.zeros((150, 211), np.uint8)
    mask[20:50, 30:90] = 1
    PIL.Image.fromarray(mask).save(tmp_path / "a.png")
    for memory in ("1 GiB", "1 MiB"):
        for more, is_named in (([], True), (["-t", "0"], False), (["--max-depth", "0"], False)):
            assert main(["quadtree", str(tmp_path / "a.png"), "--memory", memory, *more]) == 0
            assert ("a single leaf, as its values, 0 to 1, differ by less" in capsys.readouterr().err) == is_named
    for picture in (mask, mask.astype(np.uint16), np.dstack([mask] * 3)):
        for verb in (QuadtreeBuilder().build, QuadtreeBuilder().leaves):
            with pytest.warns(UserWarning, match="a threshold of 0 splits wherever they differ"):
                verb(picture)
