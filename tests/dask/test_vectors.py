"""Quantizers of rows on Dask arrays: the bits of one process, lazy results, errors."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

from clquant import ClquantError, ProductQuantizer, ResidualQuantizer, VectorQuantizer


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Samples so small that the steps over all rows matter."""
    monkeypatch.setenv("CLQUANT_LIMITS", "training.sample=24")
    with dask.config.set(scheduler="synchronous"):
        yield


def rows(dtype: Any) -> Any:
    rng = np.random.default_rng(3)
    return (rng.normal(0, 30, (120, 5)) + (120 if np.dtype(dtype).kind == "u" else 0)).astype(dtype)


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.full), True])
@pytest.mark.parametrize("dtype", [np.uint8, pytest.param(">f4", marks=pytest.mark.full)])
def test_fits_are_those_of_one_process(dtype: Any, weighted: bool) -> None:
    given, weights = rows(dtype), np.arange(120) % 7 if weighted else None
    one = VectorQuantizer(9, refine=8, max_iter=6, n_init=2).fit(given, sample_weight=weights)
    for chunks in ((120, 5), (37, 2)):
        lazy = da.from_array(given, chunks)
        other = VectorQuantizer(9, refine=8, max_iter=6, n_init=2).fit(lazy, sample_weight=weights)
        assert np.array_equal(one.codebook_, other.codebook_)
        assert (one.inertia_, one.n_iter_, one.scale_) == (other.inertia_, other.n_iter_, other.scale_)
        for made, expected in (
            (other.labels_, one.labels_),
            (other.predict(lazy), one.predict(given)),
            (other.transform(lazy), one.transform(given)),
        ):
            assert isinstance(made, da.Array)
            assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(made.compute(), expected)
        assert other.score(lazy, sample_weight=weights) == one.score(given, sample_weight=weights)
        assert one.score(given, sample_weight=weights) == pytest.approx(-one.inertia_)


def test_batches_are_those_of_one_process() -> None:
    given = rows(np.uint8)
    one, other = VectorQuantizer(6, refine=0), VectorQuantizer(6, refine=0)
    for batch in (given[:50], given[50:]):
        one.partial_fit(batch)
        other.partial_fit(da.from_array(batch, (20, 5)))
        assert np.array_equal(one.codebook_, other.codebook_)
        assert one.inertia_ == other.inertia_


def test_errors_name_the_row_of_all() -> None:
    given = rows(np.float32)
    given[71, 2] = np.inf
    with pytest.raises(ClquantError, match="NaN or infinity in row 71;"):
        VectorQuantizer(4).fit(da.from_array(given, (50, 5)))
    given[71] = 0
    with pytest.raises(ClquantError, match="only zeros in row 71;"):
        VectorQuantizer(4, metric="cosine").fit(da.from_array(given, (50, 5)))
    mixed = da.map_blocks(lambda rows: rows.astype(int), da.from_array(rows(np.uint8), (50, 5)), dtype=np.uint8)
    with pytest.raises(ClquantError, match=r"rows of int64 from row \d+ on"):
        VectorQuantizer(4).fit(mixed)
    with pytest.raises(ClquantError, match="Dask array of shape"):
        VectorQuantizer(4).fit(da.zeros(5))


@pytest.mark.parametrize("dtype", [np.uint8, pytest.param(">f4", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ProductQuantizer(2, 3, refine=2),
        pytest.param(lambda: ResidualQuantizer(2, 3, refine=2), marks=pytest.mark.full),
        pytest.param(lambda: ProductQuantizer(2, 3, refine=2, rotation="opq"), marks=pytest.mark.full),
    ],
)
def test_codes_are_those_of_one_process(make: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given, asked = np.hstack([rows(dtype), rows(dtype)[::-1]]), []
    lazy = da.from_array(given, (37, 3))
    monkeypatch.setattr(da.Array, "__array__", lambda array, *_, **__: asked.append(array.shape))
    one, other = make().fit(given), make().fit(lazy)
    assert np.array_equal(one.codebooks_, other.codebooks_)
    assert (one.inertia_, one.n_iter_) == (other.inertia_, other.n_iter_)
    for made, expected in (
        (other.encode(lazy), one.encode(given)),
        (other.transform(lazy), one.transform(given)),
    ):
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(made.compute(), expected)
    assert other.score(lazy) == one.score(given)
    assert not asked
