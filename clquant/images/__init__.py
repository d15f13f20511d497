"""Pictures as people hand them in: the input rules (`clquant.images.input_rules`), files, uploads."""

from clquant.images.input_rules import (
    all_sent,
    detached,
    is_read_in_parts,
    materialize,
    pieces,
    read,
    read_many,
    read_parts,
    sent,
    sent_together,
)
from clquant.images.picture import HostImage, ImageLike, Picture, buffer_of, device_arrays
from clquant.images.picture_files import FORMATS, allow_formats

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
    "is_read_in_parts",
    "materialize",
    "pieces",
    "read",
    "read_many",
    "read_parts",
    "sent",
    "sent_together",
]
