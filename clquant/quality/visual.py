"""The error that is left behind a model of the eye."""

from __future__ import annotations

import functools
import math
import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import lazy
from clquant.quality import definitions
from clquant.quality.fourier import BYTES, Complex, Transform
from clquant.quality.pair import Pair, Samples, as_pair, bands
from clquant.runtime import Buffer, CommandQueue, FileError, Scope, Session, Total, reports_memory

CONTRAST = 0.525 * math.log(11.0) + 3.91  # cycles per degree at which the eye's gain is 1/e, at 11 cd/m^2
LUMA_UNIT = 1000
FALLING_FIRST, FALLING_LAST = -72, 12  # powers of two between which `falling_table` has pieces
FALLING_BITS = 6  # of a float's mantissa that name a piece
SUM_BITS = 61  # of the energies' sum


@reports_memory
def visual_error(
    original: Samples,
    result: Samples,
    dpi: float = 300.0,
    inches: float = 9.5,
    *,
    queue: CommandQueue | None = None,
    memory: Any = None,
) -> float:
    """Mean squared error after both pictures pass a model of the eye, for halftones and dithers.

    Parameters
    ----------
    original, result : array_like, PIL image or pyopencl.array.Array, shape (H, W) or (H, W, C)
        Colour is reduced to Rec. 601 luma first. 8-bit levels are compared on the device, all else in float64 on the
        host. Lazy pictures of 8-bit levels are read in parts. If the device, or `memory` of lazy pictures on a CPU, has
        no room for twice the spectrum (4 bytes per pixel, 8 to 32 for sides with prime factors over 31), a temporary
        file of 4 bytes per pixel holds it.
    dpi, inches : float
        Pixels per inch, and the distance it is seen from.
    queue : pyopencl.CommandQueue, optional
    memory : int or str, optional
        Host memory for parts of lazy pictures (see `clquant.images.lazy`), such as ``"1 GiB"``; default 512 MiB.

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
    FileError
        If a picture cannot be read, or the temporary file not be written.

    Notes
    -----
    The low-pass form of R. Nasanen, "Visibility of halftone dot textures", IEEE Transactions on Systems, Man and
    Cybernetics 14 (1984), with luminance 11 cd/m^2 and unit gain at frequency 0; the picture's opposite edges meet.
    """
    per_degree = params.real("dpi", dpi, 1, 1e6) * params.real("inches", inches, 0.01, 1e6) * np.pi / 180.0
    falloff = float(per_degree / CONTRAST)
    pair = as_pair(original, result, memory)
    definitions.picture_shape(pair.shape if isinstance(pair, Pair) else pair[0].shape)
    if not isinstance(pair, Pair):
        return definitions.visual_error(*pair, falloff)
    session = pair.open(queue)
    with session.scope() as scope:
        spectrum = _Spectrum(session, scope, pair, falloff)
        if spectrum.fits(lazy.memory_bytes(memory)):
            return spectrum.visible_energy()
        return spectrum.visible_energy_by_file(lazy.memory_bytes(memory))


class _Spectrum:
    """That of the difference of two pictures, by rows and then by columns."""

    def __init__(self, session: Session, scope: Scope, pair: Pair, falloff: float) -> None:
        self._session, self._scope, self._pair = session, scope, pair
        self._height, self._width = pair.height, pair.width
        self._columns = pair.width // 2 + 1
        self._pairs = (pair.height + 1) // 2
        self._across, self._down = (Transform(session, scope, side) for side in (pair.width, pair.height))
        self._elements = max(self._pairs * self._across.length, self._columns * self._down.length)
        self._program = session.program("quality/visual.cl", **falling_constants())
        self._falloff = falloff

    def fits(self, memory: int) -> bool:
        """Whether the device, and of lazy pictures `memory`, have room for two buffers of it."""
        limits = self._session.limits
        nbytes = BYTES * self._elements
        if limits.unified_memory and self._pair.is_lazy and 2 * nbytes > memory:
            return False
        return nbytes <= limits.max_alloc and 4 * nbytes <= limits.global_memory and self._elements < 1 << 32

    def visible_energy(self) -> float:
        """Mean square of the difference behind the low-pass."""
        rows, spare = (self._scope.empty(BYTES * self._elements) for _ in range(2))
        sent, total = self._pair.send(self._session, self._scope), Total(self._session, self._scope)
        if self._height % 2:
            self._clear(rows, self._pairs - 1)
        for row0, row1 in bands(sent, self._session, self._width * sent.channels, self._session.limits.max_alloc):
            self._queue_differences(sent, self._scope, (row0, row1), row0, total, rows)
        squares = total.value()
        if squares == 0:
            return 0.0
        rows, spare = self._across.run(rows, spare, self._pairs, 1)
        self._queue_halves(rows, spare, self._height)
        spectrum, _ = self._down.run(spare, rows, 1, self._columns)
        energy = Total(self._session, self._scope)
        self._queue_energy(energy, spectrum, 0, self._columns, squares)
        return self._mean(energy.value(), squares)

    def visible_energy_by_file(self, memory: int) -> float:
        """The same by a file of all half spectra of rows, columns of which are read again.

        Raises
        ------
        DeviceMemoryError
            If the device has no room for two rows or one column.
        FileError
            If the file cannot be written.
        """
        limits = self._session.limits
        room = min(limits.max_alloc, limits.global_memory // 8, memory // 4)
        count = max(min(room // (BYTES * self._down.length), self._columns), 1)
        try:
            with tempfile.TemporaryFile() as file:
                stored = _Columns(file, self._height, self._columns, count)
                squares = self._store_rows(stored, room)
                return 0.0 if squares == 0 else self._mean(self._energy_of(stored, squares), squares)
        except OSError as error:
            raise FileError(f"cannot keep a spectrum in {tempfile.gettempdir()!r}: {error}") from error

    def _store_rows(self, stored: _Columns, room: int) -> int:
        """Keep the half spectra of all rows; the sum of the squared differences."""
        session, pair = self._session, self._pair
        readers = [one.lazy for one in (pair.first, pair.second) if one.lazy is not None]
        fitting = room // (BYTES * max(self._across.length, 2 * self._columns))
        count = 2 * max(min([fitting, *(reader.rows_at_once(0, 2) // 2 for reader in readers)]), 1)
        squares = 0
        for row0 in range(0, self._height, count):
            row1 = min(row0 + count, self._height)
            with session.scope() as scope:
                pairs, total = (row1 - row0 + 1) // 2, Total(session, scope)
                nbytes = BYTES * max(pairs * self._across.length, (row1 - row0) * self._columns)
                rows, spare = (scope.empty(nbytes) for _ in range(2))
                if row1 % 2:
                    self._clear(rows, pairs - 1)
                self._queue_differences(pair, scope, (row0, row1), 0, total, rows)
                rows, spare = self._across.run(rows, spare, pairs, 1)
                self._queue_halves(rows, spare, row1 - row0)
                stored.write(row0, session.download(spare, (row1 - row0, self._columns), np.complex64))
                squares += total.value()
        return squares

    def _energy_of(self, stored: _Columns, squares: int) -> int:
        """The visible energy of stored half spectra, in units."""
        energy = 0
        for begin in range(0, self._columns, stored.count):
            columns = stored.read(begin)
            with self._session.scope() as scope:
                count, total = columns.shape[1], Total(self._session, scope)
                given, spare = (scope.empty(BYTES * self._down.length * count) for _ in range(2))
                self._session.write(given, columns)
                spectrum, _ = self._down.run(given, spare, 1, count)
                self._queue_energy(total, spectrum, begin, count, squares)
                energy += total.value()
        return energy

    def _unit_exponent(self, squares: int) -> int:
        """Of the unit of energies; by Parseval's theorem these sum to less than 2^SUM_BITS units, up to rounding."""
        return SUM_BITS - (squares * self._height * self._width).bit_length()

    def _mean(self, energy: int, squares: int) -> float:
        return math.ldexp(energy, -self._unit_exponent(squares)) / (LUMA_UNIT * self._height * self._width) ** 2

    def _clear(self, rows: Buffer, last: int) -> None:
        """Let the last of some pairs of rows be 0, as it has one row alone."""
        nbytes = BYTES * self._width
        self._session.fill(rows, np.zeros(1, np.float32), nbytes, nbytes * last)

    def _queue_differences(
        self, pair: Pair, scope: Scope, band: tuple[int, int], row0: int, total: Total, rows: Buffer
    ) -> None:
        """Queue the differences of a band of rows, whose first becomes row `row0` of `rows`, and their squares."""
        first, second = pair.rows(self._session, scope, *band)
        n = self._width * (band[1] - band[0])
        total.launch(
            *(self._program.kernel("luma_differences"), n),
            **first.named("first"),
            **second.named("second"),
            channels=np.uint32(pair.channels),
            width=np.uint32(self._width),
            row0=np.uint32(row0),
            n=np.uint32(n),
            rows=rows,
        )

    def _queue_halves(self, pairs: Buffer, halves: Buffer, height: int) -> None:
        """Queue the half spectra of so many rows from those of their pairs."""
        kernel, n = self._program.kernel("half_spectra"), self._columns * height
        sizes = np.uint32(self._width), np.uint32(self._columns), np.uint32(n)
        self._session.launch(kernel, n, self._session.work_group_size(kernel, 64), pairs, halves, *sizes)

    def _queue_energy(self, total: Total, spectrum: Buffer, begin: int, count: int, squares: int) -> None:
        """Queue the sum of the energies of `count` columns."""
        n = count * self._height
        single = 0 if self._width % 2 else self._columns - 1
        total.launch(
            *(self._program.kernel("visible_energy"), n),
            spectrum=spectrum,
            **self._tables,
            columns=np.uint32(count),
            n=np.uint32(n),
            begin=np.uint32(begin),
            single=np.uint32(single),
            unit=np.float32(math.ldexp(1.0, self._unit_exponent(squares))),
        )

    @functools.cached_property
    def _tables(self) -> dict[str, Buffer]:
        """What `visible_energy` reads of rows, columns and the low-pass."""
        sides = (self._height, self._height), (self._width, self._columns)
        squares = [
            ((2 * self._falloff * np.fft.fftfreq(side)[:count]) ** 2).astype(np.float32) for side, count in sides
        ]
        tables = dict(zip(("down", "across"), squares, strict=True))
        return {name: self._scope.upload(table) for name, table in (*tables.items(), ("parabolas", falling_table()))}


class _Columns:
    """Rows of complex numbers in a file, of which `count` columns at a time are read again.

    Parameters
    ----------
    file : binary file
    height, columns : int
    count : int
    """

    def __init__(self, file: IO[bytes], height: int, columns: int, count: int) -> None:
        self._file, self._height, self._columns = file, height, columns
        self.count = count

    def _width(self, begin: int) -> int:
        return min(self.count, self._columns - begin)

    def write(self, row0: int, rows: Complex) -> None:
        """Keep some rows."""
        for begin in range(0, self._columns, self.count):
            width = self._width(begin)
            self._file.seek(BYTES * (begin * self._height + row0 * width))
            self._file.write(np.ascontiguousarray(rows[:, begin : begin + width]).tobytes())

    def read(self, begin: int) -> Complex:
        """All rows of the columns from `begin` on, a multiple of `count`."""
        width = self._width(begin)
        self._file.seek(BYTES * begin * self._height)
        return np.frombuffer(self._file.read(BYTES * self._height * width), np.complex64).reshape(self._height, width)


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
