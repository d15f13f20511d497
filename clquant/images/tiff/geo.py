"""GeoTIFF by rasterio (extra ``geo``): rows in which what is no data has alpha 0.

A TIFF counts as a GeoTIFF if its first directory says where it lies or which value is no data.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import struct
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.TiffImagePlugin

from clquant import params
from clquant.images.dark_values import callers_level
from clquant.images.guards.metadata_work import check_head
from clquant.images.tiff.directories import check_claim, first_directory
from clquant.params import reason_of
from clquant.runtime import FileError, InvalidArgument

SUFFIXES = (".tif", ".tiff", ".btf")
DECIMALS = 9
"""Of degrees: a tenth of a millimetre."""
DEFLATE_LEVEL = 4
"""Of TIFFs: a third of the time of level 6, a tenth more bytes (dithered indices)."""
# Model pixel scale, tie points and transformation; the keys of the coordinate system; RPCs; what is no data.
PLACE_TAGS = frozenset({33550, 33922, 34264, 34735, 50844})
_NODATA_TAG = 42113
_BIG = b"+\0", b"\0+"  # BigTIFF's version in either byte order
# Tags that a writer without GDAL keeps: also the numbers and texts that the coordinate system's keys refer to.
_KEPT_TAGS = PLACE_TAGS | {34736, 34737}
# GDAL's cache of blocks would be a twentieth of the machine's memory.
_CACHE_BYTES = 1 << 26
# Neither files beside it (.ovr, .msk, .aux.xml, .tfw, .tab) nor hosts are asked.
_ALONE = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": False,
    "GDAL_GEOREF_SOURCES": "INTERNAL",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
}


def is_geotiff(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a TIFF that names its place on the map, or its value for no data."""
    name = os.fsdecode(path)
    if os.path.splitext(name)[1].lower() not in SUFFIXES:
        return False
    return bool(first_directory(name).keys() & {*PLACE_TAGS, _NODATA_TAG})


def place_tags(path: str | os.PathLike[str]) -> PIL.TiffImagePlugin.ImageFileDirectory_v2:
    """The tags that say where a TIFF lies, to be written unchanged; empty for other files."""
    kept = PIL.TiffImagePlugin.ImageFileDirectory_v2()
    with contextlib.suppress(OSError, ValueError, SyntaxError, struct.error), open(path, "rb") as file:
        check_head(file, os.path.getsize(path))
        file.seek(0)
        head = file.read(8)
        found = PIL.TiffImagePlugin.ImageFileDirectory_v2(head + (file.read(8) if head[2:4] in _BIG else b""))
        file.seek(found.next)
        found.load(file)
        for tag in sorted(_KEPT_TAGS & set(found)):
            kept.tagtype[tag] = found.tagtype[tag]
            kept[tag] = found[tag]
    return kept


def is_installed() -> bool:
    """Whether rasterio is there."""
    return importlib.util.find_spec("rasterio") is not None


def opened(path: str) -> Raster | None:
    """Open a GeoTIFF to be read lazily; None for other paths, and without rasterio."""
    if not is_geotiff(path):
        return None
    if not is_installed():
        if _NODATA_TAG in first_directory(path):
            warnings.warn(
                f"{path!r} has a value for no data, which counts as a colour: rasterio, which would know it, is not "
                "installed (pip install rasterio)",
                stacklevel=2,
            )
        return None
    return Raster(path)


@contextlib.contextmanager
def gdal(**options: Any) -> Iterator[Any]:
    """Open rasterio's environment for files on their own, with a bounded cache, unless somebody chose another."""
    import rasterio  # an extra

    chosen = {} if "GDAL_CACHEMAX" in os.environ else {"GDAL_CACHEMAX": _CACHE_BYTES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.Env(**chosen, **_ALONE, **options):
            yield rasterio


def open_geotiff(path: str, rasterio: Any) -> Any:
    """Open a file that can be nothing but a GeoTIFF, and whose smaller copies are in it."""
    # Of a relative path GDAL may make something else: "GTIFF_DIR:1:other.tif".
    file = rasterio.open(os.path.abspath(path), driver="GTiff", sharing=False, num_threads="all_cpus")
    elsewhere = file.tags(ns="OVERVIEWS").get("OVERVIEW_FILE")
    if elsewhere is not None:
        file.close()
        raise FileError(f"cannot read {path!r}: its overviews are in {elsewhere!r}; allowed: in the same file")
    return file


class Raster:
    """A GeoTIFF as rows of gray, RGB or RGBA; what is no data has alpha 0.

    Of several bands those named red, green, blue and alpha count, or the ones that are given, from 1 on: gray, or red,
    green, blue and perhaps alpha. A colour table is applied.
    """

    def __init__(self, path: str, bands: Sequence[int] = ()) -> None:
        self.path = self.place_path = path
        self._are_chosen, self._has_warned = bool(bands), False
        self._lock = threading.Lock()  # the reader's thread and the job's may both ask
        try:
            with gdal() as rasterio:
                self._file = open_geotiff(path, rasterio)
                check_claim(path, self._file.shape, self._file.block_shapes[0])
                self._bands = list(bands) or _bands_of(self._file)
                self._check_bands()
                self._table = _table_of(self._file) if len(self._bands) == 1 else None
                flags = [flag.name for flag in self._file.mask_flag_enums[(self._bands or [1])[0] - 1]]
        except FileError:
            raise
        except Exception as error:  # GDAL fails in many ways
            raise FileError(f"cannot read {path!r}: {reason_of(error)}") from error
        if self._are_chosen and "alpha" in flags and "nodata" not in flags:
            flags = ["all_valid"]  # the band of alpha counts only if it is chosen
        self._has_holes = flags != ["all_valid"] and len(self._bands) != 4
        channels = 4 if self._has_holes else len(self._bands)
        if self._table is not None:
            channels = 4 if self._has_holes else 3
        self.shape = (self._file.height, self._file.width, channels)
        self.ndim = 3
        self.dtype = np.dtype(np.uint8 if self._table is not None else self._file.dtypes[self._bands[0] - 1])
        self.chunks = (int(self._file.block_shapes[0][0]),)

    def _check_bands(self) -> None:
        """Refuse bands that are not there, and files that do not say which of their bands are colours."""
        count = self._file.count
        if self._bands and max(self._bands) <= count:
            return
        what, names = f"cannot read {self.path!r}: it has {count} bands", [kind.name for kind in self._file.colorinterp]
        if self._bands:
            raise FileError(f"{what}, but band {max(self._bands)} is chosen; allowed: 1 to {count}")
        raise FileError(
            f"{what} ({', '.join(names)}), none of them named red, green and blue; allowed: a choice, such as --bands "
            "1,2,3, or in Python the array that rasterio reads"
        )

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        rows, columns, channels = (*(key if isinstance(key, tuple) else (key,)), slice(None), slice(None))[:3]
        (first, last, _), (left, right, _) = (
            (slice(None) if part is Ellipsis else part).indices(side)
            for part, side in zip((rows, columns), self.shape, strict=False)
        )
        with self._lock, gdal() as rasterio:
            window = rasterio.windows.Window(left, first, right - left, last - first)
            bands = np.moveaxis(self._file.read(self._bands, window=window), 0, 2)
            mask = self._mask(window) if self._has_holes else None
        if len(self._bands) == 4 and not self._are_chosen:
            self._warn_of_partial(bands[:, :, 3])
        values: npt.NDArray[Any] = bands if self._table is None else self._table[bands[:, :, 0]]
        values = values[:, :, : self.shape[2]]
        if mask is None:
            return np.ascontiguousarray(values[:, :, channels])
        made = np.zeros((*mask.shape, 4), self.dtype)
        made[..., :3] = values[..., :3]
        if self.dtype == np.uint8:
            made[..., 3] = mask if self._table is None else values[..., 3]
        else:
            # White is 65535 in uint16, 255 in other integers, 1 in floats.
            made[..., 3] = 1 if self.dtype.kind == "f" else 65535 if self.dtype == np.uint16 else 255
        made[mask == 0] = 0
        return made[:, :, channels]

    def _warn_of_partial(self, alpha: npt.NDArray[Any]) -> None:
        """Warn once of alpha that is neither clear nor opaque: GDAL calls the fourth of any four bytes alpha."""
        if self._has_warned or not ((alpha > 0) & (alpha < alpha.max(initial=0))).any():
            return
        self._has_warned = True
        warnings.warn(
            f"band {self._bands[3]} of {self.path!r} counts as alpha, by which pixels are partly transparent; if it is "
            "another channel, choose bands (--bands 1,2,3 of the command; in Python give what rasterio reads)",
            stacklevel=callers_level(),
        )

    def _mask(self, window: Any) -> npt.NDArray[np.uint8]:
        """Where there are data: of chosen bands by themselves, else as the file says of all."""
        if not self._are_chosen:
            return np.asarray(self._file.dataset_mask(window=window))
        return np.asarray(self._file.read_masks(self._bands, window=window).max(axis=0))


def alpha_band(path: str | os.PathLike[str]) -> int | None:
    """The number of a GeoTIFF's band that counts as alpha; None of other files, and without rasterio."""
    if not (is_geotiff(path) and is_installed()):
        return None
    with contextlib.suppress(Exception), gdal() as rasterio, open_geotiff(os.fsdecode(path), rasterio) as file:
        kinds = [kind.name for kind in file.colorinterp]
        return kinds.index("alpha") + 1 if "alpha" in kinds else None
    return None


def to_wgs84(crs: Any, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(..., 2): longitude and latitude of points of a coordinate system; NaN where there is none."""
    if not is_installed():
        raise FileError("WGS84 needs rasterio, which is not installed (pip install clquant[geo])")
    with gdal() as rasterio:
        try:
            system = rasterio.crs.CRS.from_user_input(crs)
        except rasterio.errors.CRSError as error:
            allowed = "a coordinate system that rasterio knows, such as 'EPSG:32633'"
            raise InvalidArgument(f"crs is {params.shown(crs)}; allowed: {allowed}") from error
        warp = importlib.import_module("rasterio.warp")
        try:
            found = warp.transform(system, "EPSG:4326", x.ravel().tolist(), y.ravel().tolist())
        except Exception as error:  # GDAL fails in many ways
            raise FileError(f"the coordinate system {params.shown(str(crs))} has no place on the earth") from error
    made = np.stack([np.reshape(part, x.shape) for part in found], -1)
    return np.where(np.isfinite(made), np.round(made, DECIMALS), np.nan)


def _bands_of(file: Any) -> list[int]:
    """The bands, from 1 on, that make the picture."""
    kinds = [kind.name for kind in file.colorinterp]
    if all(name in kinds for name in ("red", "green", "blue")):
        return [kinds.index(name) + 1 for name in ("red", "green", "blue", "alpha") if name in kinds]
    if file.count == 2 and kinds[1] == "alpha":
        return [1]
    return list(range(1, file.count + 1)) if file.count in (1, 3) else []


def _table_of(file: Any) -> npt.NDArray[np.uint8] | None:
    """A band's colour table, (n, 4); None if it has none."""
    if file.colorinterp[0].name != "palette" or file.dtypes[0] not in ("uint8", "uint16"):
        return None
    table = np.zeros((1 << 8 * np.dtype(file.dtypes[0]).itemsize, 4), np.uint8)
    for index, color in file.colormap(1).items():
        if index < len(table):
            table[index] = color
    table[:, 3] = 255
    return table
