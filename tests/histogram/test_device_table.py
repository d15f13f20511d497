"""Counts of parts of pictures that are added up on the device: those of the whole picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import ColorHistogram, runtime
from clquant.histogram import device_table


class Rows:
    """The least that a lazy picture needs."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __getitem__(self, key: slice) -> npt.NDArray[Any]:
        return self.values[key]


@pytest.mark.full
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_parts_in_a_table_of_the_device(
    queue: runtime.CommandQueue, rng: np.random.Generator, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = rng.integers(0, 256, (90, 70, channels), dtype=np.uint8)
    if channels == 4:
        image[..., 3] = np.where(image[..., 3] > 99, 255, 0)
        image[40, 3:9, 3] = 7  # some rows have pixels that the table does not take
    whole = ColorHistogram.of(image, queue=queue)
    added = []
    add = device_table.DeviceTable.add
    monkeypatch.setattr(device_table.DeviceTable, "add", lambda self, part: (added.append(part), add(self, part)))
    monkeypatch.setattr(device_table.DeviceTable, "takes", lambda _, part: not part.partial and part.n_colors > 0)
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    found = ColorHistogram.of([Rows(image), image[:9], Rows(image[:50])], queue=queue)
    assert len(added) > 1
    monkeypatch.setattr(device_table.DeviceTable, "of", lambda *_: None)  # there is no room
    assert ColorHistogram.of(Rows(image), queue=queue) == whole
    assert found == whole + ColorHistogram.of([image[:9], image[:50]], queue=queue)
