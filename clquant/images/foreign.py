"""Arrays of other libraries, encoded pictures in memory and masked arrays -> what `clquant.images` reads.

- Objects with ``__array__`` (xarray, whose dimensions say where the channels are, JAX), ``__array_interface__`` or
  ``__dlpack__`` (PyTorch, CuPy, JAX) become NumPy arrays. Those in the memory of a CUDA or ROCm device come to the
  host, by the library's own copy: OpenCL cannot share that memory.
- bytes, bytearray and binary file objects hold an encoded picture (PNG, JPEG ...).
- Of a masked array, masked pixels are not there: they get alpha 0. A pixel is masked if one of its channels is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.params import shown
from clquant.runtime import ClquantError, FileError, InvalidType

# kDLCPU of the DLPack specification.
_DLPACK_HOST = 1
# Names of a dimension of channels, in lower case.
_CHANNELS = ("band", "bands", "channel", "channels", "c", "rgb", "rgba")


def as_array(source: Any, argument: str) -> npt.NDArray[Any] | None:
    """The values of an array of another library; None if `source` speaks no array protocol."""
    if not any(hasattr(source, name) for name in ("__array__", "__array_interface__", "__dlpack__")):
        return None
    if hasattr(source, "detach"):  # a PyTorch tensor refuses to be read while it records gradients
        source = source.detach()
    try:
        return channels_last(np.asarray(_on_host(source)), source)  # type: ignore[no-any-return]
    except ClquantError:  # of this library's own frames
        raise
    except Exception as error:  # each library refuses in its own way
        raise InvalidType(f"{argument} is {shown(source)}, which gives no array: {error}") from error


def channels_last(array: Any, source: Any) -> Any:
    """An array whose channels come last, if the names of its dimensions say that they come first."""
    dims = getattr(source, "dims", None)
    if isinstance(dims, tuple) and len(dims) == 3 and str(dims[0]).lower() in _CHANNELS:
        return array.transpose(1, 2, 0)
    return array


def _on_host(source: Any) -> Any:
    """The same array in host memory, by the copy that its library offers."""
    where = getattr(source, "__dlpack_device__", None)
    if where is not None and where()[0] != _DLPACK_HOST:
        name = next((name for name in ("cpu", "get") if callable(getattr(source, name, None))), None)  # PyTorch; CuPy
        source = source if name is None else getattr(source, name)()
    if hasattr(source, "__array__") or hasattr(source, "__array_interface__"):
        return source
    return np.from_dlpack(source)


def encoded(source: Any, argument: str) -> bytes | None:
    """The bytes of an encoded picture in memory or in a binary file object; None if `source` is neither.

    A file object is read from where it stands, and left there if it can seek.
    """
    if isinstance(source, bytes | bytearray):
        return bytes(source)
    if not callable(getattr(source, "read", None)):
        return None
    try:
        position = source.tell() if source.seekable() else None
        data = source.read()
        if position is not None:  # so that the same object can be given to `fit` and to `quantize`
            source.seek(position)
    except (OSError, ValueError, AttributeError) as error:
        raise FileError(f"{argument}: cannot read {shown(source)}: {error}") from error
    if not isinstance(data, bytes):
        raise FileError(f"{argument}: {shown(source)} is open as text; allowed: a file open in binary mode")
    return data


def with_mask_as_alpha(array: np.ma.MaskedArray[Any, Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Masked pixels as pixels of alpha 0."""
    mask = np.ma.getmaskarray(array)
    if not mask.any():
        return values
    if values.ndim == 2:
        values, mask = values[:, :, None], mask[:, :, None]
    hidden = mask.any(axis=2)
    colors = np.repeat(values, 3, axis=2) if values.shape[2] == 1 else values[:, :, :3]
    alpha = values[:, :, 3] if values.shape[2] == 4 else np.full_like(values[:, :, 0], np.iinfo(values.dtype).max)
    return np.dstack([colors, np.where(hidden, values.dtype.type(0), alpha)])
