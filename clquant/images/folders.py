"""The pictures of a folder."""

from __future__ import annotations

import os
import pathlib
import re

from clquant.images.stores import is_store
from clquant.runtime import FileError

STORE_SUFFIX = ".zarr"
PICTURE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp", STORE_SUFFIX}
)
# The prefix of the files that macOS writes beside others on foreign disks: `._photo.png` is no picture.
_COMPANION = "._"
_DIGITS = re.compile(r"(\d+)")


def files_below(folder: str, suffixes: frozenset[str] = PICTURE_SUFFIXES) -> list[pathlib.Path]:
    """The files in a folder and below that have one of some suffixes, by their numbers, then letters.

    `2.png` comes before `10.png`. A zarr counts as a file.
    """

    def refuse(error: OSError) -> None:
        raise FileError(f"cannot search the folder {str(error.filename)!r}: {error.strerror or error}") from error

    found = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        stores = [
            name for name in folders if name.lower().endswith(STORE_SUFFIX) and is_store(os.path.join(place, name))
        ]
        folders[:] = [name for name in folders if name not in stores]  # nothing in a zarr is a picture of its own
        if STORE_SUFFIX in suffixes:
            found += [pathlib.Path(place, name) for name in stores]
        paths = [pathlib.Path(place, name) for name in names if not name.startswith(_COMPANION)]
        found += [path for path in paths if path.suffix.lower() in suffixes and path.is_file()]
    if not found:
        raise FileError(f"folder {folder!r} has no files of the kinds {', '.join(sorted(suffixes))}")
    return sorted(found, key=natural_key)


def natural_key(path: str | pathlib.Path) -> tuple[list[list[str | int]], str]:
    """Sort key by which `2.png` comes before `10.png`."""
    names = pathlib.Path(path).parts
    return [[int(part) if part.isdecimal() else part for part in _DIGITS.split(name)] for name in names], str(path)
