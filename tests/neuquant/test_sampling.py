"""Which pixels NeuQuant's parallel map learns from."""

from __future__ import annotations

import pytest

from clquant.neuquant import schedule as tables
from clquant.neuquant.sampling import spread_places
from tests.reference import neuquant as reference


@pytest.mark.parametrize(("total", "start"), [(150_001, 0), (2**31 - 1, 2**32 - 1), (67_108_864, 123_456_789)])
def test_places_are_those_of_the_reference(total, start):
    shifted = [((s * 2654435769 + start) % 2**32) * total // 2**32 for s in range(3000)]
    assert spread_places(total, start, 3000).tolist() == shifted
    assert start or shifted == reference.sample(total, 3000)


@pytest.mark.full
@pytest.mark.parametrize("sample_factor", [1, 3, 30])
def test_more_colors_look_at_no_fewer_samples(sample_factor):
    counts = [tables.schedule(n, sample_factor).most for n in (2, 3, 63, 64, 65, 255, 256, 257, 1023, 1024)]
    assert counts == sorted(counts)
