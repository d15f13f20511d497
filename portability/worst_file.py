"""`python -m portability.worst_file`: a search for the file that costs a reader most for its bytes.

Files are damaged again and again, and those that cost most beyond the pixels that they claim are damaged further; the
files of `costly_files` are among them. Cost is processor time and the process's peak of memory; a second and 64 MB per
MB of input are allowed, beside a constant part that small files have, and what the pixels and frames take that a file
claims within the bounds of its reader.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import clquant
from clquant import images
from clquant.color.formats import registry
from clquant.images import decode, moving, picture_files
from clquant.images.guards import decoder_work
from portability import costly_files
from portability.fuzz import _animations, _palettes, _pictures, damaged
from portability.inputs import flat, photo
from portability.picture_seeds import picture_seeds

CONSTANT_SECONDS, SECONDS_PER_MB, SECONDS_PER_PIXEL = 0.05, 1.0, 100e-9
CONSTANT_BYTES, BYTES_PER_BYTE, BYTES_PER_PIXEL = 16 << 20, 64, 24
PIXELS_PER_FRAME = 500  # what a frame costs however small it is
COSTLY_BYTES = 20_000
KEPT = 24


@dataclass(frozen=True)
class Cost:
    """Of one file: what it took, as shares of what is allowed."""

    data: bytes
    seconds: float
    share: float
    memory_share: float


def _claimed(data: bytes) -> int:
    """Pixels of a picture file's frames as far as its header tells, within the readers' bounds."""
    pixels = 0
    with contextlib.suppress(Exception), picture_files.opened(data, "image") as (image, nbytes):
        for number in range(decoder_work.frame_count(image, nbytes)):
            image.seek(number)
            pixels += image.width * image.height + PIXELS_PER_FRAME
    return min(pixels, moving.most_pixels(len(data)))


def _pixels(result: Any) -> int:
    """Pixels that a reader gave."""
    if isinstance(result, list):
        return sum(_pixels(one) for one in result)
    if isinstance(result, moving.Frame):
        return result.pixels.size + PIXELS_PER_FRAME
    if isinstance(result, clquant.Quadtree):
        return 0  # they are made when they are asked for
    return int(getattr(result, "size", 0))


def _forget_peak() -> int:
    """The process's peak of memory in bytes, which is set back to what it has now where the system does that."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak()


def _peak() -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def cost(read: Callable[[bytes], Any], data: bytes) -> Cost:
    """Read a file and say what it cost."""
    before = _forget_peak()
    began, pixels = time.process_time(), 0
    with contextlib.suppress(clquant.ClquantError):
        pixels = _pixels(read(data))
    seconds = time.process_time() - began
    grown = _peak() - before
    if not pixels and (seconds > CONSTANT_SECONDS or grown > CONSTANT_BYTES):
        pixels = _claimed(data)
    time_allowed = CONSTANT_SECONDS + SECONDS_PER_MB * len(data) / 1e6 + SECONDS_PER_PIXEL * pixels
    memory_allowed = CONSTANT_BYTES + BYTES_PER_BYTE * len(data) + BYTES_PER_PIXEL * pixels
    return Cost(data, seconds, seconds / time_allowed, grown / memory_allowed)


def search(read: Callable[[bytes], Any], seeds: list[bytes], seconds: float, rng: random.Random) -> tuple[Cost, Cost]:
    """The files that cost most time and most memory, by shares of what is allowed."""
    for data in seeds:
        cost(read, data)  # which builds kernels
    worst = [cost(read, data) for data in seeds]
    fattest = max(worst, key=lambda one: one.memory_share)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = cost(read, damaged(rng, rng.choice(worst[:KEPT] if rng.random() < 0.7 else worst).data))
        if found.share > 1:  # once more: other processes take the cache's time
            found = min(found, cost(read, found.data), key=lambda one: one.share)
        fattest = max(fattest, found, key=lambda one: one.memory_share)
        worst = sorted([*worst, found], key=lambda one: -one.share)[: max(KEPT, len(seeds))]
    return worst[0], fattest


def main(arguments: list[str] | None = None) -> int:
    """Search; 1 if a file costs more than is allowed."""
    parser = argparse.ArgumentParser(description="Files that cost most for their bytes.")
    parser.add_argument("--seconds", type=float, default=60, help="for each reader")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    costly = [make(COSTLY_BYTES) for make in costly_files.FILES]
    codec = clquant.VQCodec(8, max_iter=2, random_state=1).fit(photo(24, 28))
    trees = [
        clquant.QuadtreeBuilder(t).build(p).to_bytes() for t, p in ((9.0, photo(24, 28, 1)), (30.0, flat(16, 20, 4)))
    ]
    readers: dict[str, tuple[Callable[[bytes], Any], list[bytes]]] = {
        "pictures": (lambda data: decode.from_bytes(data, "image"), [*_pictures(), *costly]),
        "animations": (lambda data: list(moving.frames(data, "image")), [*_animations(), *costly]),
        "palettes": (registry.from_bytes, _palettes()),
        "quadtrees": (clquant.Quadtree.from_bytes, trees),
        ".clvq": (codec.decompress, [codec.compress(photo(24, 28))]),
    }
    over = 0
    with images.allow_formats(*(set(picture_seeds()) - set(images.FORMATS))):
        for name, (read, seeds) in readers.items():
            slowest, fattest = search(read, seeds, options.seconds, random.Random(f"{name} {options.seed}"))
            told = f"most time {slowest.seconds:.3f} s of {len(slowest.data)} bytes, {slowest.share:.2f} of the allowed"
            told += f"; most memory {fattest.memory_share:.2f} of it, by {len(fattest.data)} bytes"
            print(f"{name}: {told}", flush=True)
            for which, share in ((slowest, slowest.share), (fattest, fattest.memory_share)):
                if share > 1:
                    over += 1
                    print(f"  over it: {which.data.hex()}"[:2000])
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
