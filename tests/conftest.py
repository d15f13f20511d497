"""Every test that asks for `queue` runs on every OpenCL device there is; simulators get only tests marked so."""

from __future__ import annotations

import functools
import gc
import os
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pyopencl as cl
import pytest

# A process per core runs tests, and each has PoCL's threads: on many cores they would be the square of these.
# The shapes of some launches follow from their number, so processes differ in it.
if "PYTEST_XDIST_WORKER" in os.environ:
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "4231"[number % 4])

from clquant import runtime

MOST_BY_PLACE = 9  # of a launch's arguments; more are given by name
SAMPLE = pathlib.Path(__file__).parent.parent / "docs" / "images" / "red_eyed_tree_frog.png"


def _is_simulator(device: object) -> bool:
    return "oclgrind" in runtime.describe(device).lower()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="", help="only tests that take a device, on those whose name contains this")
    parser.addoption("--programs", default="", help="where compiled programs are kept; by default in a new folder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--device"):
        parameters = [(item, getattr(getattr(item, "callspec", None), "params", {})) for item in items]
        others = [item for item, given in parameters if not isinstance(given.get("device"), cl.Device)]
        items[:] = [item for item, given in parameters if isinstance(given.get("device"), cl.Device)]
        config.hook.pytest_deselected(items=others)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules live to the end: no later collection of garbage has to walk through them."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "small: small enough to run on a simulator (Oclgrind) as well")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        small = metafunc.definition.get_closest_marker("small") is not None
        wanted = metafunc.config.getoption("--device").lower()
        devices = [d for d in runtime.list_devices() if small or not _is_simulator(d)]
        devices = [d for d in devices if wanted in f"{runtime.describe(d)} {d.platform.version}".lower()]
        metafunc.parametrize("device", devices, ids=runtime.describe, scope="session")


@pytest.fixture
def queue(device: object) -> runtime.CommandQueue:
    """This thread's queue on each device in turn."""
    return runtime.default_queue(device)


@pytest.fixture
def copies_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads queue copies one after the other, for tests of several lanes on PoCL: PoCL 3.0 crashes where two threads
    queue the first copies into a buffer at once (in its pocl_create_migration_commands).
    """
    lock, enqueue_copy = threading.Lock(), cl.enqueue_copy

    def in_turn(*args: Any, is_blocking: bool = True, **options: Any) -> Any:
        if is_blocking:  # on the job's own queue, when the lanes' copies are queued
            return enqueue_copy(*args, **options)
        with lock:
            return enqueue_copy(*args, is_blocking=False, **options)

    monkeypatch.setattr(cl, "enqueue_copy", in_turn)


@pytest.fixture
def new_queue(device: cl.Device) -> Callable[..., cl.CommandQueue]:
    """Makes queues in contexts of their own, which are kept: Intel's runtime does not do so for a queue."""
    contexts: list[cl.Context] = []

    def make(properties: int = 0) -> cl.CommandQueue:
        contexts.append(cl.Context([device]))
        return cl.CommandQueue(contexts[-1], properties=properties)

    return make


@pytest.fixture(scope="session", autouse=True)
def _own_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests neither read nor fill the person's own program cache."""
    patch = pytest.MonkeyPatch()
    folder = request.config.getoption("--programs") or tmp_path_factory.mktemp("cache")
    patch.setenv("CLQUANT_CACHE_DIR", str(folder))


@pytest.fixture(scope="session", autouse=True)
def _arguments_by_name() -> None:
    """No launch of any test passes more than `MOST_BY_PLACE` arguments by their place in the kernel's signature."""
    patch = pytest.MonkeyPatch()
    for name, before in (("launch", 3), ("prepare", 4)):  # kernel and sizes, behind a scope
        patch.setattr(runtime.Session, name, _few_by_place(getattr(runtime.Session, name), before))


def _few_by_place(launch: Callable[..., Any], before: int) -> Callable[..., Any]:
    @functools.wraps(launch)
    def checked(session: runtime.Session, /, *args: Any, **named: Any) -> Any:
        kernel, given = args[before - 3], len(args) - before
        assert given <= MOST_BY_PLACE, f"{kernel.name} gets {given} arguments by place"
        return launch(session, *args, **named)

    return checked


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261120)


@pytest.fixture(scope="session")
def sample() -> npt.NDArray[np.uint8]:
    """The sample picture, (H, W, 3) uint8 (red-eyed tree frog by Carey James Balboa, public domain)."""
    with PIL.Image.open(SAMPLE) as image:
        return np.asarray(image.convert("RGB"))
