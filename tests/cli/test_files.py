"""The command's files: no result replaces an input or another result, and a refused call leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

from clquant import KMeansPalette, VQCodec
from clquant.cli import main


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """A working folder: two pictures of 16x12, one in a folder of its own, an animation, a codebook."""
    pixels = rng.integers(0, 256, (12, 16, 3), np.uint8)
    for name in ("a.png", "a-16.png", "one/p.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        PIL.Image.fromarray(pixels).save(tmp_path / name)
    frames = [PIL.Image.fromarray(pixels[:, :, i]) for i in range(3)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    VQCodec(9).fit(pixels).save(tmp_path / "book.clvq")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def refused(capsys, *arguments):
    """What a call that ends with 2 says."""
    try:
        status = main(list(arguments))
    except SystemExit as stopped:
        status = stopped.code
    error = capsys.readouterr().err
    assert status == 2
    assert error.count("\n") == 1
    return error


OVER_INPUTS = [
    (["palette", "a.png", "a-16.png", "-k", "16"], "'a-16.png' is one of the inputs"),
    (["palette", "one", "a.png", "-k", "4", "--shared", "--save-palette", "a.png", "-o", "new/"], "one of the inputs"),
    (["palette", "a.png", "--save-palette", "a.png", "-o", "c.png"], "'a.png' is the input itself; name another"),
    (["palette", "a.png", "--save-palette", "c.png", "-o", "c.png"], "two results would both be written to 'c.png'"),
    (["palette", "a.png", "--save-palette", "c.png", "-o", "./c.png"], "two results would both be written"),
    (["palette", "a.png", "--use", "a-16.png", "-o", "a-16.png"], "'a-16.png' is the input itself"),
    (["palette", "film.gif", "--animate", "80", "-o", "film.gif"], "'film.gif' is the input itself"),
    (["vq", "train", "a.png", "-o", "a.png"], "-o 'a.png' has the suffix '.png'; allowed: .clvq"),
    (["vq", "encode", "a.png", "-o", "out.png"], "-o 'out.png' has the suffix '.png'; allowed: .clvq"),
    (["vq", "encode", "a.png", "--codebook", "book.clvq", "-o", "book.clvq"], "'book.clvq' is the input itself"),
    (["quadtree", "a.png", "--save", "t.png"], "--save 't.png' has the suffix '.png'; allowed: .clqt"),
    (["quadtree", "-", "--save", "-"], "--save is '-'; allowed"),
    # One picture in it today may be two tomorrow.
    (["halftone", "one", "-o", "x.png"], "'x.png' names a file, but the pictures of a folder need a folder"),
    (["palette", "one", "-o", "-"], "the pictures of a folder cannot go to one standard output"),
    (["compare", "one", "-o", "a.png/"], "cannot make the folder 'a.png': 'a.png' is a file"),
    # A refused call leaves no folder.
    (["palette", "one", "-o", "new/", "-k", "0"], "-k is 0"),
    (["quadtree", "one", "-o", "new/", "--save", "deep/new/", "-t", "300"], "-t is 300"),
]


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "message"), OVER_INPUTS, ids=lambda value: " ".join(value)[:60])
def test_outputs_that_are_refused(folder, arguments, message, capsys):
    before = contents(folder)
    assert message in refused(capsys, *arguments)
    assert contents(folder) == before


def test_a_link_to_an_input_is_the_input(folder, capsys):
    os.symlink("a.png", "link.png")
    os.link("a.png", "other.png")
    for name in ("link.png", "other.png"):
        assert "is the input itself" in refused(capsys, "halftone", "a.png", "-o", name)


def test_a_link_stays_and_its_file_is_replaced(folder, capsys):
    (folder / "out").mkdir()
    os.symlink("out/later.png", "link.png")  # to nothing yet
    for _ in range(2):
        assert main(["halftone", "a.png", "-o", "link.png", "-q"]) == 0
        assert os.readlink("link.png") == "out/later.png"
        assert [path.name for path in (folder / "out").iterdir()] == ["later.png"]


def test_a_folder_with_one_picture_becomes_a_folder(folder):
    for command, made in (("palette", "p-256.png"), ("halftone", "p-halftone.png"), ("quadtree", "p-quadtree.png")):
        assert main([command, "one", "-o", f"out/{command}", "-q"]) == 0
        assert [path.name for path in (folder / "out" / command).iterdir()] == [made]


def test_a_folder_that_cannot_be_searched(folder, capsys, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    assert refused(capsys, "palette", "one") == "clquant: cannot search the folder 'one': Permission denied\n"


def test_companions_that_macos_writes_are_no_pictures(folder):
    (folder / "one" / "._p.png").write_bytes(b"\0\5\x16\7" + bytes(60))
    assert main(["palette", "one", "-o", "out", "-q"]) == 0
    assert [path.name for path in (folder / "out").iterdir()] == ["p-256.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["palette", "a.png", "-o", "one/x.png"], "cannot write into the folder 'one': permission denied"),
        (["palette", "a.png", "-o", "one/new/"], "cannot write into the folder 'one': permission denied"),
        (["palette", "one"], "cannot write into the folder 'one': permission denied"),
        (["palette", "a.png", "--save-palette", "one/x.gpl"], "cannot write into the folder 'one'"),
        (["quadtree", "a.png", "--save", "one/x.clqt"], "cannot write into the folder 'one'"),
        (["compare", "a.png", "--html", "one/x.html"], "cannot write into the folder 'one'"),
        (["tileset", "a.png", "--map", "one/x.csv"], "cannot write into the folder 'one'"),
        (["palette", "a.png", "-o", "one/p.png"], "cannot write 'one/p.png': it is read-only"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_said_before_the_work(folder, arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, _: "one" not in str(path))  # the superuser may write anywhere
    before = contents(folder)
    assert message in refused(capsys, *arguments)
    assert contents(folder) == before


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        ((16, 12), ["compare", "-o", "s.xbm"], "'s.xbm': XBM cannot hold this picture of"),
        ((1, 16400), ["compare", "-o", "t.webp"], "'t.webp': WEBP cannot hold this picture of"),
        ((1, 16400), ["quadtree", "-o", "t.webp"], "'t.webp': WEBP cannot hold this picture of 1x16400 and mode RGB"),
        ((1, 65537), ["halftone", "-o", "t.gif"], "'t.gif': GIF cannot hold this picture of 1x65537"),
    ],
    ids=str,
)
def test_pictures_that_a_format_cannot_hold(folder, make, arguments, message, capsys):
    PIL.Image.new("RGB", make).save("in.png")
    command, *more = arguments
    assert message in refused(capsys, command, "in.png", *more)
    assert not (folder / more[-1]).exists()


def test_coded_pictures_that_a_format_cannot_hold(folder, capsys):
    codec = VQCodec(9).fit(np.zeros((4, 4), np.uint8))
    (folder / "tall.clvq").write_bytes(codec.compress(np.zeros((65540, 1), np.uint8)))
    message = refused(capsys, "vq", "decode", "tall.clvq", "-o", "t.gif")
    assert "'t.gif': GIF cannot hold this picture of 1x65540" in message


def test_one_leaf_is_called_so(folder, capsys):
    PIL.Image.new("RGB", (4, 4)).save("flat.png")
    assert main(["quadtree", "flat.png"]) == 0
    assert ": 4x4, 1 leaf, 16.0 pixels a leaf" in capsys.readouterr().err


def test_a_damaged_tree_among_many_is_named(folder, capsys):
    (folder / "bad.clqt").write_bytes(b"CLQT" + bytes(60))
    assert main(["quadtree", "a.png", "bad.clqt", "-o", "out/", "-q"]) == 1
    assert "'bad.clqt': " in capsys.readouterr().err
    assert (folder / "out" / "a-quadtree.png").exists()


def test_a_picture_that_does_not_go_with_the_others_is_named(folder, capsys):
    PIL.Image.new("L", (8, 8)).save("gray.png")
    PIL.Image.new("L", (1, 65537)).save("tall.png")
    assert main(["vq", "encode", "a.png", "gray.png", "--codebook", "book.clvq", "-o", "out/", "-q"]) == 1
    message = capsys.readouterr().err.splitlines()
    assert message[0] == "clquant: 'gray.png': image has 1 channels; this codebook is for 3"
    assert message[1] == "clquant: 1 of 2 inputs failed: 'gray.png'"
    assert main(["quadtree", "a.png", "tall.png", "-o", "o/", "-q"]) == 1
    assert "'tall.png': image has 65537 x 1 pixels" in capsys.readouterr().err


def test_frames_are_read_as_pictures_are(folder, capsys):
    ramp = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    PIL.Image.fromarray(ramp).save("deep.png")
    key = PIL.Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4))
    key.save("key.png", transparency=5)
    PIL.Image.fromarray(np.full((4, 4), 70000, np.int32)).save("wide.tif")
    for name in ("deep.png", "key.png"):
        options = ["-k", "256", "-q", "--dither", "none"]
        assert main(["palette", name, *options, "-o", "still.png"]) == 0
        assert main(["palette", name, *options, "--animate", "50", "-o", "film2.gif"]) == 0
        with PIL.Image.open("still.png") as still, PIL.Image.open("film2.gif") as film:
            assert np.array_equal(np.asarray(still.convert("RGBA")), np.asarray(film.convert("RGBA")))
    message = refused(capsys, "palette", "wide.tif", "--animate", "50", "-o", "x.gif")
    assert "'wide.tif' is a PIL image of mode I" in message


LOGO = [
    (["palette", "-k", "9"], ".bmp"),
    (["palette", "-k", "9"], ".jpg"),
    (["palette", "--use", "black,white"], ".pbm"),
    (["halftone", "--gray"], ".pbm"),
    (["halftone", "--gray", "--levels", "4"], ".png"),
    (["halftone"], ".bmp"),
    (["halftone", "--palette", "black,white,red"], ".ppm"),
    (["tileset"], ".bmp"),
    (["quadtree"], ".jpg"),
    (["quadtree"], ".bmp"),
    (["panel", "--panel", "mono"], ".png"),
    (["panel", "--panel", "mono", "--fit", "contain"], ".png"),
]


@pytest.mark.parametrize(("call", "suffix"), LOGO)
def test_results_without_alpha_are_over_the_background(call, suffix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    logo = np.zeros((24, 24, 4), np.uint8)
    logo[4:20, 4:20] = 0, 0, 160, 255
    logo[3, 4:20] = 0, 0, 160, 90
    PIL.Image.fromarray(logo).save("logo.png")
    for background, is_light in ((None, True), ("white", True), ("#000", False)):
        more = [] if background is None else ["--background", background]
        assert main([call[0], "logo.png", *call[1:], *more, "-o", f"a{suffix}"]) == 0
        with PIL.Image.open(f"a{suffix}") as found:
            assert found.convert("RGBA").getextrema()[3] == (255, 255)
            assert (found.convert("L").getpixel((0, 0)) > 128) == is_light
        said = capsys.readouterr().err
        if call[0] in ("palette", "tileset"):
            assert f" over {'white' if is_light else '#000000'}" in said
    laid = logo[:, :, :3].astype(int) * logo[:, :, 3:] + 255 * (255 - logo[:, :, 3:].astype(int))
    PIL.Image.fromarray(((laid + 127) // 255).astype(np.uint8)).save("laid.png")
    for name in ("logo", "laid"):
        assert main([call[0], f"{name}.png", *call[1:], "-q", "--background", "#fff", "-o", f"{name}-a{suffix}"]) == 0
    assert (tmp_path / f"logo-a{suffix}").read_bytes() == (tmp_path / f"laid-a{suffix}").read_bytes()


def test_backgrounds_are_opaque_colours(folder, capsys):
    for wrong in ("#f008", "nope", ""):
        assert "allowed: an opaque colour" in refused(capsys, "palette", "a.png", "--background", wrong)


@pytest.mark.parametrize("suffix", [".jpg", ".avif", ".mpo", ".jp2", ".pdf"])
def test_halftones_are_not_written_with_loss(suffix, tmp_path, capsys):
    PIL.Image.new("L", (20, 10), 90).save(tmp_path / "a.png")
    assert main(["halftone", str(tmp_path / "a.png"), "-o", str(tmp_path / f"b{suffix}")]) == 2
    assert "would spoil a halftone" in capsys.readouterr().err
    assert not (tmp_path / f"b{suffix}").exists()


def test_icons_have_the_pictures_own_size(rng, tmp_path, capsys):
    image = rng.integers(0, 256, (40, 96, 3), dtype=np.uint8)
    PIL.Image.fromarray(image).save(tmp_path / "a.png")
    for command, more in (("palette", ["-k", "5"]), ("halftone", [])):
        assert main([command, str(tmp_path / "a.png"), *more, "-q", "-o", str(tmp_path / "b.ico")]) == 0
        assert main([command, str(tmp_path / "a.png"), *more, "-q", "-o", str(tmp_path / "b.png")]) == 0
        with PIL.Image.open(tmp_path / "b.ico") as icon, PIL.Image.open(tmp_path / "b.png") as plain:
            np.testing.assert_array_equal(np.asarray(icon.convert("RGB")), np.asarray(plain.convert("RGB")))
        assert main([command, str(tmp_path / "a.png"), *more, "-o", str(tmp_path / "b.icns")]) == 2
        assert "ICNS holds no picture of 96x40 pixels" in capsys.readouterr().err


@pytest.mark.full
def test_names_that_standard_output_lacks_letters_for(tmp_path):
    VQCodec(2, (2, 3)).fit(np.eye(8, dtype=np.uint8)).save(tmp_path / "\u00fcn\u0131.clvq")
    command = [sys.executable, "-m", "clquant", "vq", "info", str(tmp_path / "\u00fcn\u0131.clvq")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xfcn\\u0131.clvq" in done.stdout


def test_16_bit_pictures_are_quantized_from_their_16_bits(tmp_path, rng):
    rows, columns = np.mgrid[:40, :50]
    values = (8000 + 300 * rows + 170 * columns + rng.integers(0, 200, (40, 50))).astype(np.uint16)
    PIL.Image.fromarray(values).save(tmp_path / "deep.png")
    result = tmp_path / "result.png"
    for dither in (None, "blue-noise", "leaky"):
        arguments = [str(tmp_path / "deep.png"), "--colors", "7", "-o", str(result), "-q"]
        assert main(["palette", *arguments, "--dither", dither or "none"]) == 0
        expected = KMeansPalette(7).fit(values).quantize(values, dither)
        with PIL.Image.open(result) as shown:
            assert np.array_equal(np.asarray(shown.convert("RGB")), expected.to_array())
