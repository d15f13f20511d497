"""Every test that asks for `queue` runs on every OpenCL device there is; simulators get only tests marked so."""

from __future__ import annotations

import collections
import functools
import gc
import importlib.util
import os
import pathlib
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
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
from clquant.runtime.device import fitness
from clquant.runtime.program import tuning

MOST_BY_PLACE = 9  # of a launch's arguments; more are given by name
# Of each test on a device the quick suite runs so many cases: each may be a kernel that PoCL compiles for a second.
QUICK_CASES = 2
# Packages that tests skip without; the extra `test-all` brings them.
OPTIONAL = (
    "argcomplete",
    "av",
    "deflate",
    "faiss",
    "h5py",
    "matplotlib",
    "numcodecs",
    "pmtiles",
    "rasterio",
    "sklearn",
    "xarray",
    "zarr",
)
LEFT_OUT = pytest.StashKey[int]()
SAMPLE = pathlib.Path(__file__).parent.parent / "docs" / "images" / "red_eyed_tree_frog.png"


def _is_simulator(device: object) -> bool:
    return "oclgrind" in runtime.describe(device).lower()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="every case of every test, not the quick suite alone")
    parser.addoption("--order", type=int, help="run tests in the random order of this seed")
    parser.addoption("--device", default="", help="only tests that take a device, on those whose name contains this")
    parser.addoption("--programs", default="", help="where compiled programs are kept; by default in a new folder")


def _is_given_a_device(item: pytest.Item) -> bool:
    return isinstance(getattr(getattr(item, "callspec", None), "params", {}).get("device"), cl.Device)


def _quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests without the mark `full`; of each that takes a device, few cases: the first and the last among them."""
    functions = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") is None:
            functions[item.nodeid.split("[")[0]].append(item)
    kept = []
    for cases in functions.values():
        if _is_given_a_device(cases[0]) and len(cases) > QUICK_CASES:
            cases = [cases[i * (len(cases) - 1) // (QUICK_CASES - 1)] for i in range(QUICK_CASES)]
        kept += cases
    return kept


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    collected = list(items)
    if config.getoption("--device"):
        items[:] = [item for item in items if _is_given_a_device(item)]
    elif not config.getoption("--all"):
        items[:] = _quick(items)
        config.stash[LEFT_OUT] = len(collected) - len(items)
    if config.getoption("--order") is not None:
        random.Random(config.getoption("--order")).shuffle(items)
    kept = set(items)
    config.hook.pytest_deselected(items=[item for item in collected if item not in kept])


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # what a process of pytest-xdist tells the one that sums up
        output["left_out"] = session.config.stash.get(LEFT_OUT, 0)


class _LeftOut:
    """Says at the end what did not run, and how to run it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_testnodedown(self, node: Any) -> None:
        self._config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        count = self._config.stash.get(LEFT_OUT, 0)
        if count:
            terminalreporter.write_line(
                f"left out of the quick suite: {count} tests, which `python -m pytest --all` runs"
            )
        missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
        if missing:
            terminalreporter.write_line(f"not installed, so not tested: {', '.join(missing)} (extra: test-all)")


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules live to the end: no later collection of garbage has to walk through them."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "small: small enough to run on a simulator (Oclgrind) as well")
    config.addinivalue_line("markers", "full: not part of the quick suite, run by --all")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_LeftOut(config))
    _leave_the_own_settings(config)
    # No example depends on the time that it takes, on earlier runs, or, in the quick suite, on chance.
    hypothesis.settings.register_profile(
        "clquant",
        deadline=None,
        database=None,
        derandomize=not config.getoption("--all"),
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
    )
    hypothesis.settings.load_profile("clquant")


def _leave_the_own_settings(config: pytest.Config) -> None:
    """Tests, and what runs while they are collected, know neither the person's settings nor their cache."""
    for name in [name for name in os.environ if name.startswith("CLQUANT_")]:
        del os.environ[name]
    folder = config.getoption("--programs")
    if not folder:
        made = tempfile.TemporaryDirectory(prefix="clquant-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(made.cleanup)
        folder = made.name
    os.environ["CLQUANT_CACHE_DIR"] = str(folder)


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


@pytest.fixture(autouse=True)
def _no_memory_of_other_tests() -> Iterator[None]:
    """No test finds tables, jobs or buffers that another left, or what it read of settings."""
    yield
    runtime.release_memory()
    tuning.forget()
    fitness.forget()


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
