"""`IndexedImage`: indices into a palette, and how they become files and pictures."""

from __future__ import annotations

import base64
import io
import os
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.color.formats import gif, sixel
from clquant.color.order import permutation
from clquant.color.palette import Palette, as_array, as_palette
from clquant.images import files
from clquant.runtime import Array, ClquantError, InvalidArgument, InvalidType

# GIF knows one transparent entry: colours of less alpha than this become it.
GIF_ALPHA = 128

MOST_ICO_SIDE = 256
# Formats that Pillow writes in full colour, but cannot write, or does not read again, with alpha.
WITHOUT_ALPHA = frozenset({"BMP", "DIB", "EPS", "JPEG", "MPO", "PCX", "PPM"})


class IndexedImage:
    """A picture as one palette index a pixel.

    Parameters
    ----------
    indices : ndarray or pyopencl.array.Array
        (H, W) integers, below the number of colours. Copied as uint8 up to 256 colours, else uint16; a device
        array must have that dtype, is kept itself, and its values are not checked.
    palette : Palette or array_like

    Raises
    ------
    InvalidType
        If `indices` are no integers.
    InvalidArgument
        If `indices` are not two-dimensional, or some are not in the palette.
    """

    def __init__(self, indices: Any, palette: Any) -> None:
        self.palette: Palette = as_palette(palette)
        kept = self._checked(indices)
        self.indices: Any = kept if isinstance(kept, Array) else kept.copy()

    def _checked(self, indices: Any) -> Any:
        wanted = self.palette.index_dtype
        if isinstance(indices, Array):
            if indices.ndim != 2 or indices.dtype != wanted:
                raise InvalidArgument(
                    f"indices are a device array of shape {indices.shape} and dtype {indices.dtype}; "
                    f"allowed: (H, W) {wanted}"
                )
            return indices
        array = params.array("indices", indices, "integers", "iu")
        if array.ndim != 2 or array.size == 0:
            raise InvalidArgument(f"indices have shape {array.shape}; allowed: (H, W), at least 1x1")
        if array.min() < 0 or array.max() >= len(self.palette):
            raise InvalidArgument(
                f"indices go from {array.min()} to {array.max()}; allowed: 0 to {len(self.palette) - 1}"
            )
        return np.ascontiguousarray(array, wanted)

    @classmethod
    def of_own(cls, indices: Any, palette: Palette) -> IndexedImage:
        """Over indices that nobody else writes to, without a copy.

        Parameters
        ----------
        indices, palette
            As `IndexedImage` takes them.
        """
        made = cls.__new__(cls)
        made.palette = palette
        made.indices = made._checked(indices)
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        height, width = self.indices.shape
        return int(height), int(width)

    def host_indices(self) -> npt.NDArray[Any]:
        """(H, W) uint8 or uint16 on the host; downloaded where they are on the device."""
        if isinstance(self.indices, Array):
            return np.asarray(self.indices.get())
        return np.asarray(self.indices)

    def to_array(self) -> npt.NDArray[np.uint8]:
        """The picture's colours: (H, W, 3) uint8, or (H, W, 4) where the palette has alpha."""
        return np.take(self.palette.colors, self.host_indices(), axis=0)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The picture's colours, as `to_array`; for `numpy.asarray`."""
        if copy is False:
            raise ValueError("the colours of an IndexedImage need a copy")
        return as_array(self.to_array(), dtype, None)

    def to_pil(self) -> PIL.Image.Image:
        """A PIL image: mode P up to 256 colours, else RGB or RGBA.

        Of mode P, one transparent entry among opaque ones is its ``info["transparency"]`` as a number, which is all
        that Pillow writes to GIF; other alpha is there as a byte a colour.
        """
        if len(self.palette) > 256:
            return PIL.Image.fromarray(self.to_array())
        image = PIL.Image.fromarray(self.host_indices())
        image.putpalette(self.palette.colors[:, :3].tobytes(), "RGB")
        alpha = self.palette.rgba()[:, 3]
        faint = np.flatnonzero(alpha < 255)
        if len(faint) == 1 and alpha[faint[0]] == 0:
            image.info["transparency"] = int(faint[0])
        elif len(faint):
            image.info["transparency"] = alpha.tobytes()
        return image

    def to_bytes(self, format: str = "PNG", **options: Any) -> bytes:
        """The picture in a file format.

        Parameters
        ----------
        format : str
            ``"PNG"`` (indexed up to 256 colours with alpha kept, else in full colour), ``"GIF"`` (at most 256
            colours; entries of alpha below 128 become one transparent entry), ``"SIXEL"``, or any other that
            Pillow writes in full colour (without alpha in BMP, DIB, EPS, JPEG, MPO, PCX and PPM); or a suffix, such
            as ``"jpg"``.
        **options
            Passed to Pillow.

        Returns
        -------
        bytes
            Of a whole file.

        Raises
        ------
        InvalidArgument
            If the format is not known or cannot hold the picture.
        """
        if not isinstance(format, str):
            raise InvalidType(f"format is {params.shown(format)}; allowed: the name of a picture format")
        name = _format_named(format)
        if name == "SIXEL":
            return self.to_sixel()
        if name == "GIF":
            image, more = self.gif_image()
            options = {"optimize": False, **more, **options}
        elif name == "PNG":
            image = self.to_pil()
        else:
            image = PIL.Image.fromarray(self.to_array())
            if name in WITHOUT_ALPHA and image.mode == "RGBA":
                image = image.convert("RGB")
        out = io.BytesIO()
        try:
            image.save(out, name, **{**own_options(image, name), **options})
        except ClquantError:
            raise
        except Exception as error:  # Pillow's encoders raise many kinds on options that they do not like
            raise InvalidArgument(f"cannot write the picture as {format!r}: {error}") from error
        return out.getvalue()

    def gif_image(self) -> tuple[PIL.Image.Image, dict[str, Any]]:
        """The picture as GIF holds it, and Pillow's options for it.

        Returns
        -------
        tuple
            The image, of mode P, and a dict.

        Raises
        ------
        InvalidArgument
            As `gif_indices`.
        """
        indices, transparent = self.gif_indices()
        image = PIL.Image.fromarray(indices)
        image.putpalette(self.palette.colors[:, :3].tobytes(), "RGB")
        return image, {} if transparent is None else {"transparency": transparent}

    def gif_indices(self) -> tuple[npt.NDArray[np.uint8], int | None]:
        """The indices as GIF holds them: (H, W) uint8, and the entry that all of alpha below 128 became, if any.

        Returns
        -------
        tuple

        Raises
        ------
        InvalidArgument
            If there are more than 256 colours, or 65535 pixels in a row or column.
        """
        if len(self.palette) > gif.MAX_COLORS:
            raise InvalidArgument(f"a GIF holds at most {gif.MAX_COLORS} colours; this palette has {len(self.palette)}")
        height, width = self.shape
        if max(height, width) > gif.MAX_SIDE:
            raise InvalidArgument(
                f"a GIF is at most {gif.MAX_SIDE} pixels wide and high; this picture is {width} wide and {height} high"
            )
        indices = self.host_indices()
        clear = np.flatnonzero(self.palette.rgba()[:, 3] < GIF_ALPHA)
        if len(clear) < 2:
            return indices, int(clear[0]) if len(clear) else None
        merged = np.arange(len(self.palette), dtype=np.uint8)
        merged[clear] = clear[0]
        return np.take(merged, indices), int(clear[0])

    def counts(self) -> npt.NDArray[np.int64]:
        """(n,) int64: how many pixels have each palette colour."""
        return np.bincount(self.host_indices().ravel(), minlength=len(self.palette))

    def sorted(self, order: str) -> IndexedImage:
        """The same picture with its palette in another order: see `clquant.color.order.permutation`.

        Parameters
        ----------
        order : str
            ``"fitted"``, ``"luma"``, ``"hue"`` or ``"popularity"``.

        Returns
        -------
        IndexedImage

        Raises
        ------
        InvalidArgument
            If there is no such order.
        """
        places = permutation(self.palette, order, self.counts())
        ranks = np.empty(len(places), self.palette.index_dtype)
        ranks[places] = np.arange(len(places))
        return IndexedImage.of_own(ranks[self.host_indices()], self.palette.take(places))

    def to_sixel(self) -> bytes:
        """The picture as a terminal shows it; see `clquant.color.formats.sixel`.

        Returns
        -------
        bytes

        Raises
        ------
        InvalidArgument
            If there are more than 256 colours.
        """
        return sixel.encode(self.host_indices(), self.palette)

    def save(self, path: str | os.PathLike[str] | BinaryIO, format: str | None = None, **options: Any) -> None:
        """Write the picture to a file, whole or not at all.

        Parameters
        ----------
        path : path_like or binary file
            What is no path gets all bytes in one call of its ``write``; then `format` has to be given.
        format : str, optional
            As `to_bytes`; by default from the file's suffix.
        **options
            Passed to Pillow.

        Raises
        ------
        InvalidArgument
            If the format is not known or cannot hold the picture.
        FileError
            If the file cannot be written.
        """
        if callable(getattr(path, "write", None)) and not isinstance(path, str | os.PathLike):
            if format is None:
                raise InvalidArgument("format is None; allowed for a file that is no path: the name of a format")
            path.write(self.to_bytes(format, **options))
            return
        named = cast("str | os.PathLike[str]", path)
        files.write_bytes(named, self.to_bytes(format_of(named) if format is None else format, **options))

    def __reduce__(self) -> tuple[type[IndexedImage], tuple[Any, Palette]]:
        """For `pickle` and `copy`: indices on a device come to the host."""
        return type(self), (self.host_indices(), self.palette)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexedImage):
            return NotImplemented
        return self.palette == other.palette and np.array_equal(self.host_indices(), other.host_indices())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        height, width = self.shape
        return f"IndexedImage({width}x{height}, {len(self.palette)} colours)"

    def _repr_png_(self) -> bytes:
        return self.to_bytes("PNG")

    def _repr_html_(self) -> str:
        data = base64.b64encode(self._repr_png_()).decode("ascii")
        return f'<img src="data:image/png;base64,{data}"/>{self.palette._repr_html_()}'


def own_options(image: PIL.Image.Image, name: str) -> dict[str, Any]:
    """What Pillow must be told to write a picture as it is, and not in sizes that icons commonly have.

    Raises
    ------
    InvalidArgument
        If the format holds no such picture.
    """
    if name == "ICNS" or (name == "ICO" and max(image.size) > MOST_ICO_SIDE):
        raise InvalidArgument(
            f"{name} holds no picture of {image.width}x{image.height} pixels; allowed: "
            f"ICO up to {MOST_ICO_SIDE}x{MOST_ICO_SIDE}, PNG and other formats"
        )
    return {"sizes": [image.size]} if name == "ICO" else {}


def format_of(path: str | os.PathLike[str]) -> str:
    """The name, for `IndexedImage.to_bytes`, of the format that a path's suffix stands for.

    Returns
    -------
    str
        Such as ``"PNG"``; ``"SIXEL"`` for .six and .sixel.

    Raises
    ------
    InvalidArgument, InvalidType
        If no format has that suffix, or it is no path.
    """
    named = files.path_of(path)
    name = _format_of_suffix(named.suffix)
    if name is None:
        raise InvalidArgument(f"{str(named)!r}: no picture format has the suffix {named.suffix!r}; try .png or .gif")
    return name


def _format_named(format: str) -> str:
    """A format's name as Pillow has it, or ``"SIXEL"``, of such a name or a suffix in letters of any case."""
    name = format.upper()
    if name in ("PNG", "GIF", "SIXEL"):
        return name
    PIL.Image.init()
    known = name if name in PIL.Image.SAVE else _format_of_suffix("." + format.removeprefix("."))
    if known is None:
        raise InvalidArgument(
            f"format is {params.shown(format)}; allowed: 'PNG', 'GIF', 'SIXEL', or the name or suffix of a format that "
            f"Pillow writes, such as 'JPEG', 'TIFF' or 'webp'"
        )
    return known


def _format_of_suffix(suffix: str) -> str | None:
    """The format of a suffix with its dot; None where Pillow writes none."""
    lower = suffix.lower()
    if lower in (".six", ".sixel"):
        return "SIXEL"
    PIL.Image.init()
    name = PIL.Image.registered_extensions().get(lower)
    return name if name in PIL.Image.SAVE else None
