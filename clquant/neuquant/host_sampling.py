"""Drawing on the host what the mini-batch map learns from, so that it does not wait for all of a large picture.

The map and its refinement look at a bounded number of pixels, in the order `SPREAD`. If already the first of these, or
the first part of a picture, have more distinct colours than are ever counted, nothing else has to be known of a picture
without alpha.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from clquant.histogram.distinct import MAX_DISTINCT
from clquant.images import Picture
from clquant.neuquant.sampling import SPREAD, Band, Pixels
from clquant.runtime import Scope, Session, array_to_send, gather_ahead

# Pictures of fewer bytes are sent before some of their pixels could be inspected.
MIN_LARGE_BYTES = 1 << 27
# From this many pixels per sample on, drawing the samples on the host takes less time than sending all pixels:
# measured beside an NVIDIA H200. The host copies the picture to page-locked memory first, in twice the time of sending.
PIXELS_PER_SAMPLE = 96
# The same for a picture in page-locked memory, whose first part is sent while the other samples are drawn: with 190
# pixels per sample that takes 0.8 of the time beside an NVIDIA H200, with 48 a fifth more if threads draw half of them.
PIXELS_PER_SAMPLE_PINNED = 128
# The first part of such a picture, in 1/8: it arrives when one thread has drawn the other samples and the first steps
# are queued. (Several threads draw faster, but wait to be woken and for Python's lock, for 0.5 ms or more.)
SENT_EIGHTHS = 6
# Samples that are inspected for their colours before the others are drawn.
INSPECTED = 1 << 16
# The first of these are counted before: if three quarters of them have colours of their own, the others may have more
# than are ever counted. (Of 16384 colours that are equally common, these samples would have 3624.)
GLANCED = 1 << 12
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
    """What a map learns from, if that is quickly drawn, and shows more than `MAX_DISTINCT` colours.

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
        the pixels looked at have more than `MAX_DISTINCT` colours. Of pictures with alpha every pixel has to be looked
        at, gray ones have few colours, and for page-locked memory there is `begun_pixels`.
    """
    picture, count = pictures[0], max(count, INSPECTED)
    if len(pictures) > 1 or not _is_worthwhile(session, picture, count):
        return None
    rows = np.asarray(picture.array).reshape(-1, picture.channels)
    if not _seem_many(rows[spread_places(len(rows), start, GLANCED)]):
        return None
    places = spread_places(len(rows), start, count)
    drawn = np.empty((count, picture.channels), np.uint8)
    first = gather_ahead(rows, places[:INSPECTED], drawn[:INSPECTED])
    others = gather_ahead(rows, places[INSPECTED:], drawn[INSPECTED:])
    if meanwhile is not None:
        meanwhile()
    for part in first:
        part.result()
    many = at_least_colors(drawn[:INSPECTED]) > MAX_DISTINCT
    for part in others:
        if many or not part.cancel():
            part.result()
    if not many:
        return None
    return Pixels((Band(scope.copy_of(drawn), picture.channels, count, 0, drawn=SPREAD),), len(rows))


def is_copied_alone(session: Session, pictures: Sequence[Picture]) -> bool:
    """Whether it is one large picture, gray not, in page-locked memory, from which the device copies it by itself.

    Parameters
    ----------
    session : Session
        Of a device with memory of its own.
    pictures : sequence of Picture
        Those that are trained on together.
    """
    array, channels = pictures[0].array, pictures[0].channels
    if len(pictures) > 1 or array is None or channels not in (3, 4) or array.nbytes < MIN_LARGE_BYTES:
        return False
    return session.is_pinned(array)


def begun_pixels(
    session: Session, scope: Scope, picture: Picture, start: int, count: int, whole: bool, meanwhile: Callable[[], None]
) -> Pixels | None:
    """What a map learns from, sent or drawn, of a picture that is on its way and seems of many opaque colours.

    Parameters
    ----------
    session : Session
    scope : Scope
        Owns the result.
    picture : Picture
        That `is_copied_alone`. It is on its way to the device, if that has room for it.
    start : int
        Of the order `SPREAD`: 0 to 2^32 - 1.
    count : int
        The most samples that are needed.
    whole : bool
        Whether all of it is sent in any case.
    meanwhile : callable
        Called while pixels are on their way.

    Returns
    -------
    Pixels or None
        Its last band has the picture's first rows, or all. None unless it seems to have more than `MAX_DISTINCT`
        colours.
    """
    array, sent, channels = picture.array, picture.sent, picture.channels
    if array is None or sent is None:
        return None
    rows, last = array.reshape(-1, channels), picture.height
    if not whole and channels == 3 and picture.pixels > count * PIXELS_PER_SAMPLE_PINNED:
        last = next(cut for cut in sent.cuts if 8 * cut >= SENT_EIGHTHS * picture.height)
    sent.begin(last)
    if last == picture.height:
        if not _seem_many(rows[spread_places(len(rows), start, GLANCED)]):
            return None
        meanwhile()
        return Pixels((Band(sent.first_rows(last), channels, len(rows), 0),), len(rows))
    meanwhile()
    first = last * picture.width
    which, places = samples_after(len(rows), start, count, first)
    drawn = array_to_send(session, (len(which), channels), np.uint8)
    np.take(rows, places, axis=0, out=drawn, mode="clip")  # with "raise", `out` is written through a copy
    if not _seem_many(drawn[:: max(len(drawn) // GLANCED, 1)]):
        return None
    listed = array_to_send(session, which.shape, np.uint32)
    listed[...] = which
    samples = Band(scope.copy_of(drawn), channels, len(which), 0, which=scope.copy_of(listed))
    return Pixels((samples, Band(sent.first_rows(last), channels, first, 0)), len(rows))


def _seem_many(glanced: npt.NDArray[np.uint8]) -> bool:
    """Whether some pixels are opaque, and have so many colours that all seem to have more than `MAX_DISTINCT`."""
    return bool((glanced[:, 3:] == 255).all()) and 4 * at_least_colors(glanced) >= 3 * len(glanced)


def _is_worthwhile(session: Session, picture: Picture, count: int) -> bool:
    """Whether a picture's samples may stand for it, and so many are drawn before it would have been sent."""
    array = picture.array
    # A picture that was sent already is on the device, or soon will be, and mapping needs it there.
    if array is None or picture.sent is not None or picture.channels != 3 or session.limits.unified_memory:
        return False
    large = array.nbytes >= MIN_LARGE_BYTES and picture.pixels > count * PIXELS_PER_SAMPLE
    return large and count * picture.channels <= session.limits.max_alloc and not session.is_pinned(array)


@functools.lru_cache(maxsize=4)  # of 2.8 MB for 256 colours, for pictures of the same size
def spread_places(total: int, start: int, count: int) -> npt.NDArray[np.intp]:
    """Which of `total` pixels the first `count` samples of order `SPREAD` are, as in cl/neuquant/sampling.cl.

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


@functools.lru_cache(maxsize=4)
def samples_after(
    total: int, start: int, count: int, first: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.intp]]:
    """Which of the first `count` samples of order `SPREAD` are pixels from `first` on, and these pixels, ascending.

    Most lie in the same page of memory as the one before: 347,000 took 1.9 ms so, in the order of samples 2.4 to 5.

    Parameters
    ----------
    total, start, count, first : int
        Below 2^32.
    """
    places = spread_places(total, start, count)
    which = np.flatnonzero(places >= first)
    which = which[np.argsort(places[which], kind="stable")]
    found = which.astype(np.uint32), places[which]
    for array in found:
        array.setflags(write=False)
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
