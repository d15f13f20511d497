"""`python -m portability.leaks`: thousands of calls of every engine; host memory and device buffers level off.

Every engine does its whole round on small pictures of several sizes, with all memory paths in turn: as the device is,
and as if it had memory of its own (buffers are then kept for the next job).
"""

from __future__ import annotations

import argparse
import gc
import os
import pathlib
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import clquant
from clquant import runtime
from clquant.runtime.memory import scope
from portability.buffers import TrackedBuffer, tracked_allocation
from portability.inputs import photo

ALLOWED_BYTES = 4 << 20
MARKS = 10

Queue = runtime.CommandQueue


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def _palette(engine: str, **arguments: Any) -> Callable[[Queue, Any], object]:
    def call(queue: Queue, picture: Any) -> object:
        made = getattr(clquant, engine)(queue=queue, **arguments).fit(picture)
        return made.quantize(picture).to_bytes()

    return call


def _codec(queue: Queue, picture: Any) -> object:
    codec = clquant.VQCodec(6, max_iter=2, refine=1, state_size=3, queue=queue).fit(picture)
    return codec.decompress(codec.compress(picture))


def _tree(queue: Queue, picture: Any) -> object:
    tree = clquant.QuadtreeBuilder(queue=queue).build(picture)
    return clquant.Quadtree.from_bytes(tree.to_bytes()).outline()


CALLS: dict[str, Callable[[Queue, Any], object]] = {
    "KMeansPalette": _palette("KMeansPalette", n_colors=6, max_iter=2, swap_rounds=1),
    "NeuQuantCL": _palette("NeuQuantCL", n_colors=6, sample_factor=30, refine_steps=1),
    "VQCodec": _codec,
    "PinwheelHalftoner": lambda queue, picture: clquant.PinwheelHalftoner(8, queue=queue).transform(picture),
    "QuadtreeBuilder": _tree,
}


def growth(name: str, calls: int) -> tuple[int, int]:
    """Bytes and device buffers that the second half of the calls added; prints both after every tenth of the calls."""
    pictures = [photo(height, width, channels) for height, width in ((9, 14), (16, 20)) for channels in (3, 4)]
    queue = runtime.default_queue()
    marks: list[tuple[int, int]] = []
    began = time.monotonic()
    for number in range(1, calls + 1):
        os.environ["CLQUANT_LIMITS"] = "unified_memory=0" if number & 4 else ""
        CALLS[name](queue, pictures[number & 3])
        if number * MARKS // calls > (number - 1) * MARKS // calls:
            gc.collect()
            marks.append((resident(), len(TrackedBuffer.alive)))
            print(
                f"{name:18} {number:6} calls {time.monotonic() - began:6.0f} s "
                f"{marks[-1][0] / 2**20:8.1f} MiB {marks[-1][1]:4} buffers",
                flush=True,
            )
    middle, end = marks[len(marks) // 2 - 1], marks[-1]
    return end[0] - middle[0], end[1] - middle[1]


def main(arguments: list[str] | None = None) -> int:
    """Call every engine over and over; 1 if the second half of the calls added memory or buffers."""
    parser = argparse.ArgumentParser(description="Look for leaks.")
    parser.add_argument("--calls", type=int, default=10_000, help="calls an engine")
    parser.add_argument("--only", default="", help="only engines whose name contains this")
    options = parser.parse_args(arguments)
    scope.allocate = tracked_allocation
    leaking = 0
    for name in CALLS:
        if options.only in name:
            more_bytes, more_buffers = growth(name, options.calls)
            bad = more_bytes > ALLOWED_BYTES or more_buffers > 0
            leaking += bad
            print(f"{name}: {more_bytes / 2**20:+.1f} MiB, {more_buffers:+} buffers in the second half", flush=True)
    return 1 if leaking else 0


if __name__ == "__main__":
    sys.exit(main())
