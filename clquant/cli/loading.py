"""Pictures of a command's inputs: whole with their resolution, profile and frames, or by bands.

By bands are read and written, here or by the workers of ``--cluster``, zarrs, GeoTIFFs and large TIFFs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import images, params
from clquant.cli import common, inputs
from clquant.cli.common import STDOUT, Loss
from clquant.cli.inputs import Pair, Source
from clquant.cli.outputs import kind_of
from clquant.color.formats.picture_formats import WITHOUT_ALPHA
from clquant.color.values import WHITE, hex_texts, lay_over
from clquant.images import decode, moving, picture_files, storage, stores
from clquant.images.dark_values import DarkRows, warned_once
from clquant.images.tiff import directories, geo
from clquant.runtime import FileError, InvalidArgument

# Formats that hold a resolution and a colour profile.
WITH_DPI = frozenset({"PNG", "TIFF", "BMP", "JPEG"})
WITH_PROFILE = frozenset({"PNG", "TIFF", "WEBP", "JPEG"})
MOVING = frozenset({"GIF", "PNG", "WEBP", "AVIF", "FLI"})
MOST_DPI = 100_000
# What is lost, with the places that keep it.
_PLACE = Loss("the place on the map is dropped; .tif keeps it")
_NO_PLACE = Loss("the place on the map is dropped")
_PROFILE = Loss("the ICC profile is dropped; .png, .tif, .webp and .jpg keep it")
_PROFILE_KIND = Loss("the ICC profile is dropped, as it is not of RGB")
_ALPHA = Loss("transparent pixels lie over white; --background takes another colour")
DEPTH = Loss("16 bits a channel become 8 bits")
_PREVIEWS = Loss("pictures beside the photograph dropped", is_minor=True)
_EXIF, _XMP, _IPTC = (Loss(f"{name} metadata dropped", is_minor=True) for name in ("EXIF", "XMP", "IPTC"))
_UNKEPT_TAGS = {
    34665: _EXIF,
    34853: _EXIF,
    700: _XMP,
    33723: _IPTC,
    330: Loss("pictures below the first dropped", True),
}
# Names of PNG's texts that hold other metadata.
_PNG_XMP, _HIDDEN_EXIF = "XML:com.adobe.xmp", ("Raw profile type exif",)
# EXIF's orientations from the fifth on change rows for columns.
_ORIENTATION, _FIRST_TURNED = 0x0112, 5
ZARR = ".zarr"
# Larger TIFFs are read by bands.
MOST_PIXELS_AT_ONCE = 1 << 27
Change = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True)
class Loaded:
    """A picture file's content."""

    pixels: Any  # (H, W, C) uint8 or uint16, by the rules of `clquant.images`
    dpi: tuple[float, float] | None  # pixels per inch across and down
    icc_profile: bytes | None  # if it was kept: then the pixels are in its colours, else in sRGB
    frames: int  # or other pictures in the file, of which this is the first
    format: str | None  # as Pillow names it
    indexed: bool  # the file has a palette
    data: bytes | None  # the file, if it came through a pipe
    place: Mapping[int, Any] = field(default_factory=dict)  # a GeoTIFF's tags that say where it lies
    unkept: tuple[Loss, ...] = ()  # what no result keeps
    name: str = ""  # in messages
    background: tuple[int, ...] | None = None  # what transparent pixels were laid over

    def laid_over(self, args: argparse.Namespace, target: str | None, is_gray: bool = False) -> Loaded:
        """The picture over ``--background``; over white without it, where its result has no alpha."""
        opaque = is_gray or (target is not None and kind_of(target) in WITHOUT_ALPHA)
        if self.pixels.shape[2] != 4 or not (opaque or args.background):
            return self
        behind = args.background or WHITE
        if not args.background and self.pixels[:, :, 3].min() < np.iinfo(self.pixels.dtype).max:
            common.note_lost(args, self.name, [_ALPHA])
        return replace(self, pixels=lay_over(self.pixels, behind), background=behind)

    def in_bits(self, most: int, keeps_depth: bool) -> Loaded:
        """The picture in at most 8 or 16 bits a value, with a note of 16 bits that its result does not keep."""
        if self.pixels.dtype == np.uint8:
            return self
        pixels = decode.narrowed(self.pixels) if most == 8 else self.pixels
        return replace(self, pixels=pixels, unkept=(*self.unkept, *([] if keeps_depth else [DEPTH])))

    @property
    def nbytes(self) -> int:
        """Bytes of its pixels."""
        return int(self.pixels.nbytes)

    @property
    def is_film(self) -> bool:
        """Whether the file's pictures are frames, and not pages or what a camera has beside a photograph."""
        return self.frames > 1 and self.format in MOVING

    def first_alone(self, why: str) -> Loaded:
        """The same with a note that the others of several pictures are lost, for a reason."""
        if self.frames == 1:
            return self
        loss = Loss(f"only the first of several {'frames' if self.is_film else 'pictures'} is used{why}")
        return replace(self, unkept=(*self.unkept, _PREVIEWS if self.format == "MPO" else loss))

    def file_bytes(self, source: Source) -> int | None:
        """Bytes of the input's file, or of what came through a pipe; None of a folder such as a zarr."""
        if self.data is not None:
            return len(self.data)
        return os.path.getsize(source.path) if os.path.isfile(source.path) else None

    def options(self, kind: str) -> dict[str, Any]:
        """Options of `IndexedImage.to_bytes` for the metadata that a format keeps."""
        kept: dict[str, Any] = {}
        if self.dpi is not None and kind in WITH_DPI:
            kept["dpi"] = self.dpi
        if self.icc_profile is not None and kind in WITH_PROFILE:
            kept["icc_profile"] = self.icc_profile
        if self.place and kind == "TIFF":
            kept["tiffinfo"] = self.place
        return kept

    def lost(self, kind: str) -> list[Loss]:
        """What a format does not keep."""
        place = [_PLACE] if self.place and kind != "TIFF" else []
        profile = [_PROFILE] if self.icc_profile is not None and kind not in WITH_PROFILE else []
        return [*place, *profile, *self.unkept]


def unkept_by_tiff(path: str) -> tuple[Loss, ...]:
    """List the metadata of a TIFF's first directory that no result keeps; none for other files."""
    found = directories.first_directory(path)
    return tuple(dict.fromkeys(loss for tag, loss in _UNKEPT_TAGS.items() if tag in found))


def chosen_bands(source: Source, bands: Sequence[int] | None) -> geo.Raster | None:
    """Open the bands of a GeoTIFF that ``--bands`` names; None without the option."""
    if bands is None:
        return None
    if source.piped or not is_tiff(source.path):
        raise InvalidArgument(f"{source.shown} is no TIFF file; allowed with --bands: GeoTIFFs")
    if not geo.is_installed():
        raise FileError(f"cannot read bands of {source.shown}: rasterio is not installed (pip install clquant[geo])")
    return geo.Raster(source.path, bands)


def load(
    source: Source,
    keep_profile: bool = False,
    data: bytes | None = None,
    max_bits: int = 8,
    *,
    keeps_depth: bool = False,
    white: int | None = None,
    bands: Sequence[int] | None = None,
) -> Loaded:
    """Load an input's picture with its metadata; `white` is ``--range``, `bands` are those of ``--bands``."""
    with warned_once(before=white is not None):
        loaded = _load(source, keep_profile, data, chosen_bands(source, bands))
    if white is not None:
        loaded = replace(loaded, pixels=_stretched(loaded.pixels, white, source.shown))
    return loaded.in_bits(max_bits, keeps_depth)


def _load(source: Source, keep_profile: bool, data: bytes | None, raster: geo.Raster | None) -> Loaded:
    """Load all bits of a picture."""
    is_lazy = data is None and not source.piped and (stores.is_store(source.path) or geo.is_geotiff(source.path))
    if raster is not None or is_lazy:
        given: Any = source.path if raster is None else storage.values_of(raster, ..., source.shown)
        picture = images.read(given, argument=source.shown, max_bits=16).array
        place, lost = geo.place_tags(source.path), unkept_by_tiff(source.path)
        return Loaded(picture, None, None, 1, None, False, None, place, lost, name=str(source.relative))
    data = data or piped(source)
    with picture_files.opened(source.path if data is None else data, source.shown) as (image, nbytes):
        profile, unkept_profile = _take_profile(image) if keep_profile else (None, ())
        frames, format, indexed = moving.about_opened(image, nbytes).count, image.format, image.mode == "P"
        # Before metadata are looked for, which decodes the pixels too but tells of no damage.
        pixels = decode.first_frame(image, source.shown, 16)
        dpi, unkept = _dpi(image), (*unkept_profile, *_unkept(image))
    picture = images.read(np.atleast_3d(pixels), argument=source.shown, max_bits=16).array
    if data is None:
        unkept = tuple(dict.fromkeys([*unkept, *unkept_by_tiff(source.path)]))
    name = str(source.relative)
    return Loaded(picture, dpi, profile, frames, format, indexed, data, unkept=unkept, name=name)


def _stretched(pixels: Any, white: int, shown: str) -> npt.NDArray[np.uint16]:
    """16-bit values of which one is white, as those of which 65535 is."""
    if pixels.dtype != np.uint16:
        raise InvalidArgument(f"--range is for values of 16 bits, but {shown} has 8")
    wide = np.minimum(pixels, params.integer("--range", white, 1, 65535)).astype(np.uint32) * np.uint32(65535)
    values: npt.NDArray[np.uint16] = ((wide + np.uint32(white // 2)) // np.uint32(white)).astype(np.uint16)
    return values


def load_still(args: argparse.Namespace, source: Source, why: str, *, keeps: bool = False, **how: Any) -> Loaded:
    """Load a file's first frame, with notes if there are more, and of what is lost unless the result keeps some."""
    chosen: dict[str, Any] = {"white": getattr(args, "range", None), "bands": getattr(args, "bands", None)}
    loaded = load(source, **chosen, **how).first_alone(f": {why}")
    if not keeps:
        common.note_lost(args, loaded.name, [*([_NO_PLACE] if loaded.place else []), *loaded.unkept])
    return loaded


def piped(source: Source) -> bytes | None:
    """Read all bytes of a pipe; None for a file."""
    return inputs.read_bytes(source) if source.piped or not os.path.isfile(source.path) else None


def _take_profile(image: PIL.Image.Image) -> tuple[bytes | None, tuple[Loss, ...]]:
    """A profile that results keep, taken from the picture, whose colours stay; or the loss of one that they do not."""
    profile = image.info.get("icc_profile")
    if not profile or profile[16:20] == b"RGB ":
        for name in ("icc_profile", "gamma", "chromaticity") if profile else ():
            image.info.pop(name, None)
        return profile, ()
    return None, (_PROFILE_KIND,)


def _unkept(image: PIL.Image.Image) -> tuple[Loss, ...]:
    """List an opened file's metadata that no result keeps; its orientation is in the pixels."""
    info = image.info
    try:
        has_exif = image.format != "TIFF" and bool(set(image.getexif()) - {_ORIENTATION})
    except Exception:  # damaged metadata raise all kinds
        has_exif = True
    texts = set(getattr(image, "text", {})) | {name for name in ("comment",) if info.get(name)}
    has_xmp = bool(info.get("xmp") or _PNG_XMP in texts)
    text = Loss(f"{image.format} text metadata dropped", is_minor=True)
    has = {_EXIF: has_exif, _XMP: has_xmp, text: bool(texts - {_PNG_XMP, *_HIDDEN_EXIF})}
    of_tags = {**_UNKEPT_TAGS, **dict.fromkeys(geo.PLACE_TAGS, _PLACE)}
    tagged = [loss for tag, loss in of_tags.items() if image.format == "TIFF" and tag in getattr(image, "tag_v2", {})]
    return tuple(dict.fromkeys([*(loss for loss, is_there in has.items() if is_there), *tagged]))


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


def is_zarr(path: str) -> bool:
    """Whether a path is that of a zarr, by its name."""
    return path.rstrip("/" + os.sep).lower().endswith(ZARR)


def is_tiff(path: str) -> bool:
    """Whether a path is that of a TIFF, by its name."""
    return os.path.splitext(path)[1].lower() in geo.SUFFIXES


def suffix_of(source: Source) -> str | None:
    """Return the default suffix of the result of a zarr, GeoTIFF or large TIFF; None for other inputs."""
    if source.piped:
        return None
    if stores.is_store(source.path):
        return ZARR
    if geo.is_geotiff(source.path):
        return ".tif" if geo.is_installed() else None
    found = directories.first_directory(source.path) if is_tiff(source.path) else {}
    pixels = found.get(directories.WIDTH, 0) * found.get(directories.HEIGHT, 0)
    return ".tif" if pixels > MOST_PIXELS_AT_ONCE and storage.open_path(source.path) is not None else None


def is_banded(args: argparse.Namespace, pair: Pair) -> bool:
    """Whether an input goes to its result by bands: into a zarr, or into a TIFF if it is large or options say so."""
    source, target = pair
    if source.piped or target is None or target == STDOUT:
        return False
    return is_zarr(target) or (is_tiff(target) and (bool(common.given(args, "bands")) or suffix_of(source) is not None))


def split(args: argparse.Namespace, pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split inputs into those that go by bands, after refusing options that need whole pictures, and the others."""
    banded = [pair for pair in pairs if is_banded(args, pair)]
    for name in common.given(args, "whole") if banded else ():
        raise InvalidArgument(f"{name} needs the whole picture, but {banded[0][1]!r} is written in parts")
    return banded, [pair for pair in pairs if pair not in banded]


def picture(args: argparse.Namespace, source: Source) -> Any:
    """Open a picture whose rows are read when they are needed, changed by ``--range`` and ``--gray``."""
    raster = chosen_bands(source, getattr(args, "bands", None))
    if raster is not None and args.cluster is not None:
        raise InvalidArgument("--bands and --cluster are given; allowed: one of them")
    changes: list[tuple[Change, int | None]] = []
    if (white := getattr(args, "range", None)) is not None:
        changes.append((partial(_stretched, white=white, shown=source.shown), None))
    if getattr(args, "gray", False):
        changes.append((partial(luma, background=getattr(args, "background", None)), 1))
    if args.cluster is not None:
        from clquant.dask.parts import opened as opened_by_workers  # an extra

        found: Any = opened_by_workers(source.path)
        found = found[:, :, None] if found.ndim == 2 else found
        for change, channels in changes:
            if channels != found.shape[2]:
                chunks = found.chunks if channels is None else (*found.chunks[:2], (channels,))
                found = found.map_blocks(change, chunks=chunks, meta=np.empty((0, 0, 0), _dtype(found, channels)))
        return found
    opened: Any = raster if raster is not None or not changes else storage.open_path(source.path)
    if opened is None:
        return source.path
    changed = opened
    for change, channels in changes:
        if channels is None or opened.shape[2:] not in ((), (channels,)):
            changed = Changed(changed, change, channels)
    return changed if changed is not opened or opened is raster else source.path


def _dtype(picture: Any, channels: int | None) -> np.dtype[Any]:
    """Of a picture's values after a change: luma, which alone changes the channels, has 8 bits."""
    return np.dtype(picture.dtype if channels is None else np.uint8)


class Changed:
    """A lazy picture with a change of its values, of `channels` if it changes their number; its place stays."""

    def __init__(self, source: Any, change: Change, channels: int | None) -> None:
        self._source, self._change = source, change
        self.shape = tuple(source.shape) if channels is None else (*source.shape[:2], channels)
        self.dtype, self.ndim = _dtype(source, channels), len(self.shape)
        self.chunks = tuple(getattr(source, "chunks", None) or ())[:2] or None
        self.place_path = getattr(source, "place_path", None)
        self._dark = DarkRows()

    def __getitem__(self, where: Any) -> npt.NDArray[Any]:
        values = np.asarray(self._source[where])
        if self.dtype == np.uint8:  # 16 bits are seen here alone
            rows = where[0] if isinstance(where, tuple) else where
            first, last, _ = rows.indices(self.shape[0]) if isinstance(rows, slice) else (0, 0, 1)
            self._dark.note(values)
            self._dark.passed(first, last, self.shape[0], "a picture")
        return self._change(values)


def luma(pixels: npt.NDArray[Any], background: Sequence[int] | None = None) -> npt.NDArray[np.uint8]:
    """Rec. 601 luma (H, W, 1) of colours, as Pillow has it; over a background, by default white, if they have alpha."""
    narrow = decode.narrowed(pixels)
    colors = lay_over(narrow, background or WHITE) if pixels.shape[2] == 4 else narrow
    return np.asarray(PIL.Image.fromarray(colors).convert("L"))[:, :, None]


def over(background: Sequence[int] | None, has_alpha: bool) -> tuple[str, list[str] | None]:
    """What figures of a picture are over, as the end of a line and for ``--json``; nothing of an opaque one."""
    if background is None:
        return (" over black and white", ["#000000", "#ffffff"]) if has_alpha else ("", None)
    names = hex_texts(np.array([background], np.uint8))
    return f" over {'white' if tuple(background) == WHITE else names[0]}", names
