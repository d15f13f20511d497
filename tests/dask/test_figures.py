"""Quality figures and quadtree leaves of Dask arrays: those of the whole pictures."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import clquant
from clquant import quality
from clquant.dask.work import cluster_errors


@pytest.fixture(autouse=True)
def _in_turn() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def test_empty_chunks_count_nothing() -> None:
    first = np.random.default_rng(2).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    lazy = da.from_array(first, ((0, 7, 0, 13, 0), (0, 11, 19, 0), (3,)))
    for figure in (quality.mse, quality.psnr, quality.ssim):
        for other in (first // 2, da.from_array(first // 2, -1), da.from_array(first // 2, lazy.chunks)):
            assert float(figure(lazy, other)) == figure(first, first // 2)
            assert float(figure(other, lazy)) == figure(first // 2, first)


@pytest.mark.full
@pytest.mark.parametrize("shape", [(50, 37), (23, 60, 3), (11, 11, 4)])
@pytest.mark.parametrize("chunks", [(20, 13, 2), (1, 60, 3), (45, 2, 1)])
def test_figures_are_those_of_whole_pictures(shape: Any, chunks: Any) -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 256, shape, dtype=np.uint8)
    second = (first // 2 + rng.integers(0, 99, shape)).astype(np.uint8)
    lazy = da.from_array(first, chunks[: len(shape)])
    for figure in (quality.mse, quality.psnr, quality.ssim):
        for other in (second, da.from_array(second, -1)):
            found = figure(lazy, other)
            assert (found.shape, found.dtype) == ((), np.float64)
            assert float(found) == figure(first, second)
        assert float(figure(second, lazy)) == figure(second, first)
    assert float(quality.psnr(lazy, lazy)) == float("inf")
    if len(shape) == 2:
        assert float(quality.mse(lazy[:, :, None], second)) == quality.mse(first, second)


def test_pairs_that_do_not_fit_are_refused() -> None:
    image = da.zeros((20, 20), dtype=np.uint8, chunks=9)
    with pytest.raises(clquant.InvalidArgument, match="one known shape"):
        quality.mse(image, image[:3])
    with pytest.raises(clquant.InvalidArgument, match="float64; allowed: uint8"):
        quality.psnr(image, image * 1.0)
    with pytest.raises(clquant.InvalidArgument, match="at least 11 x 11"):
        quality.ssim(image[:10], image[:10])
    with pytest.raises(clquant.InvalidArgument, match=r"peak is 1\.0 for Dask arrays"):
        quality.ssim(image, image, 1.0)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:the picture is a single leaf")
@given(
    height=st.integers(1, 200),
    width=st.integers(1, 200),
    chunk=st.tuples(st.integers(1, 70), st.integers(1, 140)),
    criterion=st.sampled_from(["deviation", "any", "weighted", "luma", "range"]),
    threshold=st.sampled_from([0.0, 3.0, 13.0, 60.0]),
    min_size=st.sampled_from([1, 8, 128]),
    max_depth=st.sampled_from([None, 0, 2, 4]),
    spread=st.integers(1, 9),
)
@settings(max_examples=25)
def test_leaves_are_those_of_the_whole(
    height: int, width: int, chunk: Any, criterion: str, threshold: float, min_size: int, max_depth: Any, spread: int
) -> None:
    steps = np.add.outer(np.arange(height) // 37 * 9, np.arange(width) // 53 * 7)[..., None] + np.array([0, 3, 8])
    image = (steps + np.random.default_rng(height).integers(0, spread, steps.shape)).astype(np.uint8)
    weights = [3, 6, 1] if criterion == "weighted" else None
    builder = clquant.QuadtreeBuilder(
        threshold, criterion=criterion, weights=weights, min_size=min_size, max_depth=max_depth
    )
    whole, lazy = builder.leaves(image), builder.leaves(da.from_array(image, (*chunk, 2)))
    found = lazy.compute()
    assert lazy.dtype == found.dtype == whole.dtype
    assert len(found) == len(whole)
    assert all(np.array_equal(found[name], whole[name]) for name in ("x", "y", "size", "mean"))


def test_gray_leaves_and_wrong_parameters() -> None:
    image = np.add.outer(np.arange(99), np.arange(150)).astype(np.uint8)
    lazy = clquant.QuadtreeBuilder(9).leaves(da.from_array(image, (40, 64)))
    whole = clquant.QuadtreeBuilder(9).leaves(image)
    assert lazy.dtype == whole.dtype
    assert all(np.array_equal(lazy.compute()[name], whole[name]) for name in ("x", "y", "size", "mean"))
    with pytest.raises(clquant.InvalidArgument, match="min_size is 3"):
        clquant.QuadtreeBuilder(9, min_size=3).leaves(da.from_array(image, 40))


def test_a_cluster_that_is_gone_is_an_error_of_devices() -> None:
    from concurrent.futures import CancelledError

    with (
        pytest.raises(clquant.DeviceError, match=r"the Dask cluster is gone.*: lost"),
        cluster_errors(),
    ):
        raise CancelledError("lost")
    with pytest.raises(KeyError), cluster_errors():
        raise KeyError("own")
