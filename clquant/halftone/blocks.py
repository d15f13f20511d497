"""The launches of the block-interlaced scan: tables on the device, then outward and inward blocks of each band."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.halftone.layout import error_limit, pack_path, phase_constants
from clquant.halftone.paths import INWARD, OUTWARD, make_path
from clquant.halftone.tables import WeightTables
from clquant.halftone.tones import Tones, make_tones, records, spreads, start_amplitudes
from clquant.images import Picture, buffer_of

VARIANTS = (runtime.Variant("portable", "halftone_blocks.cl"),)
GROUP = 64


@dataclass(frozen=True)
class Settings:
    """What a halftone depends on besides its picture; every value is checked already.

    Attributes
    ----------
    block_size, scan, levels, linear, noise
        As `PinwheelHalftoner` takes them.
    tables : WeightTables
    seed : int
    error_limit : int
        Clamp of an error, in 1/16 gray.
    """

    block_size: int
    scan: str
    levels: int
    linear: bool
    noise: float
    tables: WeightTables
    seed: int
    error_limit: int


@dataclass(frozen=True)
class Phase:
    """One phase's kernel and its tables on the device."""

    kernel: runtime.Kernel
    tables: tuple[runtime.Buffer, ...]
    slots: int


class BlockHalftone:
    """Halftones pictures by one `Settings` on one session; its device tables live as long as `scope`.

    Parameters
    ----------
    session : runtime.Session
    scope : runtime.Scope
    settings : Settings
    shown : (L,) uint8 ndarray
        The byte to write for each output level.
    """

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        settings: Settings,
        shown: npt.NDArray[np.uint8],
    ) -> None:
        self._session = session
        self._block = settings.block_size
        tones = make_tones(settings.levels, settings.linear)
        paths = [make_path(settings.block_size, settings.scan, phase) for phase in (OUTWARD, INWARD)]
        made = [records(path, settings.tables, tones) for path in paths]
        limit = error_limit(settings.block_size, settings.scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
        self._limit = np.int32(min(limit, settings.error_limit))
        self._key = runtime.seed_key(settings.seed)
        shared = tuple(scope.copy_of(a) for a in (tones.worth, shown, tones.nearest))
        self._phases = []
        for phase, path in enumerate(paths):
            row, record = made[phase]
            spread = spreads(phase, settings.tables, tones, settings.noise)
            constants = phase_constants(settings.block_size, settings.scan, phase)
            variant = session.choose(VARIANTS)
            program = session.program(
                variant.file,
                **constants,
                **variant.constants,
                LEVELS=2 if settings.levels == 2 else 3,
                NOISE=int(spread.any()),
            )
            arrays = (
                pack_path(path, row),
                path.rim_slots.astype(np.uint16),
                record,
                _tone_entries(settings, tones, spread),
            )
            tables = tuple(scope.copy_of(np.ascontiguousarray(a)) for a in arrays) + shared
            self._phases.append(Phase(program.kernel("halftone_blocks"), tables, path.slots))

    def bands(self, picture: Picture) -> Iterator[tuple[int, int, int, int]]:
        """Bands that fit the device: rows to load (a row of blocks more on each side) and rows that come out right."""
        block = self._block
        per_row = picture.width * picture.channels
        fit = max(self._session.limits.max_alloc // per_row // block - 2, 1) * block
        if picture.height <= fit + 2 * block:
            fit = picture.height
        for row in range(0, picture.height, fit):
            end = min(row + fit, picture.height)
            yield max(row - block, 0), min(end + block, picture.height), row, end

    def run(
        self,
        scope: runtime.Scope,
        image: runtime.Buffer,
        output: runtime.Buffer,
        picture: Picture,
        rows: tuple[int, int, int, int],
        channels: int,
    ) -> None:
        """Queue both phases for one band.

        Parameters
        ----------
        scope : runtime.Scope
        image, output : Buffer
            uchar [rows[1] - rows[0]][width][picture.channels]. They may be the same buffer.
        picture : Picture
            For its whole height, width and interleaved channels.
        rows : tuple of int
            From `bands`; outside rows[2]..rows[3] the output is not valid.
        channels : int
            How many of the channels are halftoned.
        """
        block = self._block
        half = (-(-picture.width // block) + 1) // 2
        first, last = rows[0] // block, -(-rows[1] // block)
        inner, inner_last = rows[2] // block, -(-rows[3] // block)
        edges = scope.empty(4 * block * channels * (last - first) * half * 2)
        shape = np.array([picture.height, picture.width, picture.channels, rows[0]], np.int32)
        for phase, begin, end in ((OUTWARD, first, last), (INWARD, inner, inner_last)):
            this = self._phases[phase]
            blocks = np.array([begin, first, last - first, half], np.int32)
            lanes = self._session.work_group_size(this.kernel, GROUP, this.slots * 2)
            self._session.launch(
                this.kernel,
                (half, end - begin, channels),
                (lanes, 1, 1),
                image,
                output,
                *this.tables,
                edges,
                runtime.LocalMemory(this.slots * 2 * lanes),
                shape,
                blocks,
                self._limit,
                self._key,
            )


def _tone_entries(settings: Settings, tones: Tones, spread: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    entries = np.zeros((256, 4), np.int16)
    entries[:, 0] = tones.value
    entries[:, 1] = start_amplitudes(settings.tables, tones)
    entries[:, 2] = spread
    return entries


def halftone(
    session: runtime.Session,
    picture: Picture,
    settings: Settings,
    shown: npt.NDArray[np.uint8],
    report: runtime.Progress,
) -> npt.NDArray[np.uint8] | runtime.Array:
    """The halftone of a picture, on the host or the device as the picture is; alpha is copied.

    Parameters
    ----------
    session : runtime.Session
    picture : Picture
    settings : Settings
    shown : (L,) uint8 ndarray
    report : runtime.Progress
        Told the rows done after each band.

    Returns
    -------
    uint8 ndarray or device array of `picture.shape`
    """
    channels = min(picture.channels, 3)
    row_bytes = picture.width * picture.channels
    with session.scope() as scope:
        job = BlockHalftone(session, scope, settings, shown)
        if picture.device_array is not None:
            device = session.new_array(picture.shape, np.uint8)
            target = buffer_of(device)
            image = picture.upload(session, scope)
            if channels < picture.channels:
                session.copy(target, image, picture.height * row_bytes)
            whole = (0, picture.height, 0, picture.height)
            job.run(scope, image, target, picture, whole, channels)
            report.report(picture.height, picture.height)
            return device
        host = np.empty((picture.height, row_bytes), np.uint8)
        for rows in job.bands(picture):
            with session.scope() as band:
                assert picture.array is not None
                buffer = band.copy_of(picture.array[rows[0] : rows[1]])
                job.run(band, buffer, buffer, picture, rows, channels)
                skipped = (rows[2] - rows[0]) * row_bytes
                host[rows[2] : rows[3]] = session.download(
                    buffer, (rows[3] - rows[2], row_bytes), np.uint8, offset=skipped
                )
            report.report(rows[3], picture.height)
    return host.reshape(picture.shape)
