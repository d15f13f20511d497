"""Device arrays whose pixels are still on their way: a job waits for them, whichever queue brings them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import clquant
from clquant import runtime

OUT_OF_ORDER = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
PALETTE = clquant.Palette(np.random.default_rng(3).integers(0, 256, (20, 3), dtype=np.uint8))
PIXELS = np.random.default_rng(4).integers(0, 256, (64, 48, 3), dtype=np.uint8)


def predict(image: runtime.Array | np.ndarray, queue: runtime.CommandQueue | None) -> runtime.Array:
    engine = clquant.KMeansPalette(20, queue=queue)
    engine.palette_ = PALETTE
    return engine.predict(image)


class Coming:
    """A device array of zeros, and a copy of `PIXELS` to it that waits for a gate."""

    def __init__(self, queue: runtime.CommandQueue, by: runtime.CommandQueue) -> None:
        self.array = pyopencl.array.zeros(queue, PIXELS.shape, np.uint8)
        queue.finish()
        self._source = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=PIXELS)
        self.gate = cl.UserEvent(queue.context)
        self.copied = cl.enqueue_copy(by, self.array.data, self._source, wait_for=[self.gate])
        by.flush()

    def result_of(self, call: Callable[[runtime.Array], runtime.Array]) -> np.ndarray:
        """What a call gives that begins well before the gate opens."""
        results: list[np.ndarray] = []
        thread = threading.Thread(target=lambda: results.append(call(self.array).get()))
        thread.start()
        thread.join(0.3)
        self.gate.set_status(cl.command_execution_status.COMPLETE)
        thread.join(60)
        return results[0]


@pytest.fixture
def expected(queue: runtime.CommandQueue) -> np.ndarray:
    return predict(PIXELS, queue)


@pytest.fixture
def others(queue: runtime.CommandQueue) -> Callable[..., runtime.CommandQueue]:
    """Makes further queues of the device."""
    return lambda properties=0: cl.CommandQueue(queue.context, queue.device, properties=properties)


def test_an_array_of_another_queue(
    queue: runtime.CommandQueue, others: Callable[..., runtime.CommandQueue], expected: np.ndarray
) -> None:
    """No event of it says that a user's own command writes to it."""
    other = others()
    coming = Coming(other, other)
    np.testing.assert_array_equal(coming.result_of(lambda array: predict(array, queue)), expected)


def test_an_event_of_another_queue(
    queue: runtime.CommandQueue, others: Callable[..., runtime.CommandQueue], expected: np.ndarray
) -> None:
    coming = Coming(queue, others())
    coming.array.add_event(coming.copied)
    np.testing.assert_array_equal(coming.result_of(lambda array: predict(array, None)), expected)
    assert coming.copied in coming.array.events


def test_a_queue_without_order(others: Callable[..., runtime.CommandQueue], expected: np.ndarray) -> None:
    queue = others(OUT_OF_ORDER)
    if not queue.properties & OUT_OF_ORDER:
        return  # the driver has none
    coming = Coming(queue, queue)
    np.testing.assert_array_equal(coming.result_of(lambda array: predict(array, queue)), expected)


def test_threads_may_share_an_array_with_pending_work(
    queue: runtime.CommandQueue, others: Callable[..., runtime.CommandQueue], expected: np.ndarray
) -> None:
    for _ in range(20):
        array = pyopencl.array.to_device(queue, PIXELS) + np.uint8(0)
        engine = clquant.KMeansPalette(20, queue=others())
        engine.palette_ = PALETTE
        for result in engine.stream([array] * 6, "predict", depth=6):
            np.testing.assert_array_equal(result.get(), expected)


def test_a_result_carries_what_it_waits_for(
    queue: runtime.CommandQueue, others: Callable[..., runtime.CommandQueue], expected: np.ndarray
) -> None:
    results = {
        "predict": predict(pyopencl.array.to_device(queue, PIXELS), None),
        "halftone": clquant.PinwheelHalftoner(8).transform(pyopencl.array.to_device(queue, PIXELS)),
        "leaves": clquant.QuadtreeBuilder().leaves(pyopencl.array.to_device(queue, PIXELS)),
    }
    for name, result in results.items():
        assert result.events, name
    np.testing.assert_array_equal(results["predict"].with_queue(others()).get(), expected)
