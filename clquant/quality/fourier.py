"""Discrete Fourier transforms of any length on a device, in single precision with the same bits on every device."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Scope, Session

MAX_RADIX = 31  # prime factors of a length beyond this take Bluestein's algorithm
BYTES = 8  # of a complex number
Complex = npt.NDArray[np.complex64]


class Transform:
    """The transform of one length, along the middle axis of (outer, n, inner) complex numbers.

    Parameters
    ----------
    session : Session
    scope : Scope
        Of the tables, and of what a transform needs.
    n : int

    Notes
    -----
    T. G. Stockham's autosort algorithm, as C. Van Loan gives it in "Computational Frameworks for the Fast Fourier
    Transform" (1992), section 1.7; for lengths with great prime factors L. Bluestein, "A linear filtering approach to
    the computation of discrete Fourier transform", IEEE Transactions on Audio and Electroacoustics 18 (1970).
    """

    def __init__(self, session: Session, scope: Scope, n: int) -> None:
        self._session, self._scope, self.n = session, scope, n
        self.length = transform_length(n)
        self._roots = scope.upload(roots(self.length))
        if self.length != n:
            self._chirp, self._spectrum = (scope.upload(table) for table in chirp(n, self.length))

    def run(self, source: Buffer, spare: Buffer, outer: int, inner: int) -> tuple[Buffer, Buffer]:
        """Transform what `source` holds.

        Parameters
        ----------
        source, spare : pyopencl.Buffer
            Both of outer x `length` x inner complex numbers.
        outer, inner : int
            outer x `length` x inner < 2^32.

        Returns
        -------
        (pyopencl.Buffer, pyopencl.Buffer)
            The one of these that holds the transform, and the other.
        """
        if self.length == self.n:
            return self._passes(source, spare, outer, inner)
        sizes = np.uint32(self.n), np.uint32(self.length), np.uint32(inner)
        many, few = outer * self.length * inner, outer * self.n * inner
        self._launch("chirp_in", many, source, spare, self._chirp, *sizes)
        there, spare = self._passes(spare, source, outer, inner)
        self._launch("chirp_product", many, there, self._spectrum, *sizes[1:])
        there, spare = self._passes(there, spare, outer, inner)
        self._launch("chirp_out", few, there, spare, self._chirp, *sizes)
        return spare, there

    def _passes(self, source: Buffer, spare: Buffer, outer: int, inner: int) -> tuple[Buffer, Buffer]:
        done = 1
        for radix in factors(self.length):
            kernel = self._session.program("quality/fourier.cl", RADIX=radix).kernel("fourier_pass")
            sizes = [np.uint32(size) for size in (self.length, done, inner)]
            butterflies = outer * (self.length // radix) * inner
            group = self._session.work_group_size(kernel, 64)
            given = (source, spare, self._roots, *sizes, np.uint32(butterflies))
            self._session.launch(kernel, butterflies, group, *given)
            source, spare = spare, source
            done *= radix
        return source, spare

    def _launch(self, name: str, elements: int, *given: Buffer | np.uint32) -> None:
        kernel = self._session.program("quality/fourier_chirp.cl").kernel(name)
        group = self._session.work_group_size(kernel, 64)
        self._session.launch(kernel, elements, group, *given, np.uint32(elements))


def factors(n: int) -> list[int]:
    """Factors of a length, each a radix of one pass: as many eights as there are, then a 4 or 2, then odd primes."""
    found = []
    for radix in (8, 4, 2, *range(3, n + 1, 2)):
        while n % radix == 0:
            found.append(radix)
            n //= radix
        if n == 1:
            break
    return found


@functools.lru_cache(maxsize=64)
def transform_length(n: int) -> int:
    """What is transformed for n: n itself if its prime factors are small, else a power of two of at least 2 n - 1."""
    return n if max(factors(n), default=1) <= MAX_RADIX else 1 << (2 * n - 2).bit_length()


@functools.lru_cache(maxsize=16)
def roots(n: int) -> Complex:
    """(n,) complex64: exp(-2 pi i k / n)."""
    made: Complex = np.exp(-2j * np.pi * np.arange(n) / n).astype(np.complex64)
    return made


@functools.lru_cache(maxsize=16)
def chirp(n: int, length: int) -> tuple[Complex, Complex]:
    """exp(-pi i k^2 / n), k < n; and the transform of its conjugate, wrapped around `length`, over `length`."""
    k = np.arange(n, dtype=np.int64)
    made = np.exp(-1j * np.pi * (k * k % (2 * n)) / n)
    wrapped = np.zeros(length, np.complex128)
    wrapped[:n] = made.conj()
    wrapped[length - n + 1 :] = made[1:].conj()[::-1]
    return made.astype(np.complex64), (np.fft.fft(wrapped) / length).astype(np.complex64)
