"""The launches of the block-interlaced scan: tables on the device, then outward and inward blocks of each band."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import runtime
from clquant.dithering.threshold_maps import bayer
from clquant.flow import Portion, Steps
from clquant.halftone.pinwheel.bands import BandBlocks, BlockMap, edge_row_bytes, half_blocks
from clquant.halftone.pinwheel.layout import phase_constants, ring_bytes, ring_quads, scan_constants
from clquant.halftone.pinwheel.paths import INWARD, OUTWARD
from clquant.halftone.pinwheel.plan import PhasePlan, Settings, make_plan
from clquant.halftone.pinwheel.tones import WHITE, finer_units
from clquant.images import Picture

GROUP = 32
LANES = 8
SMALLEST_RINGS = 16  # the form for GPUs gains little on smaller blocks: 1.03 times a whole call of blocks of 8
# For `cl/halftone/pinwheel/levels_rings.cl`: block sizes up to this, turns of the spiral in a part, blocks and
# work-items of a group. Best first: fastest on an H200; then those within 32 KiB of local memory.
RING_SHAPES = ((16, 8, 32, 256), (32, 16, 32, 256), (32, 4, 32, 32), (64, 8, 16, 256), (64, 4, 16, 128))


def _ring_shape(block_size: int, limits: runtime.Limits) -> tuple[int, int, int]:
    """Turns, blocks and work-items; the last of their kind where none fits."""
    shapes = [shape for size, *shape in RING_SHAPES if block_size <= size]
    fitting = [s for s in shapes if ring_bytes(block_size, s[0], s[1]) <= limits.local_memory]
    rings, lanes, group = (fitting or shapes)[0]
    return rings, lanes, group


def _admits_rings(limits: runtime.Limits) -> bool:
    shapes = {size: _ring_shape(size, limits) for size, *_ in RING_SHAPES}
    return all(
        group <= limits.work_group and ring_bytes(size, rings, lanes) <= limits.local_memory
        for size, (rings, lanes, group) in shapes.items()
    )


@dataclass(frozen=True)
class _Shape:
    """A form's constants, tables on the host, blocks and work-items of a group, for a phase."""

    constants: dict[str, int | str]
    tables: dict[str, npt.NDArray[Any]]
    blocks: int
    group: int


def _lanes_shape(phase: PhasePlan, _limits: runtime.Limits, _error_limit: int) -> _Shape:
    return _Shape(dict(scan_constants(phase.path)), {"record": phase.lanes, "amplitude": phase.amplitude}, LANES, 1)


def _rings_shape(phase: PhasePlan, limits: runtime.Limits, error_limit: int) -> _Shape:
    rings, blocks, group = _ring_shape(phase.path.block_size, limits)
    own = {"RINGS": rings, "LANES": blocks, "GROUP": group, "LOOSE": int(error_limit >= WHITE)}
    quads = ring_quads(phase.path, rings, blocks)
    tables: dict[str, npt.NDArray[Any]] = {"record": phase.packed, "amplitude": phase.amplitude, "quads": quads}
    return _Shape({**scan_constants(phase.path), **own}, tables, blocks, group)


VARIANTS = (
    runtime.Variant(
        "lanes",
        "halftone/pinwheel/levels_lanes.cl",
        lambda limits: limits.is_cpu,
        launchers=(_lanes_shape,),
        gain=2.1,
    ),
    runtime.Variant("rings", "halftone/pinwheel/levels_rings.cl", _admits_rings, launchers=(_rings_shape,), gain=1.95),
    runtime.Variant("portable", "halftone/pinwheel/levels.cl"),
)
SMALLEST_SPIRAL = 4
EDGE_BYTES = 2  # of an error that a block leaves to another


def _forms(block_size: int) -> tuple[runtime.Variant, ...]:
    """The forms of the spiral at two levels that a block size has, best first."""
    if block_size % 4 == 0 and block_size >= SMALLEST_RINGS:
        return VARIANTS
    return tuple(form for form in VARIANTS if form.name != "rings")


@dataclass(frozen=True)
class _Form:
    """A phase's kernel, its tables on the device, blocks and work-items of a group."""

    kernel: runtime.Kernel
    tables: dict[str, runtime.Buffer]
    blocks: int = 1
    group: int = 1


@dataclass(frozen=True)
class _Job:
    """A band's rows of blocks, its channels, and the arguments that all launches share, by name."""

    given: dict[str, Any]
    band: BandBlocks
    channels: int


class BlockHalftone:
    """Halftones pictures by one `Settings` on one session; its device tables live as long as `scope`."""

    # `shown` is (L,) uint8, the byte to write for each output level. `bits` are 8 or 16 of the pictures' values; those
    # of 16 take the portable form.

    def __init__(
        self,
        session: runtime.Session,
        scope: runtime.Scope,
        settings: Settings,
        shown: npt.NDArray[np.uint8],
        bits: int = 8,
    ) -> None:
        self._session, self._scope, self._settings, self._shown = session, scope, settings, shown
        how = settings.block_size, settings.scan, settings.levels, settings.linear, settings.noise
        self._plan = make_plan(*how, settings.tables)
        self._limit = np.int32(min(self._plan.error_limit, settings.error_limit))
        self._key = runtime.seed_key(settings.seed)
        spiral = settings.scan == "spiral" and settings.block_size >= SMALLEST_SPIRAL
        two_levels = bits == 8 and settings.levels == 2 and shown.tolist() == [0, 255]
        plain = two_levels and not settings.linear and not self._plan.noisy
        self._variant = session.choose(_forms(settings.block_size) if spiral and plain else VARIANTS[-1:])
        self._made: dict[tuple[int, bool], _Form] = {}
        self._bits = bits

    def _form(self, phase: int, fast: bool) -> _Form:
        """The portable or the device's own form of a phase, made when it is first needed."""
        if (phase, fast) not in self._made:
            self._made[phase, fast] = self._fast_form(phase) if fast else self._portable_form(phase)
        return self._made[phase, fast]

    @functools.cached_property
    def _finer(self) -> runtime.Buffer:
        """Upload the worths of 16-bit values, and the thresholds of fractions of a unit."""
        worth = finer_units(self._settings.linear) if self._bits == 16 else np.zeros(1, np.int32)
        return self._scope.copy_of(np.concatenate([worth, bayer(4).ravel().astype(np.int32)]))

    def _portable_form(self, phase: int) -> _Form:
        settings, plan = self._settings, self._plan.phases[phase]
        program = self._session.program(
            VARIANTS[-1].file,
            **phase_constants(settings.block_size, settings.scan, phase),
            LEVELS=2 if settings.levels == 2 else 3,
            NOISE=int(self._plan.noisy),
            BITS=self._bits,
        )
        tables = {**plan.portable, "shown": self._shown}
        buffers = {name: self._scope.copy_of(table) for name, table in tables.items()}
        return _Form(program.kernel("halftone_blocks"), buffers)

    def _fast_form(self, phase: int) -> _Form:
        shape: _Shape = self._variant.launchers[0](self._plan.phases[phase], self._session.limits, int(self._limit))
        kernel = self._session.program(self._variant.file, **shape.constants).kernel(f"halftone_{self._variant.name}")
        tables = {name: self._scope.copy_of(table) for name, table in shape.tables.items()}
        return _Form(kernel, tables, shape.blocks, shape.group)

    def step(self, session: runtime.Session, scope: runtime.Scope, portion: Portion) -> None:
        """Queue both phases of a band, whose rows in reach are wrong; alpha is copied."""
        picture, channels = portion.picture, min(portion.picture.channels, 3)
        if channels < picture.channels and self._bits == 8:
            session.copy(portion.out, portion.pixels, (portion.last - portion.first) * picture.width * 4)
        blocks = BandBlocks.of(portion, self._settings.block_size)
        edges = scope.empty(blocks.edge_bytes(EDGE_BYTES * channels))
        given = {"image": portion.pixels, "output": portion.out, "edges": edges, "picture": blocks.picture}
        job = _Job({**given, "error_limit": self._limit, "key": blocks.key(self._key)}, blocks, channels)
        for phase in (OUTWARD, INWARD):
            self._run_phase(phase, job, picture)

    def _run_phase(self, phase: int, job: _Job, picture: Picture) -> None:
        """Queue the blocks of a phase: whole ones by the device's own form."""
        begin, end = job.band.ranges[phase]
        if self._variant.name == VARIANTS[-1].name:
            self._launch_portable(phase, job, begin, end, 0, False)
            return
        block = self._settings.block_size
        whole_end = min(end, picture.height // block)
        if whole_end > begin and picture.width >= block:
            form, rows = self._form(phase, True), whole_end - begin
            items = -(-job.band.half // form.blocks) * form.group
            given = {**form.tables, **job.given, "blocks": job.band.blocks(begin)}
            self._session.launch(form.kernel, (items, rows, job.channels), (form.group, 1, 1), **given)
        if end > max(begin, whole_end):
            self._launch_portable(phase, job, max(begin, whole_end), end, 0, True)
        if picture.width % block and whole_end > begin:
            self._launch_portable(phase, job, begin, whole_end, picture.width // block // 2, True)

    def _launch_portable(self, phase: int, job: _Job, begin: int, end: int, index: int, cut_only: bool) -> None:
        """Queue the portable form from the `index`-th block of a row on; `cut_only` leaves out whole blocks."""
        form, slots = self._form(phase, False), self._plan.phases[phase].path.slots
        lanes = self._session.work_group_size(
            form.kernel, min(self._session.tuned("halftone.group"), job.band.half - index), slots * 2
        )
        self._session.launch(
            form.kernel,
            (job.band.half - index, end - begin, job.channels),
            (lanes, 1, 1),
            **form.tables,
            **job.given,
            blocks=job.band.blocks(begin),
            all_waiting=runtime.LocalMemory(slots * 2 * lanes),
            first_index=np.int32(index),
            cut_only=np.int32(cut_only),
            finer=self._finer,
        )

    def least_rows(self, width: int, channels: int) -> int:
        """Rows that a band of a picture should have."""
        block = self._settings.block_size
        blocks = GROUP if self._variant.name == VARIANTS[-1].name else self._form(OUTWARD, True).blocks
        groups = -(-half_blocks(width, block) // blocks) * channels
        # With fewer rows a band takes as long, as its blocks take turns.
        return -(-self._session.limits.compute_units // groups) * block


@dataclass(frozen=True)
class LevelHalftone(BlockMap):
    """The halftone of each channel to levels, of which `shown` has the bytes to write; alpha is copied."""

    settings: Settings
    shown: bytes
    max_bits: int = 16

    @contextlib.contextmanager
    def open(self, session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[Steps]:  # noqa: ARG002
        """Lend a `BlockHalftone`; an earlier job's with the same settings is reused."""
        settings, bits, shown = self.settings, picture.bits, np.frombuffer(self.shown, np.uint8)
        key = ("halftone", bits, self, session.choose(_forms(settings.block_size)).name)
        channels, block = min(picture.channels, 3), settings.block_size
        with runtime.cached_job(session, key, lambda own: BlockHalftone(session, own, settings, shown, bits)) as job:
            yield Steps(
                job.step,
                rows=block,
                reach=block,
                row_bytes=edge_row_bytes(picture.width, block, EDGE_BYTES * channels),
                least_rows=job.least_rows(picture.width, channels),
                fills_reach=True,
            )
