"""The recipes of docs/dask.md for xarray and Ray, with these libraries if they are installed."""

from __future__ import annotations

import os
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import clquant


@pytest.fixture
def picture() -> Any:
    return np.random.default_rng(8).integers(0, 256, (60, 50, 3), dtype=np.uint8)


def test_xarray_passes_dask_arrays_on(picture: Any) -> None:
    xarray = pytest.importorskip("xarray")
    engine = clquant.KMeansPalette(7).fit(picture)
    scene = xarray.DataArray(da.from_array(picture, (25, 30, 3)), dims=("y", "x", "band"), coords={"y": np.arange(60)})
    assert clquant.KMeansPalette(7).fit(scene.data).palette_ == engine.palette_
    indices = xarray.apply_ufunc(engine.predict, scene, input_core_dims=[["band"]], dask="allowed")
    assert indices.dims == ("y", "x")
    assert indices.chunks == ((25, 25, 10), (30, 20))
    with dask.config.set(scheduler="synchronous"):
        assert np.array_equal(indices.values, engine.predict(picture))
    assert np.array_equal(indices.y, np.arange(60))


@pytest.mark.filterwarnings("ignore")
def test_ray_tasks_give_the_same_bits(picture: Any) -> None:
    ray = pytest.importorskip("ray")
    engine = clquant.KMeansPalette(7).fit(picture)
    halves = [picture[:30], picture[30:]]

    def count(half: Any) -> Any:
        return clquant.ColorHistogram.of(half), os.environ["CLQUANT_DEVICE"]

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(count).options(runtime_env={"env_vars": {"CLQUANT_DEVICE": "0"}})
        found = ray.get([task.remote(half) for half in halves])
    finally:
        ray.shutdown()
    assert {device for _, device in found} == {"0"}
    learned = clquant.KMeansPalette(7).fit_histogram(found[0][0] + found[1][0])
    assert learned.palette_ == engine.palette_
