"""Device arrays of any strides, and of 16 bits, -> packed ones (`cl/images/strided.cl`)."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from clquant.runtime import Array, Buffer, open_session


def packed(array: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Copy a device array to a C-contiguous one, on its own queue; uint16 may become uint8 by v / 257."""
    session = open_session(None, [array])
    height, width = array.shape[:2]
    channels = array.shape[2] if array.ndim == 3 else 1
    strides = (*array.strides, 0)[:3]
    result = session.new_array(array.shape, array.dtype if dtype is None else np.dtype(dtype))
    constants = {"FROM_16": int(array.dtype == np.uint16), "TO_16": int(result.dtype == np.uint16)}
    kernel = session.program("images/strided.cl", **constants).kernel("pack_pixels")
    group = session.work_group_size(kernel, 256)
    shape = np.array([height, width, channels, 0], np.uint32)
    where = np.array([array.offset, *strides], np.int64) // array.dtype.itemsize
    session.launch(kernel, height * width, group, cast(Buffer, array.base_data), shape, where, result.base_data)
    return session.hand_over(result)
