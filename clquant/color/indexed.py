"""`IndexedImage`: indices into a palette, and how they become files and pictures."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import params
from clquant.color.formats import embedded, gif, parallel, png, sixel
from clquant.color.formats.picture_formats import (
    BILEVEL,
    OWN,
    SOURCES,
    WITH_PALETTE,
    WITHOUT_ALPHA,
    by_pillow,
    format_named,
    format_of,
    format_of_suffix,
)
from clquant.color.order import ORDERS, permutation
from clquant.color.palette import Palette, as_palette
from clquant.color.values import WHITE, as_array, lay_over, opaque_color
from clquant.images import files
from clquant.runtime import Array, FileError, InvalidArgument, InvalidType

_BLACK_AND_WHITE = np.array([[0, 0, 0, 255], [255, 255, 255, 255]], np.uint8).view(np.uint32)


class IndexedImage:
    """A picture as one palette index per pixel.

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
        every = array.dtype.kind == "u" and len(self.palette) > np.iinfo(array.dtype).max  # whatever the values are
        if not every and (array.min() < 0 or array.max() >= len(self.palette)):
            raise InvalidArgument(
                f"indices go from {array.min()} to {array.max()}; allowed: 0 to {len(self.palette) - 1}"
            )
        return np.ascontiguousarray(array, wanted)

    @classmethod
    def of_own(cls, indices: Any, palette: Palette) -> IndexedImage:
        """Over indices that nobody else writes to, without a copy and without a look at their values.

        Parameters
        ----------
        indices : ndarray or pyopencl.array.Array
            (H, W) uint8 up to 256 colours, else uint16, C-contiguous and below the number of colours.
        palette : Palette

        Returns
        -------
        IndexedImage
        """
        made = cls.__new__(cls)
        made.palette = palette
        made.indices = indices
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        height, width = self.indices.shape
        return int(height), int(width)

    def host_indices(self) -> npt.NDArray[Any]:
        """The indices on the host, downloaded if they are on the device.

        Returns
        -------
        ndarray of uint8 or uint16, shape (H, W)
        """
        if isinstance(self.indices, Array):
            return np.asarray(self.indices.get())
        return np.asarray(self.indices)

    def to_array(self) -> npt.NDArray[np.uint8]:
        """The picture's colours.

        Returns
        -------
        ndarray of uint8, shape (H, W, 3), or (H, W, 4) if the palette has alpha
        """
        return parallel.looked_up(self.palette.colors, self.host_indices())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The picture's colours, as `to_array`; for `numpy.asarray`."""
        if copy is False:
            raise ValueError("the colours of an IndexedImage need a copy")
        return as_array(self.to_array(), dtype, None)

    def to_pil(self) -> PIL.Image.Image:
        """A PIL image: mode P up to 256 colours, else RGB or RGBA.

        Of mode P, the palette's mode is RGBA if it has transparency; one transparent entry among opaque ones is also
        ``info["transparency"]``. Such an image's own ``save`` writes what `to_bytes` says of its format.

        Returns
        -------
        PIL.Image.Image
        """
        if len(self.palette) > 256:
            return PIL.Image.fromarray(self.to_array())
        image = PIL.Image.fromarray(self.host_indices())
        alpha = self.palette.rgba()[:, 3]
        faint = np.flatnonzero(alpha < 255)
        if not len(faint):
            image.putpalette(self.palette.colors[:, :3].tobytes(), "RGB")
            return image
        image.putpalette(self.palette.colors.tobytes(), "RGBA")
        if len(faint) == 1 and alpha[faint[0]] == 0:
            image.info["transparency"] = int(faint[0])
        image.__class__ = ImageWithAlpha
        return image

    def to_bytes(self, format: str = "PNG", *, background: Any = None, **options: Any) -> bytes:
        """The picture in a file format.

        Parameters
        ----------
        format : str
            ``"PNG"`` and ``"GIF"`` (indexed), ``"BMP"``, ``"TIFF"``, ``"TGA"`` and ``"PCX"`` (indexed if the palette is
            opaque or the format has no alpha), ``"WEBP"`` (without loss), ``"SIXEL"``, ``"PBM"`` (a bitmap, of black
            and white alone), ``"C"``, ``"H"`` and ``"LVGL"`` (see `clquant.color.formats.embedded`), or any other that
            Pillow writes, in full colour; or a suffix, such as ``"tif"``. More than 256 colours are written in full
            colour, but not as GIF, sixel, C, H and LVGL. PNG keeps all alpha; in GIF, entries of alpha below 128 become
            one transparent entry; BMP, DIB, EPS, JPEG, MPO, PBM, PCX and PPM have no alpha. JPEG, MPO, PDF and AVIF
            have losses.
        background : str or (int, int, int), optional
            An opaque colour behind what is transparent, in any format. Default: white in formats without alpha.
        **options
            Of PNG: `effort`, also as `compression` (``"fast"``; ``"normal"``, 3 to 20 % smaller in 4 to 9 times the
            time; ``"small"``, up to 5 % smaller again, which may write the palette in the order of its luma), `dpi`
            (two numbers), `icc_profile` (bytes).
            Of C and H: `name`, `color_format`, `lvgl`; of LVGL: `lvgl` (8 or 9).
            Other options, and those of other formats, are passed to Pillow: `compression` of TIFF, which is
            ``"group4"`` only with a black and white palette, `lossless` of WebP.

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
        name = format_named(format)
        if self.palette.has_alpha and (background is not None or name in WITHOUT_ALPHA):
            behind = WHITE if background is None else opaque_color("background", background)
            laid = IndexedImage.of_own(self.indices, Palette(lay_over(self.palette.colors, behind)))
            return laid.to_bytes(name, **options)
        if name in OWN:
            return self._own(name, options)
        if name == "PNG" and "compression" in options and "effort" not in options:
            options["effort"] = options.pop("compression")
        if name == "PNG" and options.keys() <= png.OPTIONS:
            return self._png(options)
        image, more = self._to_write(name, options)
        try:
            return by_pillow(image, name, {**more, **options})
        except InvalidArgument as error:
            raise InvalidArgument(f"cannot write the picture as {format!r}: {error}") from error

    def _own(self, name: str, options: dict[str, Any]) -> bytes:
        try:
            return OWN[name](self.host_indices(), self.palette.rgba(), **options)
        except TypeError as error:
            raise InvalidArgument(f"cannot write the picture as {name!r}: {error}") from error

    def _png(self, options: dict[str, Any]) -> bytes:
        try:
            if len(self.palette) > png.MAX_COLORS:
                return png.picture(self.to_array(), **options)
            # In the order of luma neighbouring pixels have similar indices, which filters exploit.
            images = [self, self.sorted("luma")] if options.get("effort") == "small" else [self]
            pictures = [(image.host_indices(), image.palette.rgba()) for image in images]
            return min(parallel.in_threads(lambda i: png.indexed(*pictures[i], **options), len(images)), key=len)
        except (InvalidArgument, InvalidType) as error:
            raise InvalidArgument(f"cannot write the picture as 'PNG': {error}") from error

    def _to_write(self, name: str, options: Mapping[str, Any]) -> tuple[PIL.Image.Image, dict[str, Any]]:
        """The picture as a format of Pillow's name holds it, and what Pillow must be told to write it so."""
        if name in WITHOUT_ALPHA and self.palette.has_alpha:
            laid = Palette(lay_over(self.palette.colors))
            return IndexedImage.of_own(self.indices, laid)._to_write(name, options)
        if name == "GIF":
            indices, transparent = gif.with_one_hole(self.host_indices(), self.palette.rgba())
            image = PIL.Image.fromarray(indices)
            image.putpalette(self.palette.colors[:, :3].tobytes(), "RGB")
            return image, {"optimize": False} | ({} if transparent is None else {"transparency": transparent})
        if name == "PNG":
            return self.to_pil(), {}
        asked = name == "PBM" or (name == "TIFF" and options.get("compression") == "group4")
        if asked or (name in BILEVEL and self._is_bilevel):
            return self._bilevel(name), {}
        opaque = not self.palette.has_alpha or bool((self.palette.colors[:, 3] == 255).all())
        if name in WITH_PALETTE and opaque and len(self.palette) <= 256:
            return self.to_pil(), {}
        return PIL.Image.fromarray(self.to_array()), {}

    @property
    def _is_bilevel(self) -> bool:
        """Whether the colours are black and white."""
        return bool(np.isin(self.palette.rgba().view(np.uint32), _BLACK_AND_WHITE).all())

    def _bilevel(self, name: str) -> PIL.Image.Image:
        """The picture of mode 1."""
        if not self._is_bilevel:
            what = "PBM" if name == "PBM" else "TIFF of group 4"
            shown = " ".join(self.palette.hex(limit=3)) + (" ..." if len(self.palette) > 3 else "")
            raise InvalidArgument(f"a bitmap ({what}) is black and white alone; this picture has the colours {shown}")
        return PIL.Image.fromarray(parallel.looked_up(self.palette.colors[:, 0], self.host_indices())).convert("1")

    def counts(self) -> npt.NDArray[np.int64]:
        """Count the pixels of each palette colour.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        return parallel.counted(self.host_indices(), len(self.palette))

    def sorted(self, order: str) -> IndexedImage:
        """The same picture with its palette in another order (see `Palette.sorted`).

        Parameters
        ----------
        order : str
            ``"fitted"``, ``"luma"``, ``"hue"`` or ``"popularity"``: most pixels first.

        Returns
        -------
        IndexedImage

        Raises
        ------
        InvalidArgument
            If there is no such order.
        """
        counts = self.counts() if params.choice("order", order, ORDERS) == "popularity" else None
        places = permutation(self.palette.colors, order, counts)
        ranks = np.empty(len(places), self.palette.index_dtype)
        ranks[places] = np.arange(len(places))
        return IndexedImage.of_own(parallel.looked_up(ranks, self.host_indices()), self.palette.take(places))

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
        return sixel.encode(self.host_indices(), self.palette.rgba())

    def save(self, path: str | os.PathLike[str] | BinaryIO, format: str | None = None, **options: Any) -> None:
        """Write the picture to a file, whole or not at all.

        Parameters
        ----------
        path : path_like or binary file
            What is no path gets all bytes in one call of its ``write``; then `format` has to be given.
        format : str, optional
            As `to_bytes`; by default from the file's suffix.
        **options
            `background` and others, as `to_bytes`.

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
            data = self.to_bytes(format, **options)
            try:
                path.write(data)
            except ValueError as error:  # of a closed file
                raise FileError(f"cannot write the picture: {error}") from error
            return
        named = cast("str | os.PathLike[str]", path)
        kind = format_of(named) if format is None else format
        if isinstance(kind, str) and kind.upper() in SOURCES:
            options = {"name": embedded.identifier(files.path_of(named).stem), **options}
        files.write_bytes(named, self.to_bytes(kind, **options))

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


class ImageWithAlpha(PIL.Image.Image):
    """A Pillow image of mode P with transparent entries, which each format gets as it holds them.

    Pillow itself writes such images without loss to PNG, WebP and TGA alone. What its methods return are plain images.
    """

    def save(self, fp: Any, format: str | None = None, **params: Any) -> None:
        """Write the image as Pillow does; to GIF with one transparent entry, to formats without alpha over white."""
        path = getattr(fp, "name", fp)
        suffix = os.path.splitext(os.fsdecode(path))[1] if isinstance(path, str | bytes | os.PathLike) else ""
        name = format_of_suffix(suffix) if format is None else format.upper()
        if name in (None, "PNG", "WEBP", "TGA"):
            return super().save(fp, format, **params)
        image, more = self._for_pillow(str(name), params)
        if "append_images" in params:
            frames = params["append_images"]
            shown = (one._for_pillow(str(name), {})[0] if isinstance(one, ImageWithAlpha) else one for one in frames)
            params["append_images"] = list(shown)
        return image.save(fp, format, **{**more, **params})

    def _for_pillow(self, name: str, params: Mapping[str, Any]) -> tuple[PIL.Image.Image, dict[str, Any]]:
        image, more = self._indexed()._to_write(name, params)
        image.info = {**self.info, "transparency": more.pop("transparency", None)}
        if image.info["transparency"] is None:
            del image.info["transparency"]
        return image, more

    def _indexed(self) -> IndexedImage:
        plain = self.copy()
        plain.apply_transparency()
        colors = np.array(plain.getpalette("RGBA"), np.uint8).reshape(-1, 4)
        return IndexedImage.of_own(np.asarray(plain), Palette(colors))

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle` and `copy`: Pillow would lose the alpha."""
        return _restore, (self._indexed(), self.info)


def _restore(picture: IndexedImage, info: dict[Any, Any]) -> PIL.Image.Image:
    image = picture.to_pil()
    image.info = info
    return image
