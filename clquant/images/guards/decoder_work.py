"""Reject picture files whose decoding cost is out of proportion to their size.

A file of a few bytes per unit can hold passes over all coefficients of a picture (JPEG's scans), comments between plain
numbers (PPM), strips of a row (TIFF) and frames. Decoders take each, at a cost that has nothing to do with the pixels.
The bounds here keep that cost below a second per megabyte of the file, and are far above what pictures need.
"""

from __future__ import annotations

import itertools
from typing import BinaryIO

import PIL.Image

from clquant.images.guards.jpeg_segments import START_OF_SCAN, segments
from clquant.images.guards.metadata_work import check_exif, check_pages, check_tiles

# libtiff's own bound for JPEG inside TIFF. A pass over a picture takes up to 1.5 nanoseconds per pixel; encoders write
# ten passes, those that search for the smallest file some twenty.
MAX_SCANS = 100
# Pillow copies up to 16 KiB for each comment that stands among plain numbers.
FREE_COMMENTS, BYTES_PER_COMMENT = 1000, 32
# Time grows by the square of the frames in libwebp and in Pillow's reader of TIFF. The fewest bytes are those of a
# frame that changes nothing.
MAX_FRAMES = 1 << 14
BYTES_PER_FRAME = {"TIFF": 64}
BYTES_PER_OTHER_FRAME = 12

_SCAN = b"\xff\xda"
_PLAIN_PPM = "ppm_plain"
_PART = 1 << 16


def check_work(image: PIL.Image.Image, nbytes: int) -> None:
    """Refuse a picture that was opened, or a frame that was sought, whose decoding costs too much for its bytes."""
    tiles = getattr(image, "tile", None) or []
    check_tiles(len(tiles), nbytes)
    check_exif(image.info, nbytes)
    file = getattr(image, "fp", None)
    if file is None:
        return
    plain = bool(tiles) and tiles[0][0] == _PLAIN_PPM
    if not plain and image.format not in ("JPEG", "MPO"):
        return
    now = file.tell()
    try:
        if plain and (comments := _count(file, b"#")) > FREE_COMMENTS + nbytes // BYTES_PER_COMMENT:
            raise ValueError(f"it has {comments} comments, more than its {nbytes} bytes are allowed")
        if image.format == "JPEG" and _count(file, _SCAN) > MAX_SCANS and _has_more_scans(file, 0, MAX_SCANS):
            raise ValueError(f"it has more than {MAX_SCANS} scans")
        if image.format == "MPO" and _has_more_scans(file, int(getattr(image, "offset", 0)), MAX_SCANS):
            raise ValueError(f"its frame {image.tell()} has more than {MAX_SCANS} scans")
    finally:
        file.seek(now)


def frame_count(image: PIL.Image.Image, nbytes: int) -> int:
    """Return the number of frames that a picture states; 1 if it is no animation."""
    most = min(MAX_FRAMES, nbytes // BYTES_PER_FRAME.get(image.format or "", BYTES_PER_OTHER_FRAME) + 1)
    file = getattr(image, "fp", None)
    if image.format == "TIFF" and file is not None:
        now = file.tell()
        check_pages(file, nbytes)
        file.seek(now)
    # Pillow counts those of TIFF by reading the head of each, and looks back at all before it.
    count = _sought_frames(image, most) if image.format == "TIFF" else int(getattr(image, "n_frames", 1))
    if count > most:
        found = f"more than {most}" if image.format == "TIFF" else str(count)
        raise ValueError(f"it has {found} frames; allowed in its {nbytes} bytes: {most}")
    return count


def hidden_pictures(image: PIL.Image.Image) -> int:
    """Count the pictures before a file's first frame: an APNG may have one, for viewers of stills."""
    return int(image.format == "PNG" and bool(image.info.get("default_image")))


def _sought_frames(image: PIL.Image.Image, most: int) -> int:
    """The frames of a file that has at most so many; `most` + 1 of others. Pillow miscounts if frames are left out."""
    now, count = image.tell(), 1
    try:
        while count <= most:
            image.seek(count)
            count += 1
    except EOFError:
        pass
    image.seek(now)
    return count


def _count(file: BinaryIO, what: bytes) -> int:
    """Count one or two bytes anywhere in a file."""
    file.seek(0)
    found, last = 0, b""
    while part := file.read(_PART):
        found += part.count(what) + (last + part[:1] == what)
        last = part[-1:]
    return found


def _has_more_scans(file: BinaryIO, start: int, most: int) -> bool:
    """Whether a JPEG stream that begins at `start` has more passes than `most`."""
    scans = (kind for kind, _, _ in segments(file, start) if kind == START_OF_SCAN)
    return next(itertools.islice(scans, most, None), None) is not None
