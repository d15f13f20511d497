"""The clquant command: what it writes, and one plain sentence for every wrong call."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

from clquant import Palette
from clquant.cli import main
from clquant.cli.commands import devices
from clquant.cli.commands.palette import films
from tests.reference.sixel import decode

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def folder(sample, tmp_path, monkeypatch):
    """A working folder with some pictures."""
    small = np.ascontiguousarray(sample[100:148, 200:264])
    PIL.Image.fromarray(small).save(tmp_path / "a.png")
    PIL.Image.fromarray(small[:, ::-1]).save(tmp_path / "b.bmp")
    PIL.Image.fromarray(small[:, :, 1]).save(tmp_path / "gray.png")
    clear = np.dstack([small, np.where(np.arange(64) < 20, 0, 255).astype(np.uint8)[None].repeat(48, 0)])
    PIL.Image.fromarray(clear).save(tmp_path / "clear.png")
    (tmp_path / "deep").mkdir()
    PIL.Image.fromarray(small[:20]).save(tmp_path / "deep" / "c.png")
    (tmp_path / "text.txt").write_text("no picture")
    (tmp_path / "broken.png").write_bytes((tmp_path / "a.png").read_bytes()[:400])
    Palette([[0, 0, 0], [250, 250, 250], [90, 140, 30]]).write(tmp_path / "three.gpl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(*arguments):
    assert main(list(arguments)) == 0


def opened(path):
    with PIL.Image.open(path) as image:
        image.load()
        return image


def colors(path):
    return len(np.unique(np.asarray(opened(path).convert("RGBA")).reshape(-1, 4), axis=0))


def test_writes_beside_the_input_and_says_so(folder, capsys):
    ran("palette", "a.png", "-k", "8")
    assert opened("a-8.png").mode == "P"
    assert colors("a-8.png") == 8
    captured = capsys.readouterr()
    assert captured.err.startswith("a.png -> a-8.png: 64x48, 8 colours, PSNR ")
    assert captured.out == ""
    ran("palette", "a.png", "-k", "8", "-q", "-o", "again.png")
    assert capsys.readouterr().err == ""
    assert (folder / "again.png").read_bytes() == (folder / "a-8.png").read_bytes()


def test_hidden_colours_are_no_error(folder, capsys, rng):
    picture = np.full((9, 7, 4), 255, np.uint8)
    picture[:4] = rng.integers(0, 256, (4, 7, 4), dtype=np.uint8) * np.uint8([1, 1, 1, 0])
    PIL.Image.fromarray(picture).save("hidden.png")
    ran("palette", "hidden.png", "-k", "4")
    assert "2 colours, exact over black and white, " in capsys.readouterr().err


def test_folders_and_many_files(folder, capsys):
    ran("palette", "deep", "a.png", "b.bmp", "-k", "4", "-o", "out")
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["a-4.png", "b-4.png", "c-4.png"]
    ran("palette", "a.png", "b.bmp", "-k", "4", "--shared", "--save-palette", "p.hex", "-o", "out/")
    used = {tuple(c) for name in "ab" for c in np.asarray(opened(f"out/{name}-4.png").convert("RGB")).reshape(-1, 3)}
    assert used == set(Palette.read("p.hex"))
    assert len(capsys.readouterr().err.splitlines()) == 5


@pytest.mark.full
@pytest.mark.parametrize("command", [["halftone"], ["halftone", "--gray"], ["quadtree"], ["vq", "encode", "-n", "4"]])
def test_tall_gray_files_are_pictures(folder, command):
    PIL.Image.fromarray(np.arange(1400).reshape(700, 2).astype(np.uint8)).save("tall.png")
    ran(*command, "tall.png", "-o", "o.clvq" if "vq" in command else "o.png", "-q")
    if "vq" in command:
        ran("vq", "decode", "o.clvq", "-o", "o.png", "-q")
    assert opened("o.png").size == (2, 700)


@pytest.mark.parametrize("suffix", ["gif", "webp", "jpg", "six"])
def test_output_by_suffix(folder, suffix):
    ran("palette", "clear.png", "-k", "6", "-o", f"o.{suffix}", "-q")
    data = (folder / f"o.{suffix}").read_bytes()
    if suffix == "six":
        shown = decode(data)
        assert shown.shape == (48, 64, 4)
        assert (shown[:, :20, 3] == 0).all()
        assert (shown[:, 20:, 3] == 255).all()
    else:
        assert opened(f"o.{suffix}").size == (64, 48)


def test_transparent_pixels_stay(folder):
    for more in (["-k", "5"], ["--use", "three.gpl"], ["-k", "5", "--dither", "bayer4"]):
        ran("palette", "clear.png", "-o", "o.png", "-q", *more)
        shown = np.asarray(opened("o.png").convert("RGBA"))
        assert not shown[:, :20].any()
        assert (shown[:, 20:, 3] == 255).all()


def test_a_palette_of_ones_own(folder):
    ran("palette", "a.png", "--use", "three.gpl", "-q")
    assert colors("a-palette.png") <= 3
    ran(
        "palette", "a.png", "--use", "a-palette.png", "--dither", "blue-noise", "--strength", "0.5", "-o", "d.png", "-q"
    )
    assert colors("d.png") <= 3


def test_quality_order_weights_and_methods(folder):
    ran("palette", "a.png", "--psnr", "30", "-k", "64", "--save-palette", "p.gpl", "-q", "--order", "luma")
    palette = Palette.read("p.gpl")
    assert 2 <= len(palette) < 64
    assert palette.sorted("luma") == palette
    ran("palette", "a.png", "-k", "4", "--weights", "gray.png", "--space", "oklab", "-o", "w.png", "-q")
    assert colors("w.png") == 4
    ran("palette", "a.png", "-k", "4", "--fixed", "#ff00ff,#000000", "--save-palette", "f.hex", "-q")
    assert list(Palette.read("f.hex"))[:2] == [(255, 0, 255), (0, 0, 0)]
    ran("palette", "a.png", "-k", "16", "--method", "neuquant", "--sample-factor", "2", "-o", "n.png", "-q")
    assert colors("n.png") <= 16


def test_files_for_small_displays(folder):
    ran("palette", "a.png", "-k", "8", "--color-format", "rgb565", "-o", "icon.c", "-q")
    assert "const uint16_t icon_palette[8] = {" in (folder / "icon.c").read_text()
    ran("palette", "a.png", "-k", "8", "--lvgl", "9", "-o", "icon_9.h", "-q")
    assert "static const lv_image_dsc_t icon_9 = {" in (folder / "icon_9.h").read_text()
    ran("palette", "a.png", "-k", "8", "--lvgl", "8", "-o", "icon.lvgl.bin", "-q")
    assert (folder / "icon.lvgl.bin").read_bytes()[0] == 9
    ran("palette", "a.png", "--use", "#f81,#07f", "--color-format", "rgb444", "--save-palette", "p.hex", "-q")
    assert list(Palette.read("p.hex")) == [(255, 136, 17), (0, 119, 255)]
    ran("halftone", "gray.png", "-o", "dots.h", "-q")
    assert "#define DOTS_BITS 1\n" in (folder / "dots.h").read_text()
    ran("panel", "a.png", "--panel", "bwr", "--size", "64x48", "--fit", "stretch", "-o", "label.c", "-q")
    assert "const uint8_t label_frame[768]" in (folder / "label.c").read_text()
    ran("panel", "a.png", "--panel", "bwr", "--size", "64x48", "--fit", "stretch", "-o", "frame.h", "-q")
    assert "const uint8_t frame[768]" in (folder / "frame.h").read_text()


@pytest.mark.full
def test_tiles(folder, capsys):
    ran("tileset", "a.png", "--palettes", "3", "-k", "4", "--shared-color", "black", "--map", "m.csv", "-q")
    with PIL.Image.open("a-tiles.png") as image:
        indices, palette = np.asarray(image), np.array(image.getpalette()).reshape(-1, 3)
    assert not palette[:12:4].any()
    numbers = np.loadtxt("m.csv", delimiter=",", ndmin=2)
    assert np.array_equal(indices[::8, ::8] // 4, numbers)
    ran(
        "tileset",
        "a.png",
        "b.bmp",
        "--palettes",
        "2",
        "-k",
        "3",
        "--shared",
        "--tile-size",
        "16x8",
        "-o",
        "t/",
        "--json",
    )
    report = json.loads(capsys.readouterr().out)["results"]
    assert report[0]["palettes"] == report[1]["palettes"]
    assert [len(palette) for palette in report[0]["palettes"]] == [3, 3]
    ran(
        "tileset",
        "a.png",
        "--palettes",
        "2",
        "-k",
        "4",
        "--color-format",
        "rgb444",
        "-o",
        "t.c",
        "--dither",
        "bayer4",
        "-q",
    )
    assert "const uint16_t t_palette[8] = {" in (folder / "t.c").read_text()


def film(path):
    with PIL.Image.open(path) as image:
        return image.n_frames, image.info["duration"]


def test_animation(folder, monkeypatch):
    ran("palette", "a.png", "b.bmp", "-k", "8", "--shared", "--animate", "50", "-o", "film.gif", "-q")
    assert film("film.gif") == (2, 50)
    ran("palette", "a.png", "b.bmp", "--shared", "-k", "8", "--animate", "50", "--save-palette", "p.hex", "-o", "f.gif")
    assert len(Palette.read("p.hex")) == 8
    ran("palette", "film.gif", "-k", "4", "--animate", "20", "-o", "again.gif", "-q")
    assert film("again.gif") == (2, 20)
    results = []
    for most in (1 << 20, 0):  # frames are kept, or read again for each pass
        monkeypatch.setattr(films, "_KEPT_BYTES", most)
        ran("palette", "film.gif", "-k", "4", "-o", "again.gif", "--force", "-q")
        results.append(pathlib.Path("again.gif").read_bytes())
    assert results[0] == results[1]


def test_one_colour_is_called_so(folder, capsys):
    PIL.Image.new("RGB", (3, 2)).save("flat.png")
    ran("palette", "flat.png")
    assert ": 3x2, 1 colour, exact, " in capsys.readouterr().err


def test_show_prints_sixel(folder, capsysbinary):
    ran("palette", "a.png", "-k", "4", "--show", "-q")
    assert decode(capsysbinary.readouterr().out.strip()).shape == (48, 64, 4)
    assert not (folder / "a-4.png").exists()


@pytest.mark.full
def test_compare_makes_a_sheet_and_a_table(folder, capsys):
    ran("compare", "a.png", "-k", "4", "--crop", "32", "--dither", "bayer4")
    assert min(opened("a-compare.png").size) > 100
    said = capsys.readouterr().err
    for method in ("k-means in OKLab", "NeuQuant", "Pillow, median cut", "visual error"):
        assert method in said
    ran("compare", "clear.png", "-q", "-k", "3", "-o", "c.jpg")
    assert opened("c.jpg").mode == "RGB"


def test_devices(capsys):
    ran("devices")
    assert "*" in capsys.readouterr().out
    ran("devices", "--json")
    assert '"rows"' in capsys.readouterr().out


def test_help_names_every_option(capsys):
    for arguments in (["--help"], ["palette", "--help"], ["devices", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 0
    assert "--save-palette" in capsys.readouterr().out


WRONG = [
    (["palette", "missing.png"], "'missing.png': there is no such file or folder"),
    (["palette", "text.txt"], "clquant: cannot read 'text.txt': not a picture in a format that Pillow knows"),
    (["palette", "broken.png"], "cannot read 'broken.png'"),
    (["palette", "empty"], "folder 'empty' has no files of the kinds"),
    (["palette", "-", "a.png"], "cannot be mixed"),
    (["palette", "a.png", "-k", "0"], "-k is 0; allowed: an integer from 1 to 65536"),
    (["palette", "a.png", "-k", "65537"], "-k is 65537; allowed"),
    (["palette", "a.png", "-k", "many"], "invalid int value: 'many'"),
    (["palette", "a.png", "--seed", "-1"], "--seed is -1; allowed"),
    (["palette", "a.png", "--strength", "0.5"], "--strength goes with --dither"),
    (["palette", "a.png", "--dither", "bayer", "--strength", "2"], "strength is 2; allowed: a number from 0 to 1"),
    (["palette", "a.png", "--space", "lab"], "invalid choice: 'lab'"),
    (["palette", "a.png", "--method", "magic"], "invalid choice: 'magic'"),
    (["palette", "a.png", "--order", "size"], "invalid choice: 'size'"),
    (["palette", "a.png", "--sequential"], "--sequential is given with --method kmeans"),
    (["palette", "a.png", "--sample-factor", "3"], "--sample-factor is given with --method kmeans"),
    (["palette", "a.png", "--sample-factor", "0"], "--sample-factor is given with --method kmeans"),
    (["palette", "a.png", "--method", "neuquant", "--sample-factor", "31"], "--sample-factor is 31; allowed"),
    (["palette", "a.png", "--device", "nonesuch"], "device 'nonesuch' is not there; there is 0:"),
    (["palette", "a.png", "--device", "99"], "device '99' is not there"),
    (["palette", "a.png", "-o", "a.png"], "'a.png' is the input itself"),
    (["palette", "a.png", "-o", "x.xyz"], "no picture format has the suffix '.xyz'"),
    (["palette", "a.png", "-o", "missing/x.png"], "cannot write"),
    (["palette", "a.png", "b.bmp", "-o", "text.txt"], "'text.txt' is a file, but several inputs need a folder"),
    (["palette", "a.png", "b.bmp", "-o", "new.png"], "'new.png' names a file, but several inputs need a folder"),
    (["compare", "a.png", "--dither", "floyd"], "--dither: invalid choice: 'floyd'"),
    (["palette", "a.png", "b.bmp", "-o", "-"], "several inputs cannot go to one standard output"),
    (["palette", "a.png", "./a.png", "-o", "out"], "would both be written to"),
    (["palette", "a.png", "-k", "300", "-o", "x.gif"], "a GIF holds at most 256 colours; this palette has 300"),
    (["palette", "a.png", "-k", "300", "-o", "x.six"], "sixel holds at most 256 colours"),
    (["palette", "a.png", "-k", "300", "--save-palette", "p.gpl", "-o", "x.gif"], "a GIF holds at most 256 colours"),
    (["palette", "a.png", "--animate", "50", "--show", "-o", "x.gif"], "--show and --animate are given"),
    (["palette", "a.png", "--animate", "50", "--save-palette", "p.gpl", "-o", "x.gif"], "needs --shared: each frame"),
    (["palette", "a.png", "--use", "missing.gpl"], "--use is 'missing.gpl', neither a file nor colours"),
    (["palette", "a.png", "--use", "text.txt"], "cannot read 'text.txt' as a palette"),
    (["palette", "a.png", "--use", "three.gpl", "--psnr", "30"], "--use takes a palette as it is; --psnr"),
    (["palette", "a.png", "--use", "three.gpl", "--method", "neuquant"], "--use takes a palette as it is; --method"),
    (["palette", "a.png", "--use", "three.gpl", "--sequential"], "--use takes a palette as it is; --sequential"),
    (["palette", "a.png", "--fixed", "#12345"], "--fixed is '#12345', neither a file nor colours; allowed:"),
    (["palette", "a.png", "--save-palette", "p.xyz"], "no palette format has the suffix '.xyz'"),
    (["palette", "a.png", "b.bmp", "--save-palette", "p.gpl"], "needs --shared"),
    (["palette", "a.png", "--psnr", "90", "-k", "4"], "-k is 4, which gives a mean squared error of"),
    (["palette", "a.png", "--psnr", "-3"], "--psnr is -3; allowed: a number from 0 to 100"),
    (["palette", "a.png", "--psnr", "30", "--mse", "3"], "allowed: exactly one of them"),
    (["palette", "a.png", "--weights", "b.bmp"], "has 3 channels; allowed: a gray picture"),
    (["palette", "deep/c.png", "--weights", "gray.png"], "--weights is 64x48, but a picture is 64x20"),
    (["palette", "a.png", "--animate", "50"], "--animate needs one .gif file"),
    (["palette", "a.png", "deep/c.png", "--animate", "50", "-o", "x.gif"], "frames have the sizes"),
    (["palette", "a.png", "--animate", "1", "-o", "x.gif"], "--animate is 1; allowed"),
    (["palette", "text.txt", "--animate", "50", "-o", "x.gif"], "cannot read 'text.txt': not a picture"),
    (["palette", "a.png", "--show", "-o", "-"], "would both write to standard output"),
    (["compare", "a.png", "-k", "257"], "-k is 257; allowed: 2 to 256"),
    (["compare", "a.png", "--crop", "3"], "--crop is 3; allowed: 16 or more"),
    (["compare", "a.png", "-o", "x.six"], "output 'x.six': it holds a palette of at most 256 colours; try .png"),
    (["palette", "a.png", "-o", ""], "-o is ''; allowed: a path"),
    (["palette", "a.png", "-o", "-", "--json"], "--json and -o - would both write to standard output"),
    (["palette", "a.png", "-o", "x.png", "--compression", "g4"], "--compression goes with results that end in .tif"),
    (["palette", "a.png", "--animate", "50", "-o", "-", "--json"], "--json and -o - would both write"),
    (["animate", "a.png", "-o", "-", "--json"], "--json and -o - would both write to standard output"),
    (["animate", "a.png", "-o", "x.gif", "--save-palette", "missing/p.gpl"], "there is no folder 'missing'"),
    (["tiles", "deep", "-o", "-"], "-o is '-'; allowed: a new folder"),
    (["tiles", "deep", "-o", "new", "--save-palette", "missing/p.gpl"], "there is no folder 'missing'"),
    (["compare", "missing.png"], "there is no such file"),
    (["palette"], "the following arguments are required: IN"),
    (["paint"], "the first word is 'paint'; allowed: a command: animate, "),
    (["a.png"], "vq, such as clquant palette a.png"),
    (["palette", "a.png", "--colours", "4"], "unrecognized arguments: --colours; the nearest option is --colors"),
    (["palette", "a.png", "--psnr", "90"], "--n-colors is 256, which gives a mean squared error of"),
    (["devices", "--fast"], "clquant devices: unrecognized arguments: --fast (see clquant devices --help)"),
    (["vq", "info", "a", "--x"], "clquant vq info: unrecognized arguments: --x (see clquant vq info --help)"),
]


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda value: " ".join(value)[:60])
def test_wrong_calls_say_why_in_one_sentence(folder, arguments, message, capsys):
    (folder / "empty").mkdir()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    try:
        status = main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_an_environment_device_that_is_not_there(folder, monkeypatch, capsys):
    monkeypatch.setenv("CLQUANT_DEVICE", "nonesuch")
    assert main(["palette", "a.png"]) == 2
    assert "device 'nonesuch' is not there" in capsys.readouterr().err


def command(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen([sys.executable, "-m", "clquant", *arguments], env=environment, **options)


def test_devices_are_listed_where_the_environment_names_none(monkeypatch, capsys):
    for name in ("CLQUANT_DEVICE", "PYOPENCL_CTX"):
        monkeypatch.delenv("CLQUANT_DEVICE", raising=False)
        monkeypatch.setenv(name, "nonesuch")
        ran("devices")
        out = capsys.readouterr().out
        assert f"No default: {name}=nonesuch names none of these." in out
        assert "| 0 " in out


def test_pipes(folder):
    data = (folder / "a.png").read_bytes()
    process = command("palette", "-", "-k", "4", "-q", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = process.communicate(data)
    assert process.returncode == 0
    assert PIL.Image.open(io.BytesIO(out)).size == (64, 48)
    nothing = command("palette", "-", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert nothing.communicate()[1] == "clquant: standard input is empty\n"
    assert nothing.returncode == 2


def test_a_reader_that_goes_away_is_no_error(folder):
    reading, writing = os.pipe()
    os.close(reading)
    gone = command("devices", stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert gone.communicate()[1] == ""
    assert gone.returncode == 141


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "clquant: interrupted\n"),
        (MemoryError(), 1, "clquant: there is not enough memory for this job\n"),
        (
            RuntimeError("can't start new thread"),
            1,
            "clquant: there is not enough memory for this job, or there are too many threads\n",
        ),
        (RuntimeError("a bug"), 1, "clquant: unexpected RuntimeError: a bug (CLQUANT_DEBUG=1 shows where)\n"),
    ],
)
def test_what_stops_it_is_said_in_one_line(error, status, message, monkeypatch, capsys):
    def fail(args):
        raise error

    monkeypatch.setattr(devices, "run", fail)
    assert main(["devices"]) == status
    assert capsys.readouterr().err == message
