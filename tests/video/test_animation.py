"""Animated GIFs: every frame as it was given, shared and own palettes, and no flicker."""

from __future__ import annotations

import concurrent.futures
import io
import itertools
import os

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant import IndexedImage, KMeansPalette
from clquant.images.moving import Frame
from clquant.runtime import FileError, InvalidArgument, InvalidType, StoppedError
from clquant.video import animation
from tests.gif_decoder import decoded


def frames_of(data):
    with PIL.Image.open(io.BytesIO(data)) as image:
        shown = []
        for number in range(image.n_frames):
            image.seek(number)
            shown.append(np.asarray(image.convert("RGBA")))
        return shown, dict(image.info)


def moving(sample, count):
    return [np.ascontiguousarray(sample[60 : 60 + 64, 150 + 3 * i : 150 + 3 * i + 80]) for i in range(count)]


@pytest.mark.parametrize("shared", [True, False])
def test_frames_come_back(queue, sample, shared):
    learner = KMeansPalette(32, queue=queue)
    frames = animation.quantize_frames(learner, moving(sample, 4), shared=shared, dither="blue-noise")
    assert (len({frame.palette for frame in frames}) == 1) == shared
    shown, info = frames_of(animation.gif_bytes(frames, delay_ms=70))
    assert len(shown) == 4
    assert info["duration"] == 70
    assert info["loop"] == 0
    for there, frame in zip(shown, frames, strict=True):
        assert np.array_equal(there[:, :, :3], frame.to_array()[:, :, :3])


def test_holes_stay_holes(rng):
    colors = rng.integers(0, 256, (9, 4))
    colors[:, 3] = 255
    colors[4] = 0
    frames = [IndexedImage(rng.integers(0, 9, (12, 17)), colors) for _ in range(3)]
    shown, _ = frames_of(animation.gif_bytes(frames))
    for there, frame in zip(shown, frames, strict=True):
        expected = frame.to_array()
        assert np.array_equal(there[:, :, 3], expected[:, :, 3])
        opaque = expected[:, :, 3] == 255
        assert np.array_equal(there[opaque], expected[opaque])


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 60, 64, 255, 256])
@pytest.mark.parametrize("holes", [False, True])
def test_what_does_not_change_is_not_written_again(count, holes, rng):
    """Two far corners change: the rectangle around them costs a few bytes, with a free entry or without."""
    colors = np.concatenate([rng.permutation(256)[:count, None], rng.integers(0, 256, (count, 2))], axis=1)
    rgba = np.concatenate([colors, np.full((count, 1), 255)], axis=1)
    rgba[1, 3] = 0 if holes else 255
    still = rng.integers(0, count, (120, 160))
    still[still == 1] = 0
    still[50:60, 50:60] = 1
    pictures = [still.copy() for _ in range(4)]
    for number, picture in enumerate(pictures[1:]):
        picture[2:5, number : number + 3] = 0
        picture[-3:, -9 + number :] = 2 % count
    frames = [IndexedImage(picture, rgba) for picture in pictures]
    data = animation.gif_bytes(frames)
    assert len(data) < len(animation.gif_bytes(frames[:1])) + 3 * 350
    shown, _ = frames_of(data)
    by_specification, _ = decoded(data)
    assert len(shown) == len(by_specification) == 4
    for there, other, frame in zip(shown, by_specification, frames, strict=True):
        expected = frame.to_array()
        opaque = expected[:, :, 3] == 255
        assert np.array_equal(there[opaque], expected[opaque])
        assert np.array_equal(other.picture[opaque], expected[opaque])
        assert not there[~opaque][:, 3].any()


def test_a_sprite_that_blinks(queue, tmp_path):
    sprite = np.zeros((8, 9, 4), np.uint8)
    sprite[2:6, 3:6] = 255, 200, 0, 255
    pictures = [sprite, np.zeros_like(sprite), sprite]
    animation.save_gif(tmp_path / "a.gif", animation.quantize_frames(KMeansPalette(4, queue=queue), pictures))
    shown, _ = decoded((tmp_path / "a.gif").read_bytes())
    for one, picture in zip(shown, pictures, strict=True):
        assert np.array_equal(one.picture, picture)


def test_ordered_dithering_does_not_flicker(queue, sample):
    still = moving(sample, 1)[0]
    changed = still.copy()
    changed[20:30, 20:30] = 255 - changed[20:30, 20:30]
    first, second = animation.quantize_frames(KMeansPalette(8, queue=queue), [still, changed], dither="bayer8")
    differ = (first.to_array() != second.to_array()).any(axis=2)
    differ[20:30, 20:30] = False
    assert not differ.any()


def test_an_animation_of_frames_and_times(rng, tmp_path):
    colors = rng.integers(0, 256, (4, 3), np.uint8)
    frames = [IndexedImage(rng.integers(0, 4, (5, 6)), colors) for _ in range(3)]
    made = animation.Animation(frames, [40, 70_000, 20], plays=2)
    assert (len(made), made.frames, made.delays_ms, made.palette) == (3, frames, [40, 70_000, 20], frames[0].palette)
    for format in ("GIF", "PNG", "WEBP"):
        given = {"delay_ms": [40, 70_000, 20], "plays": 2}
        assert made.to_bytes(format) == animation.animation_bytes(frames, format, **given)
    made.save(tmp_path / "a.png")
    assert [frame.delay_ms for frame in clquant.video.frames(tmp_path / "a.png")] == [40, 70_000, 20]


@pytest.mark.parametrize("long", [65_536, 655_361, 700_001, 20_000_003, 65_535_000])
@pytest.mark.parametrize("alike", [True, False])
def test_long_frames_stand_as_long_as_asked(long, alike, rng, tmp_path):
    """Those longer than a file's frame can stand are written as several that look alike."""
    pictures = rng.integers(0, 256, (3, 5, 6, 3), np.uint8)
    delays = [40, long, 20]
    film = clquant.animate(list(pictures), 8, shared=alike, delay_ms=delays)
    assert film.delays_ms == delays
    for suffix in ("gif", "png", "webp") if alike else ("gif", "webp"):
        film.save(tmp_path / f"a.{suffix}")
        read = list(clquant.video.frames(tmp_path / f"a.{suffix}"))
        total = sum(delays) if suffix != "gif" else (sum(delays) + 5) // 10 * 10
        assert sum(frame.delay_ms for frame in read) == total
        assert min(frame.delay_ms for frame in read) >= 10
        seen = [*(frame.pixels[:, :, :3].tobytes() for frame in read), b""]
        starts = [frame for frame, after in itertools.pairwise(seen) if frame != after]
        assert starts == [frame.to_array().tobytes() for frame in film.frames]


def test_animate_takes_a_time_for_each_frame(rng, tmp_path):
    pictures = list(rng.integers(0, 256, (3, 5, 6, 3), np.uint8))
    delays = [30, 80, 1000]
    for frames in (pictures, iter(pictures)):
        assert clquant.animate(frames, 4, delay_ms=np.array(delays)).delays_ms == delays
    clquant.save_animation(tmp_path / "a.gif", clquant.animate(pictures, 4).frames)
    assert clquant.animate(tmp_path / "a.gif", ["black", "white"], delay_ms=delays).delays_ms == delays
    for count in (2, 4):
        with pytest.raises(InvalidArgument, match=f"delay_ms has {count}; allowed: one for each of the"):
            clquant.animate(pictures, ["black", "white"], delay_ms=[40] * count).to_bytes("GIF")
    with pytest.raises(InvalidArgument, match=r"delay_ms\[1\] is 9; allowed: an integer from 10 to 65535000"):
        clquant.animate(pictures, delay_ms=[40, 9, 40])
    too_long = clquant.video.frames([Frame(pictures[0], 65_535_001)])
    with pytest.raises(InvalidArgument, match=r"frames\[0\] stands 65535001 ms; allowed: up to 65535000"):
        clquant.animate(too_long).to_bytes("GIF")


def test_frames_faster_than_formats_show_keep_their_time(rng):
    frames = [Frame(picture, 4) for picture in rng.integers(0, 256, (30, 5, 6, 3), np.uint8)]
    made = clquant.animate(frames, ["black", "white"])
    assert sum(made.delays_ms) == 120
    assert min(made.delays_ms) >= 10


@pytest.mark.parametrize("count", [2, 4, 16, 17])
def test_pillow_and_ffmpeg_read_the_same_apng(count, rng, tmp_path):
    """Frames of few colours, parts of which change at every place and width."""
    av = pytest.importorskip("av")
    palette = rng.integers(0, 256, (count, 3), np.uint8)
    now, frames = rng.integers(0, count, (5, 19)), []
    for left, width in [(0, 19), (0, 3), (8, 8), (3, 5), (5, 14), (16, 3), (1, 1)]:
        now = now.copy()
        now[1:4, left : left + width] = (now[1:4, left : left + width] + 1) % count
        frames.append(IndexedImage(now, palette))
    path = tmp_path / "a.png"
    animation.save_animation(path, frames)
    with av.open(str(path)) as film:
        theirs = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    with PIL.Image.open(path) as film:
        pillows = [np.asarray(frame.convert("RGB")) for frame in PIL.ImageSequence.Iterator(film)]
    expected = [frame.to_array() for frame in frames]
    assert np.array_equal(theirs, expected)
    assert np.array_equal(pillows, expected)
    assert np.array_equal([frame.pixels for frame in clquant.video.frames(path)], expected)
    animation.save_animation(tmp_path / "still.png", frames[:1])
    assert (tmp_path / "still.png").read_bytes()[24] == (8 if count > 16 else int(np.log2(count)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_into_a_named_pipe(tmp_path):
    frames = [IndexedImage([[0, 1]], [[0, 0, 0], [9, 9, 9]]), IndexedImage([[1, 1]], [[0, 0, 0], [9, 9, 9]])]
    os.mkfifo(tmp_path / "a.png")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        data = pool.submit((tmp_path / "a.png").read_bytes)
        animation.save_animation(tmp_path / "a.png", iter(frames))
    assert data.result() == animation.animation_bytes(iter(frames), "PNG")


@pytest.mark.parametrize(
    ("second", "format", "delays", "why"),
    [
        ([[0, 0, 0], [9, 9, 9]], "GIF", [40], "delay_ms has 1; allowed: one for each of the frames"),
        ([[0, 0, 0], [9, 9, 9]], "GIF", [40, 40, 40], "delay_ms has 3; allowed: one for each of the 2 frames"),
        ([[0, 0, 0], [8, 8, 8]], "PNG", 40, "another palette than those before"),
        ([[0, 0, 0, 255], [9, 9, 9, 100]], "GIF", 40, r"frames\[1\] has colours of alpha below 255"),
        (None, "GIF", 40, "one size for all"),
    ],
)
def test_frames_that_come_are_checked_in_their_turn(second, format, delays, why):
    one = IndexedImage([[0, 1]], [[0, 0, 0], [9, 9, 9]])
    other = IndexedImage([[0]], one.palette) if second is None else IndexedImage([[1, 1]], second)
    with pytest.raises(InvalidArgument, match=why):
        animation.animation_bytes(iter([one, other]), format, delay_ms=delays)


def test_once_and_one_frame(tmp_path):
    path = tmp_path / "a.gif"
    animation.save_gif(path, [IndexedImage([[0, 1]], [[0, 0, 0], [9, 9, 9]])], loop=False)
    shown, info = frames_of(path.read_bytes())
    assert len(shown) == 1
    assert "loop" not in info


def test_wrong_calls(queue, sample, tmp_path):
    one = IndexedImage([[0]], [[0, 0, 0]])
    other = IndexedImage([[0, 0]], [[0, 0, 0]])
    with pytest.raises(InvalidArgument, match="frames are none"):
        animation.gif_bytes([])
    with pytest.raises(InvalidArgument, match="frames are none"):
        animation.quantize_frames(KMeansPalette(8), [])
    with pytest.raises(InvalidArgument, match="one size for all"):
        animation.gif_bytes([one, other])
    with pytest.raises(
        InvalidArgument, match=r"frames\[1\] is 2 wide and 1 high, the first 1 and 1; allowed: one size"
    ):
        clquant.animate([one.to_array(), other.to_array()]).to_bytes("GIF")
    with pytest.raises(InvalidType, match="frames is 7; allowed: a sequence or an iterator"):
        animation.animation_bytes(7, "GIF")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="comment is 7; allowed: a text"):
        animation.animation_bytes([one], "GIF", comment=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="delay_ms is 5; allowed: an integer from 10"):
        animation.gif_bytes([one], delay_ms=5)
    with pytest.raises(InvalidArgument, match=r"delay_ms\[1\] is 5; allowed: an integer from 10"):
        animation.gif_bytes([one, one], delay_ms=[10, 5])
    for delays in ([], [10], (10, 20, 30)):
        with pytest.raises(InvalidArgument, match=f"delay_ms has {len(delays)}; allowed: one for each of the 2 frames"):
            animation.gif_bytes([one, one], delay_ms=delays)
    with pytest.raises(InvalidType, match="delay_ms is '40'; allowed: an integer"):
        animation.gif_bytes([one], delay_ms="40")  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="loop is 1; allowed: True or False"):
        animation.gif_bytes([one], loop=1)
    with pytest.raises(InvalidArgument, match="at most 256 colours"):
        animation.gif_bytes([IndexedImage([[0]], np.zeros((300, 3), int))])
    with pytest.raises(FileError):
        animation.save_gif(tmp_path / "missing" / "a.gif", [one])
    with pytest.raises(StoppedError):
        animation.quantize_frames(KMeansPalette(8, queue=queue), moving(sample, 2), progress=lambda *_: False)
