"""Pictures as people hand them in: the input rules (`clquant.images.input_rules`), files, uploads."""

from clquant.images.input_rules import (
    all_sent,
    detached,
    materialize,
    read,
    read_many,
    sent,
    sent_together,
)
from clquant.images.picture import HostImage, ImageLike, Picture, buffer_of, device_arrays
from clquant.images.picture_files import FORMATS, allow_formats
from clquant.images.storage import memory_bytes

__all__ = [
    "FORMATS",
    "HostImage",
    "ImageLike",
    "Picture",
    "all_sent",
    "allow_formats",
    "buffer_of",
    "detached",
    "device_arrays",
    "materialize",
    "memory_bytes",
    "read",
    "read_many",
    "sent",
    "sent_together",
]
