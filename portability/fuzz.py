"""`python -m portability.fuzz`: damaged files into every reader.

Every case must end in a result or in a ClquantError, within a second and within a bound on memory; a container with
a checksum must refuse every change. Cases are numbered; a finding names its target, seed and number and is repeated by
`--target NAME --seed S --first N --cases 1`. A crash or a hang ends the process.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import PIL.Image

import clquant
from clquant import images
from clquant.color.formats import palette_formats
from clquant.images import moving
from portability.inputs import flat, photo
from portability.picture_seeds import UNREADABLE, picture_seeds
from portability.store_seeds import codebook_case, histogram_case, rows_case, store_case

MEMORY_BYTES = 2 << 30
SECONDS = 1.0


@dataclass(frozen=True)
class Target:
    """What is fuzzed: `case` makes an input by a random source, tries it, and returns what must not have happened."""

    name: str
    case: Callable[[random.Random], str | None]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A file after some accident: bits flipped, numbers replaced, pieces cut out, doubled, or put elsewhere."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not content:
            break
        at = rng.randrange(len(content))
        kind = rng.randrange(7)
        if kind == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            content[at] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            width = rng.choice("BHIQ")
            number = struct.pack(
                rng.choice("<>") + width, rng.choice((0, 1, -1, 1 << 7)) % (1 << 8 * struct.calcsize(width))
            )
            content[at : at + len(number)] = number
        elif kind == 3:
            del content[at:]
        elif kind == 4:
            del content[at : at + rng.randrange(1, 64)]
        elif kind == 5:
            content[at:at] = content[at : at + rng.randrange(1, 64)]
        else:
            content[at:at] = rng.randbytes(rng.randrange(1, 32))
    return bytes(content)


def _reader(
    seeds: list[bytes], read: Callable[[bytes], Any], checked: bool = False
) -> Callable[[random.Random], str | None]:
    def case(rng: random.Random) -> str | None:
        seed = rng.choice(seeds)
        data = damaged(rng, seed)
        read(data)
        return "damage was not noticed" if checked and data != seed else None

    return case


def _pictures() -> list[bytes]:
    """Every format that Pillow knows, the common ones in several modes."""
    found = [*picture_seeds().values(), *UNREADABLE.values()]
    for mode, pixels in (("RGB", photo(9, 14)), ("RGBA", photo(9, 14, 4)), ("L", photo(9, 14, 1))):
        for kind in ("PNG", "TIFF", "BMP", "GIF", "JPEG", "WEBP", "PPM"):
            stream = io.BytesIO()
            plain = kind in ("JPEG", "PPM", "BMP", "GIF") and mode == "RGBA"
            try:
                PIL.Image.fromarray(pixels[..., :3] if plain else pixels).save(stream, kind)
            except (OSError, KeyError):  # a format that this Pillow was built without
                continue
            found.append(stream.getvalue())
    return found


def _read_picture(data: bytes) -> None:
    further = ({*picture_seeds(), *UNREADABLE} & set(PIL.Image.OPEN)) - {*images.FORMATS, "EPS"}
    with tempfile.NamedTemporaryFile(suffix=".png") as file, images.allow_formats(*further):
        file.write(data)
        file.flush()
        images.read(file.name)


def _read_frames(data: bytes) -> None:
    list(moving.frames(data, "image"))


def _animations() -> list[bytes]:
    found = []
    pictures = [PIL.Image.fromarray(photo(9, 14, 3, seed)) for seed in range(3)]
    for kind in ("GIF", "PNG", "TIFF", "WEBP", "MPO", "AVIF"):
        stream = io.BytesIO()
        try:
            pictures[0].save(stream, kind, save_all=True, append_images=pictures[1:])
        except (OSError, KeyError):  # as above
            continue
        found.append(stream.getvalue())
    return found


def _palettes() -> list[bytes]:
    palette = clquant.Palette(photo(16, 1, 3, seed=3).reshape(-1, 3))
    return [palette_formats.to_bytes(palette.colors, name) for name in palette_formats.NAMES]


def targets() -> tuple[Target, ...]:
    """Every public reader."""
    codec = clquant.VQCodec(8, max_iter=2, random_state=1).fit(photo(24, 28))
    packed = [codec.compress(photo(24, 28)), codec.compress(photo(9, 14))]
    trees = [
        clquant.QuadtreeBuilder(t).build(p).to_bytes() for t, p in ((9.0, photo(24, 28, 1)), (30.0, flat(16, 20, 4)))
    ]
    palettes = _palettes()

    def read_palette(data: bytes) -> None:
        palette_formats.from_bytes(data, random.Random(len(data)).choice((None, *palette_formats.NAMES)))

    return (
        Target("image", _reader(_pictures(), _read_picture)),
        Target("frames", _reader(_animations(), _read_frames)),
        Target("palette", _reader(palettes, read_palette)),
        Target("clvq", _reader(packed, codec.decompress, checked=True)),
        Target("histogram", histogram_case(damaged)),
        Target("codebook", codebook_case(damaged)),
        Target("store", store_case(damaged)),
        Target("rows", rows_case(damaged)),
        Target("quadtree", _reader(trees, clquant.Quadtree.from_bytes)),
    )


def _tried(target: Target, seed: int, number: int) -> tuple[str | None, float]:
    """What was wrong with one case, and the processor time it took (other processes make no findings)."""
    rng = random.Random(f"{target.name} {seed} {number}")
    began = time.process_time()
    try:
        wrong = target.case(rng)
    except clquant.ClquantError:
        wrong = None
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    return wrong, time.process_time() - began


def findings(target: Target, seed: int, first: int, cases: int, until: float) -> Iterator[tuple[int, str]]:
    """Try cases until their number or the clock is over; yields (number, what went wrong). The last is (tried, "")."""
    number = first
    for number in range(first, first + cases):
        if time.monotonic() > until:
            break
        wrong, took = _tried(target, seed, number)
        for _ in range(2):  # the first time it may have built kernels
            if wrong is None and took > SECONDS:
                wrong, took = _tried(target, seed, number)
        if wrong is None and took > SECONDS:
            wrong = f"took {took:.1f} s"
        if wrong is not None:
            yield number, wrong
    else:
        number += 1
    yield number - first, ""


def main(arguments: list[str] | None = None) -> int:
    """Fuzz; 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Damaged files.")
    parser.add_argument("--cases", type=int, default=1000, help="cases a target")
    parser.add_argument("--seconds", type=float, default=600, help="seconds a target at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--target", default="", help="only this target")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    every = [target for target in targets() if options.target in target.name]
    for target in every:  # kernels are built and libraries loaded before memory is bounded and the clock looked at
        list(findings(target, -1, 0, 20, time.monotonic() + 30))
    memory = pathlib.Path("/proc/self/statm")
    if memory.exists():
        used = int(memory.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))
    found = 0
    for target in every:
        began = time.monotonic()
        tried = findings(target, options.seed, options.first, options.cases, began + options.seconds)
        for number, wrong in tried:
            if wrong:
                found += 1
                print(f"{target.name}, seed {options.seed}, case {number}: {wrong}", flush=True)
            else:
                print(f"{target.name}: {number} cases, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
