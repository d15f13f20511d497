"""The launches of the block-interlaced scan: tables on the device, then outward and inward blocks of each band."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.halftone.layout import (
    error_limit,
    lane_records,
    pack_path,
    packed_records,
    phase_constants,
    queue_bytes,
    scan_constants,
    tile_bytes,
)
from clquant.halftone.paths import INWARD, OUTWARD, Path, make_path
from clquant.halftone.tables import WeightTables
from clquant.halftone.tones import make_tones, records, spreads, start_amplitudes
from clquant.images import Picture, buffer_of

TILE_GROUP = 32
LARGEST_BLOCK = 64


def _admits_tile(limits: runtime.Limits) -> bool:
    return limits.work_group >= TILE_GROUP and limits.local_memory >= queue_bytes(LARGEST_BLOCK, TILE_GROUP)


VARIANTS = (
    runtime.Variant("lanes", "halftone_lanes.cl", lambda limits: limits.is_cpu),
    runtime.Variant("tile", "halftone_tile.cl", _admits_tile, {"GROUP": TILE_GROUP}),
    runtime.Variant("portable", "halftone_blocks.cl"),
)
GROUP = 64
Band = tuple[int, int, int, int]
SMALLEST_SPIRAL = 4


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
    """One phase's kernels and their tables on the device; `fast` is None where only the portable form serves."""

    kernel: runtime.Kernel
    tables: tuple[runtime.Buffer, ...]
    slots: int
    fast: runtime.Kernel | None
    fast_tables: tuple[runtime.Buffer, ...]
    per_item: int
    group: int


def block_bands(height: int, row_bytes: int, block: int, session: runtime.Session) -> Iterator[Band]:
    """Bands of rows of blocks that fit the device's largest allocation, each with a row of blocks more around it.

    Parameters
    ----------
    height : int
        Of the picture.
    row_bytes : int
        Of the job's largest buffer.
    block : int
    session : runtime.Session

    Yields
    ------
    (first, end, valid, valid_end)
        Rows to load, and those of them that come out right.
    """
    fit = max(session.limits.max_alloc // row_bytes // block - 2, 1) * block
    if height <= fit + 2 * block:
        fit = height
    for row in range(0, height, fit):
        end = min(row + fit, height)
        yield max(row - block, 0), min(end + block, height), row, end


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
        self._scope = scope
        self._settings = settings
        self._block = settings.block_size
        self._tones = make_tones(settings.levels, settings.linear)
        self._key = runtime.seed_key(settings.seed)
        paths = [make_path(settings.block_size, settings.scan, phase) for phase in (OUTWARD, INWARD)]
        made = [records(path, settings.tables, self._tones) for path in paths]
        limit = error_limit(settings.block_size, settings.scan, (made[0][0], made[1][0]), (made[0][1], made[1][1]))
        self._limit = np.int32(min(limit, settings.error_limit))
        shared = tuple(scope.copy_of(a) for a in (self._tones.worth, shown, self._tones.nearest))
        spread = [spreads(phase, settings.tables, self._tones, settings.noise) for phase in (OUTWARD, INWARD)]
        noisy = any(bool(s.any()) for s in spread)
        spiral = settings.scan == "spiral" and self._block >= SMALLEST_SPIRAL
        plain = settings.levels == 2 and not settings.linear and not noisy and shown.tolist() == [0, 255]
        variant = session.choose(VARIANTS if spiral and plain else VARIANTS[-1:])
        self._phases = [
            self._make_phase(path, row, record, half, noisy, shared, variant)
            for path, (row, record), half in zip(paths, made, spread, strict=True)
        ]

    def _make_phase(
        self,
        path: Path,
        row: npt.NDArray[np.int32],
        record: npt.NDArray[np.int16],
        spread: npt.NDArray[np.int16],
        noisy: bool,
        shared: tuple[runtime.Buffer, ...],
        variant: runtime.Variant,
    ) -> Phase:
        entries = np.zeros((256, 4), np.int16)
        entries[:, 0] = self._tones.value
        entries[:, 1] = start_amplitudes(self._settings.tables, self._tones)
        entries[:, 2] = spread
        program = self._session.program(
            VARIANTS[-1].file,
            **phase_constants(self._block, self._settings.scan, path.phase),
            LEVELS=2 if self._settings.levels == 2 else 3,
            NOISE=int(noisy),
        )
        arrays = (pack_path(path, row), path.rim_slots.astype(np.uint16), record, entries)
        tables = tuple(self._scope.copy_of(np.ascontiguousarray(a)) for a in arrays) + shared
        local = self._session.limits.local_memory
        fast = None
        fast_tables: tuple[runtime.Buffer, ...] = ()
        if variant.name != VARIANTS[-1].name:
            constants = scan_constants(path)
            rules: npt.NDArray[Any] = lane_records(record)
            if variant.name == "tile":
                rules = packed_records(record)
                constants["TILE"] = int(self._block % 4 == 0 and tile_bytes(self._block, TILE_GROUP) <= local)
            fast = self._session.program(variant.file, **constants, **variant.constants).kernel(
                f"halftone_{variant.name}"
            )
            fast_tables = (
                self._scope.copy_of(rules),
                self._scope.copy_of(np.ascontiguousarray(entries[:, 1])),
            )
        per_item, group = (8, 1) if variant.name == "lanes" else (1, TILE_GROUP)
        return Phase(program.kernel("halftone_blocks"), tables, path.slots, fast, fast_tables, per_item, group)

    def run(
        self,
        scope: runtime.Scope,
        image: runtime.Buffer,
        output: runtime.Buffer,
        picture: Picture,
        rows: Band,
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
        rows : Band
            From `block_bands`; outside rows[2]..rows[3] the output is not valid.
        channels : int
            How many of the channels are halftoned.
        """
        block = self._block
        half = (-(-picture.width // block) + 1) // 2
        first, last = rows[0] // block, -(-rows[1] // block)
        inner, inner_last = rows[2] // block, -(-rows[3] // block)
        edges = scope.empty(4 * block * channels * (last - first) * half * 2)
        shape = np.array([picture.height, picture.width, picture.channels, rows[0]], np.int32)
        whole_rows = picture.height // block
        cut_column = picture.width % block != 0
        for phase, begin, end in ((OUTWARD, first, last), (INWARD, inner, inner_last)):
            this = self._phases[phase]

            def portable(row: int, end_row: int, index: int, cut_only: bool, this: Phase = this) -> None:
                if end_row <= row:
                    return
                lanes = self._session.work_group_size(this.kernel, min(GROUP, half - index), this.slots * 2)
                self._session.launch(
                    this.kernel,
                    (half - index, end_row - row, channels),
                    (lanes, 1, 1),
                    image,
                    output,
                    *this.tables,
                    edges,
                    runtime.LocalMemory(this.slots * 2 * lanes),
                    shape,
                    np.array([row, first, last - first, half], np.int32),
                    self._limit,
                    self._key,
                    np.int32(index),
                    np.int32(cut_only),
                )

            if this.fast is None:
                portable(begin, end, 0, False)
                continue
            whole_end = min(end, whole_rows)
            blocks = np.array([begin, first, last - first, half], np.int32)
            if whole_end > begin and picture.width >= block:
                self._launch_fast(this, image, output, edges, shape, blocks, (half, whole_end - begin, channels))
            portable(max(begin, whole_end), end, 0, True)
            if cut_column:
                portable(begin, whole_end, picture.width // block // 2, True)

    def _launch_fast(
        self,
        phase: Phase,
        image: runtime.Buffer,
        output: runtime.Buffer,
        edges: runtime.Buffer,
        shape: npt.NDArray[np.int32],
        blocks: npt.NDArray[np.int32],
        size: tuple[int, int, int],
    ) -> None:
        """Queue the device's own form over whole blocks; `size` is (blocks of the phase in a row, rows, channels)."""
        assert phase.fast is not None
        self._session.launch(
            phase.fast,
            (-(-size[0] // phase.per_item), size[1], size[2]),
            (phase.group, 1, 1),
            image,
            output,
            *phase.fast_tables,
            edges,
            shape,
            blocks,
            self._limit,
            self._key,
        )


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
        for rows in block_bands(picture.height, row_bytes, settings.block_size, session):
            with session.scope() as band:
                assert picture.array is not None
                buffer = band.copy_of(picture.array[rows[0] : rows[1]])
                job.run(band, buffer, buffer, picture, rows, channels)
                skipped = (rows[2] - rows[0]) * row_bytes
                session.download_into(host[rows[2] : rows[3]], buffer, offset=skipped)
            report.report(rows[3], picture.height)
    return host.reshape(picture.shape)
