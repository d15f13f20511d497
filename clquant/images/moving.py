"""Moving pictures: the frames of animated GIF, WebP and PNG files, as their players show them.

GIF and PNG are composed by `composition`, WebP by libwebp. An APNG's default image that is no frame is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images.composition import is_composed
from clquant.images.decode import composed, converted
from clquant.images.guards.decoder_work import frame_count, hidden_pictures
from clquant.images.picture_files import MAX_FILE_PIXELS, check_claim, opened

# Most pixels of all frames of an animation together, unless its bytes are as many as real films have: a frame that
# changes nothing takes some 20 bytes.
MAX_FRAMES_PIXELS = MAX_FILE_PIXELS
LONG_FILM_PIXELS_PER_BYTE = 1 << 10
MAX_FRAMES_PIXELS_PER_BYTE = 1 << 16
# How long players show frames that name no time, or next to none.
DEFAULT_DELAY_MS = 100
_HALF = Fraction(1, 2)
# Formats whose loops are counted from the first showing on, 0 for ever; of GIF they are repetitions.
_REPETITIONS = {"GIF"}


@dataclass(frozen=True)
class Frame:
    """One frame."""

    pixels: npt.NDArray[np.uint8]  # (H, W), (H, W, 3) or (H, W, 4), as `clquant.images` reads pictures
    delay_ms: int  # how long it stands

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The pixels; for `numpy.asarray`, and so that a frame is taken wherever a picture is."""
        wanted = self.pixels.dtype if dtype is None else np.dtype(dtype)
        return self.pixels.astype(wanted, copy=bool(copy))


@dataclass(frozen=True)
class About:
    """The frames of a file, as its head states them."""

    count: int  # 1 for a still picture
    plays: int  # how often they are shown; 0 for ever
    shape: tuple[int, int] | None  # height and width, where no orientation can turn the pixels


def about(source: str | bytes, argument: str) -> About:
    """Read from a file's head how many frames it has, and their times."""
    with opened(source, argument) as (image, nbytes):
        return about_opened(image, nbytes)


def about_opened(image: PIL.Image.Image, nbytes: int) -> About:
    """`about` of a file of `nbytes` bytes that Pillow has opened."""
    count = frame_count(image, nbytes) - hidden_pictures(image)
    loop = image.info.get("loop")
    plays = 1 if loop is None else int(loop)
    if loop and image.format in _REPETITIONS:
        plays += 1
    return About(max(count, 1), plays, (image.height, image.width) if image.format == "GIF" else None)


def file_of(image: PIL.Image.Image) -> bytes | None:
    """Read the file of an opened image of several frames; None of other images."""
    file: Any = getattr(image, "fp", None)
    if file is None or file.closed or getattr(image, "n_frames", 1) < 2:
        return None
    place = file.tell()
    file.seek(0)
    data: bytes = file.read()
    file.seek(place)
    return data


def most_pixels(nbytes: int) -> int:
    """Most pixels of all frames together of a file of so many bytes."""
    return min(max(MAX_FRAMES_PIXELS, LONG_FILM_PIXELS_PER_BYTE * nbytes), MAX_FRAMES_PIXELS_PER_BYTE * nbytes)


def frames(source: str | bytes, argument: str) -> Iterator[Frame]:
    """Yield every frame, one at a time; a still picture has one."""
    with opened(source, argument) as (image, nbytes):
        hidden, count = hidden_pictures(image), frame_count(image, nbytes)
        most = most_pixels(nbytes) if count > 1 else MAX_FILE_PIXELS
        if is_composed(image, count):
            if (count - hidden) * image.width * image.height > most:
                raise ValueError(f"its {count} frames have more than {most} pixels together")
            end = Fraction(0)
            for shown, seconds in composed(image, count, argument, most=most):
                own = 1000 * seconds
                begin, end = end, end + (own if own >= 1 else DEFAULT_DELAY_MS)
                yield Frame(shown, math.floor(end + _HALF) - math.floor(begin + _HALF))
            return
        pixels = 0
        screen: tuple[slice, ...] = ()
        for number in range(hidden if count > hidden else 0, count):
            image.seek(number)
            check_claim(image, nbytes)
            # The frames to come are taken for as large, so that most are refused at the first.
            if pixels + (count - number) * image.width * image.height > most:
                raise ValueError(f"its {count} frames have more than {most} pixels together")
            shown = converted(image, argument)[screen]
            screen = screen or tuple(map(slice, shown.shape[:2]))  # a TIFF's pages may be of any sizes
            yield Frame(shown, _delay(image))
            pixels += image.width * image.height


def _delay(image: PIL.Image.Image) -> int:
    """A frame's time; WebP's is known when its pixels are."""
    delay = image.info.get("duration", 0)
    try:
        milliseconds = round(float(delay))
    except (TypeError, ValueError, OverflowError):
        milliseconds = 0
    return milliseconds if milliseconds > 0 else DEFAULT_DELAY_MS


def bounds(mask: npt.NDArray[np.bool_]) -> tuple[slice, slice]:
    """Bounding box of a mask's set pixels, (rows, columns); one pixel if none is set."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
