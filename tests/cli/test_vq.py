"""`clquant vq`: train, encode, decode, info, pipes, folders, wrong calls."""

from __future__ import annotations

import io
import pathlib
import sys

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from clquant import VQCodec, clvq_info
from clquant.cli import main
from clquant.vq.container import clvq_format


@pytest.fixture
def folder(tmp_path: pathlib.Path, sample: npt.NDArray[np.uint8]) -> pathlib.Path:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    PIL.Image.fromarray(sample[100:148, 200:250]).save(pictures / "one.png")
    PIL.Image.fromarray(sample[150:190, 210:241]).save(pictures / "two.png")
    return pictures


def gray(path: pathlib.Path) -> npt.NDArray[np.uint8]:
    with PIL.Image.open(path) as image:
        return np.asarray(image.convert("L"))


@pytest.mark.full
def test_one_picture_there_and_back(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vq", "encode", str(folder / "one.png"), "-n", "20", "--state-size", "4", "--gray"]) == 0
    assert main(["vq", "decode", str(folder / "one.clvq"), "-o", str(folder / "again.png"), "-q"]) == 0
    codec = VQCodec(20).fit(gray(folder / "one.png"))
    np.testing.assert_array_equal(
        gray(folder / "again.png"), codec.decode(codec.encode(gray(folder / "one.png")), (48, 50))
    )
    assert clvq_info(folder / "one.clvq").state_size == 4
    assert main(["vq", "info", str(folder / "one.clvq")]) == 0
    out, err = capsys.readouterr()
    before = (folder / "one.png").read_bytes()
    assert main(["vq", "decode", str(folder / "one.clvq")]) == 2
    assert "one.png' is there already, perhaps as it was encoded; name an output with -o" in capsys.readouterr().err
    assert (folder / "one.png").read_bytes() == before
    (folder / "one.png").rename(folder / "kept.png")
    assert main(["vq", "decode", str(folder / "one.clvq"), "-q"]) == 0
    np.testing.assert_array_equal(gray(folder / "one.png"), gray(folder / "again.png"))
    assert "one.png -> " in err
    assert "50x48, 20 codewords" in err
    assert "side match with state codebooks of 4" in out


def test_one_bad_file_does_not_end_the_rest(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    pixels = np.eye(8, dtype=np.uint8)
    codec = VQCodec(9).fit(pixels)
    pathlib.Path("good.clvq").write_bytes(codec.compress(pixels))
    pathlib.Path("shared.clvq").write_bytes(codec.compress(pixels, embed_codebook=False))
    VQCodec(9).fit(9 * pixels).save("book.clvq")
    assert main(["vq", "info", "one.png", "good.clvq", "shared.clvq"]) == 1
    out, err = capsys.readouterr()
    assert out.count(".clvq version") == 2
    assert err.splitlines()[-1] == "clquant: 1 of 3 inputs failed: 'one.png'"
    assert main(["vq", "decode", "one.png", "shared.clvq", "good.clvq", "--codebook", "book.clvq", "-o", "out"]) == 1
    err = capsys.readouterr().err
    assert "clquant: 'shared.clvq': this .clvq file names the shared codebook" in err
    assert err.splitlines()[-1] == "clquant: 2 of 3 inputs failed: 'one.png', 'shared.clvq'"
    assert [path.name for path in pathlib.Path("out").iterdir()] == ["good.png"]


def test_the_first_of_some_frames_is_coded_with_a_note(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [PIL.Image.new("L", (8, 8), 50 * number) for number in range(3)]
    frames[0].save(folder / "film.gif", save_all=True, append_images=frames[1:], comment="of three")
    assert main(["vq", "encode", str(folder / "film.gif"), "-n", "9", "-v"]) == 0
    said = capsys.readouterr().err
    assert "note: only the first of several frames is used: coded are single pictures (film.gif)\n" in said
    assert "note: GIF text metadata dropped (1 file)\n" in said


def test_quiet_encoding_does_not_decode(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VQCodec, "decompress", None)
    assert main(["vq", "encode", str(folder / "one.png"), "-n", "16", "--refine", "0", "-q"]) == 0
    assert (folder / "one.clvq").exists()


@pytest.mark.full
def test_a_folder_with_one_codebook(
    folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book, coded, decoded = tmp_path / "book.clvq", tmp_path / "coded", tmp_path / "decoded"
    assert main(["vq", "train", str(folder), "-n", "16", "--block", "2x3", "-o", str(book), "-q"]) == 0
    assert main(["vq", "encode", str(folder), "--codebook", str(book), "-o", str(coded), "-q"]) == 0
    assert main(["vq", "decode", str(coded), "--codebook", str(book), "-o", str(decoded), "-q"]) == 0
    codec = VQCodec.load(book)
    for name in ("one", "two"):
        with PIL.Image.open(folder / f"{name}.png") as image, PIL.Image.open(decoded / f"{name}.png") as again:
            pixels = np.asarray(image)
            np.testing.assert_array_equal(np.asarray(again), codec.decode(codec.encode(pixels), pixels.shape[:2]))
    assert clvq_info(coded / "one.clvq").kind == "picture of a shared codebook"
    assert main(["vq", "decode", str(coded / "one.clvq"), "-o", str(tmp_path / "x.png")]) == 2
    assert "this codec holds none; --codebook names its file" in capsys.readouterr().err


def test_an_output_folder_may_hold_inputs(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    coded, other = tmp_path / "coded", tmp_path / "other"
    assert main(["vq", "encode", str(folder), "-n", "16", "-o", str(coded), "-q"]) == 0
    other.mkdir()
    (coded / "one.clvq").rename(other / "more.clvq")
    assert main(["vq", "decode", str(coded), str(other), "-o", str(coded), "-q"]) == 0
    assert sorted(path.name for path in coded.glob("*.png")) == ["more.png", "two.png"]


def test_pipes(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(data: bytes, *arguments: str) -> bytes:
        out = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["vq", *arguments, "-q"]) == 0
        return bytes(out.buffer.getvalue())  # type: ignore[attr-defined]

    data = piped((folder / "two.png").read_bytes(), "encode", "-", "-n", "9")
    picture = piped(data, "decode", "-")
    with PIL.Image.open(io.BytesIO(picture)) as image:
        np.testing.assert_array_equal(np.asarray(image), VQCodec().decompress(data))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["encode", "absent.png"], "no such file"),
        (["encode", "one.png", "-n", "1"], "-n is 1;"),
        (["encode", "one.png", "--block", "4"], "no pair of whole numbers"),
        (["encode", "one.png", "--block", "33x1"], "--block[0] is 33;"),
        (["encode", "one.png", "--embed"], "--embed is given without --codebook"),
        (["encode", "one.png", "--side-match", "300"], "--side-match is 300;"),
        (["encode", "one.png", "--codebook", "one.png"], "one.png': these bytes do not begin like a .clvq file"),
        (["decode", "one.png"], "'one.png' is no .clvq file; allowed: files that clquant vq encode writes"),
        (["decode", "begun.clvq", "-o", "x.nonsense"], "no picture format"),
        (["decode", "begun.clvq"], "clquant: 'begun.clvq': a .clvq file ends in the middle of its header"),
        (["info", "one.png"], "one.png': these bytes do not begin like a .clvq file"),
        (["info", "one.clvq", "--max-pixels", "9"], "one.clvq': a .clvq file claims"),
        (["decode", "one.clvq", "-o", "x.png", "--max-pixels", "9"], "at most 9 are allowed, by --max-pixels"),
        (["info", "one.clvq", "--max-pixels", "0"], "--max-pixels is 0;"),
        (["train", "one.png"], "-o/--output"),
    ],
)
def test_wrong_calls_end_with_2_and_a_sentence(
    folder: pathlib.Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "begun.clvq").write_bytes(clvq_format.MAGIC)
    header = clvq_format.Header(clvq_format.PICTURE, 1, (4, 4), 16, (8, 8), 0, bytes(16))
    (folder / "one.clvq").write_bytes(header.to_bytes())
    before = sorted(folder.iterdir())
    try:
        status = main(["vq", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    assert status == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert sorted(folder.iterdir()) == before
