"""Films, pipes, folders and pictures as frames with times; animations that are written as frames come."""

from __future__ import annotations

import io
import itertools
import json
import os
import struct
import subprocess
import sys
import wave
import weakref
from fractions import Fraction

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant.cli import main
from clquant.images.folders import files_below
from clquant.runtime import FileError, InvalidArgument, StoppedError
from clquant.video.timing import Timed, clipped, rounded, thinned

av = pytest.importorskip("av", "18", reason="films need PyAV")

STARTS_MS = [0, 40, 120, 130, 300]


def film(path, pictures, starts_ms=None, codec="ffv1", format="bgr0", muxer=None, **settings):
    """Write RGB pictures, or planes of Y, U and V, as a film without loss."""
    with av.open(str(path), "w", container_options=muxer or {}) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = pictures[0].shape[1], pictures[0].shape[0], format
        stream.codec_context.time_base = Fraction(1, 1000)
        for name, value in settings.items():
            setattr(stream.codec_context, name, value)
        for number, picture in enumerate(pictures):
            if format == "yuv444p":
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(np.moveaxis(picture, 2, 0)), format=format)
            else:
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=format)
            frame.pts, frame.time_base = (starts_ms or range(0, 10**6, 40))[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.fixture
def pictures(rng):
    """A block that moves over noise."""
    still = rng.integers(0, 256, (36, 48, 3), np.uint8)
    made = [still.copy() for _ in STARTS_MS]
    for number, picture in enumerate(made):
        picture[5:15, 3 + 4 * number : 9 + 4 * number] = 255, 40 * number, 0
    return made


def test_times_and_pixels_are_exact(pictures, tmp_path):
    found = clquant.video.frames(film(tmp_path / "a.mkv", pictures, STARTS_MS))
    assert (found.width, found.height, found.once) == (48, 36, False)
    for _ in range(2):
        read = list(found)
        assert [frame.delay_ms for frame in read][:-1] == [40, 80, 10, 170]
        for frame, picture in zip(read, pictures, strict=True):
            assert np.array_equal(frame.pixels, picture)
    with pytest.raises(TypeError, match="is known when all were read"):
        len(found)


@pytest.mark.parametrize(
    ("matrix", "yuv", "given"),
    [
        (1, (63, 102, 240), None),
        (1, (63, 102, 240), "bt601"),
        (5, (81, 90, 240), "bt709"),
        (2, (81, 90, 240), None),
        (2, (63, 102, 240), "bt709"),
    ],
)
def test_colours_are_of_the_films_own_matrix(matrix, yuv, given, tmp_path):
    planes = np.full((16, 16, 3), yuv, np.uint8)
    path = film(tmp_path / "a.mkv", [planes], format="yuv444p", colorspace=matrix, color_range=1)
    (frame,) = clquant.video.frames(path, matrix=given)
    assert np.abs(frame.pixels.astype(int) - [255, 0, 0]).max() <= 2


def test_full_range_stays(tmp_path):
    path = film(tmp_path / "a.mkv", [np.full((16, 16, 3), (250, 128, 128), np.uint8)], format="yuv444p", color_range=2)
    (frame,) = clquant.video.frames(path)
    assert (frame.pixels == 250).all()


def test_films_are_turned_upright(tmp_path):
    picture = np.zeros((32, 48, 3), np.uint8)
    picture[:16] = 255
    data = film(tmp_path / "a.mp4", [picture] * 2, codec="mpeg4", format="yuv420p").read_bytes()
    at = data.index(b"tkhd") + 4 + 40
    quarter = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 32 << 16, 0, 1 << 30)
    (tmp_path / "b.mp4").write_bytes(data[:at] + quarter + data[at + 36 :])
    found = clquant.video.frames(tmp_path / "b.mp4")
    pixels = next(iter(found)).pixels
    assert pixels.shape == (48, 32, 3) == (found.height, found.width, 3)
    assert pixels[:, 20:].min() > 200 > 55 > pixels[:, :12].max()


def test_pixels_become_square(tmp_path):
    picture = np.zeros((32, 48, 3), np.uint8)
    picture[:, 24:] = 255
    given = {"codec": "mpeg4", "format": "yuv420p"}
    path = film(tmp_path / "a.mp4", [picture] * 2, **given, sample_aspect_ratio=Fraction(4, 3))
    found = clquant.video.frames(path)
    pixels = next(iter(found)).pixels
    assert pixels.shape == (32, 64, 3) == (found.height, found.width, 3)
    assert pixels[:, 36:].min() > 200 > 55 > pixels[:, :28].max()
    assert next(iter(clquant.video.frames(path, size=32))).pixels.shape == (16, 32, 3)
    absurd = film(tmp_path / "b.mp4", [picture] * 2, **given, sample_aspect_ratio=Fraction(1, 20))
    assert clquant.video.frames(absurd).width == 48 // 8


# Containers and codecs with frames that depend on others, before and after them.
PARTS = {
    "a.ts": {"codec": "mpeg2video", "max_b_frames": 2},
    "a.mpg": {"codec": "mpeg1video", "max_b_frames": 2},
    "a.flv": {"codec": "flv"},
    "fragments.mp4": {"codec": "mpeg4", "max_b_frames": 2, "muxer": {"movflags": "frag_keyframe+empty_moov"}},
    "a.mp4": {"codec": "mpeg4", "max_b_frames": 2},
    "a.mkv": {"codec": "mpeg2video", "max_b_frames": 2},
    "a.webm": {"codec": "libvpx"},
    "a.avi": {"codec": "mpeg4", "max_b_frames": 2},
    "a.h264": {"codec": "libx264", "max_b_frames": 2},
    "b.avi": {"codec": "libx264", "max_b_frames": 2},
    "a.swf": {"codec": "flv"},
    "a.rm": {"codec": "rv20"},
    "a.y4m": {"codec": "wrapped_avframe"},
    "a.m1v": {"codec": "mpeg1video", "max_b_frames": 2},
    "a.m2v": {"codec": "mpeg2video", "max_b_frames": 2},
    "a.mjpeg": {"codec": "mjpeg", "format": "yuvj420p"},
    "a.nut": {"codec": "mpeg4", "max_b_frames": 2},
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_the_frames_of_the_whole(name, tmp_path):
    """From any start on: FFmpeg's own places in most of these containers lose or shift frames."""
    if PARTS[name]["codec"] not in av.codecs_available:
        pytest.skip(f"this PyAV has no {PARTS[name]['codec']}")
    y, x = np.indices((144, 176), np.uint8)
    given = [np.dstack([x + 5 * number, y - 3 * number, x ^ y]) for number in range(40)]
    path = film(
        tmp_path / name, given, **{"format": "yuv420p", "gop_size": 9, "time_base": Fraction(1, 25)} | PARTS[name]
    )
    whole = list(clquant.video.frames(path))
    assert [frame.delay_ms for frame in whole] == [40] * 40
    for first in (1, 5, 17, 33):
        part = list(clquant.video.frames(path, start=first / 25))
        assert len(part) == 40 - first
        assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(part, whole[first:], strict=True))
    with pytest.raises(InvalidArgument, match="has no frames from 99 s on"):
        list(clquant.video.frames(path, start=99))


@pytest.mark.parametrize(("head", "size"), [("W3000 H16000 A8:1", "24000x16000"), ("W16 H4000000", "16x4000000")])
def test_films_that_are_too_large_once_their_pixels_are_square(head, size, tmp_path):
    (tmp_path / "a.y4m").write_bytes(f"YUV4MPEG2 {head} F25:1 Cmono\nFRAME\n".encode() + bytes(99))
    with pytest.raises(FileError, match=f"it claims {size} pixels; allowed: 1 to 256000000 in all"):
        clquant.video.frames(tmp_path / "a.y4m")


def test_frames_of_other_sizes_are_shown_in_the_size_of_the_film(tmp_path):
    for side in (16, 32):
        pictures = [np.full((side, side, 3), 5 * side, np.uint8)] * 3
        film(tmp_path / f"{side}.m2v", pictures, None, "mpeg2video", "yuv420p", time_base=Fraction(1, 25))
    (tmp_path / "a.m2v").write_bytes(b"".join((tmp_path / f"{side}.m2v").read_bytes() for side in (16, 32)))
    read = [frame.pixels for frame in clquant.video.frames(tmp_path / "a.m2v")]
    assert {pixels.shape for pixels in read} == {(16, 16, 3)}
    assert {int(pixels.mean()) // 40 for pixels in read} == {2, 4}


def test_recordings_that_follow_each_other_in_a_file_are_all_read(tmp_path):
    data = b""
    for level in (40, 200):
        pictures = [np.full((32, 48, 3), level + number, np.uint8) for number in range(12)]
        how = {"codec": "mpeg1video", "format": "yuv420p", "time_base": Fraction(1, 25), "max_b_frames": 2}
        data += film(tmp_path / "a.mpg", pictures, **how).read_bytes()
    (tmp_path / "both.mpg").write_bytes(data)
    read = list(clquant.video.frames(tmp_path / "both.mpg"))
    assert [frame.delay_ms for frame in read] == [40] * 24
    assert [frame.pixels.mean() > 120 for frame in read] == [False] * 12 + [True] * 12
    part = list(clquant.video.frames(tmp_path / "both.mpg", start=0.6))
    assert [frame.pixels.mean() > 120 for frame in part] == [True] * 9


@pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9"])
def test_webm_keeps_its_alpha(codec, tmp_path):
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no {codec}")
    y, x = np.indices((64, 64), np.uint8)
    given = [np.dstack([4 * x, 4 * y, 0 * x + 99, np.where(x < 20 + 4 * number, 255, 3 * y)]) for number in range(12)]
    with av.open(str(tmp_path / "a.webm"), "w") as container:
        stream = container.add_stream(codec, rate=25, options={"crf": "4", "b": "4M", "auto-alt-ref": "0"})
        stream.width = stream.height = 64
        stream.pix_fmt = "yuva420p"
        for picture in given:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture.astype(np.uint8), "rgba")))
        container.mux(stream.encode())
    for start in (0, 0.32):
        read = [frame.pixels for frame in clquant.video.frames(tmp_path / "a.webm", start=start)]
        for pixels, picture in zip(read, given[round(25 * start) :], strict=True):
            assert pixels.shape == (64, 64, 4)
            assert np.abs(pixels.astype(int) - picture)[:, :, 3].mean() < 3


def timed(*times):
    return [Timed(Fraction(a), Fraction(b), lambda a=a: a) for a, b in itertools.pairwise(times)]


def test_fast_frames_are_thinned_by_time():
    sixty = thinned(timed(*[Fraction(i, 60) for i in range(61)]), Fraction(50))
    kept = [(float(one.start), float(one.end)) for one in sixty]
    assert len(kept) == 50
    assert kept[-1][1] == 1
    assert [round(50 * start, 9) for start, _ in kept] == list(range(50))
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(kept))
    slow = timed(*[Fraction(i, 24) for i in range(25)])
    assert list(thinned(slow, Fraction(50))) == slow
    assert [one.read() for one in thinned(slow, Fraction(12))] == [Fraction(i, 12) for i in range(12)]


def test_the_rest_of_a_last_frame_that_no_file_can_show_is_the_frames_before():
    kept = list(thinned(timed(*[Fraction(i * 1001, 30000) for i in range(61)]), Fraction(25, 2)))
    assert len(kept) == 25
    assert kept[-1].end == Fraction(60 * 1001, 30000)
    assert kept[-1].start == Fraction(24 * 2, 25)
    assert [one.end - one.start for one in thinned(timed(*[Fraction(i, 1000) for i in range(6)]), Fraction(1000))] == [
        Fraction(1, 1000)
    ] * 5


def test_fast_films_keep_their_length(tmp_path):
    pictures = [np.full((16, 16, 3), number, np.uint8) for number in range(40)]
    read = clquant.video.frames(film(tmp_path / "a.mkv", pictures, [5 * number for number in range(40)]))
    assert clquant.animate(read, 2).delays_ms == [10] * 20 + [35]
    assert [frame.delay_ms for frame in read] == [5] * 39 + [40]  # as before


def test_delays_add_up():
    times = [Fraction(i, 30) for i in range(31)]
    delays = [rounded(b) - rounded(a) for a, b in itertools.pairwise(times)]
    assert (sum(delays), set(delays)) == (1000, {33, 34})
    part = list(clipped(timed(*times), Fraction(1, 2), Fraction(3, 4)))
    assert (part[0].start, part[-1].end) == (0, Fraction(1, 4))


def test_a_stretch_of_a_film_in_another_size(pictures, tmp_path):
    path = film(tmp_path / "a.mkv", pictures * 5)
    read = list(clquant.video.frames(path, fps=12.5, size=24, start=0.2, end=0.62))
    assert [frame.delay_ms for frame in read] == [80] * 5 + [20]
    assert {frame.pixels.shape for frame in read} == {(18, 24, 3)}
    assert next(iter(clquant.video.frames(pictures, size=(7, 9)))).pixels.shape == (9, 7, 3)
    for wrong, why in (
        ({"fps": 0}, "fps is 0; allowed: a number from 0.001 to 1000"),
        ({"size": 0}, "size is 0; allowed: .*1 to 65535"),
        ({"size": (65535, 9000)}, "size is .*: frames of 65535x9000; allowed: up to 536870912 pixels"),
        ({"size": (1, 2, 3)}, r"size is \(1, 2, 3\); allowed: a width, or \(width, height\)"),
        ({"start": 2, "end": 1}, "end is 1 and start 2; allowed: an end after the start"),
        ({"matrix": "bt2020"}, "matrix is 'bt2020'; allowed: 'bt601', 'bt709'"),
        ({"raw": (0, 5)}, r"raw is \(0, 5\); allowed: \(width, height\)"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            clquant.video.frames(path, **wrong)
    with pytest.raises(InvalidArgument, match="has no frames from 9 s on"):
        list(clquant.video.frames(path, start=9))


def test_folders_and_iterators(pictures, tmp_path):
    for number, picture in enumerate(pictures):
        PIL.Image.fromarray(picture).save(tmp_path / f"{number}.png")
    for source in (tmp_path, pictures, iter(pictures), np.stack(pictures)):
        read = list(clquant.video.frames(source, fps=10))
        assert [frame.delay_ms for frame in read] == [100] * len(pictures)
        assert all(np.array_equal(frame.pixels, picture) for frame, picture in zip(read, pictures, strict=True))


def test_folders_have_a_natural_order(tmp_path):
    names = ["1.png", "2.png", "10.png", "11.png", "a1/3.png", "a1/20.png", "a2/1.png", "a10/1.png", "b.png"]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        PIL.Image.fromarray(np.full((4, 4), 9 * number, np.uint8)).save(tmp_path / name)
    read = [int(frame.pixels[0, 0]) // 9 for frame in clquant.video.frames(tmp_path)]
    assert read == list(range(len(names)))
    found = files_below(str(tmp_path))
    assert [path.relative_to(tmp_path).as_posix() for path in found] == names
    target = tmp_path / "c.gif"
    for command in (["animate", "--quality", "100"], ["palette", "--animate", "40", "--shared"]):
        assert main([*command, str(tmp_path), "-q", "-o", str(target)]) == 0
        shown = [int(np.atleast_3d(frame.pixels)[0, 0, 0]) // 9 for frame in clquant.video.frames(target)]
        assert shown == read
        target.unlink()


def test_damaged_and_other_files(pictures, rng, tmp_path):
    noise = [rng.integers(0, 256, (36, 48, 3), np.uint8) for _ in range(50)]
    data = film(tmp_path / "a.mkv", noise).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError, match=r"it is damaged or cut off after .* of 2.00 seconds"):
        list(clquant.video.frames(tmp_path / "cut.mkv"))
    before = list(clquant.video.frames(tmp_path / "cut.mkv", damaged=True))
    assert 20 <= len(before) < 30
    assert all(
        np.array_equal(frame.pixels, picture) for frame, picture in zip(before, noise[: len(before)], strict=True)
    )
    (tmp_path / "end.mkv").write_bytes(data[: len(data) * 9 // 10])
    with pytest.raises(FileError, match=r"cut off after 1.[78]. of 2.00 seconds"):
        list(clquant.video.frames(tmp_path / "end.mkv"))
    target = tmp_path / "b.gif"
    assert main(["animate", str(tmp_path / "cut.mkv"), "-o", str(target), "-q"]) == 2
    assert not target.exists()
    assert main(["animate", str(tmp_path / "cut.mkv"), "-o", str(target), "-q", "--damaged"]) == 0
    assert len(clquant.video.frames(target)) == len(before)
    with wave.open(str(tmp_path / "sound.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(8000))
    with av.open(str(tmp_path / "sound.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        silence.sample_rate = 8000
        container.mux(stream.encode(silence))
    (tmp_path / "text.mp4").write_bytes(b"no film at all" * 9)
    for name, why in (
        ("sound.wav", "of a format that is not read; allowed: MP4, MOV"),
        ("sound.mkv", "it has no video stream"),
        ("text.mp4", "as a picture or film"),
        ("no.mp4", "no such"),
    ):
        with pytest.raises(FileError, match=why):
            clquant.video.frames(tmp_path / name)


def test_an_avi_that_ends_within_a_frame(rng, tmp_path):
    """FFmpeg shortens its length to what is there, and decodes the part of a frame."""
    noise = [rng.integers(0, 256, (36, 48, 3), np.uint8) for _ in range(10)]
    path = film(tmp_path / "a.avi", noise, codec="mjpeg", format="yuvj420p", time_base=Fraction(1, 25))
    data = path.read_bytes()
    whole = [frame.pixels for frame in clquant.video.frames(tmp_path / "a.avi")]
    (tmp_path / "cut.avi").write_bytes(data[: data.rindex(b"00dc", 0, data.index(b"idx1")) + 999])
    with pytest.raises(FileError, match=r"seconds \(it ends within a frame\); damaged=True"):
        list(clquant.video.frames(tmp_path / "cut.avi"))
    before = [frame.pixels for frame in clquant.video.frames(tmp_path / "cut.avi", damaged=True)]
    assert len(before) == 9
    assert np.array_equal(before, whole[:9])


@pytest.mark.parametrize("piped", [False, True])
def test_a_y4m_that_ends_within_a_frame(piped, rng, tmp_path, monkeypatch):
    planes = [b"FRAME\n" + rng.bytes(3 * 16 * 8) for _ in range(5)]
    whole = b"YUV4MPEG2 W16 H8 F10:1 C444\n" + b"".join(planes)

    def read(data, **options):
        (tmp_path / "a.y4m").write_bytes(data)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return list(clquant.video.frames("-" if piped else tmp_path / "a.y4m", **options))

    assert len(read(whole)) == 5
    for lacking in (1, len(planes[0]) - 1):
        with pytest.raises(FileError, match=r"cut off after 0.30.* seconds \(it ends within a frame\)"):
            read(whole[:-lacking])
        assert len(read(whole[:-lacking], damaged=True)) == 4
    with pytest.raises(FileError, match="its video stream has no frames"):
        read(whole[:28])


def test_what_cannot_be_opened(pictures, tmp_path, monkeypatch):
    path = film(tmp_path / "a.mkv", pictures)
    with pytest.raises(InvalidArgument, match="has no frames from 99 s on; allowed: a start before its end"):
        list(clquant.video.frames(path, start=99))
    for raw in (
        (0, 5),
        (4, 4, 0),
        (4, 4, float("inf")),
        (4,),
        "ab",
        7,
        (4, 4, "25/0"),
        (4.5, 4),
        (4, 4, 25, 1),
        (60000, 60000),
    ):
        with pytest.raises(InvalidArgument, match=r"raw is .*; allowed: "):
            clquant.video.frames(path, raw=raw)
    (tmp_path / "a.y4m").write_bytes(b"YUV4MPEG2 W4 H4 F25:1 C999\nFRAME\n" + bytes(99))
    with pytest.raises(FileError, match="as a picture or film"):
        clquant.video.frames(tmp_path / "a.y4m")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileError, match="standard input is closed"):
        clquant.video.frames("-")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(FileError, match=r"films need PyAV: av is not installed \(pip install"):
        clquant.video.frames(path)


def test_a_codec_that_nobody_knows(tmp_path):
    film(tmp_path / "a.avi", [np.zeros((48, 64, 3), np.uint8)], codec="mjpeg", format="yuvj420p")
    (tmp_path / "a.avi").write_bytes((tmp_path / "a.avi").read_bytes().replace(b"MJPG", b"XXXX"))
    with pytest.raises(FileError, match="FFmpeg has no decoder for its video"):
        clquant.video.frames(tmp_path / "a.avi")


@pytest.mark.parametrize("size", ["W20000 H20000", "Ip W-5 H10"])
@pytest.mark.parametrize("piped", [False, True])
def test_a_y4m_of_absurd_size(size, piped, tmp_path, monkeypatch):
    path = tmp_path / "a.y4m"
    path.write_bytes(f"YUV4MPEG2 {size} F25:1\nFRAME\n".encode() + bytes(99))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with pytest.raises(FileError, match=r"it claims (20000x20000|-5x10) pixels; allowed: 1 to 256000000 in all"):
        clquant.video.frames("-" if piped else path)


def test_films_through_a_pipe(pictures, tmp_path):
    data = b"".join(picture.tobytes() for picture in pictures)
    command = [sys.executable, "-m", "clquant", "animate", "-", "--raw", "48x36", "--fps", "20", "-k", "256", "-q"]
    done = subprocess.run([*command, "-o", "-"], input=data, capture_output=True, check=True)
    with PIL.Image.open(io.BytesIO(done.stdout)) as image:
        assert (image.n_frames, image.size, image.info["duration"]) == (5, (48, 36), 50)


def test_frames_are_written_as_they_come(tmp_path):
    """Of a long iterator few frames are in memory at a time, in every format."""
    alive = most = 0

    def gone():
        nonlocal alive
        alive -= 1

    def made(count):
        nonlocal alive, most
        for number in range(count):
            frame = clquant.IndexedImage(np.full((4, 5), number % 2, np.uint8), [[0, 0, 0], [255, 255, 255]])
            weakref.finalize(frame, gone)
            alive += 1
            most = max(most, alive)
            yield frame

    for suffix in ("gif", "png", "webp"):
        clquant.save_animation(tmp_path / f"a.{suffix}", made(400), delay_ms=20)
        with PIL.Image.open(tmp_path / f"a.{suffix}") as image:
            assert image.n_frames == 400
    assert most < 100


def test_scenes_and_frames_have_their_own_palettes(tmp_path):
    red, blue = (np.zeros((10, 12, 3), np.uint8) for _ in range(2))
    red[:, :, 0] = np.arange(120).reshape(10, 12)
    blue[:, :, 2] = np.arange(120).reshape(10, 12)
    made = clquant.animate([red] * 20 + [blue] * 20, 100, palettes="scene")
    assert len({frame.palette for frame in made.frames}) == 2
    assert made.frames[20].palette != made.frames[19].palette
    assert len({frame.palette for frame in clquant.animate([red, blue], 100).frames}) == 1
    assert len({frame.palette for frame in clquant.animate([red, blue], 100, palettes="frame").frames}) == 2
    with pytest.raises(InvalidArgument, match="palettes is 'all'; allowed: 'one', 'scene', 'frame'"):
        clquant.animate([red], palettes="all")


def test_a_colour_counts_as_long_as_it_is_shown():
    """Two colours for three: those that are shown longest are kept."""
    frames = [np.full((4, 4, 3), value, np.uint8) for value in (0, 60, 255)]
    given = [clquant.video.Frame(frame, delay) for frame, delay in zip(frames, (10, 5120, 5120), strict=True)]
    colors = clquant.animate(given, 2).palette.colors
    assert abs(int(colors.min()) - 60) <= 1


def test_progress_stops_and_leaves_nothing(pictures, tmp_path):
    seen = []
    made = clquant.animate(pictures, 8, progress=lambda done, total: seen.append((done, total)))
    made.save(tmp_path / "a.gif")
    assert seen[-1] == (10, 10)
    assert [done for done, _ in seen] == list(range(1, 11))
    stopped = clquant.animate(pictures, 8, progress=lambda done, _: done < 8)
    with pytest.raises(StoppedError):
        stopped.save(tmp_path / "b.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


def test_comments(pictures, tmp_path):
    made = clquant.animate(pictures, 8)
    with PIL.Image.open(io.BytesIO(made.to_bytes("GIF", "a walk"))) as image:
        assert image.info["comment"] == b"a walk"
    with PIL.Image.open(io.BytesIO(made.to_bytes("PNG", "a walk"))) as image:
        assert image.text["Comment"] == "a walk"
    with pytest.raises(InvalidArgument, match="comment is given; allowed in GIF and PNG files alone"):
        made.to_bytes("WEBP", "a walk")


def test_the_command(pictures, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    film(tmp_path / "a.mkv", pictures * 4)
    assert (
        main(["animate", "a.mkv", "--start", "0:0.2", "--end", "0.6", "--fps", "12.5", "--size", "24x20", "--json"])
        == 0
    )
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert (found["output"], found["frames"], found["width"], found["height"]) == ("a.gif", 5, 24, 20)
    assert found["bytes"] == (tmp_path / "a.gif").stat().st_size
    assert [frame.delay_ms for frame in clquant.video.frames("a.gif")] == [80] * 5
    assert (
        main(["animate", "a.gif", "--use", "black,red", "--plays", "2", "--save-palette", "p.hex", "-o", "b.png"]) == 0
    )
    assert clquant.Palette.read("p.hex") == clquant.Palette(["black", "red"])
    assert clquant.video.frames("b.png").plays == 2
    os.mkdir("folder")
    for name in ("1.png", "folder/2.png", "folder/3.png"):
        PIL.Image.fromarray(pictures[0]).save(name)
    assert main(["animate", "1.png", "folder", "--fps", "5", "-o", "d.gif"]) == 0
    assert [frame.delay_ms for frame in clquant.video.frames("d.gif")] == [200] * 3
    for arguments, why in (
        (["a.gif"], "is the input itself; name another output"),
        (["a.mkv", "a.gif"], "name the file to write with -o"),
        (["a.mkv", "-o", "b.mp4"], "has the suffix '.mp4'; allowed: .gif"),
        (["a.mkv", "-o", "no/b.gif"], "there is no folder 'no'"),
        (["a.mkv", "-k", "300"], "-k is 300; allowed: 2 to 256"),
        (["a.mkv", "--start", "9", "-o", "c.gif"], "has no frames from 9 s on"),
        (["-", "a.mkv", "-o", "c.gif"], "cannot be mixed with other inputs"),
    ):
        assert main(["animate", *arguments]) == 2
        assert why in capsys.readouterr().err
    for option, why in (
        ("--size", "'0' is no size in pixels, such as 480"),
        ("--start", "'' is no time, such as 83.5"),
    ):
        with pytest.raises(SystemExit):
            main(["animate", "a.mkv", option, "0" if option == "--size" else "", "-o", "c.gif"])
        assert why in capsys.readouterr().err
    assert not (tmp_path / "c.gif").exists()
