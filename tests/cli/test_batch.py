"""Many files in one call: names, files that are there, failures, reports for programs."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import PIL.Image
import PIL.ImageCms
import PIL.PngImagePlugin
import pytest

from clquant import KMeansPalette, Palette
from clquant.cli import batch, main
from clquant.cli.inputs import expand
from clquant.palette import engine
from clquant.palette.sixel import shown_palette
from clquant.runtime import FileError, InvalidArgument
from tests.reference.sixel import decode


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """A working folder with three pictures in a folder, one of them damaged."""
    (tmp_path / "in").mkdir()
    for name in ("a", "c"):
        pixels = rng.integers(0, 256, (9, 14, 3), np.uint8)
        PIL.Image.fromarray(pixels).save(tmp_path / "in" / f"{name}.png", dpi=(300, 150))
    (tmp_path / "in" / "b.png").write_bytes((tmp_path / "in" / "a.png").read_bytes()[:70])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(place):
    return sorted(path.name for path in place.iterdir())


@pytest.mark.full
@pytest.mark.parametrize("command", ["palette", "halftone"])
def test_one_bad_file_does_not_end_a_batch(folder, command, capsys):
    assert main([command, "in", "-o", "out"]) == 1
    assert len(names(folder / "out")) == 2
    error = capsys.readouterr().err
    assert error.splitlines()[-1] == "clquant: 1 of 3 inputs failed: 'in/b.png'"
    assert "cannot read 'in/b.png'" in error
    assert main([command, "in/b.png", "-o", "out"]) == 2


@pytest.mark.parametrize("command", ["palette", "tileset"])
def test_one_bad_file_does_not_end_a_shared_palette(folder, command, capsys):
    assert main([command, "in", "-k", "4", "--shared", "-o", "out"]) == 1
    assert len(names(folder / "out")) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "clquant: 1 of 3 inputs failed: 'in/b.png'"
    assert main([command, "in/b.png", "-k", "4", "--shared", "-o", "out"]) == 2


@pytest.mark.parametrize("command", ["palette", "halftone", "quadtree", "compare"])
def test_damaged_pixels_are_said(folder, command, capsys):
    data = bytearray((folder / "in" / "a.png").read_bytes())
    data[len(data) // 2] ^= 255  # in the pixels, by which Pillow decodes them once only
    (folder / "in" / "b.png").write_bytes(data)
    assert main([command, "in/b.png", "-o", "x.png"]) == 2
    assert capsys.readouterr().err.startswith("clquant: cannot read 'in/b.png': ")
    assert not (folder / "x.png").exists()


def test_pictures_beside_a_photograph_are_no_frames(folder, capsys):
    photo, small = PIL.Image.new("RGB", (16, 12), "teal"), PIL.Image.new("RGB", (8, 6), "gray")
    photo.copy().save("phone.jpg", "MPO", save_all=True, append_images=[small.copy()])
    photo.save("pages.tif", save_all=True, append_images=[photo, small])
    lost = {"phone.jpg": "", "pages.tif": "note: only the first of several pictures is used (pages.tif)\n"}
    for name, said in lost.items():
        assert main(["palette", name, "-k", "4", "-o", "x.png"]) == 0
        assert capsys.readouterr().err.partition(" s\n")[2] == said
        with PIL.Image.open("x.png") as made:
            assert (made.size, getattr(made, "n_frames", 1)) == ((16, 12), 1)
    assert main(["palette", "phone.jpg", "in/a.png", "--shared", "-k", "4", "-o", "out", "-q"]) == 0


def test_formats_that_are_not_read_back(folder, capsys):
    assert main(["palette", "in/a.png", "-k", "4", "-o", "a.pdf"]) == 0
    assert " dB before this format's losses" in capsys.readouterr().err
    assert (folder / "a.pdf").read_bytes().startswith(b"%PDF")


def test_wrong_arguments_end_a_batch_at_once(folder, capsys):
    (folder / "in" / "b.png").unlink()
    assert main(["palette", "in", "-k", "0", "-o", "out"]) == 2
    assert capsys.readouterr().err == "clquant: -k is 0; allowed: an integer from 1 to 65536\n"
    assert not (folder / "out").exists()


@pytest.mark.parametrize("option", [["--psnr", "60"], ["--max-bytes", "100"]])
def test_a_picture_that_misses_its_target_does_not_end_a_batch(folder, capsys, rng, option):
    (folder / "in" / "b.png").unlink()
    PIL.Image.new("RGB", (8, 8), "teal").save("in/z.png")
    assert main(["palette", "in", "-k", "8", "-o", "out", *option]) == 1
    assert names(folder / "out") == ["z-1.png"]
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("clquant: 'in/a.png': ")] == lines[:1]
    assert lines[-1] == "clquant: 2 of 3 inputs failed: 'in/a.png', 'in/c.png'"
    PIL.Image.new("L", (8, 8), 7).save("weights.png")
    assert main(["palette", "in", "-k", "8", "-o", "new", "--weights", "weights.png", "-q"]) == 1
    assert names(folder / "new") == ["z-8.png"]


def test_sizes_are_told_and_larger_results_may_be_left_out(folder, capsys, rng):
    noise = rng.integers(0, 256, (64, 64, 3), np.uint8)
    PIL.Image.fromarray(noise).save("photo.jpg", quality=5)
    size = (folder / "photo.jpg").stat().st_size
    PIL.Image.fromarray(noise).save("noise.png")
    given = ["palette", "photo.jpg", "-k", "256", "-o", "photo.png"]
    assert main([*given, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["results"]
    made = (folder / "photo.png").stat().st_size
    assert (record["bytes"], record["input_bytes"]) == (made, size)
    assert made > size
    (folder / "photo.png").unlink()
    assert main(given) == 0
    assert f", {size} -> {made} bytes, " in capsys.readouterr().err
    (folder / "photo.png").unlink()
    assert main([*given, "--skip-if-larger", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["results"]
    assert (record["skipped"], record["bytes"], record["input_bytes"]) == ("larger", made, size)
    assert not (folder / "photo.png").exists()
    assert main(["palette", "noise.png", "-k", "8", "-o", "less.png", "--skip-if-larger", "-q"]) == 0
    assert (folder / "less.png").stat().st_size < (folder / "noise.png").stat().st_size


def test_a_suffix_taken_from_the_input_makes_no_lossy_file(folder, capsys, rng):
    PIL.Image.fromarray(rng.integers(0, 256, (9, 17, 3), np.uint8)).save("photo.jpg")
    before = (folder / "photo.jpg").read_bytes()
    assert main(["palette", "photo.jpg", "-k", "4", "--force", "--name", "{stem}{suffix}"]) == 2
    assert "makes 'photo.jpg', whose format has losses; allowed: {stem}.png" in capsys.readouterr().err
    assert (folder / "photo.jpg").read_bytes() == before
    assert main(["palette", "photo.jpg", "-k", "4", "--force", "--name", "{stem}.jpg", "-q"]) == 0
    assert (folder / "photo.jpg").read_bytes() != before


def test_failures_of_every_stage():
    """Results are finished in any order, failures are collected, what is left is left."""
    sources = expand([__file__, batch.__file__, __file__, batch.__file__]).sources
    done, reported = [], []

    class Args:
        json = False
        quiet = True

    def read(source, target):
        return source.path

    def work(item, loaded):
        number = item.target
        if number == 1:
            raise FileError(f"{item.source.shown}: no")

        def finish():
            if number == 2:
                raise InvalidArgument("never")
            done.append(number)
            return lambda: reported.append(number)

        return finish

    assert batch.run(Args(), [*zip(sources, range(4), strict=True)], read, work) == 1
    assert sorted(done) == reported == [0, 3]
    with pytest.raises(InvalidArgument, match="never"):
        batch.run(Args(), [(sources[0], 2)], read, work)


@pytest.mark.full
def test_a_folder_twice(folder):
    (folder / "in" / "b.png").unlink()
    for command, made in (("palette", "a-4.png"), ("halftone", "a-halftone.png")):
        more = ["-k", "4"] if command == "palette" else []
        for _ in range(2):
            assert main([command, "in", *more, "-q"]) == 0
        assert [name for name in names(folder / "in") if name.startswith("a")] == sorted(["a.png", made])
        for path in (folder / "in").glob("*-*.png"):
            path.unlink()
    for _ in range(2):
        assert main(["palette", "in", "-o", "in/out", "-q"]) == 0
    assert names(folder / "in" / "out") == ["a-256.png", "c-256.png"]


def test_a_picture_where_a_result_goes_is_not_lost(folder, capsys):
    (folder / "in" / "b.png").unlink()
    PIL.Image.new("RGB", (3, 4)).save("in/a-4.png")  # of another size, so no result
    before = (folder / "in" / "a-4.png").read_bytes()
    assert main(["palette", "in", "-k", "4", "-q"]) == 2
    assert "'in/a-4.png' is one of the inputs" in capsys.readouterr().err
    assert (folder / "in" / "a-4.png").read_bytes() == before


def test_names_from_a_template(folder, capsys):
    (folder / "in" / "b.png").unlink()
    assert main(["palette", "in", "-k", "4", "-o", "out", "--name", "{number}-{stem}{suffix}.{colors}.gif", "-q"]) == 0
    assert names(folder / "out") == ["1-a.png.4.gif", "2-c.png.4.gif"]
    assert main(["palette", "in/a.png", "in", "-k", "4", "-o", "more/", "--name", "{number}-{stem}.png", "-q"]) == 0
    assert names(folder / "more") == ["1-a.png", "2-a.png", "3-c.png"]
    for template, message in (
        ("{what}.png", "allowed: the text of a file name with {stem}, {suffix}, {number}, {colors}"),
        ("{stem", "allowed: the text of a file name with"),
        ("x/{stem}.png", "which makes 'x/a.png'; allowed: names of files without folders"),
        ("", "which makes ''"),
        ("same.png", "two results would both be written"),
        ("{stem:999999999}.png", "allowed: the text of a file name with"),
        ("{number:.99999f}.png", "allowed: the text of a file name with"),
        ("{stem:{number}}.png", "allowed: the text of a file name with"),
    ):
        assert main(["palette", "in", "-o", "new", "--name", template]) == 2, template
        assert message in capsys.readouterr().err
        assert not (folder / "new").exists()


def test_files_that_are_there(folder, capsys):
    picture = folder / "in" / "a.png"
    before = picture.read_bytes()
    assert main(["palette", "in/a.png", "-k", "4", "-o", "in/a.png"]) == 2
    assert picture.read_bytes() == before
    assert main(["palette", "in/a.png", "-k", "4", "-o", "x.png", "-q"]) == 0
    made = (folder / "x.png").read_bytes()
    assert main(["palette", "in/a.png", "-k", "2", "-o", "x.png", "--no-clobber"]) == 0
    assert "x.png is there already: a.png is left out" in capsys.readouterr().err
    assert (folder / "x.png").read_bytes() == made
    assert main(["palette", "in/a.png", "-k", "4", "-o", "in/a.png", "--force", "-q"]) == 0
    assert picture.read_bytes() == made
    assert main(["palette", "in/a.png", "in/c.png", "-o", "in", "--name", "c.png", "--force"]) == 2


def test_reports_for_programs(folder, capsys):
    assert main(["palette", "in", "-k", "4", "-o", "out", "--json"]) == 1
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert [one["input"] for one in report["results"]] == ["in/a.png", "in/c.png"]
    first = report["results"][0]
    assert (first["output"], first["width"], first["height"], first["n_colors"]) == ("out/a-4.png", 14, 9, 4)
    assert first["bytes"] == (folder / "out" / "a-4.png").stat().st_size
    assert len(first["colors"]) == 4
    assert report["failed"][0]["input"] == "in/b.png"
    assert main(["palette", "in/a.png", "-k", "4", "-o", "out/a-4.png", "--no-clobber", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out) == {"results": [], "failed": []}
    assert main(["palette", "in/a.png", "-k", "256", "--stats", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)["results"][0]
    assert stats["psnr"] is None  # infinite
    assert sum(one["pixels"] for one in stats["colors"]) == 9 * 14
    assert sum(one["share"] for one in stats["colors"]) == pytest.approx(1)
    assert "output" not in stats
    assert main(["halftone", "in/a.png", "-o", "h.png", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["levels"] == 2


@pytest.mark.full
def test_leaves_as_features(folder):
    assert main(["quadtree", "in/a.png", "-o", "leaves.geojson", "-q"]) == 0
    features = json.loads((folder / "leaves.geojson").read_text())["features"]
    assert {"size", "mean_1", "mean_2", "mean_3"} == set(features[0]["properties"])
    assert max(y for feature in features for _, y in feature["geometry"]["coordinates"][0]) == 9


def test_sixel_files_have_the_colours_that_terminals_show(folder):
    assert main(["palette", "in/a.png", "-k", "5", "--effort", "normal", "--dither", "none", "-o", "x.six", "-q"]) == 0
    pixels = np.asarray(PIL.Image.open("in/a.png"))
    palette = shown_palette(KMeansPalette(5).fit(pixels).palette_)
    assert np.array_equal(decode((folder / "x.six").read_bytes())[:, :, :3], engine.transform(pixels, palette))


@pytest.mark.full
def test_tables_have_lines(folder, capsys):
    assert main(["compare", "in/a.png", "-o", "c.png"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "a.png, 14x9, 16 colours"
    for name in ("{stem.png", "{0}%s{x}}.png"):
        shutil.copy("in/a.png", name)
        assert main(["compare", name, "-o", "c.png", "--html", "c.html"]) == 0
        assert capsys.readouterr().err.startswith(f"{name}, 14x9, 16 colours")
    assert any(line.startswith("| k-means ") for line in lines)


@pytest.mark.full
@pytest.mark.parametrize("command", ["quadtree", "compare"])
def test_other_commands_go_on_and_report(folder, command, capsys):
    assert main([command, "in", "-o", "out", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [one["input"] for one in report["results"]] == ["in/a.png", "in/c.png"]
    assert [one["input"] for one in report["failed"]] == ["in/b.png"]
    assert names(folder / "out") == [f"a-{command}.png", f"c-{command}.png"]


def test_colours_with_their_shares(folder, capsys):
    PIL.Image.fromarray(np.repeat(np.uint8([[[255, 0, 0], [0, 0, 255], [0, 0, 255]]]), 4, axis=0)).save("two.png")
    assert main(["palette", "two.png", "-k", "2", "--stats", "-q"]) == 0
    out = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in out.splitlines()[4:6]] == ["#0000ff", "#ff0000"]
    assert "66.67" in out
    assert "two-2.png" not in names(folder)


@pytest.mark.full
def test_a_number_of_bytes(folder, sample, capsys):
    PIL.Image.fromarray(sample[100:200, 100:220]).save("photo.png")
    sizes = []
    for most in (9000, 3000, 1200):
        assert main(["palette", "photo.png", "--max-bytes", str(most), "-o", f"{most}.png", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)["results"][0]
        assert result["bytes"] == (folder / f"{most}.png").stat().st_size <= most
        sizes.append(result["n_colors"])
    assert sizes[0] > sizes[1] > sizes[2] >= 2
    assert main(["palette", "photo.png", "--max-bytes", "90", "-o", "x.png"]) == 2
    assert re.search(
        "--max-bytes 90 is too small: the smallest result takes [1-9][0-9]* bytes", capsys.readouterr().err
    )
    assert main(["palette", "photo.png", "--max-bytes", "90", "--use", "black,white"]) == 2


def test_few_colours_for_a_number_of_bytes_are_told_with_a_size_that_has_more(folder, rng, capsys):
    noise = PIL.Image.fromarray(rng.integers(0, 256, (96, 96, 3), np.uint8))
    noise.save("photo.png")
    words = r"resized to (\d+)x(\d+) it has 16 colours"
    for most, code in (("3000", 0), ("900", 2)):
        assert main(["palette", "photo.png", "-k", "16", "--max-bytes", most, "-o", "x.png"]) == code
        size = tuple(map(int, re.search(words, capsys.readouterr().err).groups()))
        noise.resize(size, PIL.Image.Resampling.LANCZOS).save("small.png")
        assert main(["palette", "small.png", "-k", "16", "-o", "y.png", "-q"]) == 0
        assert (folder / "y.png").stat().st_size <= int(most)
    PIL.Image.new("RGB", (8, 8), "teal").save("flat.png")
    for more in ([], ["-k", "1"]):
        assert main(["palette", "flat.png", "--max-bytes", "900", "-o", "x.png", *more]) == 0
        assert "resized" not in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--max-bytes", "1500"], ["--psnr", "25"], ["--mse", "200"]])
def test_names_say_how_many_colours_were_found(folder, sample, option, capsys):
    picture = PIL.Image.fromarray(sample[100:140, 100:150])
    picture.save("photo.png")

    def made(*more):
        assert main(["palette", "photo.png", "-k", "64", *option, "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)["results"]

    (result,) = made()
    count = result["n_colors"]
    assert 2 <= count < 64
    assert result["output"].endswith(f"photo-{count}.png")
    assert len(Palette.read(f"photo-{count}.png")) == count
    assert made("--name", "{colors}-{stem}.gif")[0]["output"].endswith("-photo.gif")
    assert made("--no-clobber") == []
    with PIL.Image.open("photo.png") as image:
        image.resize((9, 9)).save(f"photo-{count}.png")
    assert main(["palette", "photo.png", f"photo-{count}.png", "-k", "64", *option]) == 2
    assert f"'photo-{count}.png' could be replaced by the result of 'photo.png'" in capsys.readouterr().err


def test_smaller_indexed_files_are_kept(folder, rng, capsys):
    picture = PIL.Image.fromarray(rng.integers(0, 5, (40, 40), np.uint8))
    picture.putpalette(list(range(15)))
    picture.save("small.png", optimize=True)
    assert main(["palette", "small.png", "-k", "16", "-o", "same.png", "-q"]) == 0
    assert len((folder / "same.png").read_bytes()) <= len((folder / "small.png").read_bytes())
    assert main(["palette", "small.png", "-k", "3", "-o", "fewer.png", "-q"]) == 0
    with PIL.Image.open("fewer.png") as fewer:
        assert len(set(np.asarray(fewer).ravel())) == 3


def test_resolution_and_profile(folder, capsys):
    for suffix in ("png", "tif"):
        assert main(["palette", "in/a.png", "-o", f"x.{suffix}", "-q"]) == 0
        assert main(["halftone", "in/a.png", "--gray", "-o", f"y.{suffix}", "-q"]) == 0
        for name in ("x", "y"):
            with PIL.Image.open(f"{name}.{suffix}") as image:
                assert [round(float(value)) for value in image.info["dpi"]] == [300, 150]
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    PIL.Image.open("in/a.png").save("p.png", icc_profile=profile)
    assert main(["palette", "p.png", "-o", "kept.png", "--icc", "keep", "-q"]) == 0
    assert main(["palette", "p.png", "-o", "plain.png", "-q"]) == 0
    with PIL.Image.open("kept.png") as kept, PIL.Image.open("plain.png") as plain:
        assert kept.info["icc_profile"] == profile
        assert "icc_profile" not in plain.info


def test_losses_are_said_and_webp_has_none(folder, capsys):
    assert main(["palette", "in/a.png", "-k", "4", "-o", "a.png", "-q"]) == 0
    assert main(["palette", "in/a.png", "-k", "4", "-o", "a.webp"]) == 0
    assert "losses" not in capsys.readouterr().err
    with PIL.Image.open("a.png") as png, PIL.Image.open("a.webp") as webp:
        assert np.array_equal(np.asarray(png.convert("RGB")), np.asarray(webp.convert("RGB")))
    assert main(["palette", "in/a.png", "-k", "4", "-o", "a.jpg"]) == 0
    assert "dB with this format's losses, " in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["bmp", "tif", "tga", "pcx"])
def test_formats_with_a_palette(folder, suffix):
    assert main(["palette", "in/a.png", "-k", "7", "-o", "a.gif", "-q"]) == 0
    assert main(["palette", "in/a.png", "-k", "7", "-o", f"a.{suffix}", "-q"]) == 0
    with PIL.Image.open("a.gif") as gif, PIL.Image.open(f"a.{suffix}") as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(gif.convert("RGB")), np.asarray(image.convert("RGB")))


def test_black_and_white_files(folder, capsys):
    for name, compression in (("g4.tif", "g4"), ("packed.tif", "packbits"), ("plain.tif", "none"), ("a.pbm", "none")):
        assert (
            main(["palette", "in/a.png", "--use", "black,white", "-o", name, "--compression", compression, "-q"]) == 0
        )
        with PIL.Image.open(name) as image:
            assert image.mode == "1"
            if name.endswith(".tif"):
                assert image.info["compression"] == {"g4": "group4", "none": "raw"}.get(compression, compression)
    assert main(["halftone", "in/a.png", "--gray", "--compression", "g4", "-o", "h.tif", "-q"]) == 0
    with PIL.Image.open("h.tif") as image:
        assert (image.mode, image.info["compression"]) == ("1", "group4")
    assert main(["halftone", "in/a.png", "--compression", "g4", "-o", "x.tif"]) == 2
    assert "'x.tif': TIFF cannot hold this picture of 14x9 and mode RGB" in capsys.readouterr().err
    assert main(["palette", "in/a.png", "-k", "2", "-o", "x.pbm"]) == 2
    assert "a bitmap (PBM) is black and white alone; this picture has the colours #" in capsys.readouterr().err
    assert main(["halftone", "in/a.png", "-o", "x.pbm"]) == 2
    assert main(["halftone", "in/a.png", "--gray", "-o", "x.pbm", "-q"]) == 0
    assert (folder / "x.pbm").read_bytes().startswith(b"P4")


@pytest.mark.parametrize(
    ("arguments", "depth", "kind"),
    [
        ([], 4, 3),
        (["--gray"], 1, 0),
        (["--gray", "--levels", "3"], 2, 3),
        (["--gray", "--levels", "4"], 2, 0),
        (["--gray", "--levels", "16"], 4, 0),
        (["--levels", "3"], 8, 3),
        (["--levels", "6"], 8, 3),
        (["--levels", "7"], 8, 2),
        (["--linear", "--levels", "4"], 8, 3),
    ],
    ids=str,
)
def test_halftones_have_the_right_depth(folder, arguments, depth, kind, rng):
    from clquant import PinwheelHalftoner

    pixels = rng.integers(0, 256, (40, 50, 3), np.uint8)
    PIL.Image.fromarray(pixels).save("p.png")
    assert main(["halftone", "p.png", *arguments, "-o", "h.png", "-q"]) == 0
    data = (folder / "h.png").read_bytes()
    assert data[25] == kind
    assert data[24] == depth or (data[24], kind) == (8, 3)  # an indexed PNG has a byte per pixel if that is smaller
    clear = np.dstack([pixels, np.uint8(255) * (pixels[:, :, 0] > 99)])
    PIL.Image.fromarray(clear).save("clear.png")
    assert main(["halftone", "clear.png", "-o", "c.png", "-q"]) == 0
    assert (folder / "c.png").read_bytes()[24:26] == b"\x04\x03"
    with PIL.Image.open("c.png") as image:
        seen = PinwheelHalftoner().transform(clear)
        assert np.array_equal(np.asarray(image.convert("RGBA")), np.where(clear[:, :, 3:] > 0, seen, 0))
    levels = int(arguments[arguments.index("--levels") + 1]) if "--levels" in arguments else 2
    picture = np.asarray(PIL.Image.open("p.png").convert("L")) if "--gray" in arguments else pixels
    expected = PinwheelHalftoner(levels=levels, linear="--linear" in arguments).transform(picture)
    with PIL.Image.open("h.png") as image:
        assert np.array_equal(np.asarray(image.convert("L" if "--gray" in arguments else "RGB")), expected)


def test_panels_go_on_and_report(folder, capsys):
    assert main(["panel", "in", "--panel", "spectra6", "-o", "out", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [one["panel"] for one in report["results"]] == ["spectra6"] * 2
    assert names(folder / "out") == ["a-spectra6.png", "c-spectra6.png"]


@pytest.mark.full
def test_vector_quantization_goes_on_and_reports(folder, capsys):
    assert main(["vq", "encode", "in", "--codebook-size", "4", "--block-shape", "2x3", "-o", "out", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(one["input"], one["codebook_size"]) for one in report["results"]] == [("in/a.png", 4), ("in/c.png", 4)]
    assert [one["input"] for one in report["failed"]] == ["in/b.png"]
    assert main(["vq", "info", "out/a.clvq", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)["results"][0]
    assert (info["width"], info["height"], info["block_shape"]) == (14, 9, [2, 3])
    data = (folder / "out" / "a.clvq").read_bytes()
    (folder / "out" / "b.clvq").write_bytes(data[: len(data) // 2])
    assert main(["vq", "decode", "out", "-o", "again", "-q"]) == 1
    assert names(folder / "again") == ["a.png", "c.png"]


def test_panels_are_listed_without_a_picture(capsys):
    assert main(["panel", "--panel", "list"]) == 0
    assert capsys.readouterr().out.startswith("mono: 2 colours, #050505 #dcdcdc; ")


@pytest.mark.parametrize("options", [["tileset", "--palettes", "2", "-k", "4"], ["panel", "--panel", "bwr"]])
def test_more_frames_are_spoken_of(folder, options, capsys):
    frames = [PIL.Image.new("RGB", (9, 8), color) for color in ("red", "blue", "white")]
    frames[0].save("film.gif", save_all=True, append_images=frames[1:])
    assert main([options[0], "film.gif", *options[1:]]) == 0
    assert "note: only the first of several frames is used: " in capsys.readouterr().err


def test_results_of_other_numbers_of_colours_are_no_inputs(folder, rng):
    (folder / "in" / "b.png").unlink()
    (folder / "in" / "c.png").unlink()
    for options in (["-k", "4"], ["-k", "16"], ["--use", "black,white"], ["-k", "5"], ["-k", "4"]):
        assert main(["palette", "in", *options, "-q"]) == 0
    assert names(folder / "in") == ["a-16.png", "a-4.png", "a-5.png", "a-palette.png", "a.png"]
    # Pictures of a series have such names too; their colours, sizes and modes tell.
    PIL.Image.fromarray(rng.integers(0, 256, (9, 14, 3), np.uint8)).save(folder / "in" / "a-2.png")
    PIL.Image.fromarray(rng.integers(0, 256, (9, 14), np.uint8)).quantize(100).save(folder / "in" / "a-3.png")
    PIL.Image.new("P", (3, 3)).save(folder / "in" / "a-6.png")
    assert main(["palette", "in", "-k", "7", "-q"]) == 0
    made = [name for name in names(folder / "in") if name.endswith("-7.png")]
    assert made == ["a-2-7.png", "a-3-7.png", "a-6-7.png", "a-7.png"]


def with_exif(image, path, **more):
    exif = PIL.Image.Exif()
    exif[0x010F] = "A maker"
    image.save(path, exif=exif, **more)


def test_what_a_result_does_not_keep_is_said(folder, rng, capsys):
    image = PIL.Image.fromarray(rng.integers(0, 256, (9, 14, 3), np.uint8))
    with_exif(image, "exif.jpg", xmp=b"<x/>")
    text = PIL.PngImagePlugin.PngInfo()
    text.add_text("Title", "A picture")
    image.save("text.png", pnginfo=text)
    image.save("film.webp", save_all=True, append_images=[image.rotate(180)], exif=PIL.Image.Exif().tobytes(), xmp=b"x")
    image.save("pages.tif", tiffinfo={700: b"<x/>"})
    image.save("no-suffix", "TIFF", tiffinfo={33550: (1.0, 1.0, 0.0)})
    image.save("plain.png", dpi=(300, 300))
    turned = PIL.Image.Exif()
    turned[0x0112] = 6
    image.save("turned.jpg", exif=turned)
    place = "note: the place on the map is dropped; .tif keeps it (no-suffix)"
    expected = {
        "exif.jpg": ["note: EXIF metadata dropped (1 file)", "note: XMP metadata dropped (1 file)"],
        "text.png": ["note: PNG text metadata dropped (1 file)"],
        "film.webp": ["note: XMP metadata dropped (1 file)"],
        "pages.tif": ["note: XMP metadata dropped (1 file)"],
        "no-suffix": [place],
        "plain.png": [],
        "turned.jpg": [],
    }
    for name, said in expected.items():
        for loud in ([], ["-v"]):
            assert main(["palette", name, "-k", "4", "-o", "out/", *loud]) == 0
            notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
            assert notes == (said if loud else [place] * (said == [place]))
    assert main(["halftone", *expected, "-o", "out/", "-v"]) == 0
    assert capsys.readouterr().err.splitlines()[-5:] == [
        "note: only the first of several frames is used: halftones are of one picture (film.webp)",
        place,
        "note: EXIF metadata dropped (1 file)",
        "note: PNG text metadata dropped (1 file)",
        "note: XMP metadata dropped (3 files)",
    ]
    assert main(["palette", "exif.jpg", "-k", "4", "-o", "out/", "-q", "--force"]) == 0
    assert not capsys.readouterr().err


def test_a_profile_that_a_format_cannot_hold_is_said(folder, rng, capsys):
    image = PIL.Image.fromarray(rng.integers(0, 256, (9, 14, 3), np.uint8))
    profile = PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes()
    image.save("profile.png", icc_profile=profile)
    assert main(["palette", "profile.png", "-k", "4", "--icc", "keep", "-o", "out.gif"]) == 0
    assert (
        "note: the ICC profile is dropped; .png, .tif, .webp and .jpg keep it (profile.png)\n"
        in capsys.readouterr().err
    )
    assert main(["palette", "profile.png", "-k", "4", "--icc", "keep", "-o", "out.png"]) == 0
    assert "note:" not in capsys.readouterr().err


def test_alpha_and_depth_that_are_lost_are_said_once(folder, rng, capsys):
    PIL.Image.fromarray(rng.integers(0, 255, (9, 14, 4), np.uint8)).save("clear.png")
    for name in ("deep.png", "two.png", "three.png", "four.png"):
        PIL.Image.fromarray(rng.integers(0, 65536, (9, 14), np.uint16)).save(name)
    assert main(["palette", "clear.png", "-k", "4", "-o", "out.jpg"]) == 0
    said = "note: transparent pixels lie over white; --background takes another colour (clear.png)\n"
    assert capsys.readouterr().err.endswith(said)
    assert main(["palette", "clear.png", "-k", "4", "--background", "red", "-o", "out.jpg"]) == 0
    assert "note:" not in capsys.readouterr().err
    deep = ["deep.png", "two.png", "three.png", "four.png"]
    for command in (["palette", "-k", "4", "--jobs", "2"], ["panel", "--panel", "bwr"]):
        assert main([*command, *deep, "-o", "out/"]) == 0
        said = capsys.readouterr().err
        assert said.endswith("note: 16 bits a channel become 8 bits (deep.png, four.png, three.png, 1 more file)\n")
        assert said.count("note:") == 1
    assert main(["halftone", "deep.png", "-o", "out/"]) == 0
    assert "note:" not in capsys.readouterr().err
