"""Options that would have no effect are refused instead of ignored."""

from __future__ import annotations

import argparse

import numpy as np
import PIL.Image
import pytest

from clquant import KMeansPalette, Palette, QuadtreeBuilder, SpatialPalette, VQCodec
from clquant.cli import main
from clquant.cli.common import byte_count

IGNORED = [
    (["vq", "encode", "a.png", "--codebook", "b.clvq", "-n", "256"], "-n is given with --codebook"),
    (["vq", "encode", "a.png", "--codebook", "b.clvq", "--block", "4x4"], "--block is given with --codebook"),
    (["vq", "encode", "a.png", "--codebook", "b.clvq", "--init", "splitting"], "--init is given with --codebook"),
    (["vq", "encode", "a.png", "--codebook", "b.clvq", "--refine", "3"], "--refine is given with --codebook"),
    (["vq", "encode", "a.png", "--codebook", "b.clvq", "--seed", "0"], "--seed is given with --codebook"),
    (["vq", "encode", "a.png", "--tolerance", "2"], "--tolerance is given without --side-match"),
    (["quadtree", "t.clqt", "-t", "13"], "-t is given with saved trees, whose leaves are chosen"),
    (["quadtree", "t.clqt", "--min-size", "2"], "--min-size is given with saved trees"),
    (["quadtree", "t.clqt", "--criterion", "range"], "--criterion is given with saved trees"),
    (["quadtree", "t.clqt", "--max-depth", "3"], "--max-depth is given with saved trees"),
    (["halftone", "a.png", "--space", "oklab"], "--space is given without --palette"),
    (["halftone", "a.png", "--palette", ""], "neither a file nor colours"),
    (["palette", "a.png", "--use", "two.gpl", "-k", "256"], "--use takes a palette as it is; -k would learn one"),
    (["palette", "a.png", "--use", "two.gpl", "--seed", "0"], "--use takes a palette as it is; --seed would learn one"),
    (["palette", "a.png", "--use", ""], "neither a file nor colours"),
    (["panel", "--panel", "bwr"], "no picture is given; allowed without one: --panel list"),
    (["tileset", "a.png", "--tile-size", "8x"], "--tile-size is '8x'; allowed: a number, or WIDTHxHEIGHT such as 16x8"),
    (["tileset", "a.png", "--shared-color", "red,black"], "--shared-color is 'red,black'; allowed: one colour, or"),
    (["tileset", "a.png", "-o", "b.jpg"], "output 'b.jpg': a lossy format would spoil tiles; allowed:"),
    (["palette", "a.png", "--lvgl", "9", "-o", "b.png"], "--lvgl goes with .c, .h and .lvgl.bin, not 'b.png'"),
    (["palette", "a.png", "--color-format", "rgb565", "--method", "neuquant"], "--color-format is given with --method"),
    (["palette", "a.png", "--fixed", ""], "--fixed is '', neither a file nor colours; allowed: a palette file"),
    (["palette", "a.png", "--fixed", "redd"], "--fixed is 'redd', neither a file nor colours"),
    (["palette", "a.png", "--use", "no.gpl"], "--use is 'no.gpl', neither a file nor colours"),
    (["palette", "a.png", "--save-palette", ""], "--save-palette is ''; allowed: a path"),
    (["palette", "a.png", "--device", ""], "device '' is not there; there is 0:"),
    (["palette", ""], "an input is ''; allowed: a file, a folder, or - for standard input"),
]


NAMED = [  # by Python's words, with the value attached, by the beginning of a word, and beside others
    (["palette", "a.png", "--n-colors=0"], "--n-colors is 0; allowed: an integer from 1 to 65536"),
    (["palette", "a.png", "-qk0"], "-k is 0; allowed: an integer from 1 to 65536"),
    (["palette", "a.png", "-k", "2", "--see", "-1"], "--see is -1; allowed: an integer from 0"),
    (["palette", "a.png", "--fixed", "red,lime,blue", "-k", "2"], "--fixed has 3 colours; allowed: fewer than -k = 2"),
    (["palette", "a.png", "b.png", "-k", "0", "-o", "out/"], "-k is 0; allowed: an integer from 1 to 65536"),
    (["animate", "a.png", "--colors", "1"], "--colors is 1; allowed: 2 to 256"),
    (["panel", "a.png", "--panel", "bwr", "--size", "12x8", "--tone", "3"], "--tone is 3; allowed: a number from 0"),
    (["tileset", "a.png", "-k", "500"], "-k is 500; allowed: an integer from 2 to 256"),
]

ANYWHERE = [  # options before, between and behind inputs
    ["palette", "--dither", "a.png", "-k", "16", "-o", "out/"],
    ["palette", "-k", "16", "a.png", "--dither", "c.png", "-o", "out/"],
    ["palette", "-k16", "a.png", "-o", "out/", "c.png"],
    ["palette", "--dither", "bayer4", "a.png", "-qk", "16", "c.png", "-o", "out/"],
    ["palette", "--dith", "./a.png", "-o", "out/"],
    ["animate", "--dither", "a.png", "c.png", "--fps", "5", "-o", "out/made.gif"],
    ["compare", "--dither", "a.png", "-k", "4", "-o", "out/"],
    ["panel", "--panel", "bwr", "--dither", "a.png", "-o", "out/"],
    ["quadtree", "--criterion", "weighted", "--weights", "3", "6", "1", "a.png", "-o", "out/"],
    ["tileset", "--dither", "a.png", "--palettes", "2", "-k", "4", "-o", "out/"],
]


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    pixels = rng.integers(0, 256, (8, 12, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    VQCodec(4).fit(pixels).save(tmp_path / "b.clvq")
    QuadtreeBuilder().build(pixels).save(tmp_path / "t.clqt")
    Palette(["#000000", "#ffffff"]).write(tmp_path / "two.gpl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "message"), IGNORED, ids=lambda value: " ".join(value)[:60])
def test_what_would_be_ignored_is_refused(folder, arguments, message, capsys):
    before = sorted(folder.iterdir())
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "message"), NAMED, ids=lambda value: " ".join(value)[:60])
def test_errors_name_options_as_they_were_typed(folder, arguments, message, capsys):
    (folder / "b.png").write_bytes((folder / "a.png").read_bytes())
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("arguments", ANYWHERE, ids=" ".join)
def test_inputs_stand_anywhere(folder, arguments):
    (folder / "c.png").write_bytes((folder / "a.png").read_bytes())
    (folder / "out").mkdir()
    assert main(arguments) == 0
    inputs = [word for word in arguments if word.endswith(("a.png", "c.png"))]
    assert len(list((folder / "out").iterdir())) == (1 if "animate" in arguments else len(inputs))


def test_options_end_where_inputs_begin(folder, capsys):
    assert main(["palette", "--dither", "a.png", "-k", "16"]) == 0
    assert (folder / "a-16.png").exists()
    with pytest.raises(SystemExit):
        main(["palette", "--dither", "blu-noise", "a.png"])
    assert "argument --dither: invalid choice: 'blu-noise'" in capsys.readouterr().err


def test_a_picture_among_trees_takes_the_options(folder):
    assert main(["quadtree", "a.png", "t.clqt", "-t", "255", "-o", "out/", "--save", "trees/", "-q"]) == 0
    assert (folder / "trees" / "a.clqt").stat().st_size < (folder / "trees" / "t.clqt").stat().st_size


def test_search_and_spatial_palettes(tmp_path, sample):
    source, small = tmp_path / "in.png", sample[:48, :60]
    PIL.Image.fromarray(small).save(source)
    made = {}
    for name, options in {
        "spatial": ["--method", "spatial"],
        "named": ["--method", "spatial", "--dither", "search"],
        "nearest": ["--method", "spatial", "--dither", "bayer"],
        "calm": ["--dither", "search", "--sharpness", "2"],
        "usual": ["--dither", "search"],
    }.items():
        target = tmp_path / f"{name}.png"
        assert main(["palette", str(source), "-k", "6", *options, "-o", str(target), "--quiet"]) == 0
        made[name] = np.asarray(PIL.Image.open(target).convert("RGB"))
    assert np.array_equal(made["spatial"], made["named"])
    assert np.array_equal(made["spatial"], SpatialPalette(6).fit_transform(small))
    assert not np.array_equal(made["spatial"], made["nearest"])
    assert not np.array_equal(made["calm"], made["usual"])
    assert main(["palette", str(source), "--dither", "bayer", "--sharpness", "1"]) == 2


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--effort", "fast"], {"max_iter": 1, "swap_rounds": 8, "tol": 1e-3}),
        ([], {"max_iter": 2, "swap_rounds": 12, "tol": 1e-3}),
        (["--effort", "normal"], {}),
        (["--effort", "small"], {}),
    ],
)
def test_less_effort_takes_fewer_steps(tmp_path, sample, options, parameters):
    source, target = tmp_path / "in.png", tmp_path / "out.png"
    PIL.Image.fromarray(sample[:90, :120]).save(source)
    options = [*options, "--dither", "none"]
    assert main(["palette", str(source), "-k", "20", *options, "-o", str(target), "--quiet"]) == 0
    expected = KMeansPalette(20, **parameters).fit_transform(sample[:90, :120])
    assert np.array_equal(np.asarray(PIL.Image.open(target).convert("RGB")), expected)


@pytest.mark.parametrize(
    ("options", "engine", "dither"),
    [
        ([], KMeansPalette(6), "leaky"),
        (["--dither", "none"], KMeansPalette(6), None),
        (["--method", "spatial"], SpatialPalette(6), "search"),
        (["--mse", "800"], KMeansPalette(6), None),
    ],
)
def test_palette_dithers_unless_a_target_is_named(tmp_path, sample, options, engine, dither):
    source, target, part = tmp_path / "in.png", tmp_path / "out.png", sample[:90, :120]
    PIL.Image.fromarray(part).save(source)
    effort = [] if "spatial" in options else ["--effort", "normal"]
    assert main(["palette", str(source), "-k", "6", *effort, *options, "-o", str(target), "--quiet"]) == 0
    fitted = engine.fit_quality(part, max_mse=800) if "--mse" in options else engine.fit(part)
    with PIL.Image.open(target) as result:
        assert np.array_equal(np.asarray(result.convert("RGB")), fitted.transform(part, dither))


def test_effort_is_for_k_means_alone(tmp_path, sample):
    source, target = tmp_path / "in.png", tmp_path / "out.png"
    PIL.Image.fromarray(sample[:90, :120]).save(source)
    assert main(["palette", str(source), "--method", "spatial", "-k", "4", "--effort", "fast", "-o", str(target)]) == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [("60000", 60000), ("60k", 60000), ("60K", 60000), ("1.5M", 1500000), ("64Ki", 65536), ("2MB", 2000000), ("9B", 9)],
)
def test_numbers_of_bytes(text, count):
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "k", "1i", "-5", "1e3", "5 kilos", "1.5.2M"])
def test_texts_that_are_no_numbers_of_bytes(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no number of bytes, such as 60000, 60k or"):
        byte_count(text)
