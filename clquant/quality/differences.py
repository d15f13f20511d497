"""Mean colour differences as the eye sees them: CIEDE2000 or Euclidean in OKLab, with or without a blur of light."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.color.space_tables import linear_table
from clquant.images import ImageLike, Picture, lazy
from clquant.quality.pair import Pair, Rows, bands, pieces
from clquant.quality.similarity import band_bytes, half_window
from clquant.runtime import (
    Buffer,
    CommandQueue,
    InvalidArgument,
    Kernel,
    Program,
    Scope,
    Session,
    Total,
    reports_memory,
)

FORMULAS = ("ciede2000", "oklab")
STEPS_PER_UNIT = 1 << 20  # of the integers that are summed
ROTATION_STEPS = 4096
CPU_LANES = 8
BYTES_PER_COLOR = 16
MAX_BAND = 1 << 30  # bytes: fewer pixels per work-item than llvmpipe's loops have turns
WINDOW_SIGMAS = 10 / 3  # radius of the blur's window: 5 pixels for the default


@reports_memory
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
    memory : int or str, optional
        Host memory for parts of lazy pictures (see `clquant.images.lazy`), such as ``"1 GiB"``; default 512 MiB.

    Returns
    -------
    float
        0 for equal pictures; 100 from black to white. Computed in single precision by operations that every device
        rounds alike, and summed as integers: the result is the same on every device, and within 1e-3 of that of double
        precision.

    Raises
    ------
    InvalidType, FileError
        If one is no picture.
    InvalidArgument
        If heights or widths differ.

    Notes
    -----
    G. Sharma, W. Wu, E. N. Dalal, "The CIEDE2000 color-difference formula", Color Research and Application 30 (2005);
    white is D65. B. Ottosson, "A perceptual color space for image processing" (2020).
    """
    pair = _read(original, result, memory)
    return sum(_differences(piece, formula, queue) for piece in pieces(pair)) / (STEPS_PER_UNIT * pair.first.pixels)


def _differences(pair: Pair, formula: str, queue: CommandQueue | None) -> int:
    """The sum of the differences, in steps."""
    session = pair.open(queue)
    kernel = _program(session, formula).kernel("differences")
    with session.scope() as scope:
        tables = {"light": _light(scope), "rotation": _rotation(scope)}
        sent, total = pair.send(session, scope), Total(session, scope)
        for row0, row1 in bands(sent, session, pair.width * pair.channels, MAX_BAND):
            n = (row1 - row0) * pair.width
            first, second = sent.rows(session, scope, row0, row1)
            pixels = {**_pixels("first", pair.first, first), **_pixels("second", pair.second, second)}
            total.launch(kernel, -(-n // _lanes(session)), **tables, **pixels, n=np.uint64(n))
        return total.value()


@reports_memory
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
    original, result : image
        As `color_difference` takes them.
    sigma : float
        Of the Gaussian, in pixels, 0.3 to 30; its window reaches as far as 10/3 of it, rounded up, and where it leaves
        the picture the edge is repeated.
    formula : str
        As in `color_difference`.
    queue : pyopencl.CommandQueue, optional
    memory : int or str, optional
        As `color_difference`.

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
    session = pair.open(queue)
    radius = math.ceil(WINDOW_SIGMAS * sigma)
    program = _program(session, formula, radius)
    blur = _Blur(session, program, pair, half_window(sigma, radius))
    kernel = program.kernel("blurred_differences")
    with session.scope() as scope:
        blur.upload(scope)
        rotation = _rotation(scope)
        sent, total = pair.send(session, scope), Total(session, scope)
        for row0, row1 in bands(sent, session, BYTES_PER_COLOR * pair.width, band_bytes(session), reach=blur.radius):
            with session.scope() as band:
                blurred = blur.columns(sent, scope, band, row0, row1)
                n = (row1 - row0) * pair.width
                given = (rotation, *blurred, np.uint32(pair.width), np.uint32(row1 - row0), blur.weights)
                total.launch(kernel, -(-n // _lanes(session)), *given)
        return total.value() / (STEPS_PER_UNIT * pair.first.pixels)


class _Blur:
    """The blur along columns of both pictures of a pair."""

    def __init__(self, session: Session, program: Program, pair: Pair, window: npt.NDArray[np.uint32]) -> None:
        self._session = session
        self._colors, self._columns = program.kernel("linear_colors"), program.kernel("blur_columns")
        self._height, self._width = pair.height, pair.width
        self._window, self.radius = window, len(window) - 1

    def upload(self, scope: Scope) -> None:
        """Send the tables."""
        self._light = _light(scope)
        self.weights = scope.upload(self._window)

    def columns(self, pair: Pair, scope: Scope, band: Scope, row0: int, row1: int) -> list[Buffer]:
        """Rows ``row0..row1`` of both pictures, blurred."""
        there, end = max(row0 - self.radius, 0), min(row1 + self.radius, self._height)
        sizes = [np.uint32(v) for v in (self._width, self._height, there, row0, row1 - row0)]
        made = []
        pictures = pair.first, pair.second
        for picture, rows in zip(pictures, pair.rows(self._session, scope, there, end), strict=True):
            before, n = (end - there) * self._width, (row1 - row0) * self._width
            colors, blurred = (band.empty(BYTES_PER_COLOR * size) for size in (before, n))
            given = {"light": self._light, **_pixels("pixels", picture, rows), "n": np.uint32(before)}
            self._launch(self._colors, before, **given, colors=colors)
            self._launch(self._columns, (self._width, row1 - row0), colors, *sizes, self.weights, blurred)
            made.append(blurred)
        return made

    def _launch(self, kernel: Kernel, items: int | tuple[int, int], *args: Any, **named: Any) -> None:
        group = self._session.work_group_size(kernel, 64)
        self._session.launch(kernel, items, group if isinstance(items, int) else (group, 1), *args, **named)


def _read(original: ImageLike, result: ImageLike, memory: Any) -> Pair:
    half = max(lazy.memory_bytes(memory) // 2, 1 << 20)
    first = images.read_parts(original, argument="original", memory=half)
    second = first if result is original else images.read_parts(result, argument="result", memory=half)
    if (first.height, first.width) != (second.height, second.width):
        shapes = f"{first.width} x {first.height} and {second.width} x {second.height} pixels"
        raise InvalidArgument(f"original and result must be of one size, got {shapes}")
    return Pair(first, second, first.shape)


def _pixels(name: str, picture: Picture, rows: Rows) -> dict[str, Any]:
    """What kernels take of a picture's rows: the buffer, the place of the first, and the bytes per pixel."""
    return {**rows.named(name), f"{name}_channels": np.uint32(picture.channels)}


def _lanes(session: Session) -> int:
    """Pixels that a work-item takes at a time: CPUs compute on vectors of that many."""
    return CPU_LANES if session.limits.is_cpu else 1


def _program(session: Session, formula: str, radius: int = 0) -> Program:
    oklab = params.choice("formula", formula, FORMULAS) == "oklab"
    constants = {"LANES": _lanes(session), "OKLAB": int(oklab), "ROTATION_STEPS": ROTATION_STEPS, "RADIUS": radius}
    return session.program("quality/differences.cl", **constants)


def _light(scope: Scope) -> Buffer:
    return scope.upload(linear_table(1 << 30))


def _rotation(scope: Scope) -> Buffer:
    return scope.upload(rotation_table())


@functools.cache
def rotation_table() -> npt.NDArray[np.float32]:
    """(ROTATION_STEPS + 2,) float32: of CIEDE2000's rotation term, sin(60 degrees * exp(-(angle / 25 degrees)^2)) by
    the sine of the angle; one entry more than is asked for, as an entry is read with the next.
    """
    sines = np.minimum(np.arange(ROTATION_STEPS + 2) / ROTATION_STEPS, 1.0)
    turn = np.exp(-((np.degrees(np.arcsin(sines)) / 25) ** 2))
    made: npt.NDArray[np.float32] = np.sin(np.radians(60 * turn)).astype(np.float32)
    return made
