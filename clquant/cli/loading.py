"""Pictures of a command's inputs with what goes with them: resolution, colour profile, frames."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any

import PIL.Image

from clquant import images
from clquant.cli import common, inputs
from clquant.cli.inputs import Source
from clquant.images import decode, geo, lazy, moving, picture_files

# Formats that hold a resolution and a colour profile.
WITH_DPI = frozenset({"PNG", "TIFF", "BMP", "JPEG"})
WITH_PROFILE = frozenset({"PNG", "TIFF", "WEBP", "JPEG"})
MOST_DPI = 100_000
# EXIF's orientations from the fifth on change rows for columns.
_ORIENTATION, _FIRST_TURNED = 0x0112, 5


@dataclass(frozen=True)
class Loaded:
    """What a picture file holds.

    Attributes
    ----------
    pixels : ndarray of uint8 or uint16, shape (H, W, C)
        By the rules of `clquant.images`.
    dpi : (float, float) or None
        Pixels per inch across and down.
    icc_profile : bytes or None
        If it was kept: then the pixels are in its colours, else in sRGB.
    frames : int
        How many the file has, of which this is the first.
    format : str or None
        As Pillow names it.
    indexed : bool
        Whether the file has a palette.
    data : bytes or None
        The file, if it came through a pipe.
    """

    pixels: Any
    dpi: tuple[float, float] | None
    icc_profile: bytes | None
    frames: int
    format: str | None
    indexed: bool
    data: bytes | None

    @property
    def nbytes(self) -> int:
        """Bytes of its pixels."""
        return int(self.pixels.nbytes)

    def options(self, kind: str) -> dict[str, Any]:
        """What a file of some format keeps of it, as options of `IndexedImage.to_bytes`."""
        kept: dict[str, Any] = {}
        if self.dpi is not None and kind in WITH_DPI:
            kept["dpi"] = self.dpi
        if self.icc_profile is not None and kind in WITH_PROFILE:
            kept["icc_profile"] = self.icc_profile
        return kept


def load(source: Source, keep_profile: bool = False, data: bytes | None = None, max_bits: int = 8) -> Loaded:
    """An input's picture with what goes with it.

    Parameters
    ----------
    source : Source
    keep_profile : bool
        Whether pixels stay in the colours of the file's ICC profile, instead of sRGB.
    data : bytes, optional
        What standard input gave, if it was read before.
    max_bits : int
        With 16, values of 16 bits are kept.

    Raises
    ------
    FileError, InvalidArgument, InvalidType
        If it cannot be read, naming it.
    """
    if data is None and not source.piped and (lazy.is_store(source.path) or geo.is_geotiff(source.path)):
        return Loaded(_pixels(source, max_bits), None, None, 1, None, False, None)
    data = data or _piped(source)
    with picture_files.opened(source.path if data is None else data, source.shown) as (image, nbytes):
        profile = image.info.pop("icc_profile", None) if keep_profile else None
        frames, dpi, format = moving.about_opened(image, nbytes).count, _dpi(image), image.format
        indexed = image.mode == "P"
        pixels = decode.first_frame(image, nbytes, source.shown, max_bits)
    picture = images.read(pixels, argument=source.shown, max_bits=max_bits).array
    return Loaded(picture, dpi, profile, frames, format, indexed, data)


def load_still(args: argparse.Namespace, source: Source, why: str, **how: Any) -> Loaded:
    """As `load`, saying so if the file has more frames.

    Parameters
    ----------
    args : Namespace
    source : Source
    why : str
        Why the first frame is all that is taken.
    **how
        As `load` takes it.
    """
    loaded = load(source, **how)
    if loaded.frames > 1:
        common.note(args, f"{source.relative}: the first of {loaded.frames} frames; {why}")
    return loaded


def _pixels(source: Source, max_bits: int) -> Any:
    """What is read as `clquant.images` reads it, and has nothing that goes with it."""
    return images.read(source.path, argument=source.shown, max_bits=max_bits).array


def _piped(source: Source) -> bytes | None:
    """What a pipe holds, which can be read once only; None of a file."""
    return inputs.read_bytes(source) if source.piped or not os.path.isfile(source.path) else None


def _dpi(image: PIL.Image.Image) -> tuple[float, float] | None:
    """A file's pixels per inch, as its picture is turned; None if it names none, or nonsense."""
    try:
        across, down = (float(value) for value in image.info["dpi"])
        turned = image.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
    except Exception:  # no such entry, and whatever damaged metadata raise
        return None
    if not (1 < across < MOST_DPI and 1 < down < MOST_DPI):
        return None
    return (down, across) if turned else (across, down)


@dataclass(frozen=True)
class Film:
    """All frames of an input.

    Attributes
    ----------
    pictures : list of ndarray of uint8, shape (H, W, C)
    delays : list of int
        Milliseconds that each stands.
    plays : int
        How often they are shown; 0 for ever.
    """

    pictures: list[Any]
    delays: list[int]
    plays: int


def load_film(source: Source, data: bytes | None = None) -> Film:
    """Every frame of an input, by the rules of `clquant.images`; one of what is no animation.

    Parameters
    ----------
    source : Source
    data : bytes, optional
        What standard input gave, if it was read before.

    Raises
    ------
    FileError, InvalidArgument, InvalidType
        If they cannot be read, naming it.
    """
    data = data or _piped(source)
    file = source.path if data is None else data
    about = moving.about(file, source.shown)
    frames = list(moving.frames(file, source.shown))
    pictures = [images.read(frame.pixels, argument=source.shown).array for frame in frames]
    return Film(pictures, [frame.delay_ms for frame in frames], about.plays)
