"""Clips to GIF beside ffmpeg's two passes, gifsicle and gifski: bytes, error, flicker, seconds; memory of long ones.

ffmpeg and gifsicle are taken from the path, gifski from there or from the variable GIFSKI.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageDraw

import clquant
from benchmarks import harness
from benchmarks.harness import SAMPLE, Options, Table

Picture = npt.NDArray[np.uint8]
FPS = 25
FRAMES = 50
SIZE = 480, 270
JUDGED = 3  # one frame in so many gets its error
NOISE = 2.5  # of a camera, in 8-bit steps
QUALITIES = 100, 93, 90, 87, 84, 80


@dataclass(frozen=True)
class Clip:
    """Frames as they come from a camera or a screen, and without noise."""

    name: str
    frames: list[Picture]
    clean: list[Picture]


@dataclass(frozen=True)
class Judged:
    """A file's figures; `changes` is the part of the still pixels that change."""

    nbytes: int
    mean: float
    worst: float
    changes: float
    seconds: float


def pan(count: int, size: tuple[int, int]) -> Iterator[Picture]:
    """A photograph that stands, moves to the right, and stands again."""
    width, height = size
    photo = PIL.Image.open(SAMPLE).convert("RGB").resize((width * 2, height * 2), PIL.Image.Resampling.LANCZOS)
    picture = np.asarray(photo)
    for number in range(count):
        at = min(max(number - count // 4, 0), count // 2) * 3 % width
        yield picture[height // 2 : height // 2 + height, at : at + width]


def screen(count: int, size: tuple[int, int]) -> Iterator[Picture]:
    """A window whose text scrolls over a gradient, and a pointer."""
    width, height = size
    rows, columns = np.mgrid[0:height, 0:width]
    back = np.stack([rows * 90 // height + 40, columns * 80 // width + 60, rows * 0 + 120], axis=2).astype(np.uint8)
    for number in range(count):
        image = PIL.Image.fromarray(back)
        draw = PIL.ImageDraw.Draw(image)
        draw.rectangle((40, 30, width - 60, height - 40), fill=(250, 250, 248), outline=(90, 90, 90))
        for line in range(12):
            draw.text(
                (50, 34 + 15 * line), f"{line + number // 5:3d} def work(item): return item ** {line}", (30, 30, 60)
            )
        x, y = 60 + 5 * number % (width - 90), 50 + 2 * number % (height - 90)
        draw.polygon([(x, y), (x + 10, y + 10), (x, y + 14)], fill=(20, 20, 20))
        yield np.asarray(image)


def terminal(count: int, size: tuple[int, int]) -> Iterator[Picture]:
    """Letters typed on black."""
    width, height = size
    text = "$ clquant animate clip.mp4 --fps 15 -o clip.gif  # and so on, line after line "
    image = PIL.Image.new("RGB", size, (16, 18, 22))
    draw = PIL.ImageDraw.Draw(image)
    for number in range(count):
        place = number * 3
        for letter in range(place, place + 3):
            row, column = divmod(letter, (width - 20) // 7)
            color = (200, 220, 200) if row % 3 else (110, 190, 255)
            draw.text((10 + 7 * column, 8 + 14 * row % (height - 20)), text[letter % len(text)], color)
        yield np.asarray(image).copy()


def sprite(count: int, size: tuple[int, int]) -> Iterator[Picture]:
    """A shaded ball that bounces over tiles."""
    width, height = size
    rows, columns = np.mgrid[0:height, 0:width]
    tiles = np.where(((rows // 16 + columns // 16) % 2)[..., None], np.uint8([70, 110, 60]), np.uint8([84, 128, 70]))
    for number in range(count):
        x, y = 30 + 7 * number % (width - 60), height - 40 - abs((number * 9) % 240 - 120)
        far = (rows - y) ** 2 + (columns - x) ** 2
        light = np.clip(255 - ((rows - y + 6) ** 2 + (columns - x + 6) ** 2) // 3, 60, 255)
        ball = np.stack([light, light // 3, light // 4], axis=2)
        yield np.where((far < 400)[..., None], ball, tiles).astype(np.uint8)


MAKERS: dict[str, tuple[Callable[[int, tuple[int, int]], Iterator[Picture]], float]] = {
    "pan, noise": (pan, NOISE),
    "screen": (screen, 0),
    "terminal": (terminal, 0),
    "sprite": (sprite, 0),
}


def clip(name: str, count: int = FRAMES, size: tuple[int, int] = SIZE) -> Clip:
    """A made clip."""
    maker, noise = MAKERS[name]
    clean = [np.ascontiguousarray(frame) for frame in maker(count, size)]
    rng = np.random.default_rng(0)
    seen = [
        np.clip(frame + np.rint(rng.normal(0, noise, frame.shape)), 0, 255).astype(np.uint8) if noise else frame
        for frame in clean
    ]
    return Clip(name, seen, clean)


def at_every_frame(path: pathlib.Path, count: int) -> Iterator[Picture]:
    """What a file shows when each frame of its clip is shown: programs leave equal frames out."""
    number, until = 0, 0
    for frame in clquant.video.frames(path):
        until += frame.delay_ms
        while number < count and (number + 0.5) * 1000 / FPS < until:
            yield frame.pixels[:, :, :3]
            number += 1


def judged(path: pathlib.Path, made: Clip, seconds: float) -> Judged:
    """A file's figures beside its clip."""
    errors, still, changed = [], 0, 0
    before: Picture | None = None
    for number, shown in enumerate(at_every_frame(path, len(made.frames))):
        if number % JUDGED == 0:
            errors.append(clquant.quality.visual_error(made.frames[number], shown))
        if before is not None:
            stands = (made.clean[number] == made.clean[number - 1]).all(axis=2)
            still += int(stands.sum())
            changed += int(((shown != before).any(axis=2) & stands).sum())
        before = shown
    return Judged(path.stat().st_size, float(np.mean(errors)), max(errors), changed / max(still, 1), seconds)


WITHOUT_LOSS = "-c:v", "ffv1", "-pix_fmt", "bgr0"


def film(
    frames: Iterable[Picture],
    size: tuple[int, int],
    path: pathlib.Path,
    fps: int = FPS,
    codec: Iterable[str] = WITHOUT_LOSS,
) -> pathlib.Path:
    """Write frames as a film."""
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}"]
    with subprocess.Popen([*command, "-r", str(fps), "-i", "-", *codec, path], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame in frames:
            process.stdin.write(frame.tobytes())
    return path


def ours(path: pathlib.Path, target: pathlib.Path, **options: Any) -> None:
    clquant.animate(path, **options).save(target)


def ffmpeg(path: pathlib.Path, target: pathlib.Path, dither: str = "sierra2_4a") -> None:
    """Both passes as they are by default, but for equal frames, which would be left out."""
    graph = f"split[a][b];[a]palettegen[p];[b][p]paletteuse=dither={dither}"
    subprocess.run(
        ["ffmpeg", "-v", "error", "-y", "-i", path, "-lavfi", graph, "-fps_mode", "passthrough", target], check=True
    )


def gifsicle(source: pathlib.Path, target: pathlib.Path, lossy: int) -> None:
    subprocess.run(["gifsicle", "-O3", f"--lossy={lossy}", "--no-warnings", source, "-o", target], check=True)


def gifski(program: str, made: Clip, folder: pathlib.Path, target: pathlib.Path, quality: int) -> None:
    names = []
    for number, frame in enumerate(made.frames):
        names.append(folder / f"{number:04d}.png")
        PIL.Image.fromarray(frame).save(names[-1], compress_level=1)
    command = [program, "--quiet", "--fps", str(FPS), "--quality", str(quality), "-o", target, *names]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def programs(
    made: Clip, path: pathlib.Path, folder: pathlib.Path
) -> Iterator[tuple[str, Callable[[pathlib.Path], None]]]:
    """Ways to make a GIF, by name."""
    for dither in (None, "leaky"):
        for quality in QUALITIES:
            name = f"clquant, {dither or 'no dither'}, quality {quality}"
            yield name, lambda target, q=quality, d=dither: ours(path, target, quality=q, dither=d)
    for dither in ("sierra2_4a", "bayer", "none"):
        yield f"ffmpeg, {dither}", lambda target, d=dither: ffmpeg(path, target, d)
    if shutil.which("gifsicle"):
        ffmpeg(path, folder / "two-pass.gif")
        for lossy in (20, 80, 200):
            yield (
                f"ffmpeg, gifsicle --lossy={lossy}",
                lambda target, n=lossy: gifsicle(folder / "two-pass.gif", target, n),
            )
    program = os.environ.get("GIFSKI") or shutil.which("gifski")
    if program:
        for quality in (100, 90, 70, 50):
            yield f"gifski, quality {quality}", lambda target, q=quality: gifski(program, made, folder, target, q)


def bytes_at(error: float, found: dict[str, Judged]) -> float | None:
    """Bytes that clquant takes at a mean error, between its nearest files on a line in the logarithms."""
    points: list[tuple[float, int]] = []
    for one in sorted((one for name, one in found.items() if name.startswith("clquant")), key=lambda one: one.mean):
        if not points or one.nbytes < points[-1][1]:
            points.append((one.mean, one.nbytes))
    if not points[0][0] <= error:
        return None
    errors, sizes = np.log(np.maximum(np.array(points), 1e-6)).T
    return float(np.exp(np.interp(np.log(max(error, 1e-6)), errors, sizes)))


def beside_others(options: Options) -> Iterable[Table]:
    """Every clip by every program."""
    columns = {
        "program": "program",
        "bytes": "bytes",
        "mean": "mean visual error",
        "worst": "worst frame",
        "share": "clquant's bytes at this error, of these",
        "changes": "still pixels that change, %",
        "seconds": "s",
    }
    for name in MAKERS:
        made = clip(name, 12 if options.quick else FRAMES)
        table = Table(f"{name}: {len(made.frames)} frames of {SIZE[0]}x{SIZE[1]}", columns)
        found: dict[str, Judged] = {}
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            path = film(made.frames, SIZE, folder / "clip.mkv")
            for program, call in programs(made, path, folder):
                target = folder / "result.gif"
                begin = time.perf_counter()
                call(target)
                found[program] = judged(target, made, time.perf_counter() - begin)
        for program, one in found.items():
            ours_there = None if program.startswith("clquant") else bytes_at(one.mean, found)
            table.add(
                program=program,
                bytes=one.nbytes,
                mean=round(one.mean, 4),
                worst=round(one.worst, 4),
                share=None if ours_there is None else round(ours_there / one.nbytes, 2),
                changes=round(100 * one.changes, 2),
                seconds=round(one.seconds, 2),
            )
        yield table


def within_bytes(options: Options) -> Iterable[Table]:
    """Twenty sizes asked for: five of each clip."""
    names = ("clip", "asked", "bytes", "share", "quality", "lossy", "colors", "width", "trials")
    table = Table("max_bytes", {name: name for name in names})
    for name in MAKERS:
        made = clip(name, 12 if options.quick else FRAMES)
        whole = len(clquant.animate(made.frames).to_bytes("GIF"))
        for part in (0.9, 0.7, 0.5, 0.35, 0.25):
            result = clquant.animate(made.frames, max_bytes=int(whole * part))
            result.to_bytes("GIF")
            got = {key: value for key, value in result.figures.items() if key in names}
            table.add(clip=name, asked=int(whole * part), share=round(got["bytes"] / int(whole * part), 3), **got)
    yield table


def memory(options: Options) -> Iterable[Table]:
    """The command's peak memory by the length of a film: the photograph's pan at ten frames a second, with noise."""
    table = Table("memory", {"size": "size", "frames": "frames", "bytes": "bytes", "peak": "peak, MB", "seconds": "s"})
    noise = "-vf", "noise=alls=8:allf=t", "-c:v", "mpeg4", "-q:v", "4"
    for size, lengths in (((480, 270), (10, 600)), ((1920, 1080), (10, 60))):
        for length in (1, 3) if options.quick else lengths:
            with tempfile.TemporaryDirectory() as place:
                path = film(pan(10 * length, size), size, pathlib.Path(place, "long.mkv"), 10, noise)
                target = path.with_suffix(".gif")
                begin = time.perf_counter()
                process = subprocess.Popen([sys.executable, "-m", "clquant", "animate", path, "-o", target, "-q"])
                _, status, usage = os.wait4(process.pid, 0)
                assert status == 0
                table.add(
                    size=f"{size[0]}x{size[1]}",
                    frames=10 * length,
                    bytes=target.stat().st_size,
                    peak=usage.ru_maxrss // 1024,
                    seconds=round(time.perf_counter() - begin, 1),
                )
    yield table


def run(options: Options) -> Iterable[Table]:
    """All tables; those beside others, and of long films, need ffmpeg."""
    if shutil.which("ffmpeg"):
        yield from beside_others(options)
        yield from memory(options)
    yield from within_bytes(options)


if __name__ == "__main__":
    harness.main(run)
