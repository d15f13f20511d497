"""`clquant.quantize`: a picture to few colours in one call."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from clquant import flow, params
from clquant.color.indexed import IndexedImage
from clquant.color.palette import MOST_COLORS, as_palette
from clquant.images import ImageLike, sent
from clquant.kmeans import KMeansPalette
from clquant.palette import engine
from clquant.runtime import CommandQueue, ProgressCallback


def quantize(
    image: ImageLike,
    colors: Any = 256,
    *,
    dither: Any = None,
    color_space: str = "srgb",
    random_state: Any = 0,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
) -> IndexedImage:
    """A picture in few colours.

    Parameters
    ----------
    image : image
        Whatever `clquant.images.read` takes.
    colors : int, Palette or array_like
        How many colours to learn by k-means (`KMeansPalette`), 1 to 65536; or the colours to use: a palette,
        (n, 3 or 4) uint8, or CSS colours such as ``["black", "#f80"]``.
    dither : None, bool, str or object
        As `KMeansPalette.quantize` takes it.
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where colours are compared.
    random_state : int
        Seed of the learning, 0 to 2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the device array's own, else the best device.
    progress : callable, optional
        Called with (done, total), once for learning and once for mapping; returning False stops the job.

    Returns
    -------
    IndexedImage
        Its indices are on the device for a device array. The same on every device.

    Raises
    ------
    InvalidArgument, InvalidType, FileError, StoppedError
        If an argument is not allowed, the image cannot be read, or `progress` returned False.

    Examples
    --------
    >>> import numpy as np
    >>> import clquant
    >>> image = np.array([[0, 0, 10, 200]], dtype=np.uint8)
    >>> clquant.quantize(image, 2).indices.tolist()
    [[0, 0, 0, 1]]
    >>> clquant.quantize(image, ["black", "white"]).indices.tolist()
    [[0, 0, 0, 1]]
    """
    if not isinstance(colors, numbers.Number):
        given = as_palette(colors, "colors")
        return engine.quantize(image, given, color_space=color_space, dither=dither, queue=queue, progress=progress)
    count = params.integer("colors", colors, 1, MOST_COLORS)
    learner = KMeansPalette(count, color_space=color_space, random_state=random_state, queue=queue)
    if dither is None or dither is False:
        indices = flow.fetch(learner.fit_predict(image, progress=progress), progress)
        return IndexedImage.of_own(indices, learner.palette_)
    with sent(image, queue) as (_, picture):
        return learner.fit(picture, progress=progress).quantize(picture, dither, progress=progress)


class DominantColor(NamedTuple):
    """A colour that stands for a part of a picture.

    Attributes
    ----------
    color : str
        ``"#rrggbb"``, or ``"#rrggbbaa"`` of a colour with alpha.
    share : float
        Of the picture's pixels that are not fully transparent, 0 to 1.
    """

    color: str
    share: float


@flow.verb
def dominant_colors(
    image: ImageLike,
    count: int = 5,
    *,
    color_space: str = "oklab",
    random_state: Any = 0,
    queue: CommandQueue | None = None,
) -> list[DominantColor]:
    """The colours that stand for a picture, with their shares of its pixels.

    Parameters
    ----------
    image : image
        Whatever `clquant.images.read` takes.
    count : int
        At most so many, 1 to 256; learned by `KMeansPalette`.
    color_space : str
        Where colours are compared; OKLab is nearest to the eye.
    random_state : int
    queue : pyopencl.CommandQueue, optional

    Returns
    -------
    list of DominantColor
        The most frequent first; of equal ones the one learned first. Their shares are 1 together. Fully transparent
        pixels are passed over; a picture of nothing else has no colours.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        If an argument is not allowed, or the image cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import clquant
    >>> image = np.array([[[255, 0, 0], [0, 0, 255], [0, 0, 255], [0, 0, 255]]], dtype=np.uint8)
    >>> clquant.dominant_colors(image, 2)
    [DominantColor(color='#0000ff', share=0.75), DominantColor(color='#ff0000', share=0.25)]
    """
    learner = learner_of_few(count, color_space=color_space, random_state=random_state, queue=queue)
    indices: Any = learner.fit_predict(image)
    return by_frequency(learner, IndexedImage.of_own(indices, learner.palette_).counts())


def learner_of_few(
    count: int, *, color_space: str = "oklab", random_state: Any = 0, queue: CommandQueue | None = None
) -> KMeansPalette:
    """The engine that learns the colours of `dominant_colors`."""
    wanted = params.integer("count", count, 1, 256) + 1
    how: dict[str, Any] = {"color_space": color_space, "random_state": random_state, "queue": queue}
    return KMeansPalette(wanted, fixed_colors=["transparent"], **how)


def by_frequency(learner: KMeansPalette, counts: Any) -> list[DominantColor]:
    """Colours of a fitted engine with their shares of the pixels, the most frequent first."""
    names = [name.removesuffix("ff") if len(name) == 9 else name for name in learner.palette_.hex()]
    seen = np.where(learner.palette_.rgba()[:, 3] > 0, counts, 0)
    order = np.argsort(-seen, kind="stable")
    return [DominantColor(names[i], int(seen[i]) / int(seen.sum())) for i in order if seen[i]]
