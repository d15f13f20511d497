"""Faults injected at each kind of call into OpenCL: a right result or one clear error, and the next call is right."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pyopencl as cl
import pytest

import clquant
from clquant import runtime
from clquant.runtime import session as session_module
from clquant.runtime.memory import scope as memory
from clquant.runtime.program.programs import ProgramCache
from portability.buffers import TrackedBuffer, tracked_allocation
from portability.hashes import golden
from portability.jobs import JOBS, Job, digest

JOB_NAMES = ("kmeans rgb 8", "neuquant 8", "vq gray 4x4", "halftone 8", "quadtree rgb", "blue noise 16", "search 12")
JOB_NAMES += ("spatial 5", "tiles", "quality gray")
ENGINES = [job for job in JOBS if job.name in JOB_NAMES]
# The nth use fails; each form, and each step of building, is given other ones.
TURNS = {"": (0, 2, 13), "unified_memory=0": (1, 5), "unified_memory=0,is_cpu=0": (0, 3, 8)}
CODE = cl.status_code
KINDS: tuple[tuple[type[cl.Error], int], ...] = (
    (cl.LogicError, CODE.DEVICE_NOT_AVAILABLE),
    (cl.MemoryError, CODE.MEM_OBJECT_ALLOCATION_FAILURE),
    (cl.RuntimeError, CODE.OUT_OF_RESOURCES),
)
PLACES = {
    "allocate": (cl, "Buffer"),
    "launch": (cl, "enqueue_nd_range_kernel"),
    "copy": (cl, "enqueue_copy"),
    "fill": (cl, "enqueue_fill_buffer"),
    "map": (cl, "enqueue_map_buffer"),
    "marker": (cl, "enqueue_marker"),
    "barrier": (cl, "enqueue_barrier"),
    "wait for events": (cl, "wait_for_events"),
    "wait": (cl.Event, "wait"),
    "finish": (cl.CommandQueue, "finish"),
    "flush": (cl.CommandQueue, "flush"),
    "argument": (cl.Kernel, "set_arg"),
}
# These are used when programs are new alone.
BUILDING: dict[str, tuple[tuple[Any, str], tuple[int, ...]]] = {
    "program": ((cl.Program, "__init__"), (0, 5)),
    "build": ((cl.Program, "build"), (1, 2)),
    "kernel": ((cl, "Kernel"), (0, 13)),
    "group size": ((cl.Kernel, "get_work_group_info"), (1, 5)),
}
assert len(ENGINES) == len(JOB_NAMES)


def failing(call: Callable[..., Any], turn: int, error: cl.Error, times: int) -> tuple[Callable[..., Any], list[int]]:
    """A call that raises at its nth use, and so many times from there on; and a list of one number: uses so far."""
    uses = [0]

    def fails(*args: Any, **kwargs: Any) -> Any:
        uses[0] += 1
        if turn < uses[0] <= turn + times:
            raise error
        return call(*args, **kwargs)

    return fails, uses


def fault(turn: int) -> cl.Error:
    kind, code = KINDS[turn % len(KINDS)]
    return kind(cl._cl._ErrorRecord(msg="injected", code=code, routine="a driver's call"))


@pytest.fixture(params=TURNS)
def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, ...]]:
    """The uses that fail, on the device as it is, with memory of its own, and with the forms of GPUs."""
    runtime.release_memory()
    monkeypatch.setenv("CLQUANT_LIMITS", request.param)
    yield TURNS[request.param]
    runtime.release_memory()


def inject(
    job: Job, queue: runtime.CommandQueue, turns: tuple[int, ...], owner: Any, name: str, times: int = 1
) -> None:
    for turn in turns:
        fails, uses = failing(getattr(owner, name), turn, fault(turn), times)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, fails)
            try:
                assert digest(job.run(queue)) == golden()[job.name]
            except clquant.ClquantError as error:
                assert uses[0] > turn, error
                # Retries are allowed: for memory, what is kept is given back first.
        if uses[0] <= turn:
            break
    assert digest(job.run(queue)) == golden()[job.name]


@pytest.mark.parametrize("job", ENGINES, ids=lambda job: job.name)
@pytest.mark.parametrize("place", PLACES)
def test_a_call_may_fail(queue: runtime.CommandQueue, turns: tuple[int, ...], job: Job, place: str) -> None:
    inject(job, queue, turns, *PLACES[place])


@pytest.mark.parametrize("job", ENGINES, ids=lambda job: job.name)
@pytest.mark.parametrize("place", BUILDING)
def test_building_may_fail(queue: runtime.CommandQueue, job: Job, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class NewPrograms:
        """Programs that are built anew for each job."""

        cache = ProgramCache()

        def get(self, *args: Any) -> Any:
            return self.cache.get(*args)

    monkeypatch.setattr(session_module, "PROGRAMS", NewPrograms())
    run = job.run

    def anew(queue: runtime.CommandQueue) -> Any:
        runtime.release_memory()
        NewPrograms.cache = ProgramCache()
        return run(queue)

    # A form of a program that does not build may have another in its place, which fails as well.
    times = 2 if place in ("program", "build") else 1
    (owner, name), turns = BUILDING[place]
    inject(Job(job.name, anew, job.small), queue, turns, owner, name, times=times)


@pytest.mark.parametrize("job", ENGINES, ids=lambda job: job.name)
@pytest.mark.parametrize("place", ["launch", "copy", "finish"])
def test_nothing_is_leaked(queue: runtime.CommandQueue, job: Job, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.release_memory()
    monkeypatch.setattr(memory, "allocate", tracked_allocation)
    TrackedBuffer.alive.clear()
    inject(job, queue, TURNS[""], *PLACES[place])
    runtime.release_memory()
    gc.collect()
    assert not TrackedBuffer.alive
