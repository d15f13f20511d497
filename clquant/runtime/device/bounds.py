"""Bounds on what is held, looked at or done at once, beside a device's own: `CLQUANT_LIMITS` lowers them for tests.

Unlike a device's limits some of them decide results: samples, sketches, and bands of `.clvq` files.
"""

from __future__ import annotations

import functools
import os

ENVIRONMENT = "CLQUANT_LIMITS"
BOUNDS = {
    "atlas.pixels": 1 << 20,  # pixels that are learned from in all; if there are more, tiles are drawn at random
    "batches.bytes": 1 << 28,  # bytes of pictures that were read to be worked on together
    "lloyd.bins": 8192,  # codewords by which blocks are sorted before they are added
    "rows.portion": 1 << 26,  # bytes of rows in a portion, or a quarter of the host memory that they may take
    "bands.blocks": 1 << 20,  # blocks of a band
    "bands.narrow": 1 << 15,  # blocks of a band of narrow pictures
    "bands.rows": 32,  # rows of a band at least, whose first has no neighbours above
    "box_cut.chosen": 1 << 12,  # boxes that are cut in a round
    "candidates.whole": 1 << 26,  # candidates of a whole grid, beyond which a coarser one is taken
    "candidates_lanes.whole": 1 << 21,  # blocks of a whole grid, beyond which a coarser one is taken
    "deep_counting.band": 1 << 22,  # pixels of a band, so that its hash table stays small
    "differences.band": 1 << 14,  # pixels of a thread's band, few enough for caches
    "exact.pairs": 1 << 12,  # pairs of colours that are compared at once
    "folders.bytes": 1 << 31,  # bytes of pixels that are read ahead, or being written, at most a part of the memory
    "folders.queues": 2,  # pictures that a GPU works on at a time, each by a queue and a thread of its own
    "lazy.memory": 1 << 60,  # bytes of host memory for the rows of a lazy picture, whatever `memory=` says
    "lookup.host": 1 << 15,  # indices on the host from which on a kernel looks them up
    "paper_layout.band": 1 << 28,  # bytes of records that are on the device at once if not all are
    "picture_statistics.thread": 1 << 24,  # bytes that a thread copies: fewer take longer to hand over
    "png.band": 1 << 20,  # bytes of rows that a thread packs and filters at a time
    "png.chunk": 1 << 30,  # bytes of an IDAT chunk; PNG allows 2^31 - 1
    "reading.blocks": 1 << 22,  # blocks of a whole table that are written at once where rows or columns repeat
    "repeats.compared": 1 << 22,  # blocks that are compared at once, about
    "restricted.distances": 1 << 25,  # distances of cells to entries up to which there are swaps
    "seeding.sketch": 1 << 14,  # points of the coarse sketch at least; a picture with fewer colours is its own sketch
    "sixel.part": 1 << 20,  # pixels of a thread's part; of fewer, threads wait for each other more than they work
    "training.sample": 1 << 60,  # blocks or rows of a sample that a codebook is trained on
    "writing.reported": 1 << 19,  # blocks that are coded at once if somebody listens or the device is a CPU
    "writing.small": 1 << 12,  # blocks up to which the preset model is tried too
}


def bound(name: str) -> int:
    """Return a bound by its name, as the environment lowers it now."""
    return _lowered(os.environ.get(ENVIRONMENT, ""))[name]


@functools.lru_cache(maxsize=64)
def _lowered(text: str) -> dict[str, int]:
    """All bounds under `CLQUANT_LIMITS`, whose wording `Limits.lowered` checks."""
    found = dict(BOUNDS)
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name in found and number.isdecimal():
            found[name] = min(found[name], int(number))
    return found
