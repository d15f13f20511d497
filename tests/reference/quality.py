"""Measures of pictures: the integers and single-precision floats of the kernels, one operation after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
F = np.float32


# --- structural similarity ----------------------------------------------------------------------------------------


def _luma(picture: Picture) -> npt.NDArray[np.int64]:
    values = picture.astype(np.int64)
    if values.ndim == 2 or values.shape[2] < 3:
        return 1000 * values.reshape(*values.shape[:2], -1)[..., 0]
    return values[..., :3] @ np.array([299, 587, 114])


def _windows(values: npt.NDArray[np.int64], half: npt.NDArray[np.uint32], axis: int) -> npt.NDArray[np.int64]:
    """Weighted means of values below 2^31 with weights that sum to 2^32, rounded."""
    weights = np.concatenate([half, half[-2::-1]]).astype(np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(values.astype(np.uint64), len(weights), axis)
    return (((windows * weights).sum(axis=-1, dtype=np.uint64) + np.uint64(1 << 31)) >> np.uint64(32)).astype(np.int64)


def _ratio(n: int, d: int) -> int:
    shift = 64 - d.bit_length()
    return (n << shift) // (((d << shift >> 31) + 1) >> 1)


def ssim(first: Picture, second: Picture, half: npt.NDArray[np.uint32], peak: float = 255.0) -> float:
    """Mean SSIM; `half` holds the window's weights from its edge to its middle."""
    x, y = _luma(first), _luma(second)
    a, b = x - 127500, y - 127500
    quantities = (x << 13, y << 13, (a * a + b * b + 8) >> 4, ((a - b) ** 2 + 16) >> 5)
    means = [_windows(_windows(values, half, 0), half, 1).ravel().tolist() for values in quantities]
    c1, c2 = (round((k * peak * 8192000) ** 2) for k in (0.01, 0.03))
    total = 0
    for mean_x, mean_y, squares, apart in zip(*means, strict=True):
        variances = max((squares << 30) - (mean_x - (127500 << 13)) ** 2 - (mean_y - (127500 << 13)) ** 2, 0)
        difference = max((apart << 31) - (mean_x - mean_y) ** 2, 0)
        light = _ratio((mean_x - mean_y) ** 2, mean_x**2 + mean_y**2 + c1)
        structure = _ratio(min(difference // 2, variances + c2), variances + c2)
        total += (light >> 1) + structure - (light * (structure >> 1) >> 31)
    return 1.0 - total / (2**31 * len(means[0]))


# --- colour differences -------------------------------------------------------------------------------------------

_TO_XYZ = "0.43394995 0.37620977 0.18984029 0.21267287 0.71515214 0.072175 0.017756583 0.10946796 0.87277544"
_TO_LMS = "0.41222147 0.53633254 0.051445993 0.2119035 0.68069955 0.10739696 0.08830246 0.28171884 0.62997870"
_TO_OKLAB = "0.21045426 0.7936178 -0.004072047 1.9779985 -2.4285922 0.4505937 0.025904037 0.78277177 -0.80867577"


def _bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    return np.asarray(x, F).view(np.int32)


def _reciprocal(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    y = (np.int32(0x7EF311C3) - _bits(x)).view(F)
    for _ in range(3):
        y = y * (F(2) - x * y)
    return y


def _inverse_root(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    y = (np.int32(0x5F3759DF) - (_bits(x) >> 1)).view(F)
    for _ in range(3):
        y = y * (F(1.5) - F(0.5) * x * y * y)
    return y


def _root(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return x * _inverse_root(x)


def _cube_root(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    y = (np.int32(0x54A2FA8C) - _bits(x) // 3).view(F)
    for _ in range(3):
        y = y * (F(1.3333334) - F(0.33333334) * x * y * y * y)
    return x * y * y


def _times(colors: list[npt.NDArray[np.float32]], matrix: str) -> list[npt.NDArray[np.float32]]:
    m = np.array(matrix.split(), F).reshape(3, 3)
    return [row[0] * colors[0] + row[1] * colors[1] + row[2] * colors[2] for row in m]


def _lab(light: list[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
    curve = [
        np.where(t > F(0.0088564517), _cube_root(t), F(7.787037) * t + F(0.13793103)) for t in _times(light, _TO_XYZ)
    ]
    return [F(116) * curve[1] - F(16), F(500) * (curve[0] - curve[1]), F(200) * (curve[1] - curve[2])]


def _of_seventh(chroma: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    c = F(0.04) * chroma
    c2 = c * c
    c7 = c2 * c2 * c2 * c
    return _root(c7 * _reciprocal(c7 + F(1)))


def _ciede2000(
    lab1: list[npt.NDArray[np.float32]], lab2: list[npt.NDArray[np.float32]], rotation: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    chroma = _root(lab1[1] * lab1[1] + lab1[2] * lab1[2]) + _root(lab2[1] * lab2[1] + lab2[2] * lab2[2])
    stretch = F(1.5) - F(0.5) * _of_seventh(F(0.5) * chroma)
    a1, b1, a2, b2 = stretch * lab1[1], lab1[2], stretch * lab2[1], lab2[2]
    c1, c2 = _root(a1 * a1 + b1 * b1), _root(a2 * a2 + b2 * b2)
    product, dot = c1 * c2, a1 * a2 + b1 * b2
    cross = a1 * (b2 - b1) - b1 * (a2 - a1)
    acute = cross * _inverse_root(np.maximum(F(0.5) * (product + dot), F(1e-20)))
    wide = _root(np.maximum(F(2) * (product - dot), F(0)))
    hue_difference = np.where(dot < 0, np.where(cross < 0, -wide, wide), acute)
    unit1, unit2 = _reciprocal(np.maximum(c1, F(1e-12))), _reciprocal(np.maximum(c2, F(1e-12)))
    u, v = a1 * unit1 + a2 * unit2, b1 * unit1 + b2 * unit2
    inverse = _inverse_root(np.maximum(u * u + v * v, F(1e-20)))
    cos1, sin1 = u * inverse, v * inverse
    cos2, sin2 = cos1 * cos1 - sin1 * sin1, F(2) * cos1 * sin1
    cos3, sin3 = cos2 * cos1 - sin2 * sin1, sin2 * cos1 + cos2 * sin1
    cos4, sin4 = cos2 * cos2 - sin2 * sin2, F(2) * cos2 * sin2
    t = F(1) - (F(0.14722432) * cos1 + F(0.085) * sin1) + F(0.24) * cos2
    t = t + (F(0.31824701) * cos3 - F(0.033449108) * sin3) - (F(0.0907981) * cos4 + F(0.17820130) * sin4)
    middle = F(0.5) * (lab1[0] + lab2[0]) - F(50)
    mean_chroma = F(0.5) * (c1 + c2)
    root = _inverse_root(F(20) + middle * middle)
    lightness = (lab2[0] - lab1[0]) * _reciprocal(F(1) + F(0.015) * (middle * middle) * root)
    colorful = (c2 - c1) * _reciprocal(F(1) + F(0.045) * mean_chroma)
    hue = hue_difference * _reciprocal(F(1) + F(0.015) * mean_chroma * t)
    turned_cos = F(0.08715574) * cos1 - F(0.9961947) * sin1
    turned_sin = F(0.08715574) * sin1 + F(0.9961947) * cos1
    place = np.minimum(np.abs(turned_sin), F(1)) * F(len(rotation) - 2)
    i = place.astype(np.int32)
    turn = rotation[i] + (rotation[i + 1] - rotation[i]) * (place - i.astype(F))
    rotated = F(2) * np.where(turned_cos > 0, turn, F(0)) * _of_seventh(mean_chroma)
    total = lightness * lightness + colorful * colorful + hue * hue - rotated * colorful * hue
    return _root(np.maximum(total, F(0)))


def _mean_difference(
    first: npt.NDArray[np.uint32], second: npt.NDArray[np.uint32], rotation: npt.NDArray[np.float32] | None
) -> float:
    """Of (n, 3) linear colours times 2^30."""
    a, b = ([one[:, c].astype(F) * F(2.0**-30) for c in range(3)] for one in (first, second))
    if rotation is not None:
        values = _ciede2000(_lab(a), _lab(b), rotation)
    else:
        x, y = (_times([_cube_root(t) for t in _times(one, _TO_LMS)], _TO_OKLAB) for one in (a, b))
        d = [p - q for p, q in zip(x, y, strict=True)]
        values = F(100) * _root(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
    steps = (values * F(1 << 20) + F(0.5)).astype(np.uint32)
    return int(steps.sum(dtype=np.uint64)) / (len(a[0]) << 20)


def color_difference(
    first: Picture, second: Picture, light: npt.NDArray[np.int32], rotation: npt.NDArray[np.float32] | None
) -> float:
    """Of (H, W, 3) pictures; CIEDE2000 with a table of its rotation term, else OKLab."""
    a, b = (light[one].astype(np.uint32).reshape(-1, 3) for one in (first, second))
    return _mean_difference(a, b, rotation)


def blurred_color_difference(
    first: Picture,
    second: Picture,
    light: npt.NDArray[np.int32],
    rotation: npt.NDArray[np.float32] | None,
    half: npt.NDArray[np.uint32],
) -> float:
    """The same behind a blur, whose weights `half` holds from its edge to its middle."""
    radius = len(half) - 1
    blurred = []
    for picture in (first, second):
        padded = np.pad(light[picture].astype(np.int64), ((radius, radius), (radius, radius), (0, 0)), "edge")
        blurred.append(_windows(_windows(padded, half, 0), half, 1).astype(np.uint32).reshape(-1, 3))
    return _mean_difference(blurred[0], blurred[1], rotation)


# --- Fourier transforms -------------------------------------------------------------------------------------------

Complex = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


def times(a: Complex, b: Complex) -> Complex:
    """Products of complex numbers, held as real and imaginary parts."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _turned(a: Complex) -> Complex:
    return a[1], -a[0]


def _butterfly(v: list[Complex], roots: Complex) -> list[Complex]:
    """The transform of v; `roots` are the len(v)-th roots of unity."""
    if len(v) == 2:
        return [_add(*v), _subtract(*v)]
    if len(v) == 4:
        even, odd = _add(v[0], v[2]), _subtract(v[0], v[2])
        total, apart = _add(v[1], v[3]), _turned(_subtract(v[1], v[3]))
        return [_add(even, total), _add(odd, apart), _subtract(even, total), _subtract(odd, apart)]
    if len(v) == 8:
        even, odd = _butterfly(v[::2], roots), _butterfly(v[1::2], roots)
        h = F(0.70710678)
        odd[1], odd[2], odd[3] = (
            tuple(h * part for part in _add(odd[1], _turned(odd[1]))),
            _turned(odd[2]),
            tuple(h * part for part in _subtract(_turned(odd[3]), odd[3])),
        )
        return [_add(e, o) for e, o in zip(even, odd, strict=True)] + [
            _subtract(e, o) for e, o in zip(even, odd, strict=True)
        ]
    made = []
    for k in range(len(v)):
        value = v[0]
        for q in range(1, len(v)):
            at = k * q % len(v)
            value = _add(value, times(v[q], (roots[0][at], roots[1][at])))
        made.append(value)
    return made


def fourier(data: npt.NDArray[np.complex64], factors: list[int], roots: npt.NDArray[np.complex64]) -> Complex:
    """The transform along the last axis by Stockham's passes."""
    real, imaginary = data.real.copy(), data.imag.copy()
    n, done = data.shape[-1], 1
    for radix in factors:
        j = np.arange(n // radix)
        phase, turn = j % done, n // radix // done
        v = []
        for r in range(radix):
            root = roots[phase * r * turn]
            value = real[..., j + r * (n // radix)], imaginary[..., j + r * (n // radix)]
            v.append(times(value, (root.real, root.imag)) if r else value)
        own = roots[np.arange(radix) * (n // radix)]
        real, imaginary = np.empty_like(real), np.empty_like(imaginary)
        for r, value in enumerate(_butterfly(v, (own.real, own.imag))):
            at = (j - phase) * radix + phase + r * done
            real[..., at], imaginary[..., at] = value
        done *= radix
    return real, imaginary
