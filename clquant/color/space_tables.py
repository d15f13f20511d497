"""Tables of the colour spaces: light of sRGB codes, and OKLab's terms and cube roots.

They are made with decimal arithmetic of 40 digits, so they hold the same integers on every host.
"""

from __future__ import annotations

import functools
from decimal import Context, Decimal, localcontext

import numpy as np
import numpy.typing as npt

LINEAR_SCALE = 2047
"""Largest coordinate of linear light."""
TO_LMS = (
    ("0.4122214708", "0.5363325363", "0.0514459929"),
    ("0.2119034982", "0.6806995451", "0.1073969566"),
    ("0.0883024619", "0.2817188376", "0.6299787005"),
)
"""Rows of the matrix from linear sRGB to LMS in Ottosson's definition of OKLab."""
ROOT_FIRST = 128
"""`oklab_table` has the cube roots from this over 1024 on."""
_ROOT_LAST = 1024
_DIGITS_40 = Context(prec=40)


def _light(value: Decimal) -> Decimal:
    """Linear light, 0 to 1, of an sRGB value, 0 to 1."""
    if value <= Decimal("0.04045"):
        return value / Decimal("12.92")
    return ((value + Decimal("0.055")) / Decimal("1.055")) ** Decimal("2.4")


@functools.cache
def _light_codes() -> tuple[Decimal, ...]:
    with localcontext(_DIGITS_40):
        return tuple(_light(Decimal(code) / 255) for code in range(256))


@functools.cache
def deep_lights(scale: int) -> npt.NDArray[np.int32]:
    """(65536,) int32: the light of each 16-bit sRGB code times `scale`, rounded half up."""
    codes = np.arange(65536) / 65535
    floats = np.where(codes <= 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4) * scale
    lights = np.floor(floats + 0.5).astype(np.int32)
    # A host's powers may differ in their last bits: what is near to a half is computed with 40 digits.
    with localcontext(_DIGITS_40):
        for code in np.flatnonzero(np.abs(floats - np.floor(floats) - 0.5) < 1e-5):
            lights[code] = _rounded(_light(Decimal(int(code)) / 65535) * scale)
    return lights


def _rounded(value: Decimal) -> int:
    return int((value + Decimal("0.5")).__floor__())


@functools.cache
def linear_table(scale: int = LINEAR_SCALE) -> npt.NDArray[np.int32]:
    """(256,) int32: the light of each sRGB code times `scale`, rounded half up."""
    with localcontext(_DIGITS_40):
        return np.array([_rounded(light * scale) for light in _light_codes()], np.int32)


@functools.cache
def light_thresholds() -> npt.NDArray[np.int64]:
    """(255,) int64: the light, times 2^24, from which the next sRGB code is the nearer one."""
    with localcontext(_DIGITS_40):
        lights = [_light(Decimal(2 * code + 1) / 510) for code in range(255)]
        return np.array([_rounded(light * 2**24) for light in lights], np.int64)


@functools.cache
def oklab_table() -> npt.NDArray[np.int32]:
    """Contributions of each channel's codes to L, M, S (9 x 256, times 2^24), then cube roots times 2^20.

    The roots are those of i/1024 for i = 128..1025; the last is never reached with a fraction.
    """
    with localcontext(_DIGITS_40):
        terms = [
            _rounded(Decimal(weight) * light * 2**24) for row in TO_LMS for weight in row for light in _light_codes()
        ]
        third = Decimal(1) / 3
        roots = [_rounded((Decimal(i) / 1024) ** third * 2**20) for i in range(ROOT_FIRST, _ROOT_LAST + 2)]
        return np.array(terms + roots, np.int32)


@functools.cache
def deep_oklab_table() -> npt.NDArray[np.int32]:
    """Make `oklab_table` for 16-bit codes: 9 x 65536 contributions, then the roots."""
    lights, half = deep_lights(2**24).astype(np.int64), 5 * 10**9
    weights = [int(Decimal(weight) * 10**10) for row in TO_LMS for weight in row]
    terms = [((weight * lights + half) // 10**10).astype(np.int32) for weight in weights]
    return np.concatenate([*terms, oklab_table()[9 * 256 :]])
