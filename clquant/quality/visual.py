"""The error that is left behind a model of the eye."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.quality import definitions
from clquant.quality.fourier import BYTES, Transform
from clquant.quality.pair import Pair, Samples, as_pair, bands
from clquant.runtime import Buffer, CommandQueue, Kernel, Scope, Session, Total, reports_memory

CONTRAST = 0.525 * math.log(11.0) + 3.91  # cycles per degree at which the eye's gain is 1/e, at 11 cd/m^2
LUMA_UNIT = 1000
FALLING_FIRST, FALLING_LAST = -72, 12  # powers of two between which `falling_table` has pieces
FALLING_BITS = 6  # of a float's mantissa that name a piece
SUM_BITS = 61  # of the energies' sum


@reports_memory
def visual_error(
    original: Samples, result: Samples, dpi: float = 300.0, inches: float = 9.5, *, queue: CommandQueue | None = None
) -> float:
    """Mean squared error after both pictures pass a model of the eye, for halftones and dithers.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        Colour is reduced to Rec. 601 luma first. 8-bit levels are compared on the device if it has room for twice the
        spectrum (4 bytes per pixel, 8 to 32 for sides with prime factors over 31), all else in float64 on the host.
    dpi, inches : float
        Pixels per inch, and the distance it is seen from.
    queue : pyopencl.CommandQueue, optional

    Returns
    -------
    float
        Squared gray levels; lower is better. The device computes in single precision by operations that every device
        rounds alike: the result is the same on every device, and within 1e-5 of itself of that of double precision.

    Raises
    ------
    InvalidType
        If one is no array of numbers.
    InvalidArgument
        If the shapes differ.

    Notes
    -----
    The low-pass form of R. Nasanen, "Visibility of halftone dot textures", IEEE Transactions on Systems, Man and
    Cybernetics 14 (1984), with luminance 11 cd/m^2 and unit gain at frequency 0; the picture's opposite edges meet.
    """
    per_degree = params.real("dpi", dpi, 1, 1e6) * params.real("inches", inches, 0.01, 1e6) * np.pi / 180.0
    falloff = float(per_degree / CONTRAST)
    pair = as_pair(original, result)
    definitions.picture_shape(pair.shape if isinstance(pair, Pair) else pair[0].shape)
    if not isinstance(pair, Pair):
        return definitions.visual_error(*pair, falloff)
    session = pair.open(queue)
    with session.scope() as scope:
        spectrum = _Spectrum(session, scope, pair.height, pair.width)
        if spectrum.fits():
            return spectrum.visible_energy(pair, falloff)
    return definitions.visual_error(*pair.on_host(queue), falloff)


class _Spectrum:
    """That of the difference of two pictures, by rows and then by columns."""

    def __init__(self, session: Session, scope: Scope, height: int, width: int) -> None:
        self._session, self._scope = session, scope
        self._height, self._width = height, width
        self._columns = width // 2 + 1
        self._pairs = (height + 1) // 2
        self._across, self._down = Transform(session, scope, width), Transform(session, scope, height)
        self._elements = max(self._pairs * self._across.length, self._columns * self._down.length)

    def fits(self) -> bool:
        """Whether the device has room for two buffers of it."""
        limits = self._session.limits
        nbytes = BYTES * self._elements
        return nbytes <= limits.max_alloc and 4 * nbytes <= limits.global_memory and self._elements < 1 << 32

    def visible_energy(self, pair: Pair, falloff: float) -> float:
        """Mean square of the difference behind the low-pass."""
        session = self._session
        program = session.program("quality/visual.cl", **falling_constants())
        rows, spare = (self._scope.empty(BYTES * self._elements) for _ in range(2))
        squares = self._differences(pair, program.kernel("luma_differences"), rows)
        if squares == 0:
            return 0.0
        rows, spare = self._across.run(rows, spare, self._pairs, 1)
        n = self._columns * self._height
        halves = program.kernel("half_spectra")
        sizes = np.uint32(self._width), np.uint32(self._columns), np.uint32(n)
        session.launch(halves, n, session.work_group_size(halves, 64), rows, spare, *sizes)
        spectrum, _ = self._down.run(spare, rows, 1, self._columns)
        # By Parseval's theorem all energies sum to `most`, up to rounding; the unit makes that less than 2^SUM_BITS.
        pixels = self._height * self._width
        most = squares * pixels
        exponent = SUM_BITS - most.bit_length()
        total = self._sum(program.kernel("visible_energy"), spectrum, falloff, math.ldexp(1.0, exponent))
        return math.ldexp(total, -exponent) / (LUMA_UNIT * pixels) ** 2

    def _differences(self, pair: Pair, kernel: Kernel, rows: Buffer) -> int:
        """Fill `rows` with the differences; the sum of their squares."""
        session, width = self._session, self._width
        if self._height % 2:
            session.fill(rows, np.zeros(1, np.float32), BYTES * width, BYTES * width * (self._pairs - 1))
        sent, total = pair.send(session, self._scope), Total(session, self._scope)
        for row0, row1 in bands(sent, session, width * pair.channels, session.limits.max_alloc):
            first, second = sent.rows(session, self._scope, row0, row1)
            n = width * (row1 - row0)
            sizes = [np.uint32(size) for size in (pair.channels, width, row0, n)]
            total.launch(kernel, n, *first.arguments, *second.arguments, *sizes, rows)
        return total.value()

    def _sum(self, kernel: Kernel, spectrum: Buffer, falloff: float, unit: float) -> int:
        down, across = (
            self._scope.upload(((2 * falloff * np.fft.fftfreq(side)[:count]) ** 2).astype(np.float32))
            for side, count in ((self._height, self._height), (self._width, self._columns))
        )
        n = self._columns * self._height
        single = np.uint32(self._width % 2 == 0)
        total = Total(self._session, self._scope)
        sizes = np.uint32(self._columns), np.uint32(n), single, np.float32(unit)
        total.launch(kernel, n, spectrum, down, across, self._scope.upload(falling_table()), *sizes)
        return total.value()


def falling_constants() -> dict[str, int | str]:
    """What the kernel needs to know of `falling_table`."""
    pieces = (FALLING_LAST - FALLING_FIRST) << FALLING_BITS
    first = f"0x1p{FALLING_FIRST}f"
    return {"FALLING_FIRST": first, "FALLING_SHIFT": 23 - FALLING_BITS, "FALLING_PIECES": pieces}


@functools.cache
def falling_table() -> npt.NDArray[np.float32]:
    """(pieces, 3) float32: parabolas c0 + t (c1 + c2 t), 0 <= t < 1, through the ends and the middle of exp(-sqrt(q))
    on pieces of a power of two cut into 2^FALLING_BITS.
    """
    pieces = 1 << FALLING_BITS
    start = np.ldexp(1 + np.arange(pieces) / pieces, np.arange(FALLING_FIRST, FALLING_LAST)[:, None])
    length = np.ldexp(1 / pieces, np.arange(FALLING_FIRST, FALLING_LAST))[:, None]
    low, middle, high = (np.exp(-np.sqrt(start + length * t)) for t in (0.0, 0.5, 1.0))
    parabolas = np.stack([low, 4 * middle - 3 * low - high, 2 * (low - 2 * middle + high)], axis=-1)
    return parabolas.reshape(-1, 3).astype(np.float32)
