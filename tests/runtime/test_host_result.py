"""Results on the host, in ordinary and in page-locked memory, and page-locked arrays of the user's."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import clquant
from clquant import KMeansPalette, Palette, PinwheelHalftoner, QuadtreeBuilder, VQCodec, runtime
from clquant.images import upload
from clquant.palette import engine
from clquant.runtime.memory import pinned
from clquant.runtime.transfer import copy
from clquant.runtime.transfer import host_result as results


@pytest.fixture
def session(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> Iterator[runtime.Session]:
    """Of a device that seems to have memory of its own, beside many cores; every size is large enough for anything."""
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    for module, name in ((copy, "SMALLEST_DOWN"), (copy, "UNAWAITED_BYTES")):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(upload, "STAGED_BYTES", 4096)
    monkeypatch.setattr(pinned, "_pools", type(pinned._pools)())
    yield runtime.open_session(queue)
    gc.collect()


def pool(session: runtime.Session) -> pinned.PinnedPool:
    return pinned.pinned_pool(session.context, session.device)


@pytest.mark.parametrize("shape", [(1,), (4096,), (4097,), (123, 457), (700, 300, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_parts_arrive_in_their_rows(
    session: runtime.Session, shape: tuple[int, ...], dtype: type, rng: np.random.Generator
) -> None:
    data = rng.integers(0, 256, shape).astype(dtype)
    middle = shape[0] // 2
    for turn in range(3):  # the first time in ordinary memory, then in page-locked
        result = runtime.HostResult(session, shape, dtype)
        assert result.fits(shape, np.dtype(dtype))
        assert not result.fits((*shape, 1), np.dtype(dtype))
        with session.scope() as scope:
            buffer = scope.copy_of(data)
            result.store(scope, middle, shape[0], buffer, data[:middle].nbytes)
            result.store(scope, 0, middle, buffer)
        array = result.array()
        assert np.array_equal(array, data)
        assert (array.shape, array.dtype) == (shape, dtype)
        assert session.is_pinned(array) == (turn > 0)


def test_memory_of_dropped_results_serves_again_and_of_kept_ones_does_not(session: runtime.Session) -> None:
    given = pool(session)
    assert given.result((5000,), np.uint8) is None
    first = given.result((5000,), np.uint8)
    second = given.result((50, 100), np.uint8)
    assert first is not None
    assert second is not None
    view, address = first[100:], first.ctypes.data
    assert second.ctypes.data != address
    del first
    third = given.result((5000,), np.uint8)
    assert third is not None
    assert third.ctypes.data not in (address, second.ctypes.data)  # the view still uses it
    del view
    fourth = given.result((5000,), np.uint8)
    assert fourth is not None
    assert fourth.ctypes.data == address


def test_results_beyond_the_bound_are_ordinary(session: runtime.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "MOST_RESULT_BYTES", 10_000)
    given = pool(session)
    kept = [given.result((4096,), np.uint8) for _ in range(4)]
    assert [array is None for array in kept] == [True, False, False, True]
    assert given.empty((4096,), np.uint8) is not None
    del kept
    assert given.result((4096,), np.uint8) is not None
    assert given.result((8192,), np.uint8) is None
    assert given.result((8192,), np.uint8) is not None  # what was idle made room


def test_arrays_that_users_ask_for_leave_results_theirs(
    session: runtime.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned, "MOST_RESULT_BYTES", 10_000)
    given = pool(session)
    frames = [given.empty((8192,), np.uint8) for _ in range(3)]
    assert given.result((4096,), np.uint8) is None
    assert given.result((4096,), np.uint8) is not None
    frames.clear()
    gc.collect()
    given.clear()
    assert not given._users
    assert not given._blocks


def test_released_memory_is_forgotten(session: runtime.Session) -> None:
    array = clquant.empty_pinned((70, 50, 3), queue=session.queue)
    assert session.is_pinned(array)
    assert session.is_pinned(array[10:20])
    other = np.empty_like(array)
    assert not session.is_pinned(other)
    del array
    runtime.release_memory()
    assert not pool(session)._blocks


def test_only_devices_with_memory_of_their_own_have_page_locked_arrays(queue: runtime.CommandQueue) -> None:
    session = runtime.open_session(queue)
    array = clquant.empty_pinned((1 << 23,), np.uint16, queue=queue)
    assert array.ctypes.data % 64 == 0
    assert (array.dtype, array.shape) == (np.uint16, (1 << 23,))
    assert session.is_pinned(array) == (not session.limits.unified_memory)
    if session.limits.unified_memory:
        assert array.ctypes.data % 4096 == 0


def test_engines_give_the_same_from_page_locked_arrays(
    session: runtime.Session, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = rng.integers(0, 256, (90, 110, 3), dtype=np.uint8)
    image = clquant.empty_pinned(ordinary.shape, queue=session.queue)
    palette = Palette(rng.integers(0, 256, (40, 3), dtype=np.uint8))
    gray = clquant.empty_pinned((90, 110), queue=session.queue)
    queue = session.queue
    codec = VQCodec(16, queue=queue).fit(ordinary[..., 0].copy())

    def results() -> list[np.ndarray]:
        image[...], gray[...] = ordinary, ordinary[..., 0]
        made = [
            engine.predict(image, palette, queue=queue),
            engine.transform(image, palette, queue=queue),
            KMeansPalette(9, queue=queue).fit_predict(image),
            PinwheelHalftoner(8, queue=queue).transform(image),
            codec.encode(gray),
            codec.decode(codec.encode(gray)),
            QuadtreeBuilder(queue=queue).leaves(image),
        ]
        image[...], gray[...] = 0, 0  # free to change as soon as a call has returned
        return made

    found = [results() for _ in range(3)]
    monkeypatch.delenv("CLQUANT_LIMITS")
    for expected, *others in zip(results(), *found, strict=True):
        for other in others:
            assert np.array_equal(expected, other)


def test_indices_are_those_of_plain_memory(session: runtime.Session, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (90, 110, 3), dtype=np.uint8)
    model = KMeansPalette(9, queue=session.queue)
    first = model.fit_predict(pixels)
    np.testing.assert_array_equal(first, model.fit_predict(pixels))
    np.testing.assert_array_equal(first, model.predict(pixels))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (3, -1)}, "shape is"),
        ({"shape": 2.5}, "shape is 2.5; allowed"),
        ({"shape": "12"}, "shape is '12'"),
        ({"shape": (1 << 62, 1 << 62)}, "needs more memory than there is"),
        ({"shape": 1 << 61}, "needs more memory than there is"),
        ({"shape": 3, "dtype": object}, "dtype is"),
        ({"shape": 3, "dtype": "no"}, "dtype is 'no'"),
        ({"shape": 3, "dtype": "(2,3)u1"}, "allowed: a NumPy dtype of a size, no array"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(clquant.InvalidArgument, match=message):
        clquant.empty_pinned(**arguments)  # type: ignore[arg-type]


class _Silent:
    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["shape", "dtype"])
def test_objects_that_cannot_say_what_they_are_are_refused(name: str) -> None:
    with pytest.raises(clquant.runtime.InvalidArgument, match=f"{name} is a _Silent; allowed"):
        clquant.empty_pinned(**{"shape": 3, name: _Silent()})  # type: ignore[arg-type]


def test_empty_and_scalar_shapes(session: runtime.Session) -> None:
    assert clquant.empty_pinned((0, 3), queue=session.queue).shape == (0, 3)
    assert clquant.empty_pinned(7, np.float32, queue=session.queue).shape == (7,)
    assert clquant.empty_pinned((), queue=session.queue).shape == ()


def test_a_mapping_goes_with_its_block_but_not_when_python_ends(queue: runtime.CommandQueue) -> None:
    block = pinned.Block(queue, 4096)
    mapping = block.bytes.base
    held = sys.getrefcount(mapping)
    block.__del__(ending=lambda: True)
    assert sys.getrefcount(mapping) == held
    del block  # its array's reference and the one that is nobody's
    assert sys.getrefcount(mapping) == held - 2


AT_EXIT = """
import atexit
import numpy as np
from clquant import KMeansPalette, runtime
from clquant.images import upload
from clquant.runtime.transfer import copy, staging

upload.STAGED_BYTES = copy.SMALLEST = copy.SMALLEST_DOWN = copy.UNAWAITED_BYTES = 0
staging.MAX_LANES = 1  # PoCL 3.0 does not survive several that begin at once
image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
engine = KMeansPalette(9)
kept = [engine.fit_predict(image) for _ in range(3)]
assert staging._stagings
assert runtime.open_session().is_pinned(kept[-1])

@atexit.register
def last():
    print(np.array_equal(engine.fit_predict(image), kept[0]), np.array_equal(engine.predict(image), kept[1]))
"""


@pytest.mark.full
def test_calls_at_pythons_exit_work_and_results_outlive_everything(queue: runtime.CommandQueue) -> None:
    environment = {**os.environ, "CLQUANT_LIMITS": "unified_memory=0", "CLQUANT_DEVICE": runtime.describe(queue.device)}
    root = pathlib.Path(clquant.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")


def test_cpus_write_large_results_where_they_are_to_be(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    session = runtime.open_session(queue)
    count = results.SMALLEST_WRITTEN
    data = rng.integers(0, 256, (3, count), dtype=np.uint8)
    for begin, end, direct in ((0, 3, True), (1, 2, True), (0, 1, True)):
        result = runtime.HostResult(session, data.shape, np.uint8)
        with session.scope() as scope:
            room = result.room(scope, begin, end)
            session.copy(room, scope.copy_of(data[begin:end]), (end - begin) * count)
            result.store(scope, begin, end, room)
            in_place = session.limits.is_cpu and not session.limits.is_simulator and direct
            assert (room.hostbuf is not None) == in_place
        assert np.array_equal(result.array()[begin:end], data[begin:end])
    small = runtime.HostResult(session, (16,), np.uint8)
    with session.scope() as scope:
        room = small.room(scope, 0, 16)
        assert room.hostbuf is None
        session.fill(room, np.uint8(7), 16)
        small.store(scope, 0, 16, room)
    assert (small.array() == 7).all()
