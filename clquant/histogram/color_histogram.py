"""`ColorHistogram`: counted colours that can be added up, kept in a file, and learned from."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.flow import PictureSource, open_picture
from clquant.histogram import file
from clquant.histogram.accumulation import Accumulator, with_opaque
from clquant.histogram.counting import count_colors
from clquant.histogram.deep_counting import deep_parts
from clquant.histogram.device_table import DeviceTable
from clquant.histogram.merging import Codes, HostCounts, checked_total, codes_of, colors_of, is_partial, merged, summed
from clquant.images import Picture, files, materialize, memory_bytes, stores
from clquant.images.batches import read_in_groups, session_of
from clquant.images.decode import to_samples
from clquant.images.folders import files_below
from clquant.runtime import CommandQueue, InvalidArgument, InvalidType, Progress, ProgressCallback

# Memory per 16-bit colour while parts are merged: colour and count in the inputs, the result and a copy.
_MERGING_BYTES = 48


class ColorHistogram:
    """The distinct colours of pictures, and how many pixels have each.

    Histograms of parts add up to the histogram of the whole, in any order; `KMeansPalette.fit_histogram` learns from
    one what `fit` learns from all the pixels, bit for bit. They are immutable, and take 12 bytes of the host's memory
    per colour, 16 if one of the pictures has 16 bits per value: then all colours have.

    Parameters
    ----------
    colors : array_like
        (n, 3) or (n, 4) uint8, or uint16 for colours of 16 bits per value, in any order. What occurs twice is added up.
        All of alpha 0 are one colour, (0, 0, 0, 0).
    counts : array_like
        (n,) integers from 0 up, adding up to at most 2^39: the pixels of each colour. Those of 0 are left out.

    Raises
    ------
    InvalidType, InvalidArgument
        If an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from clquant import ColorHistogram
    >>> top, bottom = np.uint8([[[255, 0, 0], [9, 9, 9]]]), np.uint8([[[9, 9, 9], [9, 9, 9]]])
    >>> histogram = ColorHistogram.of([top]) + ColorHistogram.of([bottom])
    >>> histogram.total, histogram.n_colors
    (4, 2)
    >>> histogram == ColorHistogram.of([np.concatenate([top, bottom])])
    True
    """

    __slots__ = ("_counted",)
    _counted: HostCounts

    def __init__(self, colors: npt.ArrayLike, counts: npt.ArrayLike) -> None:
        rgba = _checked_colors(colors)
        given = params.array("counts", counts, "integers from 0 up, one a colour", "iu")
        if given.shape != (len(rgba),):
            raise InvalidArgument(f"counts has shape {given.shape}; allowed: one for each of {len(rgba)} colours")
        if given.size and int(given.min()) < 0:
            raise InvalidArgument(f"counts goes down to {int(given.min())}; allowed: integers from 0 up")
        largest = checked_total(int(given.max())) if given.size else 0
        numbers = given.astype(np.uint64)
        if largest:
            # Below 2^32 colours of at most 2^39 each do not fit 64 bits, but their float sum tells.
            checked_total(int(numbers.sum(dtype=np.float64)))
        self._counted = _host_counts(codes_of(rgba), numbers, rgba[:, 3] == 0)

    @classmethod
    def _from(cls, counted: HostCounts) -> ColorHistogram:
        checked_total(counted.total + counted.transparent)
        made = object.__new__(cls)
        made._counted = counted
        return made

    @classmethod
    def of(
        cls,
        images: Any,
        *,
        queue: CommandQueue | None = None,
        progress: ProgressCallback | None = None,
        memory: Any = None,
        max_bits: int = 16,
    ) -> ColorHistogram:
        """The histogram of an image, or of several together.

        Parameters
        ----------
        images : image, folder, or list, tuple or iterator of these
            Whatever `clquant.images.read` takes, lazy images too; a folder stands for the pictures in it and below.
            Each file is read when its turn comes.
        queue : pyopencl.CommandQueue, optional
            Default: the device arrays' own, else the best device.
        progress : callable, optional
            Called with (done, total) images, of one lazy image with rows; returning False stops the job.
        memory : int or str, optional
            Host memory for the rows of a lazy image (see `clquant.images.storage`), such as ``"1 GiB"``, and as much
            again for colours of 16 bits: a 48th of so many bytes. Without it their number has no bound.
        max_bits : int
            16: pictures of 16 bits per value are counted by these. 8: by round(v / 257), which are far fewer colours.

        Returns
        -------
        ColorHistogram
            The same on every device.

        Raises
        ------
        InvalidType, InvalidArgument
            If an argument is not allowed, or the images have over 2^39 pixels together, or more 16-bit colours than
            `memory` holds.
        FileError
            If a file or a folder cannot be read.
        StoppedError
            If `progress` returned False.
        """
        bits = params.choice("max_bits", params.integer("max_bits", max_bits, 8, 16), (8, 16))
        sources = _expanded(materialize(images))
        report = Progress(params.callback("progress", progress))
        session = session_of(queue, sources)
        most = None if memory is None else memory_bytes(memory) // _MERGING_BYTES
        counted, done = Accumulator(most), 0
        held = contextlib.ExitStack()
        table: DeviceTable | None = None

        def count(pictures: list[Picture], several: bool = False) -> None:
            nonlocal table
            if any(picture.bits == 16 for picture in pictures):
                for part in deep_parts(session, pictures):
                    counted.add(part)
                return
            with session.scope() as scope:
                found = count_colors(session, scope, pictures)
                if several and DeviceTable.takes(session, found):
                    table = table or DeviceTable.of(session, held)
                    if table is not None:
                        table.add(found)
                        counted.add(HostCounts.without_opaque(found))
                        return
                counted.add(HostCounts.of(session, found))

        def together(group: dict[int, Picture]) -> None:
            nonlocal done
            count(list(group.values()))
            done += len(group)
            report.report(done, len(sources))

        def in_pieces(_: int, picture: Picture) -> None:
            nonlocal done
            rows = 0
            for piece in PictureSource(picture).parts_in_memory():
                count([piece], piece.height < picture.height)
                rows += piece.height
                if len(sources) == 1:
                    report.report(rows, picture.height)
                else:
                    report.report(done, len(sources))
            done += 1
            if len(sources) > 1:
                report.report(done, len(sources))

        def read_one(source: Any, argument: str) -> Picture:
            return open_picture(source, memory=memory, argument=argument, max_bits=bits)

        with held:
            read_in_groups(sources, lambda picture: picture.store is None, together, in_pieces, read_one)
            opaque = None if table is None else table.counted()
        rest = counted.result()
        return cls._from(rest if opaque is None else with_opaque(rest, opaque))

    @property
    def total(self) -> int:
        """The pixels."""
        return self._counted.total + self._counted.transparent

    @property
    def n_colors(self) -> int:
        """The distinct colours; all of alpha 0 are one."""
        return len(self._counted.codes) + (self._counted.transparent > 0)

    def to_arrays(self) -> tuple[npt.NDArray[np.uint8] | npt.NDArray[np.uint16], npt.NDArray[np.uint64]]:
        """The colours, and their pixels.

        Returns
        -------
        colors : ndarray
            (n_colors, 4) uint8, or uint16 if a picture has 16 bits per value: first (0, 0, 0, 0) if some pixels are
            transparent, then by the interleaved bits of red, green, blue and alpha, highest first.
        counts : ndarray
            (n_colors,) uint64, above 0.
        """
        colors, counts = colors_of(self._counted.codes), self._counted.counts.copy()
        if self._counted.transparent:
            colors = np.concatenate([np.zeros_like(colors, shape=(1, 4)), colors])
            counts = np.append(np.uint64(self._counted.transparent), counts)
        return colors, counts

    def __add__(self, other: object) -> ColorHistogram:
        """The pixels of both."""
        if not isinstance(other, ColorHistogram):
            return NotImplemented
        checked_total(self.total + other.total)
        return self._from(merged([self._counted, other._counted]))

    def __radd__(self, other: object) -> ColorHistogram:
        """The histogram itself, for 0: so that `sum` works."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> ColorHistogram:
        """The pixels of this one without those of another."""
        if not isinstance(other, ColorHistogram):
            return NotImplemented
        mine, theirs = self._with_bits_of(other), other._with_bits_of(self)
        places = np.searchsorted(mine.codes, theirs.codes)
        there = places < len(mine.codes)
        there[there] = mine.codes[places[there]] == theirs.codes[there]
        transparent = mine.transparent - theirs.transparent
        if not there.all() or (mine.counts[places] < theirs.counts).any() or transparent < 0:
            raise InvalidArgument("the histogram to subtract has pixels that the other has not; allowed: a part of it")
        counts = mine.counts.copy()
        counts[places] -= theirs.counts
        left = counts > 0
        return self._from(_with_flags(mine.codes[left], counts[left], transparent))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ColorHistogram):
            return NotImplemented
        mine, theirs = self._with_bits_of(other), other._with_bits_of(self)
        return (
            mine.transparent == theirs.transparent
            and np.array_equal(mine.codes, theirs.codes)
            and np.array_equal(mine.counts, theirs.counts)
        )

    __hash__ = None  # type: ignore[assignment]  # equal ones would have to be hashed over all their colours

    def _with_bits_of(self, other: ColorHistogram) -> HostCounts:
        """Return the counts, with 16 bits per value if the other has them."""
        return self._counted.widened() if other._counted.bits == 16 else self._counted

    def __repr__(self) -> str:
        return f"ColorHistogram({self.n_colors} colours, {self.total} pixels)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file (docs/histogram-format.md), whole or not at all.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        FileError
            If it cannot be written.
        """
        counted = self._counted
        files.write_bytes(path, file.to_bytes(counted.codes, counted.counts, counted.transparent))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_colors: int = file.MAX_COLORS) -> ColorHistogram:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : path-like
        max_colors : int
            Files that claim more colours are refused before there is work; default 2^25.

        Returns
        -------
        ColorHistogram

        Raises
        ------
        FileError
            If it cannot be read.
        FormatError
            If it is no such file, or damaged, or has more colours.
        InvalidType, InvalidArgument
            If an argument is not allowed.
        """
        most = params.integer("max_colors", max_colors, 0, 2**32 - 1)
        codes, counts, transparent = file.from_bytes(files.read_bytes(path, file.most_bytes(most)), most)
        return cls._from(_with_flags(codes, counts, transparent))


def together(histograms: Sequence[ColorHistogram]) -> ColorHistogram:
    """The pixels of several: their sum, merged at once."""
    checked_total(sum(histogram.total for histogram in histograms))
    return ColorHistogram._from(merged([histogram._counted for histogram in histograms]))


def histogram_of(counted: HostCounts) -> ColorHistogram:
    """Wrap counts in a histogram."""
    return ColorHistogram._from(counted)


def counts_of(histogram: object, max_bits: int = 8) -> HostCounts:
    """Check that a histogram has pixels, and return its counts with at most `max_bits` a value."""
    if not isinstance(histogram, ColorHistogram):
        raise InvalidType(f"histogram is {params.shown(histogram)}; allowed: a ColorHistogram")
    if not histogram.total:
        raise InvalidArgument("histogram has no pixels; allowed: at least one")
    return histogram._counted if max_bits == 16 else histogram._counted.narrowed()


def _expanded(sources: Any) -> list[Any]:
    """The images of a job, with the files of folders in their places."""
    found: list[Any] = []
    for source in sources if isinstance(sources, list | tuple) else [sources]:
        is_folder = isinstance(source, str | os.PathLike) and os.path.isdir(source) and not stores.is_store(source)
        found += files_below(os.fsdecode(source)) if is_folder else [source]
    if not found:
        raise InvalidArgument("images is empty; allowed: at least one image")
    return found


def _checked_colors(colors: npt.ArrayLike) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """(n, 4) uint8, or uint16 if the colours are."""
    allowed = "(n, 3) or (n, 4) uint8 or uint16"
    given = params.array("colors", colors, allowed, "iu")
    if given.ndim != 2 or given.shape[1] not in (3, 4):
        raise InvalidArgument(f"colors has shape {given.shape}; allowed: {allowed}")
    if given.dtype.newbyteorder("=") == np.uint16:
        given = to_samples(given, "colors", 16)
    elif given.size and not 0 <= int(given.min()) <= int(given.max()) <= 255:
        raise InvalidArgument(f"colors goes from {int(given.min())} to {int(given.max())}; allowed: 0 to 255")
    dtype = np.uint16 if given.dtype == np.uint16 else np.uint8
    rgba = np.full((len(given), 4), np.iinfo(dtype).max, dtype)
    rgba[:, : given.shape[1]] = given
    return rgba


def _host_counts(codes: Codes, counts: npt.NDArray[np.uint64], clear: npt.NDArray[np.bool_]) -> HostCounts:
    solid = ~clear & (counts > 0)
    return _with_flags(*summed(codes[solid], counts[solid]), int(counts[clear].sum(dtype=np.uint64)))


def _with_flags(codes: Codes, counts: npt.NDArray[np.uint64], transparent: int) -> HostCounts:
    return HostCounts(codes, counts, transparent, partial=bool(is_partial(codes).any()), clear=transparent > 0)
