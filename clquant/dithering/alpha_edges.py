"""Alpha of 0 or 255 alone, for files and screens that have no other: sharp edges, or dithered ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.dithering import threshold_maps
from clquant.images import ImageLike
from clquant.runtime import CommandQueue, Session, open_session

FILE = "dithering/alpha_edges.cl"
CHOICES = ("binary", "dithered")
HALF, OPAQUE = 127, 255


def alpha_edges(image: ImageLike, edges: str = "dithered", *, queue: CommandQueue | None = None) -> Any:
    """A picture whose pixels are either opaque or transparent, to be given to a palette engine or mapped.

    A palette that is learned of it spends no colours on partial transparency. Without this function partly
    transparent pixels are matched by palette entries with alpha.

    Parameters
    ----------
    image : image
        Whatever `clquant.images.read` takes.
    edges : str
        ``"binary"``: pixels of alpha 128 and more are opaque. ``"dithered"``: as many of them as their alpha says, by
        the mask of blue noise.
    queue : pyopencl.CommandQueue, optional
        Pictures on the host need none.

    Returns
    -------
    ndarray or pyopencl.array.Array
        (H, W, 4) uint8, on the device for a device array: red, green and blue as they are; alpha 255 or 0, which alpha
        255 and 0 always stay. A picture without alpha is given back as it is read. The same on every device.

    Raises
    ------
    InvalidArgument, InvalidType, FileError
        If `edges` is neither, or the image is refused.
    """
    mask = _thresholds(params.choice("edges", edges, CHOICES))
    picture = images.read(image)
    if picture.device_array is not None:
        if picture.channels != 4:
            return picture.device_array
        return _on_device(open_session(queue, [picture.device_array]), picture, mask)
    settled = np.array(picture.array if picture.array is not None else picture.on_host(open_session(queue)))
    if picture.channels != 4:
        return settled.reshape(picture.shape)
    side, width = len(mask), settled.shape[1]
    most = (np.tile(mask, (1, -(-width // side)))[:, :width] // side**2).astype(np.uint8)  # of transparent pixels
    for y in range(side):
        alpha = settled[y::side, :, 3]
        alpha[...] = (alpha > most[y]) * np.uint8(OPAQUE)
    return settled


def _thresholds(edges: str) -> npt.NDArray[np.int32]:
    """(side, side): a pixel is opaque if its alpha times side^2 is above."""
    if edges == "binary":
        return np.array([[HALF]], np.int32)
    mask = threshold_maps.shipped_mask()
    return (mask * OPAQUE + HALF).astype(np.int32)


def _on_device(session: Session, picture: images.Picture, mask: npt.NDArray[np.int32]) -> Any:
    height, width = picture.height, picture.width
    result = session.new_array((height, width, 4), np.uint8)
    kernel = session.program(FILE).kernel("settle_alpha")
    group = session.work_group_size(kernel, session.tuned("mapping.group"))
    with session.scope() as scope:
        given = picture.upload(session, scope), images.buffer_of(result), scope.copy_of(mask)
        sizes = np.uint32(len(mask)), np.uint32(width), np.uint32(height)
        session.launch(kernel, (width, height), (group, 1), *given, *sizes)
    return session.hand_over(result)
