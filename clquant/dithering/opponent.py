"""The space of the search: luma and two differences of colour, whole numbers of a quarter of an 8-bit step.

Errors are summed over neighbours and channels alike, so the channels are those that the eye keeps apart: Y, Cb and Cr
(ITU-R BT.601) of sRGB's values or of light, the differences at `CHROMA` of their length, since the eye blurs them more;
or OKLab itself. Alpha is a fourth where it is an axis of the colour space. All are linear functions of the coordinates
of `clquant.color.spaces`. Where specks have a penalty, luma makes up for them: the differences are shorter then, and
alpha is as long as the luma that it adds over white.
"""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from clquant.color.palette import Palette
from clquant.color.spaces import Space

STEPS = 4 * 255
"""Steps of lightness from black to white, about; spaces of more steps are halved."""
CHROMA = Fraction(7, 10)
"""Length of the differences."""
BOUNDED_CHROMA, BOUNDED_ALPHA_CHROMA, BOUNDED_OPPONENT_CHROMA = Fraction(9, 20), Fraction(3, 10), Fraction(3, 5)
"""The same where specks have a penalty; the second of palettes with alpha, the third of opponent spaces."""
BOUNDED_ALPHA = Fraction(15, 26)
"""The length of alpha there: the axis is sqrt(3)/2 long, of three channels, and what luma sees of them is 1/2."""
_LUMA = ("0.299", "0.587", "0.114")
_CHROMA = (("-0.168736", "-0.331264", "0.5"), ("0.5", "-0.418688", "-0.081312"))
_UNIT = 1 << 16


def _scale(space: Space) -> Fraction:
    """Steps of the search's coordinates in one of the colour space's."""
    return Fraction(STEPS // space.extent[0]) if space.extent[0] < STEPS else Fraction(1, 2)


def bounded_chroma(palette: Palette, space: Space) -> Fraction:
    """Return the length of the differences where specks have a penalty."""
    if space.definition.is_opponent:
        return BOUNDED_OPPONENT_CHROMA
    return BOUNDED_ALPHA_CHROMA if palette.has_alpha else BOUNDED_CHROMA


@functools.lru_cache(maxsize=8)
def matrix(space: Space, bounded: Fraction | None = None) -> npt.NDArray[np.int32]:
    """(4, 4) int32: three factors of each coordinate times 2^16, and what is added before the shift by 16.

    The last row has the factor of alpha in front. bounded: `bounded_chroma` where specks have a penalty.
    """
    scale, is_opponent = _scale(space), space.definition.is_opponent
    rows = (("1", "0", "0"), ("0", "1", "0"), ("0", "0", "1")) if is_opponent else (_LUMA, *_CHROMA)
    chroma = bounded or (Fraction(1) if is_opponent else CHROMA)
    weights = (Fraction(1), chroma, chroma)
    found = np.zeros((4, 4), np.int64)
    for i, (row, weight) in enumerate(zip(rows, weights, strict=True)):
        found[i, :3] = [round(Fraction(value) * weight * scale * _UNIT) for value in row]
        found[i, 3] = _UNIT // 2
        if is_opponent:
            found[i, 3] -= (0, *space.definition.neutral[1:])[i] * found[i, i]
    alpha = BOUNDED_ALPHA if bounded and not is_opponent else 1
    found[3] = (int(scale * alpha * _UNIT), 0, 0, _UNIT // 2)
    made = found.astype(np.int32)
    made.flags.writeable = False  # it is kept
    return made


def points(space: Space, colors: npt.NDArray[np.uint8], bounded: Fraction | None = None) -> npt.NDArray[np.int64]:
    """Colours, (n, 3) or (n, 4) uint8, as points of the search's space, (n, dims) int64."""
    where = space.coordinates(colors).astype(np.int64)
    factors = matrix(space, bounded).astype(np.int64)
    found = where[:, :3] @ factors[:3, :3].T + factors[:3, 3]
    if space.alpha:
        found = np.concatenate([found, where[:, 3:] * factors[3, :1] + factors[3, 3]], axis=1)
    return np.asarray(found >> 16)


def colors(space: Space, coordinates: npt.NDArray[np.int64], unit: int = 1) -> npt.NDArray[np.uint8]:
    """Points in 1 / unit steps as 8-bit colours, the inverse of `points`; coordinates outside the space are clipped."""
    factors = matrix(space).astype(object)
    shifted = coordinates.astype(object) * _UNIT
    shifted[:, :3] -= (factors[:3, 3] - _UNIT // 2) * unit
    columns = factors[:3, :3].T
    # Not by np.cross, which takes no objects in NumPy 1.
    pairs = [(columns[i - 2], columns[i - 1]) for i in range(3)]
    crossed = [[a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)] for a, b in pairs]
    adjugate = np.array(crossed, object)
    found = shifted.copy()
    found[:, :3] = _rounded(shifted[:, :3] @ adjugate.T, int(factors[0, :3] @ adjugate[:, 0]) * unit)
    if space.alpha:
        found[:, 3] = _rounded(shifted[:, 3], int(factors[3, 0]) * unit)
    return space.colors(found.astype(np.int64))


def _rounded(dividend: npt.NDArray[np.object_], divisor: int) -> npt.NDArray[np.object_]:
    """Quotients, rounded half up."""
    sign = 1 if divisor > 0 else -1
    return np.asarray((2 * sign * dividend + abs(divisor)) // (2 * abs(divisor)))


def most_error(space: Space) -> int:
    """An upper bound of the difference of two colours along any axis."""
    if space.definition.is_opponent:
        return max(extent // 2 + 1 for extent in space.extent)
    return int(space.extent[0] * _scale(space)) + 1
