"""Device arrays of any strides -> packed ones (`cl/images/strided.cl`)."""

from __future__ import annotations

from typing import cast

import numpy as np

from clquant.runtime import Array, Buffer, open_session


def packed(array: Array) -> Array:
    """A C-contiguous copy of a device array, on its own queue.

    Parameters
    ----------
    array : pyopencl.array.Array
        (H, W) or (H, W, C) uint8, of any strides.

    Raises
    ------
    InvalidArgument
        If the array is on no queue.
    DeviceMemoryError
        If the device has no room.
    """
    session = open_session(None, [array])
    height, width = array.shape[:2]
    channels = array.shape[2] if array.ndim == 3 else 1
    strides = (*array.strides, 1)[:3]
    result = session.new_array(array.shape, np.uint8)
    kernel = session.program("images/strided.cl").kernel("pack_pixels")
    group = session.work_group_size(kernel, 256)
    shape = np.array([height, width, channels, 0], np.uint32)
    where = np.array([array.offset, *strides], np.int64)
    session.launch(kernel, height * width, group, cast(Buffer, array.base_data), shape, where, result.base_data)
    return session.hand_over(result)
