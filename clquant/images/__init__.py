"""Pictures as people hand them in: the input rules, files, uploads."""

from clquant.images.picture import (
    HostImage,
    ImageLike,
    Picture,
    buffer_of,
    device_arrays,
    emit,
    held,
    read,
    read_many,
    row_bands,
    several,
)

__all__ = [
    "HostImage",
    "ImageLike",
    "Picture",
    "buffer_of",
    "device_arrays",
    "emit",
    "held",
    "read",
    "read_many",
    "row_bands",
    "several",
]
