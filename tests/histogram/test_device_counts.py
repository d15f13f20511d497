"""Counts that go from device to device: their sum is what is counted of all."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from clquant import ColorHistogram, images, runtime
from clquant.histogram import device_counts
from clquant.histogram.color_histogram import counts_of, histogram_of
from clquant.histogram.counting import count_colors
from clquant.histogram.device_counts import DeviceCounts, added, can_add, counted


@pytest.mark.full
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sums_are_those_of_the_whole(
    queue: runtime.CommandQueue, rng: np.random.Generator, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_counts, "LEAST_COLORS", 1)
    image = rng.integers(0, 256, (400, 70, channels), dtype=np.uint8)
    image[:150] = image[0, 0]
    if channels == 4:
        image[..., 3] = np.where(image[..., 3] > 99, 255, 0)
    session = runtime.open_session(queue)
    parts: list[Any] = [counted(session, [images.read(rows)]) for rows in (image[:300], image[300:330])]
    assert [part.counts.dtype for part in parts] == [np.uint16, np.uint8]
    given = [*map(pickle.loads, map(pickle.dumps, parts))]
    given.append(DeviceCounts.of_host(counts_of(ColorHistogram.of(image[330:], queue=queue))))
    assert can_add(session, given)
    whole = ColorHistogram.of(image, queue=queue)
    with session.scope() as scope:
        one, other = added(session, scope, given), count_colors(session, scope, [images.read(image)])
        assert np.array_equal(one.cell_starts, other.cell_starts)
        for name in ("n_colors", "total", "transparent", "partial", "clear", "wide"):
            assert getattr(one, name) == getattr(other, name)
        made = DeviceCounts.of(session, one)
    assert histogram_of(made.on_host()) == whole
    monkeypatch.setattr(device_counts, "LEAST_COLORS", 1 << 20)
    assert not can_add(session, given)


def test_what_no_device_adds_up(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (40, 7, 4), dtype=np.uint8)
    found = counted(runtime.open_session(queue), [images.read(image)])
    assert not isinstance(found, DeviceCounts)
    assert DeviceCounts.of_host(found) is None
    assert histogram_of(found) == ColorHistogram.of(image, queue=queue)
