"""Pictures brought to a panel's size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps

from clquant import params
from clquant.color.values import opaque_color
from clquant.images import ImageLike
from clquant.runtime import InvalidType
from clquant.targets.panel.panel import over

WAYS = ("contain", "cover", "stretch")


def fitted(
    image: ImageLike, size: tuple[int, int], way: str = "contain", background: Any = "white"
) -> npt.NDArray[np.uint8]:
    """A picture in another size, by Pillow's bicubic filter.

    Parameters
    ----------
    image : image
        Gray, RGB, or RGBA, which is laid over the background.
    size : (int, int)
        Width and height in pixels, 1 to 65535 each.
    way : str
        ``"contain"`` shows all of it, with the background beside it; ``"cover"`` fills the panel and cuts what is left
        over on two sides alike; ``"stretch"`` changes its proportions.
    background : str or (int, int, int)
        An opaque colour.

    Returns
    -------
    ndarray
        (height, width, 3) uint8.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        If an argument is not allowed or the image cannot be read.
    """
    if not isinstance(size, list | tuple) or len(size) != 2:
        raise InvalidType(f"size is {params.shown(size)}; allowed: width and height, such as (800, 480)")
    width, height = (params.integer(f"size[{i}]", side, 1, 65535) for i, side in enumerate(size))
    params.choice("way", way, WAYS)
    behind = opaque_color("background", background)
    picture, filter_ = PIL.Image.fromarray(over(image, behind)), PIL.Image.Resampling.BICUBIC
    if way == "contain":
        made = PIL.ImageOps.pad(picture, (width, height), filter_, color=behind)
    elif way == "cover":
        made = PIL.ImageOps.fit(picture, (width, height), filter_)
    else:
        made = picture.resize((width, height), filter_)
    return np.array(made)
