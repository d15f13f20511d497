"""Results in host memory whose pages are touched ahead."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import KMeansPalette, runtime
from clquant.runtime import staging, touching
from clquant.runtime.limits import Limits


@pytest.fixture
def limits(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Of a device with memory of its own, beside many cores; every result is worth touching."""
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    monkeypatch.setattr(touching, "SMALLEST_DOWN", 0)
    monkeypatch.setattr(touching, "ALIGNMENT", 4096)
    monkeypatch.setattr(touching.os, "cpu_count", lambda: 16)
    return Limits.of(queue.device)


@pytest.mark.parametrize("shape", [(1,), (4096,), (4097,), (123, 457), (700, 300, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_what_is_written_stays(limits: Limits, shape: tuple[int, ...], dtype: type) -> None:
    room = runtime.Room(limits, shape, dtype)
    assert room.fits(shape, np.dtype(dtype))
    assert not room.fits((*shape, 1), np.dtype(dtype))
    array = room.array()
    array[...] = 7
    assert room.array() is array
    assert (room.array() == 7).all()
    assert (array.shape, array.dtype) == (shape, dtype)


def test_shared_memory_is_left_alone(queue: runtime.CommandQueue) -> None:
    limits = Limits.of(queue.device)
    assert limits.unified_memory
    assert not runtime.Room(limits, (1 << 23,), np.uint8)._touched


def test_indices_are_those_of_plain_memory(
    queue: runtime.CommandQueue, limits: Limits, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = rng.integers(0, 256, (90, 110, 3), dtype=np.uint8)
    model = KMeansPalette(9, queue=queue)
    ahead = model.fit_predict(pixels)
    monkeypatch.setattr(touching, "SMALLEST_DOWN", staging.SMALLEST_DOWN)
    np.testing.assert_array_equal(ahead, model.fit_predict(pixels))
    np.testing.assert_array_equal(ahead, model.predict(pixels))
