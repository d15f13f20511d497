"""What goes wrong on purpose: each fault is one clear error, nothing stays behind, and the library works afterwards."""

from __future__ import annotations

import contextlib
import gc
import inspect
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import clquant
from clquant import runtime
from clquant.kmeans.lloyd import Lloyd
from clquant.runtime import session
from clquant.runtime.memory import scope
from clquant.runtime.program import programs
from portability.buffers import TrackedBuffer, tracked_allocation
from portability.hashes import golden
from portability.inputs import photo
from portability.jobs import JOBS, Job, digest

SMALL = [job for job in JOBS if job.small]
each_small_job = pytest.mark.parametrize("job", SMALL, ids=lambda job: job.name)


def works(job: Job, queue: runtime.CommandQueue) -> bool:
    return digest(job.run(queue)) == golden()[job.name]


def in_turn(
    patch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    call: Callable[..., Any],
    error: Callable[[], Exception],
    times: int = 1,
) -> Iterator[int]:
    """Make use 0, 1, 2, ... of a driver call, and so many `times` from there on, fail as drivers do, until a run needs
    no more; beyond 12 every eighth.
    """
    for at in (*range(12), *range(12, 2000, 8)):
        left = at

        def failing(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if -times <= left < 0:
                raise error()
            return call(*args, **kwargs)

        with patch.context() as inner:
            inner.setattr(owner, name, failing)
            yield at
        if left >= 0:
            return


@each_small_job
def test_memory_may_run_out_at_any_allocation(
    queue: runtime.CommandQueue, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short() -> Exception:
        return runtime.DeviceMemoryError("the device ran out of memory in allocating")

    failures = 0
    runtime.release_memory()  # buffers that other tests left in the pool need no allocation
    TrackedBuffer.alive.clear()
    # Two in a row: the first refusal has what is kept released, and the same is asked for again.
    for _ in in_turn(monkeypatch, scope, "allocate", tracked_allocation, short, times=2):
        try:
            job.run(queue)
        except runtime.DeviceMemoryError:
            failures += 1
        runtime.release_memory()
        if TrackedBuffer.alive:
            gc.collect()
        assert not TrackedBuffer.alive
    assert failures > 0
    assert works(job, queue)


@each_small_job
def test_a_kernel_may_fail_at_any_launch(
    queue: runtime.CommandQueue, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> Exception:
        code = cl.status_code.DEVICE_NOT_AVAILABLE
        return cl.LogicError(cl._cl._ErrorRecord(msg="the device is gone", code=code, routine="enqueue"))

    failures = 0
    for at in in_turn(monkeypatch, cl, "enqueue_nd_range_kernel", cl.enqueue_nd_range_kernel, lost):
        if at > 60:
            break
        try:
            job.run(queue)
        except runtime.DeviceError as error:
            assert "the device is gone" in str(error)
            failures += 1
    assert failures > 0
    assert works(job, queue)


@each_small_job
def test_a_kernel_may_not_build(queue: runtime.CommandQueue, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.release_memory()  # launches that are kept need no program
    with monkeypatch.context() as patch:
        patch.setattr(programs, "kernel_source", lambda file: f"kernel void broken_{file[0]}(")
        patch.setattr(session, "PROGRAMS", programs.ProgramCache())
        with pytest.raises(runtime.BuildError, match=r"(?s)\.cl does not build on .*error"):
            job.run(queue)
    assert works(job, queue)


@contextlib.contextmanager
def interrupt_at_call(number: int) -> Iterator[None]:
    """Raise KeyboardInterrupt at the start of the given call, counted from 0, into the package's own files.

    A tracer, not a timer: a timer's interrupt may fall into a destructor or a generator that is being closed, and
    Python lets nothing out of those. The start of a call is where the interpreter itself delivers signals; at a line's
    start it never does.
    """
    package = str(Path(clquant.__file__).parent)
    left = number

    def trace(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        closing = frame.f_code.co_name == "__del__" or frame.f_code.co_flags & inspect.CO_GENERATOR
        if closing or not frame.f_code.co_filename.startswith(package):
            return
        left -= 1
        if left == -1:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@each_small_job
def test_an_interrupt_may_come_at_any_call(
    queue: runtime.CommandQueue, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = 0
    monkeypatch.setattr(scope, "allocate", tracked_allocation)
    TrackedBuffer.alive.clear()
    for step in range(30):
        try:
            with interrupt_at_call(round(1.7**step) - 1):
                job.run(queue)
        except KeyboardInterrupt:
            interrupts += 1
        else:
            break
    assert interrupts > 4
    runtime.release_memory()
    gc.collect()
    assert not TrackedBuffer.alive
    assert works(job, queue)


@pytest.mark.parametrize("at", ["measuring", "reading"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, runtime.DeviceMemoryError])
def test_fit_predict_may_fail_where_it_measures(
    queue: runtime.CommandQueue, at: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device memory that it measures with is given back once, and what was learned before stands."""
    picture = photo(40, 52)
    model = clquant.KMeansPalette(6, queue=queue).fit(photo(30, 30))
    before = dict(model.__dict__)

    def fails(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(Lloyd, "inertia_later", fails if at == "measuring" else lambda _: fails)
        model.fit_predict(picture)
    assert model.__dict__ == before
    expected = clquant.KMeansPalette(6, queue=queue).fit(picture)
    np.testing.assert_array_equal(model.fit_predict(picture), expected.predict(picture))
    assert model.inertia_ == expected.inertia_


@pytest.mark.full
def test_ctrl_c_ends_a_run_and_leaves_the_library_usable() -> None:
    program = """
import signal, sys
from portability.buffers import TrackedBuffer, tracked_allocation
from portability.hashes import golden
from portability.jobs import JOBS, digest
from clquant import runtime

job = next(job for job in JOBS if job.small)
queue = runtime.default_queue()
job.run(queue)
try:
    print("running", flush=True)
    while True:
        job.run(queue)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(digest(job.run(queue)) == golden()[job.name], flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "running\n"
            # Python drops what a destructor raises, an interrupt as well: then there is no answer, and it comes again.
            for _ in range(20):
                child.send_signal(signal.SIGINT)
                if select.select([child.stdout], [], [], 30)[0]:
                    break
            assert child.stdout.readline() == "True\n"
        finally:
            child.kill()


@each_small_job
def test_a_queue_of_the_callers_own_context(new_queue: Callable[..., cl.CommandQueue], job: Job) -> None:
    assert works(job, new_queue())


@each_small_job
def test_an_out_of_order_queue(new_queue: Callable[..., cl.CommandQueue], job: Job) -> None:
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    assert works(job, new_queue(properties))


@pytest.mark.full
@each_small_job
def test_a_device_that_vanishes_from_the_environment(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    none: Any = None
    with monkeypatch.context() as patch:
        patch.setenv("CLQUANT_DEVICE", "a card that was pulled out")
        with pytest.raises(runtime.NoDeviceError, match="a card that was pulled out"):
            job.run(none)
    assert works(job, none)


class LostError(Exception):
    """What a callback of the caller's raises."""


def _long_calls() -> dict[str, Callable[[Any, Any], Any]]:
    """Every public method that takes `progress`, on a picture: (queue, callback) -> result."""
    calls: dict[str, Callable[[Any, Any], Any]] = {}
    picture, gray = photo(90, 120), photo(90, 120, 1)
    if hasattr(clquant, "KMeansPalette"):
        calls["kmeans"] = lambda queue, progress: clquant.KMeansPalette(8, queue=queue).fit(picture, progress=progress)
    if hasattr(clquant, "NeuQuantCL"):
        calls["neuquant"] = lambda queue, progress: clquant.NeuQuantCL(8, queue=queue).fit(picture, progress=progress)
    if hasattr(clquant, "VQCodec"):
        calls["vq"] = lambda queue, progress: clquant.VQCodec(8, queue=queue).fit(picture, progress=progress)
    if hasattr(clquant, "PinwheelHalftoner"):
        calls["halftone"] = lambda queue, progress: clquant.PinwheelHalftoner(8, queue=queue).transform(
            gray, progress=progress
        )
    if hasattr(clquant, "QuadtreeBuilder"):
        calls["quadtree"] = lambda queue, progress: clquant.QuadtreeBuilder(queue=queue).build(
            picture, progress=progress
        )
    return calls


@pytest.mark.full
@pytest.mark.parametrize("name", _long_calls())
def test_a_callback_may_stop_or_raise(queue: runtime.CommandQueue, name: str) -> None:
    call = _long_calls()[name]
    reports: list[tuple[int, int]] = []
    call(queue, lambda done, total: reports.append((done, total)))
    assert reports
    assert all(0 <= done <= total for done, total in reports)
    assert reports[-1][0] == reports[-1][1]
    for at in range(min(len(reports), 3)):
        calls = 0

        def stop(done: int, total: int, at: int = at) -> bool:
            nonlocal calls
            calls += 1
            return calls <= at

        with pytest.raises(runtime.StoppedError):
            call(queue, stop)

        def fail(done: int, total: int) -> None:
            raise LostError

        with pytest.raises(LostError):
            call(queue, fail)
    assert works(next(job for job in SMALL if job.name.startswith(name)), queue)


def test_device_arrays_give_the_bits_of_host_arrays(queue: runtime.CommandQueue) -> None:
    picture = photo(60, 84)
    on_device = runtime.open_session(queue).new_array(picture.shape, np.uint8)
    on_device.set(picture)
    table = clquant.Palette(photo(16, 1, 3, seed=5).reshape(16, 3))
    from clquant.palette import engine

    mapped = engine.predict(on_device, table)
    assert isinstance(mapped, runtime.Array)
    np.testing.assert_array_equal(mapped.get(), engine.predict(picture, table, queue=queue))
