"""Palettes of 16-bit pictures are those of round(v / 257), by every way of `fit`; pixels are mapped by 16 bits."""

from __future__ import annotations

import pathlib

import numpy as np
import PIL.Image
import pyopencl.array
import pytest

import clquant
from clquant import ColorHistogram, KMeansPalette
from clquant.runtime import CommandQueue

da = pytest.importorskip("dask.array")


def smooth(rng: np.random.Generator, channels: int) -> np.ndarray:
    """Slow ramps with noise of less than an 8-bit step; alpha is 0, nearly 0, nearly opaque or opaque."""
    rows, columns = np.mgrid[:20, :30]
    slopes = rng.uniform(0, 900, (2, channels))
    noise = rng.uniform(-120, 120, (20, 30, channels))
    values = 9000 + rows[..., None] * slopes[0] + columns[..., None] * slopes[1] + noise
    pixels = values.astype(np.uint16)
    if channels == 4:
        pixels[..., 3] = rng.choice(np.array([0, 90, 65500, 65535], np.uint16), (20, 30))
    return pixels if channels > 1 else pixels[..., 0]


def narrowed(values: np.ndarray) -> np.ndarray:
    return np.rint(values / 257).astype(np.uint8)


def learned(engine: KMeansPalette) -> tuple[object, ...]:
    return engine.palette_.colors.tolist(), engine.inertia_, engine.n_iter_


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_way_learns_from_rounded_values(
    queue: CommandQueue, rng: np.random.Generator, tmp_path: pathlib.Path, channels: int
) -> None:
    deep = smooth(rng, channels)
    plain, engine = narrowed(deep), KMeansPalette(8, max_iter=2, swap_rounds=1, queue=queue)
    expected = learned(engine.fit(plain))
    np.save(tmp_path / "deep.npy", deep)
    lazy = np.load(tmp_path / "deep.npy", mmap_mode="r")
    on_dask = da.from_array(deep, chunks=(7, 30, *deep.shape[2:]))
    for source in (deep, deep.astype(">u2"), pyopencl.array.to_device(queue, deep), lazy, on_dask):
        assert learned(engine.fit(source)) == expected
    assert learned(engine.fit_histogram(ColorHistogram.of(deep, queue=queue))) == expected
    assert learned(engine.fit([deep[:9], lazy[9:]])) == expected
    assert learned(engine.fit([deep[:9], plain[9:]])) == expected
    assert engine.fit_many([deep, deep[:5]]) == engine.fit_many([plain, plain[:5]])
    weights = rng.integers(0, 9, (20, 30))
    assert learned(engine.fit(deep, sample_weight=weights)) == learned(engine.fit(plain, sample_weight=weights))


def test_files_and_mapping(queue: CommandQueue, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    """An indexed picture of a 16-bit file has the palette of 8 bits, and indices of 16."""
    deep = smooth(rng, 1)
    PIL.Image.fromarray(deep).save(tmp_path / "deep.png")
    engine = KMeansPalette(8, max_iter=2, swap_rounds=1, queue=queue).fit(tmp_path / "deep.png")
    assert learned(engine) == learned(KMeansPalette(8, max_iter=2, swap_rounds=1, queue=queue).fit(narrowed(deep)))
    entries = engine.palette_.colors[:, 0].astype(np.int64) * 257
    nearest = np.abs(deep.astype(np.int64)[..., None] - entries).argmin(axis=2)
    for found in (engine.predict(deep), engine.fit_predict(tmp_path / "deep.png"), engine.quantize(deep).indices):
        assert np.array_equal(found, nearest)
    assert clquant.quantize(deep, 8, queue=queue).indices.shape == deep.shape
