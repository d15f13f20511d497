"""NeuQuant's map that is prepared while a picture is on its way: the same palettes as afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import NeuQuantCL, runtime
from clquant.neuquant import fit


@pytest.fixture
def on_its_way(queue, monkeypatch):
    """What page-locks a picture; from then on none need be large, and devices have memory of their own."""

    def locked(pixels):
        monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
        monkeypatch.setattr(fit, "PREPARED_PIXELS", 0)
        monkeypatch.setattr("clquant.images.upload.STAGED_BYTES", 0)
        monkeypatch.setattr("clquant.images.upload.PAGEABLE_PART", 0)
        array = runtime.empty_pinned(pixels.shape, queue=queue)
        array[...] = pixels
        return array

    return locked


@pytest.mark.parametrize("kind", ["many", "few", "clear", "blended", "fixed"])
def test_a_map_prepared_ahead_gives_the_same_palette(queue, rng, on_its_way, monkeypatch, kind):
    pixels = rng.integers(1, 256, (150, 160, 4 if kind in ("clear", "blended") else 3), dtype=np.uint8)
    if kind == "clear":
        pixels[..., 3] = 255 * (pixels[..., 3] > 9)
    if kind == "few":
        pixels //= 100
    fixed = [[0, 0, 0], [255, 255, 255]] if kind == "fixed" else None
    engine = NeuQuantCL(16, sample_factor=30, fixed_colors=fixed, refine_steps=2, queue=queue)
    indices = engine.fit_predict(pixels)
    expected = engine.palette_
    pixels, events = on_its_way(pixels), []
    for owner, name in ((fit.MiniBatchSOM, "prepare"), (runtime.Session, "download")):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, name=name, plain=plain: events.append(name) or plain(*args))
    assert engine.fit(pixels).palette_ == expected
    assert events[:2] == ["prepare", "download"]
    assert np.array_equal(engine.fit_predict(pixels), indices)
    assert engine.palette_ == expected
