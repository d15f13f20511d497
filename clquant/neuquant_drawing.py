"""Drawing on the host what the mini-batch map learns from, so that a large picture is not sent for a few of its pixels.

The map and its refinement look at a bounded number of pixels, in the order `SPREAD`. If already the first of these have
more distinct colours than are ever counted, nothing else has to be known of a picture without alpha.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from clquant.images import Picture
from clquant.neuquant_maps import Band, Pixels
from clquant.palette.distinct import MOST
from clquant.runtime import Scope, Session, gather_ahead

# Bytes of a picture from which on it takes so long to send that looking at some of its pixels before is worth the time.
LARGE = 1 << 27
# Pixels that it has for each that is drawn, from which on drawing takes less time than sending them all: measured
# beside an NVIDIA H200, where the host copies them to page-locked memory first at twice the time that sending takes.
WORTH = 96
# How many are drawn, at least, and looked at for colours.
LOOKED_AT = 1 << 16
# The first of these are glanced at before: where they have fewer colours, the others hardly have enough. (Of 16384
# colours that are equally common it would be 3624.)
GLANCED_AT, COLORS_AT_A_GLANCE = 1 << 12, 3 << 10
GOLDEN = 2654435769
HASH_BITS = 18
_BLOCK = 1 << 13


def drawn_pixels(
    session: Session,
    scope: Scope,
    pictures: Sequence[Picture],
    start: int,
    count: int,
    meanwhile: Callable[[], None] | None = None,
) -> Pixels | None:
    """What a map learns from, if that is quickly drawn, and shows that the pictures have more than `MOST` colours.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the result.
    pictures : sequence of Picture
        Those that are trained on together.
    start : int
        Of the order `SPREAD`: 0 to 2^32 - 1.
    count : int
        The most samples that are needed.
    meanwhile : callable, optional
        Called while pixels are drawn.

    Returns
    -------
    Pixels or None
        None unless it is one large RGB picture in the host's ordinary memory, for a device with memory of its own, and
        the pixels looked at have more than `MOST` colours. Of pictures with alpha every pixel has to be looked at, gray
        ones have few colours, and from page-locked memory the device copies all pixels sooner.
    """
    picture, count = pictures[0], max(count, LOOKED_AT)
    if len(pictures) > 1 or not _pays(session, picture, count):
        return None
    rows = np.asarray(picture.array).reshape(-1, picture.channels)
    if not _seem_many(rows, start):
        return None
    places = spread_places(len(rows), start, count)
    drawn = np.empty((count, picture.channels), np.uint8)
    first = gather_ahead(rows, places[:LOOKED_AT], drawn[:LOOKED_AT])
    others = gather_ahead(rows, places[LOOKED_AT:], drawn[LOOKED_AT:])
    if meanwhile is not None:
        meanwhile()
    for part in first:
        part.result()
    many = at_least_colors(drawn[:LOOKED_AT]) > MOST
    for part in others:
        if many or not part.cancel():
            part.result()
    if not many:
        return None
    return Pixels((Band(scope.copy_of(drawn), picture.channels, count, 0),), len(rows), drawn=True)


def likely_many(session: Session, pictures: Sequence[Picture], start: int) -> bool:
    """Whether it is a picture whose way leaves time for more, and which seems opaque and of more than `MOST` colours.

    Parameters
    ----------
    session : Session
    pictures : sequence of Picture
        Those that are trained on together.
    start : int
        Of the order `SPREAD`.

    Returns
    -------
    bool
        False unless it is one large picture, gray not, in page-locked memory, from which the device copies it alone.
    """
    array, channels = pictures[0].array, pictures[0].channels
    if len(pictures) > 1 or array is None or channels not in (3, 4) or array.nbytes < LARGE:
        return False
    return session.is_pinned(array) and _seem_many(array.reshape(-1, channels), start)


def _seem_many(rows: npt.NDArray[np.uint8], start: int) -> bool:
    """Whether pixels seem to be opaque and of more than `MOST` colours, at a glance."""
    glanced = rows[spread_places(len(rows), start, GLANCED_AT)]
    return bool((glanced[:, 3:] == 255).all()) and at_least_colors(glanced) >= COLORS_AT_A_GLANCE


def _pays(session: Session, picture: Picture, count: int) -> bool:
    """Whether a picture's samples may stand for it, and so many are drawn before it would have been sent."""
    array = picture.array
    # One that was sent already is there, or will soon be, for what comes after learning.
    if array is None or picture.sent is not None or picture.channels != 3 or session.limits.unified_memory:
        return False
    large = array.nbytes >= LARGE and picture.pixels > count * WORTH
    return large and count * picture.channels <= session.limits.max_alloc and not session.is_pinned(array)


@functools.lru_cache(maxsize=4)  # of 2.8 MB for 256 colours, for pictures of the same size
def spread_places(total: int, start: int, count: int) -> npt.NDArray[np.intp]:
    """Which of `total` pixels the first `count` samples of order `SPREAD` are, as in cl/neuquant_sample.cl.

    Parameters
    ----------
    total, start, count : int
        Below 2^32.
    """
    steps = (np.multiply, GOLDEN), (np.add, start), (np.bitwise_and, 2**32 - 1), (np.multiply, total)
    places = np.arange(count, dtype=np.uint64)
    for at in range(0, count, _BLOCK):  # one after another, as they fit the nearest cache
        block = places[at : at + _BLOCK]
        for change, by in steps:
            change(block, np.uint64(by), out=block)
        block >>= np.uint64(32)
    found = places.view(np.int64).astype(np.intp, copy=False)
    found.setflags(write=False)
    return found


def at_least_colors(pixels: npt.NDArray[np.uint8]) -> int:
    """How many distinct colours there are at least: of those with the same hash value, one is counted.

    Parameters
    ----------
    pixels : ndarray
        (n, 3) or (n, 4) uint8; alpha does not count.
    """
    packed = np.zeros((len(pixels), 4), np.uint8)
    packed[:, :3] = pixels[:, :3]
    hashes = packed.view(np.uint32).ravel() * np.uint32(GOLDEN) >> np.uint32(32 - HASH_BITS)
    seen = np.zeros(1 << HASH_BITS, np.bool_)
    seen[hashes] = True
    return int(np.count_nonzero(seen))
