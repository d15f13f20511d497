"""GeoTIFFs that are written where others lie, by rasterio: in tiles, with smaller copies, cloud-optimized by choice."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.images.tiff import geo
from clquant.params import boolean, choice, reason_of
from clquant.runtime import FileError, InvalidArgument

BLOCK = 512
"""Side of the tiles, in pixels."""
# The level of compression of a file that is copied once more and thrown away.
_PASSING_LEVEL = 1
OVERVIEWS = ("nearest", "mode", "none")


class GeoTiff(os.PathLike[str]):
    """The path of a GeoTIFF to write, for ``out=``, with its layout.

    Parameters
    ----------
    path : path-like
        Ends in ``.tif``, ``.tiff`` or ``.btf``.
    cog : bool, optional
        Whether it is a cloud-optimized GeoTIFF; default: if the picture it is made from is one.
    overviews : str, optional
        The smaller copies: ``"nearest"`` pixels; ``"mode"``, of indices alone, the most frequent one, as GDAL counts
        (each copy from the next larger one, what is no data aside); or ``"none"``. Their factors are those of the
        picture it is made from, else 2, 4, ... until one tile holds all. Default: ``"nearest"``, if `cog` is True or
        that picture has some.

    Notes
    -----
    By rasterio (extra ``geo``). Indices are never averaged. A cloud-optimized file is copied from one that is written
    first, beside it, and takes twice the room meanwhile.

    Raises
    ------
    FileError
        If rasterio is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], *, cog: bool | None = None, overviews: str | None = None) -> None:
        if not geo.is_installed():
            name = os.fsdecode(path)
            raise FileError(f"cannot write {name!r}: rasterio is not installed (pip install rasterio)")
        self.path = path
        self.cog = cog
        self.overviews = overviews

    def __fspath__(self) -> str:
        return os.fsdecode(self.path)

    def __repr__(self) -> str:
        return f"GeoTiff({os.fsdecode(self.path)!r}, cog={self.cog}, overviews={self.overviews!r})"


@dataclass(frozen=True)
class Layout:
    """A file's layout."""

    cog: bool
    factors: tuple[int, ...]  # of the smaller copies
    resampling: str  # ``"nearest"`` or ``"mode"``


def layout_of(out: object, place: Place, shape: tuple[int, ...]) -> Layout:
    """Choose the layout of a result."""
    options = out if isinstance(out, GeoTiff) else GeoTiff("")
    cog = place.cog if options.cog is None else boolean("cog", options.cog)
    if options.overviews is None and not options.cog:
        return Layout(cog, tuple(place.overviews), "nearest")
    resampling = choice("overviews", options.overviews or "nearest", OVERVIEWS)
    if resampling == "mode" and len(shape) == 3:
        raise InvalidArgument("overviews is 'mode' for a result of colours; allowed: for indices, or 'nearest'")
    if resampling == "none":
        return Layout(cog, (), "nearest")
    return Layout(cog, tuple(place.overviews or halvings(*shape[:2])), resampling)


def halvings(height: int, width: int) -> list[int]:
    """List the factors of overviews: 2, 4, ... until one tile holds all pixels."""
    factors: list[int] = []
    while max(height, width) > BLOCK << len(factors):
        factors.append(2 << len(factors))
    return factors


@dataclass(frozen=True)
class Place:
    """A raster's place on the map, and the metadata that files of results keep."""

    profile: dict[str, Any]  # the coordinate system and transformation, as rasterio takes them
    points: tuple[list[Any], Any] | None  # ground control points and their system
    rpcs: Any  # coefficients of a sensor's model, or None
    tags: dict[str, str]  # the raster's metadata
    overviews: list[int]  # factors of the smaller copies that it has
    cog: bool  # whether it has the layout of a cloud-optimized GeoTIFF


NOWHERE = Place({}, None, None, {}, [], cog=False)
"""Of pictures that do not say where they lie."""


def place_of(source: Any) -> Place | None:
    """Read a GeoTIFF's place; None for other sources, and without rasterio."""
    source = getattr(source, "place_path", None) or source
    if not isinstance(source, str | os.PathLike) or not geo.is_installed() or not geo.is_geotiff(source):
        return None
    path = os.fsdecode(source)
    try:
        with geo.gdal() as rasterio, geo.open_geotiff(path, rasterio) as file:
            profile = {} if file.crs is None else {"crs": file.crs}
            if not file.transform.is_identity:
                profile["transform"] = file.transform
            points = file.gcps if file.gcps[0] else None
            cog = file.tags(ns="IMAGE_STRUCTURE").get("LAYOUT") == "COG"
            return Place(profile, points, file.rpcs, file.tags(), list(file.overviews(1)), cog)
    except FileError:
        raise
    except Exception as error:
        raise FileError(f"cannot read {path!r}: {reason_of(error)}") from error


class Writer:
    """A GeoTIFF in tiles, written from top to bottom; `palette` becomes its colour table."""

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        place: Place,
        layout: Layout,
        palette: npt.NDArray[np.uint8] | None,
        transparent: int | None,
    ) -> None:
        self._path, self._place = path, place
        self._shape, self._layout = shape, layout
        with geo.gdal() as rasterio:
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
                zlevel=_PASSING_LEVEL if layout.cog else geo.DEFLATE_LEVEL,
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
        # GDAL compares keys without their case; as they are, these would be rasterio's own arguments.
        tags = self._place.tags.items()
        self._file.update_tags(**{key.upper() if key in ("bidx", "ns") else key: value for key, value in tags})

    def write(self, begin: int, rows: npt.NDArray[Any]) -> None:
        """Write rows from `begin` on."""
        with geo.gdal() as rasterio:
            window = rasterio.windows.Window(0, begin, self._shape[1], len(rows))
            if len(self._shape) == 2:
                self._file.write(rows, 1, window=window)
            else:
                self._file.write(np.moveaxis(rows, 2, 0), window=window)

    def close(self) -> None:
        """Close the file, build its overviews, and rewrite it as cloud-optimized if that is wanted."""
        layout = self._layout
        with geo.gdal(GDAL_TIFF_OVR_BLOCKSIZE=BLOCK, COMPRESS_OVERVIEW="DEFLATE") as rasterio:
            self._file.close()
            if layout.factors:
                with rasterio.open(self._path, "r+", num_threads="all_cpus") as file:
                    file.build_overviews(list(layout.factors), rasterio.enums.Resampling[layout.resampling])
            if layout.cog:
                self._optimize()

    def _optimize(self) -> None:
        """Copy the file in the order of a cloud-optimized one, with the smaller copies that it has."""
        import rasterio.shutil  # an extra

        made = self._path + ".cog"
        try:
            rasterio.shutil.copy(
                self._path,
                made,
                driver="COG",
                compress="deflate",
                level=geo.DEFLATE_LEVEL,
                blocksize=BLOCK,
                overviews="FORCE_USE_EXISTING" if self._layout.factors else "NONE",
                overview_compress="deflate",
                bigtiff="if_safer",
                num_threads="all_cpus",
            )
            os.replace(made, self._path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(made)

    def abandon(self) -> None:
        """Stop writing."""
        with geo.gdal():
            self._file.close()


def _table_colors(palette: npt.NDArray[np.uint8]) -> list[tuple[int, ...]]:
    return [(*(int(v) for v in color[:3]), int(color[3]) if len(color) == 4 else 255) for color in palette]
