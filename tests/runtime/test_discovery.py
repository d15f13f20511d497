"""Which device is taken, and what a person is told when there is none."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pyopencl as cl
import pyopencl.array
import pytest

from clquant import runtime
from clquant.runtime.device import discovery, limits
from clquant.runtime.device.limits import Limits


def test_explicit_queue_comes_first(queue: runtime.CommandQueue) -> None:
    assert runtime.open_session(queue).queue is queue


def test_device_arrays_give_their_queue(new_queue: Callable[..., cl.CommandQueue]) -> None:
    other = new_queue()
    array = pyopencl.array.zeros(other, (2, 2), "uint8")
    assert runtime.open_session(arrays=[array]).queue == other


def test_device_arrays_on_two_queues_are_refused(queue: runtime.CommandQueue) -> None:
    other = cl.CommandQueue(queue.context)
    arrays = [pyopencl.array.zeros(q, (2, 2), "uint8") for q in (queue, other)]
    with pytest.raises(runtime.InvalidArgument, match="differing queues"):
        runtime.open_session(arrays=arrays)


def test_array_of_another_context_is_refused(new_queue: Callable[..., cl.CommandQueue]) -> None:
    queue = new_queue()
    array = pyopencl.array.zeros(new_queue(), (2, 2), "uint8")
    with pytest.raises(runtime.InvalidArgument, match="differing OpenCL contexts"):
        runtime.open_session(queue, [array])


def test_a_queue_without_its_context_is_refused(queue: runtime.CommandQueue) -> None:
    class Orphan(cl.CommandQueue):  # type: ignore[misc]
        @property
        def context(self) -> cl.Context:
            raise cl.LogicError("clRetainContext failed: INVALID_CONTEXT")

    with pytest.raises(runtime.DeviceError, match="lost its context"):
        runtime.open_session(Orphan(queue.context))


def test_array_without_queue_is_refused(queue: runtime.CommandQueue) -> None:
    array = pyopencl.array.zeros(queue, (2, 2), "uint8").with_queue(None)
    with pytest.raises(runtime.InvalidArgument, match="no queue"):
        runtime.open_session(arrays=[array])


def test_queue_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(runtime.InvalidType, match="queue is 'gpu'"):
        runtime.open_session("gpu")  # type: ignore[arg-type]


def test_environment_names_the_device(device: cl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    index = runtime.list_devices().index(device)
    monkeypatch.setenv("CLQUANT_DEVICE", str(index))
    assert runtime.default_device() == device


def test_pyopencl_context_variable_is_honoured(device: cl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLQUANT_DEVICE", raising=False)
    monkeypatch.setenv("PYOPENCL_CTX", device.platform.name)
    # By name: two platforms may share one, a distribution's PoCL beside that of PyPI for instance.
    assert runtime.default_device().platform.name == device.platform.name


def test_part_of_a_name_finds_a_device(device: cl.Device) -> None:
    assert runtime.find_device(device.platform.name.upper()).platform.name == device.platform.name


@pytest.mark.parametrize("spec", ["no such device", "99", ""])
def test_unknown_device_lists_those_there(spec: str) -> None:
    with pytest.raises(runtime.NoDeviceError, match="is not there; there is 0: "):
        runtime.find_device(spec)


def test_no_device_at_all_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLQUANT_DEVICE", raising=False)
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    monkeypatch.setattr(discovery, "list_devices", list)
    with pytest.raises(runtime.NoDeviceError, match=r"found \(.*\): pip install 'pyopencl\[pocl\]' brings"):
        runtime.default_device()
    with pytest.raises(runtime.NoDeviceError, match=r"found \(.*\): pip install 'pyopencl\[pocl\]' brings"):
        runtime.find_device("gpu")


def test_a_platform_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def get_devices(self) -> list[cl.Device]:
            raise cl.RuntimeError("no devices here")

    there = cl.get_platforms()
    monkeypatch.setattr(cl, "get_platforms", lambda: [Broken(), *there])
    assert runtime.list_devices()


def test_simulators_come_last() -> None:
    simulators = ["oclgrind" in runtime.describe(d).lower() for d in runtime.list_devices()]
    assert simulators == sorted(simulators)


def test_the_queue_of_a_thread_that_has_ended_is_the_next_ones(device: cl.Device) -> None:
    own, used = runtime.default_queue(device), set()
    for _ in range(20):
        thread = threading.Thread(target=lambda: used.add(runtime.default_queue(device).int_ptr))
        thread.start()
        thread.join()
    assert len(used) == 1
    assert own.int_ptr not in used


def test_threads_have_queues_of_their_own_in_one_context(device: cl.Device) -> None:
    seen: list[cl.CommandQueue] = []
    together = threading.Barrier(3)

    def work() -> None:
        seen.append(runtime.default_queue(device))
        together.wait()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({q.int_ptr for q in seen}) == 3
    assert len({q.context.int_ptr for q in seen}) == 1


FORK = """
import os, sys
import numpy as np
import pyopencl as cl
import clquant
from clquant import runtime

picture = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
use, ways = {use!r}, {{
    "list_devices": runtime.list_devices,
    "default_device": runtime.default_device,
    "default_queue": runtime.default_queue,
    "open_session": runtime.open_session,
    "release_memory": runtime.release_memory,
    "an engine": lambda: clquant.KMeansPalette(2).fit(picture),
    "a caller's queue": lambda: clquant.KMeansPalette(2, queue=queue).fit(picture),
}}
queue = None
if use == "a caller's queue":
    queue = cl.CommandQueue(cl.Context([cl.get_platforms()[0].get_devices()[0]]))
if use != "nothing":
    ways[use]()
child = os.fork()
if child == 0:
    try:
        for name, way in ways.items():
            if use == "nothing" and name != "an engine":
                continue
            try:
                way()
                print(name, "works", flush=True)
            except runtime.DeviceError as error:
                print(name, "spawn" if "'spawn'" in str(error) else error, flush=True)
    finally:
        os._exit(0)
os.waitpid(child, 0)
print(len(clquant.KMeansPalette(2).fit(picture).palette_), flush=True)
"""


def _forked(use: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", FORK.format(use=use)]
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.full
@pytest.mark.parametrize("use", ["list_devices", "default_queue", "an engine", "a caller's queue"])
def test_a_child_forked_after_use_is_told_to_spawn_and_calls_no_driver(use: str) -> None:
    names = ["list_devices", "default_device", "default_queue", "open_session", "release_memory"]
    names += ["an engine", "a caller's queue"]
    assert _forked(use) == [*(f"{name} spawn" for name in names), "2"]


@pytest.mark.full
def test_a_child_forked_before_any_use_works() -> None:
    assert _forked("nothing") == ["an engine works", "2"]


def test_limits_are_lowered_and_never_raised(device: cl.Device) -> None:
    limits = Limits.of(device)
    low = limits.lowered("work_group=1, local_memory=1024,int64_atomics=0,max_alloc=99999999999999999")
    assert (low.work_group, low.local_memory, low.int64_atomics) == (1, 1024, False)
    assert low.max_alloc == limits.max_alloc


@pytest.mark.parametrize(
    "text",
    ["work_group", "nonsense=3", "work_group=-1", "work_group=x", "work_group=\u00b2", f"work_group={'9' * 5000}"],
)
def test_bad_limits_are_refused(device: cl.Device, text: str) -> None:
    with pytest.raises(runtime.InvalidArgument, match="allowed: NAME=NUMBER") as raised:
        Limits.of(device).lowered(text)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("text", ["work_group=0", "local_memory=1023", "max_alloc=0", "compute_units=00"])
def test_limits_that_no_device_has_are_refused(device: cl.Device, text: str) -> None:
    with pytest.raises(runtime.InvalidArgument, match=f"CLQUANT_LIMITS='{text}' holds '{text}'; allowed: at least"):
        Limits.of(device).lowered(text)


class _Device:
    """What `Limits` reads of a device that says it has 3 GiB."""

    type, extensions, vendor, name = cl.device_type.CPU, "", "", "device"
    max_work_group_size, max_work_item_sizes, max_compute_units = 8, [8], 4
    local_mem_size, max_mem_alloc_size, global_mem_size, host_unified_memory = 1 << 15, 1 << 28, 3 << 30, 1

    def __init__(self, platform: str) -> None:
        self.platform = SimpleNamespace(name=platform)


@pytest.mark.parametrize(
    ("platform", "bound", "gibibytes"),
    [
        ("Portable Computing Language", "", 23),
        ("Portable Computing Language", "3", 3),
        ("Some other", "3", 23),
        ("Oclgrind", "", 3),
    ],
)
def test_memory_of_the_hosts_processor_is_what_the_system_says(
    platform: str, bound: str, gibibytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clquant.runtime.device.limits.host_memory", lambda: 23 << 30)
    monkeypatch.setenv("POCL_MEMORY_LIMIT", bound)
    limits = Limits.of(cast(Any, _Device(platform)))
    assert (limits.global_memory, limits.max_alloc) == (gibibytes << 30, 1 << 28)


@pytest.mark.parametrize(("stated", "expected"), [("4096\n", 4096), ("max\n", 8 << 20), (str(1 << 62), 8 << 20)])
def test_memory_of_the_host_is_at_most_a_control_groups(
    stated: str, expected: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2048}[name], raising=False)
    (tmp_path / "memory.max").write_text(stated, encoding="ascii")
    monkeypatch.setattr(limits, "CGROUP_LIMITS", (str(tmp_path / "memory.max"), str(tmp_path / "none")))
    assert limits.host_memory.__wrapped__() == expected


def test_without_a_platform_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    for variable in ("CLQUANT_DEVICE", "PYOPENCL_CTX"):
        monkeypatch.delenv(variable, raising=False)
    assert runtime.list_devices() == []
    with pytest.raises(runtime.NoDeviceError, match=r"no OpenCL device found \(none at all\): pip install"):
        runtime.default_device()


def test_a_device_that_gives_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise cl.RuntimeError("out of everything")

    device = runtime.default_device()
    monkeypatch.setattr(cl, "CommandQueue", failing)
    with pytest.raises(runtime.DeviceError, match="gives no queue: out of everything"):
        runtime.profiling_queue(device)
    monkeypatch.setattr(cl, "Context", failing)
    monkeypatch.setattr(discovery, "_contexts", {})
    with pytest.raises(runtime.DeviceError, match="gives no context: out of everything"):
        runtime.default_queue(device)


def test_a_simulator_is_of_a_kind_only_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(platform: str, kind: int) -> SimpleNamespace:
        return SimpleNamespace(platform=SimpleNamespace(name=platform), name="device", type=kind)

    every = cl.device_type.CPU | cl.device_type.GPU | cl.device_type.ACCELERATOR
    simulator, cpu = made("Oclgrind", every), made("Portable Computing Language", cl.device_type.CPU)
    monkeypatch.setattr(discovery, "list_devices", lambda: [cpu, simulator])
    with pytest.raises(runtime.NoDeviceError, match="device 'gpu' is not there; there is 0: Portable"):
        runtime.find_device("gpu")
    assert runtime.find_device("cpu") is cpu
    assert runtime.find_device("oclgrind") is simulator
    monkeypatch.setattr(discovery, "list_devices", lambda: [simulator])
    assert runtime.find_device("gpu") is simulator
