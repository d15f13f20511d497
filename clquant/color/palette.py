"""`Palette`: up to 65536 colours in a fixed order."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color import order as orders
from clquant.color.formats import palette_formats
from clquant.color.values import MOST_COLORS as MOST_COLORS
from clquant.color.values import as_array, as_rgba, css_colors, hex_texts, transparent_index
from clquant.runtime import InvalidArgument, InvalidType, PictureError


def checked_colors(colors: Any, argument: str = "colors") -> npt.NDArray[np.uint8]:
    """Check a palette, n colours of 3 or 4 integers, or CSS texts; return (n, 3) or (n, 4) uint8."""
    if isinstance(colors, Palette):
        return colors.colors
    if isinstance(colors, str | bytes | os.PathLike):
        allowed = "a Palette or n colours (Palette.read reads a file)"
        raise InvalidType(f"{argument} is {params.shown(colors)}; allowed: {allowed}")
    if isinstance(colors, list | tuple) and any(isinstance(color, str) for color in colors):
        colors = css_colors(colors, argument)
    array = params.array(argument, colors, "n colours of 3 or 4 integers")
    if array.ndim != 2 or array.shape[1] not in (3, 4):
        raise InvalidArgument(f"{argument} has shape {array.shape}; allowed: (n, 3) or (n, 4)")
    if not 1 <= len(array) <= MOST_COLORS:
        raise InvalidArgument(f"{argument} has {len(array)} colours; allowed: 1 to {MOST_COLORS}")
    if array.dtype.kind not in "iu":
        raise InvalidType(f"{argument} has dtype {array.dtype}; allowed: integers from 0 to 255")
    if array.min() < 0 or array.max() > 255:
        raise InvalidArgument(f"{argument} holds values from {array.min()} to {array.max()}; allowed: 0 to 255")
    return np.ascontiguousarray(array, np.uint8)


def checked_fixed(fixed: Any, n_colors: int) -> npt.NDArray[np.uint8]:
    """The colours that a learned palette is to have, (f, 4) uint8 with f below `n_colors`; none for None and ``[]``."""
    if fixed is None or (isinstance(fixed, list | tuple) and not fixed):
        return np.zeros((0, 4), np.uint8)
    colors = Palette(checked_colors(fixed, "fixed_colors")).rgba()
    if len(colors) >= n_colors:
        raise InvalidArgument(f"fixed_colors has {len(colors)} colours; allowed: fewer than n_colors = {n_colors}")
    return colors


def without(colors: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Select the (n, 4) colours that are none of the (m, 4) others, in their order."""
    packed, taken = (np.ascontiguousarray(each).view(np.uint32)[:, 0] for each in (colors, others))
    return colors[~np.isin(packed, taken)]


class TransparencyError(PictureError):
    """Pixels of alpha 0 met a palette without an entry for them."""

    def __init__(
        self,
        message: str = "image has fully transparent pixels, but the palette has no entry of alpha 0; "
        "Palette.with_transparent() adds one",
    ) -> None:
        super().__init__(message)


class Palette:
    """Colours in a fixed order; immutable.

    Parameters
    ----------
    colors : array_like or Palette
        (n, 3) RGB or (n, 4) RGBA (alpha not premultiplied) integers from 0 to 255, 1 <= n <= 65536; or a list or tuple
        of n CSS colours such as ``"#f80"``, ``"#ff880080"`` or ``"black"``. Equal colours may appear more than once.
    device : array_like or Palette, optional
        Of a display whose `colors` were measured: n colours, in the same order, by which its driver names them, such as
        pure red for what is seen as a dark red.
    codes : array_like of int, optional
        (n,) from 0 to 255: the numbers by which the display's controller knows the colours; default 0, 1, 2, ...

    Raises
    ------
    InvalidType
        If the values are no integers.
    InvalidArgument
        If the shape is another, there are no or too many colours, a value is outside 0 to 255, or a text is no colour.
    """

    def __init__(self, colors: Any, *, device: Any = None, codes: Any = None) -> None:
        self._colors: npt.NDArray[np.uint8] = checked_colors(colors).copy()
        self._colors.setflags(write=False)
        self._device = None if device is None else checked_colors(device, "device").copy()
        self._codes = None if codes is None else params.array("codes", codes, "integers", "iu").copy()
        for name, values, ndim in (("device", self._device, 2), ("codes", self._codes, 1)):
            if values is not None:
                if values.ndim != ndim or len(values) != len(self):
                    allowed = f"one for each of {len(self)} colors"
                    raise InvalidArgument(f"{name} has shape {values.shape}; allowed: {allowed}")
                values.setflags(write=False)
        if self._codes is not None and not 0 <= int(self._codes.min()) <= int(self._codes.max()) <= 255:
            raise InvalidArgument(f"codes go from {self._codes.min()} to {self._codes.max()}; allowed: 0 to 255")

    @property
    def colors(self) -> npt.NDArray[np.uint8]:
        """(n, 3) or (n, 4) uint8, read-only."""
        return self._colors

    @property
    def device(self) -> npt.NDArray[np.uint8] | None:
        """(n, 3) or (n, 4) uint8, read-only: the names of the colours on the display, if there are any."""
        return self._device

    @property
    def codes(self) -> npt.NDArray[np.uint8]:
        """(n,) uint8 up to 256 colours, else uint16: the numbers of the colours on the display."""
        if self._codes is None:
            return np.arange(len(self), dtype=self.index_dtype)
        codes: npt.NDArray[np.uint8] = self._codes.astype(np.uint8)
        return codes

    @property
    def has_alpha(self) -> bool:
        """Whether colours have an alpha value."""
        return bool(self._colors.shape[1] == 4)

    @property
    def transparent_index(self) -> int | None:
        """Lowest index of an entry of alpha 0; None where there is none. Pixels of alpha 0 map to it."""
        return transparent_index(self._colors)

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """dtype of indices: uint8 up to 256 colours, else uint16."""
        return np.dtype(np.uint8 if len(self) <= 256 else np.uint16)

    def rgba(self) -> npt.NDArray[np.uint8]:
        """The colours with alpha, 255 if they have none.

        Returns
        -------
        ndarray of uint8, shape (n, 4)
        """
        return as_rgba(self._colors)

    def with_transparent(self) -> Palette:
        """This palette with an entry (0, 0, 0, 0) appended, or itself where it has an entry of alpha 0.

        Returns
        -------
        Palette

        Raises
        ------
        InvalidArgument
            If it has 65536 colours already.
        """
        if self.transparent_index is not None:
            return self
        return Palette(np.concatenate([self.rgba(), np.zeros((1, 4), np.uint8)]))

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> Palette:
        """The palette of some entries, in the order of `indices`.

        Parameters
        ----------
        indices : array_like of int, shape (m,)
            At least one, each from 0 to n - 1; any of them more than once.

        Returns
        -------
        Palette

        Raises
        ------
        InvalidType, InvalidArgument
            If they are anything else.
        """
        places = params.array("indices", indices, "integers", "iu")
        if places.ndim != 1 or not 1 <= places.size <= MOST_COLORS:
            raise InvalidArgument(f"indices has shape {places.shape}; allowed: (m,) with m from 1 to {MOST_COLORS}")
        if places.min() < 0 or places.max() >= len(self):
            raise InvalidArgument(f"indices goes from {places.min()} to {places.max()}; allowed: 0 to {len(self) - 1}")
        return Palette(
            self._colors[places],
            device=None if self._device is None else self._device[places],
            codes=None if self._codes is None else self._codes[places],
        )

    def sorted(self, order: str) -> Palette:
        """The palette in another order.

        Parameters
        ----------
        order : str
            ``"fitted"``: as it is. ``"luma"``: dark to light, by Rec. 601 luma. ``"hue"``: grays dark to light, then by
            hue in 24 sectors of OKLab's circle from red on, dark to light in each. In both, entries of alpha 0 come
            first, and ties keep their order.

        Returns
        -------
        Palette

        Raises
        ------
        InvalidArgument
            If there is no such order, or it needs a picture (`IndexedImage.sorted` has one).
        """
        return self.take(orders.permutation(self._colors, order))

    @classmethod
    def read(cls, path: str | os.PathLike[str], format: str | None = None) -> Palette:
        """Read a palette file: gpl, act, pal (JASC or Microsoft), hex, ase, txt (Paint.NET), or a picture.

        Parameters
        ----------
        path : path_like
        format : str, optional
            See `clquant.color.formats.palette_formats`; by default what the file begins with decides, then its suffix.

        Returns
        -------
        Palette
            The file's colours in its order, with alpha where it has any.

        Raises
        ------
        FileError
            If the file cannot be read, is over 16 MiB, or is no palette.
        InvalidArgument
            If there is no such format.
        """
        return Palette(palette_formats.read(path, format))

    def write(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write a palette file, whole or not at all.

        Parameters
        ----------
        path : path_like
            Its suffix chooses the format: .gpl, .act, .pal (JASC's), .hex, .ase, .txt, or .png (a picture of swatches).
        format : str, optional
            ``"gpl"``, ``"act"``, ``"jasc"``, ``"riff"`` (Microsoft's .pal), ``"hex"``, ``"ase"``, ``"paint.net"`` or
            ``"png"``.

        Raises
        ------
        InvalidArgument
            If there is no such format, or it cannot hold the palette.
        FileError
            If the file cannot be written.
        """
        palette_formats.write(self._colors, path, format)

    def to_colormap(self, name: str = "clquant") -> Any:
        """The palette as matplotlib has colours for values.

        Parameters
        ----------
        name : str
            The colormap's.

        Returns
        -------
        matplotlib.colors.ListedColormap
            Of as many colours, in the same order, with alpha.

        Raises
        ------
        InvalidType
            If `name` is no text.
        InvalidArgument
            If matplotlib is not installed.
        """
        if not isinstance(name, str):
            raise InvalidType(f"name is {params.shown(name)}; allowed: text")
        colors = params.import_package(
            "matplotlib.colors", "make a colormap", "pip install matplotlib", InvalidArgument
        )
        return colors.ListedColormap(self.rgba() / 255, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle` and `copy`: what is made is read-only too."""
        if self._device is None and self._codes is None:
            return type(self), (self._colors,)
        return partial(type(self), device=self._device, codes=self._codes), (self._colors,)

    def __len__(self) -> int:
        return len(self._colors)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return (tuple(int(value) for value in color) for color in self._colors)

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> Palette: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | Palette:
        if isinstance(index, slice):
            return Palette(self._colors[index])
        return tuple(int(value) for value in self._colors[operator.index(index)])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The colours, as `colors`; for `numpy.asarray`."""
        return as_array(self._colors, dtype, copy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Palette):
            return NotImplemented
        return (
            np.array_equal(self._colors, other._colors)
            and np.array_equal(self._device, other._device)  # type: ignore[arg-type]  # None equals None alone
            and np.array_equal(self.codes, other.codes)
        )

    def __hash__(self) -> int:
        return hash((self._colors.shape, self._colors.tobytes()))

    def __repr__(self) -> str:
        shown = " ".join(self.hex(limit=8))
        return f"Palette({len(self)} colours: {shown}{' …' if len(self) > 8 else ''})"

    def hex(self, limit: int | None = None) -> list[str]:
        """Colours as ``#rrggbb``, or ``#rrggbbaa`` where they have alpha.

        Parameters
        ----------
        limit : int, optional
            Only so many, the first ones.

        Returns
        -------
        list of str

        Raises
        ------
        InvalidType, InvalidArgument
            If `limit` is no integer of at least 0.
        """
        if limit is not None:
            limit = params.integer("limit", limit, 0)
        return hex_texts(self._colors[:limit])

    def _repr_html_(self) -> str:
        """Swatches for a notebook; the first 1024 colours."""
        swatches = "".join(
            f'<span title="{i}: {color}" style="display:inline-block;width:18px;height:18px;background:{color}"></span>'
            for i, color in enumerate(self.hex(limit=1024))
        )
        return f'<div style="line-height:0;max-width:580px">{swatches}</div><small>{len(self)} colours</small>'


def as_palette(palette: Any, argument: str = "palette") -> Palette:
    """A palette from what a person gave: a `Palette`, or colours as its constructor takes them."""
    return palette if isinstance(palette, Palette) else Palette(checked_colors(palette, argument))
