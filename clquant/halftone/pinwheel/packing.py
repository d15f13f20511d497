"""Eight pixels per byte, for printers and e-paper."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.images import Picture, buffer_of


def pack_bits(
    session: runtime.Session, levels: npt.NDArray[np.uint8] | runtime.Array, picture: Picture
) -> npt.NDArray[np.uint8] | runtime.Array:
    """Pack level numbers 0 and 1 to (H, ceil(W / 8)) bytes, the leftmost pixel in the highest bit, padded with 0."""
    if isinstance(levels, np.ndarray):
        return np.packbits(levels.reshape(picture.height, picture.width), axis=1)
    packed = session.new_array((picture.height, -(-picture.width // 8)), np.uint8)
    kernel = session.program("halftone/pinwheel/packing.cl").kernel("halftone_pack_bits")
    session.launch(
        kernel,
        (packed.shape[1], packed.shape[0]),
        None,
        buffer_of(levels),
        buffer_of(packed),
        np.int32(picture.width),
        np.int32(packed.shape[1]),
    )
    return session.hand_over(packed)
