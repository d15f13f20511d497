"""How long a call takes, and what a device could do at best: the two sides of every benchmark."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from benchmarks.measure.access import access_rates, check_values
from benchmarks.measure.timing import Timing, rate_of_rounds, time_call
from clquant.runtime.errors import device_errors
from clquant.runtime.memory.pinned import Block
from clquant.runtime.profiling import profile
from clquant.runtime.session import Session

__all__ = ["DeviceRates", "Timing", "device_rates", "kernel_ms", "time_call"]

FILE = str(pathlib.Path(__file__).with_name("rates.cl"))
_CHAINS = 8
_TARGET_MS = 20.0
_ROUNDS = 64, 1 << 24


@dataclasses.dataclass(frozen=True)
class DeviceRates:
    """What a device does at best, measured.

    Attributes
    ----------
    device : str
        Platform and device, with the driver's version.
    copy_gbps : float
        Bytes read plus bytes written a second by a copy inside the device's memory, in 10^9.
    float_gfma, integer_gmad : float
        10^9 multiply-adds per second, of floats and of 32-bit integers.
    small_reads_g, large_reads_g, local_reads_g : float
        10^9 reads of 4 bytes per second at random places: of 16 KB and of 16 MB of the device's memory, and of 16 KB of
        local memory.
    large_adds_g, local_adds_g : float
        10^9 atomic additions per second at random places of 64 MB, and of 16 KB of local memory.
    large_wait_ns, local_wait_ns : float
        Nanoseconds from a read to the next where each waits for the one before, of 16 MB and of 16 KB of local memory.
    upload_gbps, download_gbps : float
        10^9 bytes per second between ordinary (pageable) host memory and the device.
    pinned_upload_gbps, pinned_download_gbps : float
        The same for host memory that the driver allocated.
    launch_us : float
        Microseconds a launch, for many launches in a row that depend on each other.
    round_trip_us : float
        Microseconds for one launch and waiting for it.
    """

    device: str
    copy_gbps: float
    float_gfma: float
    integer_gmad: float
    small_reads_g: float
    large_reads_g: float
    local_reads_g: float
    large_adds_g: float
    local_adds_g: float
    large_wait_ns: float
    local_wait_ns: float
    upload_gbps: float
    download_gbps: float
    pinned_upload_gbps: float
    pinned_download_gbps: float
    launch_us: float
    round_trip_us: float


def kernel_ms(call: Callable[[], object], repeat: int = 3, warmup: int = 1) -> float:
    """Device time of the kernels that a call launches, by profiling events.

    Parameters
    ----------
    call : callable
        Works on a queue of `profiling_queue`, in this thread.
    repeat, warmup : int
        As for `time_call`; the median of the sums is returned.

    Returns
    -------
    float
        Milliseconds.

    Raises
    ------
    DeviceError
        If the queue carries no times.
    """
    for _ in range(warmup):
        call()
    sums: list[float] = []
    for _ in range(max(repeat, 1)):
        with profile() as collected:
            call()
        with device_errors("reading kernel times; is the queue one of profiling_queue()?"):
            sums.append(collected.kernel_ms())
    return statistics.median(sums)


def device_rates(queue: cl.CommandQueue, megabytes: int = 256) -> DeviceRates:
    """Measure what a device does at best.

    Parameters
    ----------
    queue : pyopencl.CommandQueue
        In-order, of the device to measure; times are wall-clock over work long enough for that.
    megabytes : int
        Size of the copies; reduced to a quarter of the largest buffer the device admits.

    Returns
    -------
    DeviceRates

    Raises
    ------
    DeviceMemoryError, DeviceError
        If the device fails, or computes a wrong value.
    """
    session = Session(queue)
    nbytes = min(megabytes << 20, session.limits.max_alloc // 4) & ~0xFFFF
    up, down = _transfer_rates(session, np.empty(nbytes, np.uint8))
    pinned_up, pinned_down = _pinned_rates(session, nbytes)
    launch, trip = _launch_costs(session)
    return DeviceRates(
        device=f"{queue.device.platform.name.strip()}: {queue.device.name.strip()} ({queue.device.driver_version})",
        copy_gbps=_copy_rate(session, nbytes),
        float_gfma=_arithmetic_rate(session, "measure_float", np.float32),
        integer_gmad=_arithmetic_rate(session, "measure_integer", np.uint32),
        **access_rates(session),
        upload_gbps=up,
        download_gbps=down,
        pinned_upload_gbps=pinned_up,
        pinned_download_gbps=pinned_down,
        launch_us=launch,
        round_trip_us=trip,
    )


def _program_constants(session: Session) -> dict[str, int | str]:
    # CPUs compute in explicit lanes; GPUs across work-items, where wide vectors only cost registers.
    lanes = 16 if session.limits.is_cpu else 2
    return {"FLOATN": f"float{lanes}", "UINTN": f"uint{lanes}"}


def _arithmetic_rate(session: Session, name: str, dtype: type[np.float32] | type[np.uint32]) -> float:
    constants = _program_constants(session)
    lanes = int(str(constants["UINTN"])[4:])
    kernel = session.program(FILE, **constants).kernel(name)
    group = session.work_group_size(kernel, 256)
    items = session.limits.compute_units * (64 if session.limits.is_cpu else 2048)
    items = -(-items // group) * group
    one, zero = dtype(1), dtype(0)
    with session.scope() as scope:
        out = scope.empty(items * 4)

        def launch(rounds: int) -> None:
            session.launch(kernel, items, group, out, np.uint32(rounds), one, zero)
            session.finish()

        launch(_ROUNDS[0])  # what a first launch does besides is not timed
        rate = rate_of_rounds(launch, items * _CHAINS * lanes, _ROUNDS, _TARGET_MS)
        got = session.download(out, items, dtype)
    # Every lane starts at id mod 256 and chain c adds c: two lanes of eight chains are handed out.
    expected = (2 * (_CHAINS * (np.arange(items) % 256) + sum(range(_CHAINS)))).astype(dtype)
    check_values(session, name, got, expected)
    return rate


def _copy_rate(session: Session, nbytes: int) -> float:
    kernel = session.program(FILE, **_program_constants(session)).kernel("measure_copy")
    group = session.work_group_size(kernel, 256)
    with session.scope() as scope:
        source, target = scope.zeros(nbytes), scope.zeros(nbytes)

        def by_kernel() -> None:
            for _ in range(4):
                session.launch(kernel, nbytes // 64, group, target, source, np.uint64(nbytes // 16))
            session.finish()

        def by_command() -> None:
            for _ in range(4):
                session.copy(target, source, nbytes)
            session.finish()

        best = min(time_call(call, repeat=5).best_ms for call in (by_kernel, by_command))
    return 4 * 2 * nbytes / best * 1e-6


def _transfer_rates(session: Session, host: npt.NDArray[np.uint8]) -> tuple[float, float]:
    host[:] = 1  # every page present before the clock starts
    with session.scope() as scope:
        buffer = scope.empty(host.nbytes)

        def up() -> None:
            with device_errors("copying to the device"):
                cl.enqueue_copy(session.queue, buffer, host, is_blocking=True)
            session.finish()

        def down() -> None:
            with device_errors("copying from the device"):
                cl.enqueue_copy(session.queue, host, buffer, is_blocking=True)
            session.finish()

        return tuple(host.nbytes / time_call(call, repeat=5).best_ms * 1e-6 for call in (up, down))  # type: ignore[return-value]


def _pinned_rates(session: Session, nbytes: int) -> tuple[float, float]:
    with device_errors("allocating pinned host memory"):
        block = Block(session.queue, nbytes)
    return _transfer_rates(session, block.bytes)


def _launch_costs(session: Session) -> tuple[float, float]:
    kernel = session.program(FILE, **_program_constants(session)).kernel("measure_launch")
    with session.scope() as scope:
        cell = scope.zeros(4)

        def many() -> None:
            for _ in range(200):
                session.launch(kernel, 1, 1, cell)
            session.finish()

        def one() -> None:
            session.launch(kernel, 1, 1, cell)
            session.finish()

        in_a_row = time_call(many, repeat=5).median_ms / 200
        alone = time_call(one, repeat=50, warmup=5).median_ms
    return in_a_row * 1e3, alone * 1e3
