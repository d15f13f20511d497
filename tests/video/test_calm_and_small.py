"""Held pixels, packing with loss, and files of at most so many bytes; kernels equal to their references."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import subprocess
import tempfile
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant.cli import main
from clquant.images.moving import Frame
from clquant.runtime import InvalidArgument, open_session
from clquant.video import animator, gif, kept, lzw
from clquant.video.hold import held
from clquant.video.spool import Spool, TemporaryFile
from tests.gif_decoder import decoded
from tests.reference import hold as hold_reference
from tests.reference import lzw as lzw_reference


@pytest.mark.parametrize(("channels", "look_ahead", "quality"), [(3, 4, 90), (4, 2, 70), (1, 4, 90)])
def test_hold_is_its_reference(channels, look_ahead, quality, rng):
    still = rng.integers(0, 256, (1, 30, channels))
    frames = np.clip(still + rng.integers(-9, 10, (14, 30, channels)), 0, 255).astype(np.uint8)
    frames[7:] = np.roll(frames[7:], 3, 1)
    if channels == 4:
        frames[..., 3] = rng.choice([0, 255, 90], (14, 30), p=[0.1, 0.8, 0.1])
    shown, stays = hold_reference.held(frames, look_ahead, 7 * (100 - quality) ** 2 // 4)
    shape = (5, 6) if channels == 1 else (5, 6, channels)
    found = list(held([Frame(frame.reshape(shape), 40) for frame in frames], look_ahead, quality, None))
    assert np.array_equal(np.stack([one.frame.pixels.reshape(30, channels) for one in found]), shown)
    assert np.array_equal(np.stack([one.stays.reshape(30) for one in found]), stays)
    assert 0 < stays.mean() < 1


@pytest.mark.parametrize(("count", "bits"), [(1, 2), (300, 2), (9000, 8), (9000, 4)])
@pytest.mark.parametrize("loss", [0, 60])
def test_packing_is_its_reference(count, bits, loss, rng):
    colors = rng.integers(0, 256, (1 << bits, 3), np.uint8)
    wanted = np.minimum(rng.geometric(0.3, count) - 1, (1 << bits) - 1).astype(np.uint8)
    wanted[-1] = (1 << bits) - 1
    other = np.where(rng.random(count) < 0.3, rng.integers(0, 1 << bits, count), wanted).astype(np.uint8)
    near = lzw.near_colors(colors, loss, None)
    codes = lzw_reference.packed(wanted.tolist(), other.tolist(), colors.tolist(), near.tolist(), bits, 7 * loss**2)
    frames = [(wanted[None], other[None], colors, None)] * 2
    expected = bytes([bits]) + gif.blocks(codes)
    assert lzw.blocks_of(frames, loss, open_session()) == [expected] * 2


def test_packing_a_few_at_a_time_changes_nothing(gradient, monkeypatch):
    made = clquant.animate(gradient, 64)
    expected = made.to_bytes("GIF")
    monkeypatch.setattr(lzw, "MOST_FRAMES", 2)
    assert made.to_bytes("GIF") == expected


def test_near_colours(rng):
    colors = rng.integers(0, 256, (40, 3), np.uint8)
    near = lzw.near_colors(colors, 40, 7)
    for symbol in range(40):
        squares = ((colors.astype(int) - colors[symbol]) ** 2) @ [2, 4, 1]
        able = [i for i in np.argsort(squares, kind="stable") if squares[i] <= 7 * 40**2 and i != symbol and i != 7]
        expected = able[: lzw.NEAR] if symbol != 7 else []
        assert near[symbol].tolist() == (expected + [symbol] * lzw.NEAR)[: lzw.NEAR]
    assert (lzw.near_colors(colors, 0, None) == np.arange(256)[:, None]).all()


@pytest.fixture
def noisy(sample, rng):
    """A camera's frames: a still picture with noise, in which a block moves."""
    still = np.ascontiguousarray(sample[100:150, 200:270]).astype(int)
    frames = []
    for number in range(9):
        frame = still.copy()
        frame[10:20, 5 * number : 5 * number + 9] = 250, 30, 200
        frames.append(np.clip(frame + np.rint(rng.normal(0, 2, frame.shape)), 0, 255).astype(np.uint8))
    return frames


@pytest.mark.parametrize("dither", [None, "floyd-steinberg"])
@pytest.mark.parametrize("palettes", ["one", pytest.param("frame", marks=pytest.mark.full)])
def test_what_stands_still_does_not_change_by_a_bit(dither, palettes, noisy):
    made = clquant.animate(noisy, 64, quality=80, dither=dither, palettes=palettes, lossy=0)
    shown = np.stack([frame.to_array() for frame in made.frames])
    changes = (shown[1:] != shown[:-1]).any(axis=3)
    assert changes[:, 22:].mean() < 0.01
    plain = clquant.animate(noisy, 64, hold=0, dither=dither, palettes=palettes)
    before = np.stack([frame.to_array() for frame in plain.frames])
    assert (before[1:] != before[:-1]).any(axis=3)[:, 22:].mean() > 0.3
    for format in ("GIF", "PNG", "WEBP"):
        data = made.to_bytes(format)
        assert len(data) < len(plain.to_bytes(format))
        with PIL.Image.open(io.BytesIO(data)) as image:
            for number, frame in enumerate(shown):
                image.seek(number)
                assert np.array_equal(np.asarray(image.convert("RGB")), frame)


@pytest.mark.parametrize(("few", "most"), [(0, 0), (0, 1000), (0, 1 << 20), (500, 1 << 20), (1 << 20, 0)])
def test_kept_frames_come_again(few, most, rng, monkeypatch):
    monkeypatch.setattr(kept, "FEW_BYTES", few)
    monkeypatch.setattr(kept, "MOST_BYTES", most)
    frames = [rng.integers(0, 256, (9, 7, 3), np.uint8) for _ in range(2)]
    for change in ((slice(2, 5), slice(1, 7)), (slice(0, 0), slice(0, 0)), (slice(8, 9), slice(6, 7))):
        frames.append(frames[-1].copy())
        frames[-1][change] ^= rng.integers(0, 2, (9, 7, 3), np.uint8)[change]
    frames += [rng.integers(0, 256, (4, 5), np.uint8)] * 2
    calls = []

    def make():
        calls.append(1)
        return held([Frame(frame, 40 + number) for number, frame in enumerate(frames)], 0, 100, None)

    first = list(source := kept.Kept(make))
    for one, again, frame in zip(first, source, frames, strict=True):
        assert one.frame.delay_ms == again.frame.delay_ms
        assert np.array_equal(again.frame.pixels, frame)
        assert np.array_equal(one.stays, again.stays)
    assert len(calls) == (1 if 1 << 20 in (few, most) else 2)


@pytest.mark.parametrize("together", [0, 1, 3])
@pytest.mark.parametrize("dither", [None, "leaky", "bayer8", "floyd-steinberg"])
def test_what_changes_gets_what_its_whole_frame_would(dither, together, sample, monkeypatch):
    """A frame at a time, as CPUs do it, or several in a launch and two launches at a time, as GPUs do it."""
    if together:
        gpu = SimpleNamespace(limits=SimpleNamespace(is_cpu=False))
        monkeypatch.setattr(animator, "open_session", lambda _: gpu)
        monkeypatch.setattr(animator, "_MAPPED_BYTES", together * 150 * 280 * 3)
    background = np.ascontiguousarray(sample[:150, :280])
    frames = []
    for number, (y, x) in enumerate([(60, 62), (70, 190), (140, 272), (0, 0)]):
        frames.append(background.copy())
        frames[number][y : y + 9, x : x + 7] = background[::-1, ::-1][y : y + 9, x : x + 7]
    made = clquant.animate(frames, 32, dither=dither)
    way = clquant.OrderedDither("bayer", means="near") if dither == "bayer8" else dither  # the palette is learned
    expected = clquant.quantize(frames[0], made.palette, dither=way).to_array()
    for number, frame in enumerate(made.frames):
        whole = clquant.quantize(frames[number], made.palette, dither=way).to_array()
        changed = (frames[number] != frames[max(number - 1, 0)]).any(axis=2)
        expected = np.where(changed[..., None], whole, expected)
        assert np.array_equal(frame.to_array(), expected)


def test_frames_mapped_side_by_side_are_the_same(noisy, queue, monkeypatch):
    """On queues of their own."""
    given = {"quality": 90, "dither": "leaky", "queue": queue}
    expected = clquant.animate(noisy, 64, **given).to_bytes("GIF")
    gpu = SimpleNamespace(limits=SimpleNamespace(is_cpu=False))
    monkeypatch.setattr(animator, "open_session", lambda _: gpu)
    assert clquant.animate(noisy, 64, **given).to_bytes("GIF") == expected


def test_loss_is_bounded_and_saves_bytes(noisy):
    exact = clquant.animate(noisy, 256, lossy=0)
    lossy = clquant.animate(noisy, 256, lossy=30)
    sizes = [len(film.to_bytes("GIF")) for film in (exact, lossy)]
    assert sizes[1] < 0.95 * sizes[0]
    shown, _ = decoded(lossy.to_bytes("GIF"))
    differences = np.stack([one.picture[:, :, :3].astype(int) for one in shown]) - np.stack(
        [frame.to_array() for frame in exact.frames]
    )
    squares = differences**2 @ [2, 4, 1]
    assert 0 < squares.max() <= 7 * 30**2


def test_files_of_at_most_so_many_bytes(noisy, tmp_path):
    noisy = noisy[:4]
    whole = len(clquant.animate(noisy).to_bytes("GIF"))
    told: list[tuple[int, int]] = []
    made = clquant.animate(noisy, max_bytes=int(0.3 * whole), progress=lambda *done: told.append(done))
    told.clear()
    made.save(tmp_path / "a.gif")
    assert told == sorted(told)
    assert all(done <= total for done, total in told)
    assert 0.27 * whole <= (tmp_path / "a.gif").stat().st_size <= 0.3 * whole
    assert made.figures["bytes"] == (tmp_path / "a.gif").stat().st_size
    enough = clquant.animate(noisy, max_bytes=2 * whole)
    assert (len(enough.to_bytes("GIF")), enough.figures["changed"]) == (whole, {})
    with pytest.raises(
        InvalidArgument, match=r"max_bytes 100 is too small: the smallest result takes [1-9][\d,]* bytes"
    ):
        clquant.animate(noisy, max_bytes=100).save(tmp_path / "b.gif")
    assert not (tmp_path / "b.gif").exists()
    for wrong in ({"quality": 0}, {"hold": 16}, {"lossy": 101}, {"max_bytes": 0}):
        with pytest.raises(InvalidArgument, match=f"{next(iter(wrong))} is"):
            clquant.animate(noisy, **wrong)


@pytest.mark.full
@pytest.mark.parametrize(("format", "colors"), [("PNG", 32), ("WEBP", 32), ("GIF", ["#333", "#655", "#797", "#ccc"])])
def test_every_format_and_given_colours_in_so_many_bytes(format, colors, noisy):
    whole = len(clquant.animate(noisy, colors).to_bytes(format))
    assert 0.5 * whole < len(clquant.animate(noisy, colors, max_bytes=int(0.9 * whole)).to_bytes(format)) < whole


def test_the_command_says_what_it_changed_for_bytes(noisy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    clquant.animate(noisy[:4]).save("a.gif")
    height, width = noisy[0].shape[:2]

    def made(*arguments):
        status = main(["animate", "a.gif", *arguments, "-o", "b.gif"])
        return status, capsys.readouterr().err, clquant.video.frames("b.gif").width if status == 0 else None

    status, text, found = made("--max-bytes", "1M")
    assert (status, found) == (0, width)
    assert "(nothing changed)" in text
    status, text, found = made("--max-bytes", "900")
    assert status == 0
    assert f"changed for --max-bytes: size {width}x{height} -> {found}x" in text
    status, text, found = made("--max-bytes", "3k", "--size", str(width))
    assert (status, found) == (0, width)
    assert "changed for --max-bytes: colours" in text
    status, text, found = made("--max-bytes", "300", "--size", str(width))
    assert status == 0
    assert f"changed for --max-bytes: no result of --size fits: size {width}x{height} -> {found}x" in text
    (tmp_path / "b.gif").unlink()
    status, text, _ = made("--max-bytes", "90")
    assert status == 2
    assert re.search(r"--max-bytes 90 is too small: the smallest result takes [1-9]\d* bytes", text)
    assert not (tmp_path / "b.gif").exists()


@pytest.mark.full
def test_bytes_are_spent_where_they_show_at_the_size_asked_for(rng):
    """At most 1.05 of the error of any size and number of colours by hand: a photograph shrinks, a screen does not."""
    soft = rng.integers(0, 256, (6, 10, 3), np.uint8)
    soft = np.asarray(PIL.Image.fromarray(soft).resize((160, 90), PIL.Image.Resampling.BICUBIC))
    photograph = [np.ascontiguousarray(soft[n : n + 64, 4 * n : 4 * n + 112]) for n in range(6)]
    text = np.repeat(np.repeat(rng.integers(0, 2, (32, 56), np.uint8) * 200, 2, axis=0), 2, axis=1)
    screen = [np.dstack([np.roll(text, 4 * n, axis=0)] * 3) + np.uint8(n) for n in range(6)]
    for frames in (photograph, screen):
        asked = len(clquant.animate(frames, dither="leaky").to_bytes("GIF")) // 2
        film = clquant.animate(frames, dither="leaky", max_bytes=asked)
        own = error_at_size(film.to_bytes("GIF"), frames)
        best = np.inf
        for width, colors in itertools.product((112, 100, 90, 80, 70, 60, 50), (256, 128, 64, 32)):
            size = width, round(64 * width / 112)
            small = [np.asarray(PIL.Image.fromarray(frame).resize(size, PIL.Image.LANCZOS)) for frame in frames]
            data = clquant.animate(small, colors, dither="leaky").to_bytes("GIF")
            if len(data) <= asked:
                best = min(best, error_at_size(data, frames))
        assert own <= 1.05 * best
        assert film.figures["bytes"] <= asked


def error_at_size(data, frames):
    shown = [one.picture[:, :, :3] for one in decoded(data)[0]]
    size = frames[0].shape[1::-1]
    back = [np.asarray(PIL.Image.fromarray(picture).resize(size, PIL.Image.Resampling.LANCZOS)) for picture in shown]
    return ((np.array(back, int) - np.array(frames, int)) ** 2).mean()


@pytest.mark.skipif(not shutil.which("ffmpeg") or not shutil.which("gifsicle"), reason="needs ffmpeg and gifsicle")
def test_ffmpeg_and_gifsicle_show_the_same_pixels(noisy, tmp_path):
    made = clquant.animate(noisy, 64, quality=85, dither="bayer8")
    made.save(tmp_path / "a.gif")
    expected = [one.picture[:, :, :3] for one in decoded((tmp_path / "a.gif").read_bytes())[0]]
    command = ["ffmpeg", "-v", "error", "-i", tmp_path / "a.gif", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    assert np.array_equal(np.frombuffer(raw, np.uint8).reshape(np.shape(expected)), expected)
    subprocess.run(["gifsicle", "--unoptimize", tmp_path / "a.gif", "-o", tmp_path / "b.gif"], check=True)
    with PIL.Image.open(tmp_path / "b.gif") as image:
        for number, picture in enumerate(expected):
            image.seek(number)
            assert np.array_equal(np.asarray(image.convert("RGB")), picture)


def test_one_palette_is_one_table(noisy):
    """Players of small displays know a file's table alone; 16 colours in use everywhere leave no entry for gaps."""
    made = clquant.animate(noisy, 16, dither="bayer8")
    assert len(made.palette) == 16
    shown, _ = decoded(made.to_bytes("GIF"))
    assert not any(one.own_table for one in shown)
    assert all(np.array_equal(one.picture[:, :, :3], f.to_array()) for one, f in zip(shown, made.frames, strict=True))


@pytest.fixture
def gradient():
    """A still picture of 200 grays, on which a square of three colours moves."""
    still = np.repeat(np.arange(20, 220, dtype=np.uint8).reshape(10, 20, 1), 3, axis=2)
    frames = [still.copy() for _ in range(9)]
    for number, frame in enumerate(frames):
        frame[3:6, number : number + 3] = [[(250, 0, 0)], [(0, 250, 0)], [(0, 0, 250)]]
    return frames


def test_colors_of_small_changes_have_short_codes(gradient):
    made = clquant.animate(gradient)
    turned = clquant.animate(gradient, made.palette.colors[::-1])
    for one in (made, turned):
        assert np.array_equal([frame.to_array() for frame in one.frames], gradient)
    assert len(made.to_bytes("GIF")) < len(turned.to_bytes("GIF"))


def test_bytes_are_used_where_fewer_colours_halve_the_table(gradient):
    """128 colours take a third less than 129, with as much loss."""
    asked = int(0.95 * len(clquant.animate(gradient).to_bytes("GIF")))
    made = clquant.animate(gradient, max_bytes=asked)
    assert 0.9 * asked <= len(made.to_bytes("GIF")) <= asked


def test_no_room_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(clquant.FileError, match="cannot write a temporary file"):
        Spool(range(9))
    with TemporaryFile(4) as file:
        file.write(b"abc")  # fits memory
        with pytest.raises(clquant.FileError, match=r"No such file or directory \(TMPDIR names it\)"):
            file.write(b"def")
