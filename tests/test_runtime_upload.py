"""Host arrays that begin anywhere reach the device whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clquant import runtime
from clquant.runtime.memory import HOST_ALIGNMENT, SMALL_BYTES, aligned


@pytest.mark.parametrize("start", [0, 1, 8, 63])
@pytest.mark.parametrize("nbytes", [1, 1000, SMALL_BYTES + 1])
def test_uploads_of_any_alignment(queue: Any, rng: np.random.Generator, start: int, nbytes: int) -> None:
    array = rng.integers(0, 256, nbytes + start, np.uint8)[start:]
    session = runtime.open_session(queue)
    with session.scope() as scope:
        np.testing.assert_array_equal(session.download(scope.upload(array), nbytes, np.uint8), array)


def test_aligned_arrays_keep_shape_and_values(rng: np.random.Generator) -> None:
    odd = rng.integers(0, 9, 101, np.uint8)[1:].view(np.uint16).reshape(5, 10)
    even = aligned(odd)
    np.testing.assert_array_equal(even, odd)
    assert even.ctypes.data % HOST_ALIGNMENT == 0
    assert aligned(even) is even
