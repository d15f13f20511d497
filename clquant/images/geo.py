"""GeoTIFF by rasterio (extra ``geo``): rows in which what is no data has alpha 0; files that lie where others lie.

A TIFF counts as a GeoTIFF if its first directory says where it lies or which value is no data.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images.tiff_head import first_directory
from clquant.runtime import FileError

SUFFIXES = (".tif", ".tiff", ".btf")
BLOCK = 512
"""Side of the tiles that are written, in pixels."""
DEFLATE_LEVEL = 4
"""Of TIFFs: a third of the time of level 6, a tenth more bytes (dithered indices)."""
# Model pixel scale, tie points and transformation; the keys of the coordinate system; RPCs; what is no data.
_PLACE_TAGS = frozenset({33550, 33922, 34264, 34735, 50844})
_NODATA_TAG = 42113
# GDAL's cache of blocks would be a twentieth of the machine's memory.
_CACHE_BYTES = 1 << 26


def is_geotiff(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a TIFF that says where it lies, or what is no data.

    Parameters
    ----------
    path : path-like
    """
    name = os.fsdecode(path)
    if os.path.splitext(name)[1].lower() not in SUFFIXES:
        return False
    return bool(first_directory(name).keys() & {*_PLACE_TAGS, _NODATA_TAG})


def is_installed() -> bool:
    """Whether rasterio is there."""
    return importlib.util.find_spec("rasterio") is not None


def opened(path: str) -> Raster | None:
    """A GeoTIFF, to be read lazily; None for every other path, and without rasterio.

    Parameters
    ----------
    path : str

    Raises
    ------
    FileError
        If it cannot be read.

    Warns
    -----
    UserWarning
        If it has pixels without data, and rasterio, which would know them, is not installed.
    """
    if not is_geotiff(path):
        return None
    if not is_installed():
        if _NODATA_TAG in first_directory(path):
            warnings.warn(
                f"{path!r} has a value for no data, which counts as a colour: rasterio, which would know it, is not "
                "installed (pip install clquant[geo])",
                stacklevel=2,
            )
        return None
    return Raster(path)


@contextlib.contextmanager
def _gdal() -> Iterator[Any]:
    """rasterio, with a cache that does not grow with the machine unless somebody chose that."""
    import rasterio  # an extra

    chosen = {} if "GDAL_CACHEMAX" in os.environ else {"GDAL_CACHEMAX": _CACHE_BYTES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.Env(**chosen, GDAL_TIFF_OVR_BLOCKSIZE=BLOCK, COMPRESS_OVERVIEW="DEFLATE"):
            yield rasterio


class Raster:
    """A GeoTIFF as rows of gray, RGB or RGBA; what is no data has alpha 0.

    Of several bands those named red, green, blue and alpha count. A colour table is applied.

    Parameters
    ----------
    path : str

    Raises
    ------
    FileError
        If it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()  # the reader's thread and the job's may both ask
        try:
            with _gdal() as rasterio:
                self._file = rasterio.open(path, num_threads="all_cpus")
                self._bands = _bands_of(self._file)
                self._table = _table_of(self._file) if len(self._bands) == 1 else None
                flags = [flag.name for flag in self._file.mask_flag_enums[(self._bands or [1])[0] - 1]]
        except Exception as error:  # GDAL fails in many ways
            raise FileError(f"cannot read {path!r}: {error}") from error
        if not self._bands:
            raise FileError(
                f"cannot read {path!r}: it has {self._file.count} bands, not named red, green and blue; allowed: 1 or "
                "3, or bands with these names"
            )
        self._has_holes = flags != ["all_valid"] and len(self._bands) != 4
        channels = 4 if self._has_holes else len(self._bands)
        if self._table is not None:
            channels = 4 if self._has_holes else 3
        self.shape = (self._file.height, self._file.width, channels)
        self.ndim = 3
        self.dtype = np.dtype(np.uint8 if self._table is not None else self._file.dtypes[self._bands[0] - 1])
        self.chunks = (int(self._file.block_shapes[0][0]),)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        (first, last, _), (left, right, _) = (
            (slice(None) if part is Ellipsis else part).indices(side)
            for part, side in zip((rows, columns), self.shape, strict=False)
        )
        with self._lock, _gdal() as rasterio:
            window = rasterio.windows.Window(left, first, right - left, last - first)
            bands = np.moveaxis(self._file.read(self._bands, window=window), 0, 2)
            mask = self._file.dataset_mask(window=window) if self._has_holes else None
        values: npt.NDArray[Any] = bands if self._table is None else self._table[bands[:, :, 0]]
        values = values[:, :, : self.shape[2]]
        if mask is None:
            return np.ascontiguousarray(values)
        made = np.zeros((*mask.shape, 4), self.dtype)
        made[..., :3] = values[..., :3]
        if self.dtype == np.uint8:
            made[..., 3] = mask if self._table is None else values[..., 3]
        else:
            made[..., 3] = np.iinfo(self.dtype).max if np.issubdtype(self.dtype, np.integer) else 1
        made[mask == 0] = 0
        return made


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


@dataclass(frozen=True)
class Place:
    """Where a raster lies, and what else a file of results keeps of it.

    Attributes
    ----------
    path : str
    profile : dict
        The coordinate system and transformation, as rasterio takes them.
    points : (list, object) or None
        Ground control points and their system.
    rpcs : object or None
        Coefficients of a sensor's model.
    tags : dict
        The raster's metadata.
    overviews : list of int
        Factors of the smaller copies that it has.
    """

    path: str
    profile: dict[str, Any]
    points: tuple[list[Any], Any] | None
    rpcs: Any
    tags: dict[str, str]
    overviews: list[int]


def place_of(source: Any) -> Place | None:
    """Where a source lies; None of what is no path of a GeoTIFF, and without rasterio.

    Parameters
    ----------
    source : object

    Raises
    ------
    FileError
        If it cannot be read.
    """
    if not isinstance(source, str | os.PathLike) or not is_installed() or not is_geotiff(source):
        return None
    path = os.fsdecode(source)
    try:
        with _gdal() as rasterio, rasterio.open(path) as file:
            profile = {} if file.crs is None else {"crs": file.crs}
            if not file.transform.is_identity:
                profile["transform"] = file.transform
            points = file.gcps if file.gcps[0] else None
            return Place(path, profile, points, file.rpcs, file.tags(), list(file.overviews(1)))
    except Exception as error:
        raise FileError(f"cannot read {path!r}: {error}") from error


class Writer:
    """A GeoTIFF in tiles that is written from top to bottom.

    Parameters
    ----------
    path : str
    shape : tuple of int
        (H, W) or (H, W, 3 or 4).
    dtype : dtype
    place : Place
    palette : ndarray or None
        (n, 3 or 4) uint8: becomes the colour table, as GDAL writes it.
    transparent : int or None
        The index that is no data.
    """

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        place: Place,
        palette: npt.NDArray[np.uint8] | None,
        transparent: int | None,
    ) -> None:
        self._path, self._place = path, place
        self._shape = shape
        with _gdal() as rasterio:
            options: dict[str, Any] = {**place.profile, "tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK}
            if len(shape) == 3:
                options["photometric"] = "RGB"
            if transparent is not None:
                options["nodata"] = transparent
            self._file = rasterio.open(
                path,
                "w",
                driver="GTiff",
                height=shape[0],
                width=shape[1],
                count=1 if len(shape) == 2 else shape[2],
                dtype=dtype.name,
                compress="deflate",
                zlevel=DEFLATE_LEVEL,
                bigtiff="if_safer",
                num_threads="all_cpus",
                **options,
            )
            if palette is not None:
                self._file.write_colormap(1, dict(enumerate(_table_colors(palette))))
            self._keep_place()

    def _keep_place(self) -> None:
        if self._place.points is not None:
            self._file.gcps = self._place.points
        if self._place.rpcs is not None:
            self._file.rpcs = self._place.rpcs
        self._file.update_tags(**self._place.tags)

    def write(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """Write rows from `begin` on.

        Parameters
        ----------
        begin : int
        rows : ndarray
        """
        with _gdal() as rasterio:
            window = rasterio.windows.Window(0, begin, self._shape[1], len(rows))
            if len(self._shape) == 2:
                self._file.write(rows, 1, window=window)
            else:
                self._file.write(np.moveaxis(rows, 2, 0), window=window)

    def close(self) -> None:
        """End the file; smaller copies are those that the source has, of the nearest pixels."""
        with _gdal() as rasterio:
            self._file.close()
            if self._place.overviews:
                with rasterio.open(self._path, "r+", num_threads="all_cpus") as file:
                    file.build_overviews(self._place.overviews, rasterio.enums.Resampling.nearest)

    def abandon(self) -> None:
        """Stop writing."""
        with _gdal():
            self._file.close()


def _table_colors(palette: npt.NDArray[np.uint8]) -> list[tuple[int, ...]]:
    return [(*(int(v) for v in color[:3]), int(color[3]) if len(color) == 4 else 255) for color in palette]
