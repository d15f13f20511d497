"""Animated files in and out: frames, times and loops as players have them."""

from __future__ import annotations

import io
import os
import struct
import threading
import zlib

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest

import clquant
from clquant import IndexedImage, KMeansPalette
from clquant.cli import main
from clquant.cli.commands.palette import films
from clquant.images import moving, read
from clquant.runtime import FileError, InvalidArgument
from clquant.video.animation import animation_bytes
from tests.images import costly_files

DELAYS = [50, 70, 1200, 90]


@pytest.fixture
def pictures(rng):
    """Four frames in few colours, with holes that come and go."""
    colors = rng.integers(0, 256, (6, 4), np.uint8)
    colors[:, 3] = 255
    colors[2] = 0
    return [colors[rng.integers(0, 6, (13, 17))] for _ in DELAYS]


def written(path, pictures, **options):
    if str(path).endswith(".gif"):  # Pillow's writer quantizes pictures with holes
        engine = KMeansPalette(6).fit(pictures)
        clquant.save_animation(path, [engine.quantize(picture) for picture in pictures], delay_ms=DELAYS)
        return
    images = [PIL.Image.fromarray(picture) for picture in pictures]
    images[0].save(path, save_all=True, append_images=images[1:], duration=DELAYS, disposal=2, **options)


def same(rgba, picture):
    """Whether pictures are equal but for the colours of holes."""
    return np.array_equal(rgba * (rgba[:, :, 3:] > 0), picture)


def shown(path):
    """(frames as RGBA with holes 0, times, loop) by Pillow."""
    with PIL.Image.open(path) as film:
        frames, delays = [], []
        for number in range(film.n_frames):
            film.seek(number)
            frame = np.array(film.convert("RGBA"))
            frame[frame[:, :, 3] == 0] = 0
            frames.append(frame)
            delays.append(round(film.info["duration"]))
        return frames, delays, film.info.get("loop")


@pytest.mark.parametrize("suffix", ["gif", "png", "apng", "webp"])
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("plays", [0, 1, 3])
def test_every_format_shows_every_frame(suffix, alike, plays, pictures, tmp_path):
    own = [KMeansPalette(6).fit(picture) for picture in pictures]
    engines = [KMeansPalette(6).fit(pictures)] * 4 if alike else own
    frames = [engine.quantize(picture) for engine, picture in zip(engines, pictures, strict=True)]
    path = tmp_path / f"a.{suffix}"
    clquant.save_animation(path, frames, delay_ms=DELAYS, plays=plays)
    seen, delays, loop = shown(path)
    for one, picture in zip(seen, pictures, strict=True):
        assert np.array_equal(one, picture)
    assert delays == DELAYS
    assert (1 if loop is None else loop + (suffix == "gif" and loop > 0)) == plays
    about = clquant.video.frames(path)
    assert (len(about), about.width, about.height, about.plays) == (4, 17, 13, plays)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
@pytest.mark.parametrize("order", [(0, 0, 1, 1), (0, 0, 0, 0), (1, 0, 0, 0)])
def test_equal_frames_keep_their_number_and_times(suffix, order, pictures, tmp_path):
    engine = KMeansPalette(6).fit(pictures)
    frames = [engine.quantize(pictures[number]) for number in order]
    path = tmp_path / f"a.{suffix}"
    clquant.save_animation(path, frames, delay_ms=DELAYS)
    seen, delays, _ = shown(path)
    assert delays == DELAYS
    for one, number in zip(seen, order, strict=True):
        assert np.array_equal(one, pictures[number])


def test_webp_draws_only_what_changes(rng, tmp_path):
    """Two far corners change: what lies between them is not written again."""
    still = rng.integers(0, 256, (90, 101, 3), np.uint8)
    films = []
    for alpha in (False, True):
        picture = np.dstack([still, np.full(still.shape[:2], 255, np.uint8)]) if alpha else still
        if alpha:
            picture[40:44, 50:60] = 0
        frames = [picture.copy() for _ in range(4)]
        for number, frame in enumerate(frames):
            frame[1 + number : 4 + number, 3:8, :3] = 255 - 20 * number
            frame[85:88, 91 + number : 95 + number, :3] = 20 * number
        films.append(frames)
    for number, frames in enumerate(films):
        images = [IndexedImage(*indexed(frame)) for frame in frames]
        path = tmp_path / f"{number}.webp"
        clquant.save_animation(path, images, delay_ms=DELAYS)
        clquant.save_animation(tmp_path / "first.webp", images[:1])
        seen, delays, _ = shown(path)
        assert delays == DELAYS
        for one, frame in zip(seen, frames, strict=True):
            assert np.array_equal(one[:, :, : frame.shape[2]], frame)
        assert path.stat().st_size < 1.2 * (tmp_path / "first.webp").stat().st_size


def test_webp_holds_no_larger_pictures():
    wide = IndexedImage(np.zeros((1, 16384), np.uint8), [[0, 0, 0]])
    with pytest.raises(InvalidArgument, match="a WebP is at most 16383 pixels wide and high; these frames are 16384"):
        animation_bytes([wide], "WEBP")


def indexed(picture):
    """A picture's indices and its distinct colours."""
    colors, indices = np.unique(picture.reshape(-1, picture.shape[2]), axis=0, return_inverse=True)
    return indices.reshape(picture.shape[:2]), colors


def test_indexed_and_full_colour_apng(pictures):
    engine = KMeansPalette(6).fit(pictures)
    data = animation_bytes([engine.quantize(picture) for picture in pictures], "PNG")
    assert (data[24], data[25]) == (8, 3)
    many = [IndexedImage(np.arange(300).reshape(20, 15), np.arange(900).reshape(300, 3) % 256)] * 2
    assert animation_bytes(many, "PNG")[25] == 2
    with PIL.Image.open(io.BytesIO(animation_bytes(many, "PNG"))) as film:
        assert film.n_frames == 2
        film.seek(1)
        assert np.array_equal(np.asarray(film.convert("RGB")), many[0].to_array())


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
def test_frames_are_read_with_their_times(suffix, pictures, tmp_path):
    path = tmp_path / f"a.{suffix}"
    written(path, pictures, loop=0, **({"lossless": True, "exact": True} if suffix == "webp" else {}))
    film = clquant.video.frames(path)
    assert len(film) == 4
    for _ in range(2):
        read = list(film)
        assert [frame.delay_ms for frame in read] == DELAYS
        for frame, picture in zip(read, pictures, strict=True):
            assert same(np.asarray(frame), picture)
    assert KMeansPalette(6).fit(read[0].pixels).palette_ == KMeansPalette(6).fit(read[0]).palette_


def test_a_hidden_default_image_is_no_frame(pictures, tmp_path):
    path = tmp_path / "a.png"
    images = [PIL.Image.fromarray(picture) for picture in pictures]
    images[0].save(path, save_all=True, append_images=images[1:], default_image=True, duration=[50, 70, 90], loop=2)
    film = clquant.video.frames(path)
    assert (len(film), film.plays) == (3, 2)
    assert [frame.delay_ms for frame in film] == [50, 70, 90]
    for frame, picture in zip(film, pictures[1:], strict=True):
        assert np.array_equal(frame.pixels, picture)
    assert main(["palette", str(path), "-k", "8", "--animate", "60", "-o", str(tmp_path / "b.gif"), "-q"]) == 0
    assert len(clquant.video.frames(tmp_path / "b.gif")) == 3


def _apng(hidden, count, plays):
    """Frames of one colour each, (1, 0, 0), (2, 0, 0), ..., perhaps behind a default image of (0, 0, 0)."""
    chunk = costly_files._chunk

    def data(red):
        return zlib.compress(b"".join(b"\0" + bytes((red, 0, 0)) * 3 for _ in range(2)))

    def control(number):
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 3, 2, 0, 0, 1, 10, 0, 0))

    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 2, 0, 0, 0))]
    parts += [chunk(b"acTL", struct.pack(">II", count, plays))]
    parts += [chunk(b"IDAT", data(0))] if hidden else [control(0), chunk(b"IDAT", data(1))]
    number = 0 if hidden else 1
    for red in range(1 if hidden else 2, count + 1):
        parts += [control(number), chunk(b"fdAT", struct.pack(">I", number + 1) + data(red))]
        number += 2
    return b"".join([*parts, chunk(b"IEND", b"")])


@pytest.mark.full
@pytest.mark.parametrize("plays", [0, 1, 3])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("hidden", [False, True])
def test_every_command_begins_with_the_first_frame(hidden, count, plays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_bytes(_apng(hidden, count, plays))
    film = clquant.video.frames("a.png")
    assert (len(film), film.plays) == (count, plays)
    frames = [tuple(frame.pixels[0, 0]) for frame in film]
    assert frames == [(red, 0, 0) for red in range(1, count + 1)]
    assert [tuple(color) for color in clquant.quantize("a.png", 4).palette.colors[:, :3]] == frames[:1]
    for target in ("b.png", "b.gif", "b.webp"):
        assert main(["palette", "a.png", "-k", "8", "-o", target, "-q"]) == 0
        assert [frame.pixels[0, 0, 0] for frame in clquant.video.frames(target)] == [red for red, _, _ in frames]
    colors = "000000,010000,020000,030000"
    assert main(["halftone", "a.png", "--palette", colors, "-o", "h.png", "-q"]) == 0
    assert main(["vq", "encode", "a.png", "-n", "2", "-o", "v.clvq", "-q"]) == 0
    assert main(["vq", "decode", "v.clvq", "-o", "v.png", "-q"]) == 0
    for still in ("h.png", "v.png"):
        with PIL.Image.open(still) as image:
            assert image.convert("RGB").getpixel((0, 0)) == (1, 0, 0)


def test_a_frame_outside_its_screen_and_a_cut(rng, tmp_path):
    """A GIF's frame that leaves the screen is cut there; of a file that ends early the frames before are had."""
    colors = rng.integers(0, 256, (4, 3), np.uint8)
    frames = [IndexedImage(rng.integers(0, 4, (8, 9)).astype(np.uint8), colors) for _ in range(3)]
    data = animation_bytes(frames, "GIF")
    second = data.index(b"\x2c", data.index(b"\x2c") + 1)
    (tmp_path / "a.gif").write_bytes(data[: second + 1] + struct.pack("<HH", 4, 3) + data[second + 5 :])
    shown = [frame.pixels for frame in clquant.video.frames(tmp_path / "a.gif")]
    expected = frames[0].to_array()
    expected[3:, 4:] = frames[1].to_array()[:5, :5]
    assert np.array_equal(shown[1], expected)
    (tmp_path / "b.gif").write_bytes(data[:-20])
    with pytest.raises(FileError, match=r"truncated.*; damaged=True \(--damaged\) takes the frames before"):
        list(clquant.video.frames(tmp_path / "b.gif"))
    found = [frame.pixels for frame in clquant.video.frames(tmp_path / "b.gif", damaged=True)]
    assert np.array_equal(found, [frame.to_array() for frame in frames[:2]])
    (tmp_path / "c.gif").write_bytes(data[:30])
    with pytest.raises(FileError):
        list(clquant.video.frames(tmp_path / "c.gif", damaged=True))


def test_still_pictures_and_no_pictures(tmp_path):
    PIL.Image.new("RGB", (3, 2), "red").save(tmp_path / "a.png")
    (frame,) = clquant.video.frames(tmp_path / "a.png")
    assert (frame.pixels == [255, 0, 0]).all()
    assert frame.delay_ms == moving.DEFAULT_DELAY_MS
    with pytest.raises(FileError, match="no such file"):
        clquant.video.frames(tmp_path / "b.png")
    (tmp_path / "c.gif").write_bytes(b"GIF89a")
    with pytest.raises(FileError, match="cannot read"):
        clquant.video.frames(tmp_path / "c.gif")


@pytest.mark.parametrize("shared", [True, False])
def test_animate(shared, pictures, tmp_path):
    path = tmp_path / "a.gif"
    written(path, pictures, loop=0)
    made = clquant.animate(path, 6, shared=shared)
    assert (made.delays_ms, made.plays, len(made)) == (DELAYS, 0, 4)
    for frame, picture in zip(made.frames, pictures, strict=True):
        assert same(frame.palette.rgba()[frame.indices], picture)
    made.save(tmp_path / "b.webp")
    assert shown(tmp_path / "b.webp")[1] == DELAYS
    assert clquant.animate(pictures, 6, delay_ms=30).delays_ms == [30] * 4
    assert clquant.animate((p for p in pictures), ["black", "white"], plays=2).plays == 2
    for wrong in ([], 5, None):
        with pytest.raises(
            InvalidArgument, match=r"frames is .*; allowed: an animated file, or pictures, at least one"
        ):
            clquant.animate(wrong)
    with pytest.raises(InvalidArgument, match=r"x.tif': no animation has the suffix '.tif'; allowed: .gif, .png"):
        made.save(tmp_path / "x.tif")
    with pytest.raises(InvalidArgument, match="plays is -1"):
        clquant.save_animation(tmp_path / "x.gif", made.frames, plays=-1)
    with pytest.raises(InvalidArgument, match="format is 'BMP'; allowed: 'GIF', 'PNG', 'WEBP'"):
        made.to_bytes("BMP")


def test_holes_in_later_frames_alone_stay_holes(rng):
    """A list whose first frame has no alpha, mapped to palettes of each frame."""
    opaque = rng.integers(0, 256, (9, 8, 3), np.uint8)
    holed = np.dstack([opaque, np.full((9, 8), 255, np.uint8)])
    holed[2:4, 3:5] = 0
    made = clquant.animate([opaque, holed, opaque], 128, palettes="frame")
    for format in ("GIF", "PNG", "WEBP"):
        with PIL.Image.open(io.BytesIO(made.to_bytes(format))) as image:
            image.seek(1)
            found = np.array(image.convert("RGBA"))
        assert same(found, holed)


def test_opaque_frames_before_holes_get_255_colours(rng, tmp_path):
    full = rng.integers(0, 256, (24, 24, 4), np.uint8)
    full[:, :, 3] = 255
    holed = full.copy()
    holed[5:9, 5:9] = 0
    made = clquant.animate([full, holed], 256, shared=False)
    assert len(made.frames[0].palette) == 255
    made.save(tmp_path / "a.gif")
    seen, _, _ = shown(tmp_path / "a.gif")
    assert not seen[1][5:9, 5:9].any()
    for name, picture in (("1", full), ("2", holed)):
        PIL.Image.fromarray(picture).save(tmp_path / f"{name}.png")
    arguments = [str(tmp_path / "1.png"), str(tmp_path / "2.png"), "--animate", "50", "-o", str(tmp_path / "b.gif")]
    assert main(["palette", *arguments, "-q"]) == 0
    assert not shown(tmp_path / "b.gif")[0][1][5:9, 5:9].any()
    assert main(["palette", *arguments[:-1], str(tmp_path / "c.gif"), "--use", "black,red,#0000", "-q"]) == 0
    seen = shown(tmp_path / "c.gif")[0][1].reshape(-1, 4)
    assert {*map(tuple, seen.tolist())} == {(0, 0, 0, 0), (255, 0, 0, 255), (0, 0, 0, 255)}


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
def test_the_command_keeps_films_moving(suffix, pictures, tmp_path, capsys):
    path = tmp_path / f"a.{suffix}"
    written(path, pictures, loop=0, **({"lossless": True, "exact": True} if suffix == "webp" else {}))
    assert main(["palette", str(path), "-k", "6"]) == 0
    assert "4 frames of 17x13: 6 colours" in capsys.readouterr().err
    seen, delays, loop = shown(tmp_path / f"a-6.{suffix}")
    assert (delays, loop) == (DELAYS, 0)
    for one, picture in zip(seen, pictures, strict=True):
        assert np.array_equal(one, picture)
    assert main(["palette", str(path), "-k", "6", "-o", str(tmp_path / "b.bmp")]) == 0
    assert (
        f"note: only the first of several frames is used; .gif, .png, .apng and .webp hold all of them (a.{suffix})\n"
        in capsys.readouterr().err
    )
    assert main(["halftone", str(path), "-o", str(tmp_path / "c.png")]) == 0
    assert "note: only the first of several frames is used: halftones" in capsys.readouterr().err
    assert main(["palette", str(path), "--max-bytes", "900", "-o", str(tmp_path / f"d.{suffix}")]) == 2
    assert "has 4 frames; --max-bytes is for still pictures alone" in capsys.readouterr().err
    given = ["palette", str(path), "--use", "black,red,#0000", "-o", str(tmp_path / f"e.{suffix}")]
    assert main(given) == 0
    assert "4 frames of 17x13: 3 colours" in capsys.readouterr().err
    few, result = tmp_path / f"a-6.{suffix}", tmp_path / "f.apng"
    assert main(["palette", str(few), "-o", str(result)]) == 0
    is_larger = result.stat().st_size > few.stat().st_size
    assert main(["palette", str(few), "-o", str(tmp_path / "g.apng"), "--skip-if-larger"]) == 0
    left_out = "left out, as the result would be larger" in capsys.readouterr().err
    assert left_out == is_larger == (not (tmp_path / "g.apng").exists())


@pytest.mark.full
@pytest.mark.parametrize("alpha", [False, True])
def test_neuquant_of_a_film_reads_a_frame_at_a_time(alpha, sample, tmp_path, monkeypatch):
    monkeypatch.setattr(films, "_KEPT_BYTES", 0)
    pictures = [np.ascontiguousarray(sample[y : y + 24, 90:130]) for y in (10, 70, 130)]
    if alpha:
        pictures[1] = np.dstack([pictures[1], np.full((24, 40), 255, np.uint8)])
        pictures[1][3:9, 5:9, 3] = 0, 0, 100, 200
    written(tmp_path / "a.webp", pictures, lossless=True, exact=True)
    arguments = ["--method", "neuquant", "-k", "16", "--save-palette", str(tmp_path / "p.png"), "-q"]
    assert main(["palette", str(tmp_path / "a.webp"), *arguments, "-o", str(tmp_path / "b.gif")]) == 0
    expected = clquant.NeuQuantCL(16).fit(pictures).palette_
    found = clquant.Palette.read(tmp_path / "p.png")
    assert found == (expected.with_transparent() if alpha else expected)


def test_what_looks_at_a_whole_film_has_a_bound(pictures, tmp_path, monkeypatch, capsys):
    written(tmp_path / "a.gif", pictures)
    monkeypatch.setattr(films, "_HELD_BYTES", 1000)
    assert main(["palette", str(tmp_path / "a.gif"), "--psnr", "20", "-o", str(tmp_path / "b.gif")]) == 2
    assert "4 frames take 0 MiB; allowed: up to 0 MiB with --psnr" in capsys.readouterr().err
    assert not (tmp_path / "b.gif").exists()
    assert main(["palette", str(tmp_path / "a.gif"), "-k", "6", "-o", str(tmp_path / "b.gif"), "-q"]) == 0


@pytest.mark.parametrize("more", [[], ["--animate", "60"], ["--shared"]], ids=str)
def test_films_through_named_pipes(more, pictures, tmp_path):
    written(tmp_path / "a.gif", pictures)
    os.mkfifo(tmp_path / "pipe")
    data = (tmp_path / "a.gif").read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,), daemon=True)
    writer.start()
    assert main(["palette", str(tmp_path / "pipe"), "-k", "6", *more, "-o", str(tmp_path / "b.gif"), "-q"]) == 0
    writer.join(10)
    assert len(clquant.video.frames(tmp_path / "b.gif")) == 4


@pytest.mark.parametrize("mode", ["L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_turned_tiffs_without_compression(mode, rng, tmp_path):
    """Pillow maps such files into memory by the sides of the upright picture."""
    pixels = rng.integers(0, 256, (16, 24, 3), np.uint8)
    image = PIL.Image.fromarray(pixels[:, :, 0] * np.uint16(257)) if mode == "I;16" else PIL.Image.fromarray(pixels)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    image.convert(mode).save(tmp_path / "a.tiff", exif=exif)
    found = read(str(tmp_path / "a.tiff")).array
    assert np.array_equal(found, read((tmp_path / "a.tiff").read_bytes()).array)
    exif[0x0112] = 1
    image.convert(mode).save(tmp_path / "b.tiff", exif=exif)
    assert np.array_equal(found, np.rot90(read(str(tmp_path / "b.tiff")).array, -1))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("format", "count"), [("PNG", 1), ("PNG", 3), ("WEBP", 1), ("WEBP", 3), ("TIFF", 3), ("JPEG", 1)]
)
def test_frames_are_upright(format, count, orientation, tmp_path):
    """By the file's EXIF orientation, in the size of the upright picture, for `frames` and the command."""
    given = [np.kron(np.eye(2, 3, number), np.full((8, 8), 255)).astype(np.uint8) for number in range(count)]
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    images = [PIL.Image.fromarray(picture) for picture in given]
    further = {"save_all": True, "append_images": images[1:]} if count > 1 else {}
    path = tmp_path / f"a.{format.lower()}"
    images[0].save(path, format, exif=exif, quality=100, lossless=True, **further)
    turned = [np.asarray(PIL.ImageOps.exif_transpose(_tagged(image, exif))) for image in images]
    read = clquant.video.frames(path)
    assert (read.height, read.width) == turned[0].shape == ((24, 16) if orientation > 4 else (16, 24))
    colors = [np.atleast_3d(frame.pixels)[:, :, 0] for frame in read]
    assert np.abs(np.asarray(colors, int) - turned).max() <= 8
    if count > 1 and format != "TIFF":
        assert main(["palette", str(path), "-k", "2", "-q", "-o", str(tmp_path / "b.gif")]) == 0
        assert clquant.video.frames(tmp_path / "b.gif").height == read.height
    if (format, count) == ("PNG", 3):  # EXIF data may come last
        data = path.read_bytes()
        begin = data.index(b"eXIf") - 4
        end = begin + 12 + int.from_bytes(data[begin : begin + 4], "big")
        late = data[:begin] + data[end:-12] + data[begin:end] + data[-12:]
        assert [frame.pixels.shape for frame in clquant.video.frames(late)] == [frame.pixels.shape for frame in read]
        assert clquant.quantize(late, 2).shape == (read.height, read.width)


def _tagged(image, exif):
    tagged = image.copy()
    tagged.getexif()[0x0112] = exif[0x0112]
    return tagged
