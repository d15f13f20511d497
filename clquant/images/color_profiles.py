"""Colours of files -> sRGB: by an ICC profile, by the chunks cICP, gAMA and cHRM of PNG, or by the box nclx of AVIF.

LittleCMS converts 8 bits by a profile. Curves to linear light with a matrix, which chunks name and most profiles of RGB
and gray hold, are computed here, for 16 bits too. Gray stays gray.
"""

from __future__ import annotations

import contextlib
import functools
import io
import struct
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant.images.guards.metadata_work import png_chunks

# uint8 or uint16.
Samples = npt.NDArray[Any]
Values = npt.NDArray[np.floating[Any]]
# Values from 0 to 1 -> linear light from 0 to 1.
Curve = Callable[[Values], Values]

# x and y of white, red, green and blue, as cHRM has them.
_SRGB = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
# Those of cICP's numbers (ITU-T H.273): BT.709, BT.2020, P3 with DCI's white, P3 with D65.
_PRIMARIES = {
    1: _SRGB,
    9: (0.3127, 0.3290, 0.708, 0.292, 0.170, 0.797, 0.131, 0.046),
    11: (0.314, 0.351, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
    12: (0.3127, 0.3290, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
}
_D50 = np.array([0.9642, 1.0, 0.8249])
_BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
# How far gamma, in parts of it, and coordinates may be off what files of sRGB name.
_GAMMA, _NEAR_GAMMA, _NEAR = 0.45455, 0.01, 0.003
# Levels of 255 by which LittleCMS may change sRGB by some version of its own profile.
_NEAR_LEVELS = 2
_MODES = {b"GRAY": "L", b"RGB ": "RGB", b"CMYK": "CMYK"}
_PIXELS_AT_ONCE = 1 << 16
_HEAD_BYTES = 1 << 16


def _light_of_srgb(values: Values) -> Values:
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _power(exponent: float) -> Curve:
    return lambda values: values**exponent


# Curves of cICP's transfers. Programs show BT.709's and its kin by that of sRGB.
_TRANSFERS = {**dict.fromkeys((1, 6, 13, 14, 15), _light_of_srgb), 4: _power(2.2), 5: _power(2.8), 8: _power(1)}
_HDR = {16: "HDR colours by PQ", 18: "HDR colours by HLG"}


@dataclass(frozen=True)
class LightConversion:
    """Conversion of 8 or 16 bits by curves to linear light and a matrix."""

    curves: Sequence[Curve]  # of red, green and blue
    matrix: Values  # (3, 3), from their linear light to that of sRGB

    def convert(self, values: Samples) -> Samples:
        """Convert (H, W), (H, W, 3) or (H, W, 4); alpha stays."""
        white = np.iinfo(values.dtype).max
        light = [curve(np.arange(white + 1) / white) for curve in self.curves]
        if values.ndim == 2 or np.allclose(self.matrix, np.eye(3), atol=1e-6):
            return _by_tables(values, [_encoded(table, values.dtype) for table in light])
        result: Samples = values.copy()
        flat, into = (array.reshape(-1, array.shape[-1]) for array in (values, result))
        for first in range(0, len(flat), _PIXELS_AT_ONCE):
            part = flat[first : first + _PIXELS_AT_ONCE]
            linear = np.stack([table[part[:, i]] for i, table in enumerate(light)], axis=1) @ self.matrix.T
            into[first : first + len(part), :3] = _encoded(linear, values.dtype)
        return result


@dataclass(frozen=True)
class ProfileConversion:
    """Conversion by an ICC profile: of 8 bits by LittleCMS, of 16 by the profile's curves and matrix."""

    transform: Any  # of PIL images to RGB
    light: LightConversion | None  # None if the profile has tables instead

    def convert(self, values: Samples) -> Samples:
        """Convert (H, W), (H, W, 3) or (H, W, 4); alpha stays; 16 bits become 8 without `light`.

        A profile of gray says nothing of colours.
        """
        of_gray = self.transform.input_mode == "L"
        if of_gray and values.ndim == 3 and (values[..., :1] != values[..., 1:3]).any():
            return values
        if values.dtype == np.uint16:
            if self.light is not None:
                return self.light.convert(values)
            values = np.floor(values / 257 + 0.5).astype(np.uint8)
        if of_gray or values.ndim == 2:
            ramp = PIL.Image.fromarray(np.arange(256, dtype=np.uint8)[None]).convert(self.transform.input_mode)
            return _by_tables(values, [np.asarray(self.transform.apply(ramp).convert("L"))[0]] * 3)
        colors = self.transform.apply(PIL.Image.fromarray(np.ascontiguousarray(values[..., :3])))
        return np.concatenate([np.asarray(colors), values[..., 3:]], axis=2)


Conversion = LightConversion | ProfileConversion


def conversion_of(image: PIL.Image.Image, argument: str) -> Conversion | None:
    """The conversion of a picture's colours; None if they are sRGB's, or not named.

    What is no profile, or one of other channels than the picture has, says nothing.
    """
    coding, profile = _coding_of(image), _profile_of(image)
    by_coding = None if coding is None else _by_coding(*coding)
    by_profile = profile_conversion(profile, image.mode == "CMYK") if profile else None
    found = (by_coding or by_profile) if image.format == "PNG" else (by_profile or by_coding)
    if found is None and coding is not None:
        named = f"{_HDR.get(coding[1], 'colours')} (primaries {coding[0]}, transfer {coding[1]})"
        warnings.warn(f"{argument} has {named}, which are read as if they were sRGB", stacklevel=2)
    elif found is None and image.format == "PNG" and "srgb" not in image.info:
        found = _by_gamma(image.info.get("gamma"), image.info.get("chromaticity"))
    return None if found is None or is_srgb(found) else found


@functools.lru_cache(8)
def profile_conversion(profile: bytes, of_cmyk: bool = False) -> ProfileConversion | None:
    """The conversion by an ICC profile; None if it is damaged or of other channels."""
    mode = _MODES.get(profile[16:20])
    if mode is None or (mode == "CMYK") != of_cmyk:
        return None
    from PIL import ImageCms  # with LittleCMS, for the few files that want it

    with contextlib.suppress(ImageCms.PyCMSError, OSError):
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(opened, ImageCms.createProfile("sRGB"), mode, "RGB")
        return ProfileConversion(transform, _light_of_profile(profile))
    return None


def _profile_of(image: PIL.Image.Image) -> bytes | None:
    """A picture's ICC profile; that of a JPEG 2000, which Pillow leaves out, from its box."""
    profile = image.info.get("icc_profile")
    if image.format == "JPEG2000":
        head = _head_of(image)
        at = head.find(b"colr\2")
        size = int.from_bytes(head[max(at - 4, 0) : at], "big")
        profile = head[at + 7 : at - 4 + size] if at > 0 else None
    return profile if isinstance(profile, bytes) else None


def _coding_of(image: PIL.Image.Image) -> tuple[int, int] | None:
    """The numbers of primaries and transfer in a PNG's cICP or an AVIF's nclx; None without them."""
    numbers: bytes | tuple[int, ...] = b""
    if image.format == "PNG" and (file := getattr(image, "fp", None)) is not None:
        place = file.tell()
        for kind, at, size in png_chunks(file):
            if kind == b"IDAT":
                break
            if kind == b"cICP" and size == 4:
                file.seek(at)
                numbers = file.read(4)[:2]
        file.seek(place)
    elif image.format == "AVIF":
        head = _head_of(image)
        at = head.find(b"colrnclx")
        numbers = struct.unpack_from(">HH", head, at + 8) if 0 <= at < len(head) - 12 else ()
    return (numbers[0], numbers[1]) if len(numbers) == 2 and set(numbers) != {2} else None


def _head_of(image: Any) -> bytes:
    """A file's first bytes, until its pixels are read."""
    file = getattr(image, "fp", None)
    if file is None:
        return b""
    place = file.tell()
    file.seek(0)
    head: bytes = file.read(_HEAD_BYTES)
    file.seek(place)
    return head


def _by_coding(primaries: int, transfer: int) -> LightConversion | None:
    if transfer not in _TRANSFERS or primaries not in _PRIMARIES:
        return None
    return LightConversion([_TRANSFERS[transfer]] * 3, _matrix_to_srgb(_light_to_d50(*_PRIMARIES[primaries])))


def _by_gamma(gamma: float | None, places: tuple[float, ...] | None) -> LightConversion | None:
    """The conversion by gAMA and cHRM, of which either may be None."""
    of_srgb = places is None or np.allclose(places, _SRGB, atol=_NEAR)
    if of_srgb and (not gamma or abs(gamma / _GAMMA - 1) < _NEAR_GAMMA):
        return None
    curve = _power(1 / gamma) if gamma else _light_of_srgb
    matrix: Values = np.eye(3)
    if places is not None and not of_srgb and all(places[1::2]):
        with contextlib.suppress(np.linalg.LinAlgError):  # no colours have such places
            matrix = _matrix_to_srgb(_light_to_d50(*places))
    return LightConversion([curve] * 3, matrix)


def _light_to_d50(white_x: float, white_y: float, *places: float) -> Values:
    """The matrix from linear light of some primaries to XYZ, whose white becomes D50 by Bradford's transform."""
    x, y = np.array(places[::2]), np.array(places[1::2])
    columns: Values = np.stack([x, y, 1 - x - y])
    white = np.array([white_x, white_y, 1 - white_x - white_y]) / white_y
    cones = np.diag((_BRADFORD @ _D50) / (_BRADFORD @ white))
    matrix: Values = np.linalg.inv(_BRADFORD) @ cones @ _BRADFORD @ columns * np.linalg.solve(columns, white)
    return matrix


def _matrix_to_srgb(to_d50: Values) -> Values:
    matrix: Values = np.linalg.solve(_light_to_d50(*_SRGB), to_d50)
    return matrix


def _light_of_profile(profile: bytes) -> LightConversion | None:
    """The curves and matrix of a profile of RGB, or the curve of one of gray; None if there are none."""
    try:
        count = struct.unpack_from(">I", profile, 128)[0]
        entries = [struct.unpack_from(">4sII", profile, 132 + 12 * i) for i in range(min(count, 100))]
        tags = {name: profile[at : at + size] for name, at, size in entries}
        if profile[16:20] == b"GRAY":
            return LightConversion([_curve_of(tags[b"kTRC"])] * 3, np.eye(3))
        if b"A2B0" in tags:
            return None
        columns = [np.array(struct.unpack_from(">3i", tags[name + b"XYZ"], 8)) / 65536 for name in (b"r", b"g", b"b")]
        curves = [_curve_of(tags[name + b"TRC"]) for name in (b"r", b"g", b"b")]
        return LightConversion(curves, _matrix_to_srgb(np.stack(columns, axis=1)))
    except (KeyError, struct.error, ValueError):
        return None


def _curve_of(tag: bytes) -> Curve:
    """An ICC curve: a table, a gamma, or a formula of the types 0 to 4."""
    if tag[:4] == b"curv":
        count = struct.unpack_from(">I", tag, 8)[0]
        table = np.frombuffer(tag, ">u2", count, 12)
        if count < 2:
            return _power(float(table[0]) / 256 if count else 1)
        return lambda values: np.interp(values, np.linspace(0, 1, count), table / 65535)
    kind = struct.unpack_from(">H", tag, 8)[0]
    numbers = np.array(struct.unpack_from(f">{(1, 3, 4, 5, 7)[min(kind, 4)]}i", tag, 12)) / 65536
    gamma, a, b = numbers[:3] if kind else (numbers[0], 1, 0)
    c, d, e, f = (*numbers[3:], 0, 0, 0, 0)[:4]
    if kind in (1, 2):
        c, d, e, f = 0, -b / a, c, c
    return lambda values: np.where(values >= d, np.maximum(a * values + b, 0) ** gamma + e, c * values + f)


def _encoded(light: Values, dtype: npt.DTypeLike) -> Samples:
    """Linear light of sRGB as its values, rounded half up."""
    light = np.clip(light, 0, 1)
    values = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.floor(values * np.iinfo(dtype).max + 0.5).astype(dtype)


def _by_tables(values: Samples, tables: Sequence[Samples]) -> Samples:
    """Values by a table for each channel, gray by the first; alpha stays."""
    if values.ndim == 2:
        return tables[0][values]
    colors = [tables[i][values[..., i]] for i in range(3)]
    return np.dstack([*colors, *values[..., 3:].transpose(2, 0, 1)])


def is_srgb(conversion: Conversion) -> bool:
    """Whether a conversion changes next to nothing."""
    steps = np.arange(0, 256, 51, dtype=np.uint8)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 6, 3)
    if isinstance(conversion, ProfileConversion) and conversion.transform.input_mode != "RGB":
        grid = np.arange(256, dtype=np.uint8)[None]
        if conversion.transform.input_mode == "CMYK":
            return False
    return int(np.abs(conversion.convert(grid).astype(int) - grid).max()) <= _NEAR_LEVELS
