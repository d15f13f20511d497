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
from clquant.images.picture_files import FORMATS, allow_formats

__all__ = [
    "FORMATS",
    "HostImage",
    "ImageLike",
    "Picture",
    "allow_formats",
    "buffer_of",
    "device_arrays",
    "emit",
    "held",
    "read",
    "read_many",
    "row_bands",
    "several",
]
