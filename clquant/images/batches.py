"""Lists of images that are read while they are worked on: of large files, no more than one is in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clquant import params
from clquant.images import ImageLike, Picture, materialize, read
from clquant.images.dark_values import warned_once
from clquant.runtime import Array, CommandQueue, InvalidArgument, InvalidType, Session, bound, open_session


def listed(images: Any) -> Sequence[ImageLike]:
    """List the argument `images` of a job that needs several, which are not read yet."""
    images = materialize(images)
    if not isinstance(images, list | tuple):
        raise InvalidType(f"images is {params.shown(images)}; allowed: a list or tuple of images")
    if not images:
        raise InvalidArgument("images is empty; allowed: at least one image")
    return images


def session_of(queue: CommandQueue | None, sources: Sequence[ImageLike]) -> Session:
    """The session of a job on images that are not read yet; as `clquant.runtime.open_session`."""
    return open_session(queue, [source for source in sources if isinstance(source, Array)])


def read_in_groups(
    sources: Sequence[ImageLike],
    joins: Callable[[Picture], bool],
    together: Callable[[dict[int, Picture]], None],
    alone: Callable[[int, Picture], None],
    read_one: Callable[[ImageLike, str], Picture] = lambda source, name: read(source, argument=name),
) -> None:
    """Read images in order: `alone` does one at once, `together` those that `joins` lets wait, up to 256 MiB.

    `read_one` reads an image under the name that errors have for it.
    """
    waiting: dict[int, Picture] = {}
    waiting_bytes = 0
    with warned_once():
        for index, source in enumerate(sources):
            waiting_bytes += _take(index, read_one(source, f"images[{index}]"), source, joins, waiting, alone)
            if waiting_bytes >= bound("batches.bytes"):
                together(waiting)
                waiting, waiting_bytes = {}, 0
        if waiting:
            together(waiting)


def _take(
    index: int,
    picture: Picture,
    source: ImageLike,
    joins: Callable[[Picture], bool],
    waiting: dict[int, Picture],
    alone: Callable[[int, Picture], None],
) -> int:
    """Process a picture or let it wait; return the bytes that it then keeps. No other name holds its pixels."""
    if not joins(picture):
        alone(index, picture)
        return 0
    waiting[index] = picture
    if picture is source or picture.array is None:
        return 0
    theirs = isinstance(source, np.ndarray) and np.may_share_memory(source, picture.array)
    return 0 if theirs else picture.array.nbytes
