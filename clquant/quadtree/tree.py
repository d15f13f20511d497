"""Quadtree: what a decomposition found, as a value."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.images.files import PathLike, read_bytes, write_bytes
from clquant.quadtree import figures, files, geojson, paper_layout, render
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.geometry import Integers, root_level
from clquant.quadtree.leaf_list import LeafList, pixel_places
from clquant.quadtree.levels import Lazy, LeafStatistics, Levels
from clquant.quadtree.picture_statistics import PictureStatistics
from clquant.runtime import InvalidArgument, InvalidType, Session, open_session

MAX_ARRAY_LEVEL = 13  # of a tree that `to_array` lays out: 89 million nodes


class Quadtree:
    """A picture's decomposition into uniform squares.

    Made by `QuadtreeBuilder.build` and `Quadtree.load`. Two trees are equal if their pictures' shapes, criteria and
    leaves are. A tree does not change.

    Attributes
    ----------
    height, width, channels : int
        Of the picture.
    gray : bool
        Whether the picture was two-dimensional; `render` gives one of the same shape.
    complete : bool
        Whether the statistics of every node are known, those within leaves too (bottom-up building).
    exact : bool
        Whether statistics are the picture's; a loaded tree has those of its rendered picture.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        gray: bool,
        criterion: Criterion,
        leaves: npt.NDArray[np.void],
        statistics: PictureStatistics | None = None,
    ) -> None:
        self.height, self.width, self.channels = shape
        self.gray = gray
        self._criterion = criterion
        self._leaves = leaves
        self._leaves.flags.writeable = False
        self._list = LeafList(self.height, self.width, self.channels, leaves)
        self._picture = statistics
        self.exact = statistics is not None
        self.complete = statistics is not None and statistics.complete
        self._statistics: PictureStatistics | LeafStatistics | None = statistics

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._leaves.flags.writeable = False  # which arrays forget in copies and pickles

    @property
    def threshold(self) -> float:
        """The threshold in gray levels, a multiple of 1/65536."""
        return self._criterion.threshold

    @property
    def criterion(self) -> str:
        """The criterion's name."""
        return self._criterion.name

    @property
    def weights(self) -> tuple[int, ...]:
        """The channels' weights with the criterion ``"weighted"``, else empty."""
        return self._criterion.weights

    @property
    def min_size(self) -> int:
        """Side of the least regions, in pixels; `max_depth` has its part in it."""
        return 1 << self._criterion.floor_level

    @property
    def depth(self) -> int:
        """Depth of the pixels: log2 of the root's side."""
        return root_level(self.height, self.width)

    @property
    def size(self) -> int:
        """The root's side in pixels, the least power of two that covers the picture."""
        return 1 << self.depth

    def __len__(self) -> int:
        return len(self._leaves)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quadtree):
            return NotImplemented
        mine, its = ((t.height, t.width, t.channels, t.gray, t._criterion) for t in (self, other))
        return mine == its and np.array_equal(self._leaves, other._leaves)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shape = (self.height, self.width) if self.gray else (self.height, self.width, self.channels)
        return f"<Quadtree of a picture {shape}: {len(self)} leaves, {self.criterion} <= {self.threshold:g}>"

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        PIL.Image.fromarray(self.outline()).save(target, "PNG")
        return target.getvalue()

    def leaves(self) -> npt.NDArray[np.void]:
        """The leaves in Morton order (top-left, top-right, bottom-left, bottom-right).

        Returns
        -------
        structured ndarray, read-only
            `x`, `y` (int32): top-left pixel; `size` (int32): side in pixels, a power of two, which may reach beyond the
            picture; `mean` (uint8, one per channel; a plain number for gray): rounded half up, over the pixels inside.
        """
        return self._leaves

    @property
    def levels(self) -> Levels:
        """Statistics of the levels, root first; ``levels[-1]`` is the pixels. Each is computed when it is asked for."""
        kept = self._statistics = self._statistics or LeafStatistics(
            self.height, self.width, self.channels, self._leaves
        )
        return Levels(self.depth + 1, lambda depth: kept.level(self.depth - depth))

    def counts(self) -> list[dict[str, int]]:
        """Nodes of the tree by depth, root first.

        Returns
        -------
        list of dict
            `size` (side in pixels), `forks` and `leaves` (how many) of each depth.
        """
        leaves, forks = figures.node_counts(self._list)
        return [
            {"size": 1 << level, "forks": int(forks[level]), "leaves": int(leaves[level])}
            for level in range(self.depth, -1, -1)
        ]

    def compression(self) -> dict[str, float | int]:
        """Figures of what the tree saves.

        Returns
        -------
        dict
            `pixels`, `leaves`, `forks`; `pixels_per_leaf`; `raw_bytes` of the picture and `file_bytes` of `to_bytes`;
            `ratio` of the two; and, where the picture's statistics are known, `psnr` of `render()` in dB
            (infinite where it is the picture itself).
        """
        counts = self.counts()
        coded = sum(level["forks"] + level["leaves"] for level in counts if level["size"] > self.min_size)
        stored = files.encoded_size(coded, self.channels, self._criterion, len(self))
        forks = sum(level["forks"] for level in counts)
        return figures.savings(self._list, forks, stored, self.squared_error() if self.exact else None)

    def squared_error(self) -> int:
        """Sum of squared differences between the picture and `render()`, over pixels and channels.

        Returns
        -------
        int
            Exact, the same on every device.

        Raises
        ------
        InvalidArgument
            If the tree was loaded, so that the picture is not known.
        """
        if self._picture is None:
            raise InvalidArgument("this tree was loaded from a file, which does not hold the picture's statistics")
        return self._picture.squared_error()

    def to_array(self) -> npt.NDArray[np.void]:
        """The complete tree in one array: Masina and Stedile, section 5.1.

        The root is element 0 and the children of element i are 4i + 1 to 4i + 4: top-left, top-right, bottom-right,
        bottom-left.

        Returns
        -------
        structured ndarray, ((4^(depth + 1) - 1) / 3,)
            `kind` (uint8): 0 outside the picture, 1 fork, 2 leaf, 3 within a leaf; `mean` (uint8, C) and `deviation`
            (float64, C), which are 0 outside and, in a tree that is not `complete`, within leaves.

        Raises
        ------
        InvalidArgument
            If the root's side is over 8192.
        """
        if self.depth > MAX_ARRAY_LEVEL:
            raise InvalidArgument(
                f"to_array of a tree of depth {self.depth}; allowed: up to {MAX_ARRAY_LEVEL} (8192 pixels per side)"
            )
        session = self._session()
        pixels = render.paint(session, self._list) if self._picture is None else self._picture.pixels
        layout = paper_layout.PaperLayout(session, self._list, pixels, self._criterion, self.complete)
        made = layout.array()
        return paper_layout.complete_array(self.levels, self.channels) if made is None else made

    def _session(self) -> Session:
        return open_session() if self._picture is None else self._picture.session()

    @overload
    def find(self, x: int, y: int) -> int: ...
    @overload
    def find(self, x: npt.NDArray[Any] | Sequence[int], y: npt.NDArray[Any] | Sequence[int]) -> Integers: ...
    def find(self, x: Any, y: Any) -> Any:
        """The leaf that holds a pixel.

        Parameters
        ----------
        x, y : int, or arrays or lists of integers, of one shape
            Column and row.

        Returns
        -------
        int or ndarray of int64
            Places in `leaves()`.

        Raises
        ------
        InvalidType, InvalidArgument
            If a coordinate is no integer or outside the picture.
        """
        if not isinstance(x, np.ndarray | list | tuple) and not isinstance(y, np.ndarray | list | tuple):
            column, row = params.integer("x", x, 0, self.width - 1), params.integer("y", y, 0, self.height - 1)
            return int(self._list.find(np.array([column]), np.array([row]))[0])
        return self._list.find(*pixel_places(x, y, self.width, self.height))

    def neighbours(self, leaf: int) -> Integers:
        """The leaves that share a part of an edge with a leaf.

        Parameters
        ----------
        leaf : int
            Place in `leaves()`.

        Returns
        -------
        ndarray of int64
            Places in `leaves()`, ascending; no leaf twice.

        Raises
        ------
        InvalidType, InvalidArgument
            If there is no such leaf.
        """
        return self._list.neighbours(params.integer("leaf", leaf, 0, len(self) - 1))

    def render(self) -> npt.NDArray[np.uint8]:
        """The picture with every leaf in its mean.

        Alpha is a channel like the others: a leaf that holds transparent and other pixels has their mean alpha.

        Returns
        -------
        ndarray of uint8, of the picture's own shape
        """
        return self._shaped(render.paint(self._session(), self._list))

    def _shaped(self, picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return picture[..., 0] if self.gray else picture

    def outline(self, image: Any = None, color: tuple[int, int, int] = (255, 255, 255)) -> npt.NDArray[np.uint8]:
        """The leaves' borders drawn one pixel wide, on `render()` or on a picture of the same size.

        Parameters
        ----------
        image : image on the host, optional
            Whatever `clquant.images.read` takes; it is left as it is.
        color : three integers from 0 to 255

        Returns
        -------
        ndarray of uint8, (H, W, 3)
            Of more than three bands the first three; of two bands the first, as gray.

        Raises
        ------
        InvalidArgument, InvalidType
        """
        return render.outlined(self._session(), self._list, image, color)

    def frames(self) -> Sequence[npt.NDArray[np.uint8]]:
        """One picture per depth, root first; the last is `render()`.

        Before the last, a loaded tree's differ from those of the tree that was saved: a region still to be split is
        painted in the mean of its leaves' means, as that of its pixels is not in the file.

        Returns
        -------
        sequence of `depth` + 1 ndarrays of uint8, of the picture's own shape
            The leaves down to this depth, and the regions still to be split, each in its mean. A picture is painted
            when it is taken out.
        """
        return Lazy(self.depth + 1, self._frame)

    def _frame(self, depth: int) -> npt.NDArray[np.uint8]:
        level = self.depth - depth
        if level <= self._criterion.floor_level:
            return self.render()
        if self._picture is not None:
            return self._shaped(render.paint(self._session(), self._picture.leaves_down_to(level)))
        return self._shaped(render.paint(self._session(), self._list.down_to(self.levels[depth])))

    def records(
        self, transform: Sequence[float] | None = None, *, y_up: bool = False, flat: bool = False, crs: Any = None
    ) -> Iterator[dict[str, Any]]:
        """The leaves as GeoJSON features, in Morton order.

        Parameters
        ----------
        transform : sequence of 6 numbers, or `affine.Affine`, optional
            From pixels (x to the right, y down) to a map: (a, b, c, d, e, f) of ``a x + b y + c``, ``d x + e y + f``.
        y_up : bool
            Without a transform: whether y is counted from the picture's lower edge up.
        flat : bool
            Whether means are the numbers ``mean_1``, ``mean_2``..., which programs for maps read as fields, instead of
            the list ``mean``.
        crs : str, int, or what else rasterio takes, optional
            With a transform: the coordinate system that it leads to, such as ``"EPSG:32633"``. Coordinates are then
            longitude and latitude in WGS84, as RFC 7946 has them (extra ``geo``); without it they are the map's own,
            which programs take for degrees.

        Yields
        ------
        dict
            A ``Feature`` whose ``Polygon`` is the leaf's part of the picture, by default in pixels (corners of pixels
            at whole numbers), with the properties `size` (in pixels) and means; a ``MultiPolygon`` where it lies on
            both sides of 180 degrees of longitude.

        Raises
        ------
        InvalidArgument, InvalidType
            If the transform is none, or makes areas 0, or a place has no longitude and latitude.
        FileError
            If `crs` is given and rasterio is not installed.
        """
        affine = geojson.checked_affine(transform, y_up, self.height)
        if crs is not None and transform is None:
            raise InvalidArgument(f"crs is {params.shown(crs)} without a transform; allowed: with one")
        shape = self.height, self.width
        return geojson.features(self._leaves, *shape, affine, params.boolean("flat", flat), crs)

    def to_geojson(
        self, transform: Sequence[float] | None = None, *, y_up: bool = False, flat: bool = False, crs: Any = None
    ) -> dict[str, Any]:
        """All `records` as a GeoJSON ``FeatureCollection``, ready for `json.dumps`.

        Parameters
        ----------
        transform, y_up, flat, crs
            As `records` takes them.

        Returns
        -------
        dict

        Raises
        ------
        InvalidArgument, InvalidType, FileError
            As `records`.
        """
        found = self.records(transform, y_up=y_up, flat=flat, crs=crs)
        return {"type": "FeatureCollection", "features": list(found)}

    def to_bytes(self) -> bytes:
        """The tree in the CLQT format: its structure and the leaves' means.

        Returns
        -------
        bytes
        """
        shape = (self.height, self.width, self.channels)
        return files.encode(*shape, self.gray, self._criterion, self._leaves)

    @classmethod
    def from_bytes(cls, data: bytes, *, max_pixels: int = files.MAX_PIXELS) -> Quadtree:
        """A tree from what `to_bytes` gave; `levels` are then those of its rendered picture.

        Parameters
        ----------
        data : bytes
        max_pixels : int
            Most pixels that the picture may have, at least 1; a few bytes may claim billions, which only `render` and
            its like would make.

        Returns
        -------
        Quadtree

        Raises
        ------
        InvalidType, FormatError
            If these are not the bytes of a whole, undamaged tree, or claim more than `max_pixels`.
        """
        most = params.integer("max_pixels", max_pixels, 1)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"data is {params.shown(data)}; allowed: bytes")
        height, width, channels, gray, criterion, leaves = files.decode(bytes(data), most)
        return cls((height, width, channels), gray, criterion, leaves)

    def save(self, path: PathLike) -> None:
        """Write `to_bytes` to a file, whole or not at all.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        FileError
            If the file cannot be written.
        """
        write_bytes(path, self.to_bytes())

    @classmethod
    def load(cls, path: PathLike, *, max_pixels: int = files.MAX_PIXELS) -> Quadtree:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : path-like
        max_pixels : int
            As for `from_bytes`.

        Returns
        -------
        Quadtree

        Raises
        ------
        FileError
            If it cannot be read.
        FormatError
            If it is no whole, undamaged tree, or claims more than `max_pixels`.
        """
        return cls.from_bytes(read_bytes(path), max_pixels=max_pixels)
