"""Mean colour differences as the eye sees them: CIEDE2000 or Euclidean in OKLab, with or without a blur of light."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from clquant import flow, params
from clquant.color.formats import parallel
from clquant.color.space_tables import TO_LMS, linear_table
from clquant.images import ImageLike, memory_bytes
from clquant.quality.definitions import Float, Numbers, blurred, gaussian, rounded
from clquant.quality.pair import Pair
from clquant.runtime import CommandQueue, InvalidArgument, bound

FORMULAS = ("ciede2000", "oklab")
WINDOW_SIGMAS = 10 / 3  # radius of the blur's window: 5 pixels for the default
LIGHT_SCALE = 1 << 30
DECIMALS = 9  # of coordinates, so that grays have no hue

TURN = 2 * np.pi
# Of CIEDE2000's weight of hues, as a polynomial of the hue's unit vector.
FIRST, THIRD, FOURTH = (k * np.exp(1j * np.radians(turn)) for k, turn in ((-0.17, -30), (0.32, 6), (-0.20, -63)))

TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def color_difference(
    original: ImageLike,
    result: ImageLike,
    formula: str = "ciede2000",
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Mean colour difference of two pictures, pixel by pixel.

    Parameters
    ----------
    original, result : image
        Of one height and width, as the engines take them (see `clquant.images`); sRGB. Alpha is not looked at.
    formula : str
        ``"ciede2000"``, with all weights 1, or ``"oklab"``: 100 times the Euclidean distance in OKLab.
    queue : pyopencl.CommandQueue, optional
        Of pictures on a device.
    memory : int or str, optional
        As `mse`.

    Returns
    -------
    float
        0 for equal pictures; 100 from black to white. In double precision on the host, rounded to ten digits.

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        If one is no picture, or heights or widths differ.

    Notes
    -----
    G. Sharma, W. Wu, E. N. Dalal, "The CIEDE2000 color-difference formula", Color Research and Application 30 (2005);
    white is D65. B. Ottosson, "A perceptual color space for image processing" (2020).
    """
    return _mean_difference(_read(original, result, memory), formula, np.ones(1), queue)


def blurred_color_difference(
    original: ImageLike,
    result: ImageLike,
    sigma: float = 1.5,
    formula: str = "ciede2000",
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Mean colour difference of two pictures after a blur in linear light, for dithers: what differs from afar.

    Parameters
    ----------
    original, result, formula, queue, memory
        As `color_difference` takes them.
    sigma : float
        Of the Gaussian, in pixels, 0.3 to 30; its window reaches as far as 10/3 of it, rounded up, and where it leaves
        the picture the edge is repeated.

    Returns
    -------
    float
        As of `color_difference`.

    Raises
    ------
    InvalidType, InvalidArgument, FileError
        As `color_difference`.
    """
    sigma = params.real("sigma", sigma, 0.3, 30.0)
    pair = _read(original, result, memory)
    return _mean_difference(pair, formula, gaussian(sigma, math.ceil(WINDOW_SIGMAS * sigma)), queue)


def _mean_difference(pair: Pair, formula: str, window: Float, queue: CommandQueue | None) -> float:
    """Mean difference of a pair of pictures behind a blur with a window of odd length."""
    params.choice("formula", formula, FORMULAS)
    reach, end = len(window) // 2, 0
    step, sums = max(1, bound("differences.band") // pair.first.width), list[float]()
    for pictures in pair.bands(queue, 2 * reach):
        begin, height = max(end - 2 * reach, 0), len(pictures[0])
        end = begin + height
        low, high = reach if begin else 0, height - (reach if end < pair.first.height else 0)
        bands = [slice(row, min(row + step, high)) for row in range(low, high, step)]
        sums += parallel.in_threads(partial(_sum_of_band, pictures, bands, window, formula), len(bands))
    return rounded(math.fsum(sums) / pair.first.pixels)


def _sum_of_band(
    pictures: tuple[Numbers, Numbers], bands: list[slice], window: Float, formula: str, number: int
) -> float:
    reach = len(window) // 2
    lights = [_light(picture, bands[number], reach) for picture in pictures]
    if reach:
        edges = ((0, 0), (0, 0), (reach, reach))
        lights = [blurred(np.pad(light, edges, mode="edge"), window) for light in lights]
    first, second = lights
    if formula == "oklab":
        apart = _oklab(first) - _oklab(second)
        return float(100 * np.sqrt((apart * apart).sum(axis=0)).sum())
    return float(ciede2000(_lab(first), _lab(second)).sum())


def _read(original: ImageLike, result: ImageLike, memory: Any) -> Pair:
    half = max(memory_bytes(memory) // 2, 1 << 20)
    first = flow.open_picture(original, argument="original", memory=half, takes_rows=True)
    second = first if result is original else flow.open_picture(result, argument="result", memory=half, takes_rows=True)
    if (first.height, first.width) != (second.height, second.width):
        shapes = f"{first.width} x {first.height} and {second.width} x {second.height} pixels"
        raise InvalidArgument(f"original and result must be of one size, got {shapes}")
    return Pair(first, second, first.shape)


def _light(picture: Numbers, rows: slice, reach: int) -> Float:
    """Linear light (3, rows, W) of some rows and `reach` around them, edges repeated; gray where channels are fewer."""
    around = np.take(picture, np.arange(rows.start - reach, rows.stop + reach), axis=0, mode="clip")
    channels = (0, 1, 2) if picture.shape[2] >= 3 else (0, 0, 0)
    table = linear_table(LIGHT_SCALE) / LIGHT_SCALE
    return np.stack([table[around[..., channel]] for channel in channels])


def _times(matrix: Float, planes: Float) -> Float:
    return np.stack([row[0] * planes[0] + row[1] * planes[1] + row[2] * planes[2] for row in matrix])


def _oklab(light: Float) -> Float:
    return _times(TO_OKLAB, np.cbrt(_times(np.array(TO_LMS, np.float64), light)))


def _lab(light: Float) -> Float:
    """CIE L*a*b* of linear sRGB, white D65."""
    xyz = _times(TO_XYZ / TO_XYZ.sum(axis=1, keepdims=True), light)
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.round(np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)]), DECIMALS)


def ciede2000(first: Float, second: Float) -> Float:
    """CIEDE2000 differences of colours (3, ...) in CIE L*a*b*."""
    (lightness1, a1, b1), (lightness2, a2, b2) = first, second
    stretch = 1.5 - 0.5 * _of_seventh((_length(a1, b1) + _length(a2, b2)) / 2)
    a1, a2 = stretch * a1, stretch * a2
    chroma1, chroma2 = _length(a1, b1), _length(a2, b2)
    hue1, hue2 = _angle(a1, b1), _angle(a2, b2)
    turn = hue2 - hue1
    turn -= TURN * np.rint(turn / TURN * (1 - 1e-12))  # opposite ones stay, whichever way their angles were rounded
    chroma, hue, sine = (chroma1 + chroma2) / 2, hue1 + turn / 2, np.sin(turn / 2)
    # The unit vector of the mean hue: the first colour's, turned by half. No hue counts where there is no chroma.
    unit = (a1 + 1j * b1) / np.maximum(chroma1, 1e-300) * (np.sqrt(1 - sine * sine) + 1j * sine)
    weight = 1 + ((((FOURTH * unit + THIRD) * unit + 0.24) * unit + FIRST) * unit).real
    middle = ((lightness1 + lightness2) / 2 - 50) ** 2
    lightness = (lightness2 - lightness1) / (1 + 0.015 * middle / np.sqrt(20 + middle))
    colorful = (chroma2 - chroma1) / (1 + 0.045 * chroma)
    apart = 2 * np.sqrt(chroma1 * chroma2) * sine / (1 + 0.015 * chroma * weight)
    blue = (hue - TURN * np.floor(hue / TURN) - np.radians(275)) / np.radians(25)
    rotated = 2 * _of_seventh(chroma) * np.sin(np.radians(60) * np.exp(-blue * blue))
    total = lightness**2 + colorful**2 + apart**2 - rotated * colorful * apart
    return np.asarray(np.sqrt(np.maximum(total, 0)))


def _of_seventh(chroma: Float) -> Float:
    """sqrt(c^7 / (c^7 + 25^7)) of a chroma."""
    seventh = chroma**7
    return np.asarray(np.sqrt(seventh / (seventh + 25.0**7)))


def _length(a: Float, b: Float) -> Float:
    return np.asarray(np.sqrt(a * a + b * b))  # a third of the time of `np.hypot`


def _angle(a: Float, b: Float) -> Float:
    """Hues from 0 to a whole turn."""
    angle = np.arctan2(b, a)
    return np.asarray(angle + TURN * (angle < 0))
