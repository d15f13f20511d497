"""`ProductQuantizer` and `ResidualQuantizer`: codes, codebooks, the rotation, faiss, portions, files, bad input."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl.array
import pytest

from clquant import ClquantError, ProductQuantizer, ResidualQuantizer, StoppedError, VectorQuantizer
from clquant.vectors import codes, exchange, fit, rotation, rows
from tests.lowering import lower
from tests.reference import vectors as reference

Rows = npt.NDArray[Any]


def mixed(rng: np.random.Generator, count: int = 400, components: int = 10) -> npt.NDArray[np.float32]:
    """Rows whose numbers depend on each other."""
    return (rng.normal(0, 1, (count, components)) @ rng.normal(0, 1, (components, components))).astype(np.float32)


def small(**more: Any) -> dict[str, Any]:
    return {"refine": 2, "max_iter": 4, **more}


@pytest.mark.parametrize("bits", [1, 4, 5, 8, 11, 12, 16])
def test_codes_are_packed_as_one_large_number(bits: int, rng: np.random.Generator) -> None:
    numbers = rng.integers(0, 1 << bits, (9, 5)).astype(codes.number_dtype(bits))
    found = codes.pack(numbers, bits)
    assert np.array_equal(found, reference.packed(numbers, bits))
    assert np.array_equal(codes.unpack(found, 5, bits), numbers)
    assert codes.unpack(found, 5, bits).dtype == numbers.dtype


def test_each_subspace_is_a_vector_quantizer(queue: Any, rng: np.random.Generator) -> None:
    given = (mixed(rng) * 9 + 128).clip(0, 255).astype(np.uint8)
    weights = rng.random(len(given))
    model = ProductQuantizer(2, 3, n_init=2, random_state=5, queue=queue, **small()).fit(given, sample_weight=weights)
    numbers, total = model.transform(given), 0.0
    for i, own in enumerate((given[:, :5], given[:, 5:])):
        alone = VectorQuantizer(8, n_init=2, random_state=5 + 2 * i, queue=queue, **small()).fit(own, None, weights)
        assert np.array_equal(model.codebooks_[i], alone.codebook_)
        assert np.array_equal(numbers[:, i], alone.labels_)
        total += alone.inertia_
    assert model.inertia_ == total
    assert -model.score(given, sample_weight=weights) == pytest.approx(total, rel=1e-12)
    assert numbers.dtype == np.uint8
    assert np.array_equal(model.encode(given), reference.packed(numbers, 3))
    restored = np.concatenate([model.codebooks_[i][numbers[:, i]] for i in range(2)], axis=1)
    assert np.array_equal(model.decode(model.encode(given)), restored)
    assert np.array_equal(model.inverse_transform(numbers), restored)
    assert restored.dtype == np.uint8


@pytest.mark.full
@pytest.mark.parametrize(("bits", "dtype"), [(5, np.uint8), (9, np.float32)])
def test_rows_of_the_device_stay_there(queue: Any, rng: np.random.Generator, bits: int, dtype: Any) -> None:
    given = (mixed(rng, 600) * 9 + 128).clip(0, 255).astype(dtype)
    expected = ProductQuantizer(2, bits, queue=queue, **small()).fit(given[1:])
    there = pyopencl.array.to_device(queue, given)[1:]
    model = ProductQuantizer(2, bits, **small()).fit(there)
    assert np.array_equal(model.codebooks_, expected.codebooks_)
    for verb in ("encode", "transform"):
        found = getattr(model, verb)(there)
        assert isinstance(found, pyopencl.array.Array)
        assert found.dtype == getattr(expected, verb)(given).dtype
        assert np.array_equal(found.get(), getattr(expected, verb)(given[1:]))
    assert model.score(there) == expected.score(given[1:])
    stages = ResidualQuantizer(2, 3, queue=queue, **small())
    assert np.array_equal(stages.fit(there).encode(there), stages.fit(given[1:]).encode(given[1:]))


def test_the_rotation_is_that_of_weighted_rows(queue: Any, rng: np.random.Generator) -> None:
    given = (mixed(rng) * 9 + 128).clip(0, 255).astype(np.uint8)
    some = rng.random(400) < 0.5
    model = ProductQuantizer(2, 3, rotation="opq", queue=queue, **small())
    alone = model.fit(given[some]).rotation_
    assert np.array_equal(model.fit(given, sample_weight=some.astype(float)).rotation_, alone)
    weights = np.where(given[:, 0] > 128, 50.0, 1.0)
    without = model.fit(given).score(given, sample_weight=weights)
    assert model.fit(given, sample_weight=weights).score(given, sample_weight=weights) > without


def test_the_iteration_to_a_rotation_is_exact(rng: np.random.Generator) -> None:
    gain = np.rint(rng.normal(0, 1 << 33, (6, 6)) * np.exp2(-2.0 * np.arange(6)))
    before = np.ldexp(np.eye(6), 20)
    found = rotation.to_rotation(gain, before)
    assert np.array_equal(found, reference.polar(gain.astype(np.int64), before.astype(np.int64)).astype(float))
    even = gain + np.ldexp(np.eye(6), 36)
    left, _, right = np.linalg.svd(even)
    np.testing.assert_allclose(np.ldexp(rotation.to_rotation(even, before), -20), left @ right, atol=1e-3)
    assert np.abs(np.ldexp(found, -20) @ np.ldexp(found, -20).T - np.eye(6)).max() < 1e-5
    assert np.trace(found.T @ gain) >= np.trace(before.T @ gain)
    assert np.array_equal(rotation.to_rotation(np.zeros((6, 6)), before), before)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_opq_has_less_error_and_exact_rows(queue: Any, rng: np.random.Generator, dtype: Any) -> None:
    given = (mixed(rng) * 9 + 128).clip(0, 255).astype(dtype)
    plain = ProductQuantizer(2, 4, queue=queue, **small()).fit(given)
    model = ProductQuantizer(2, 4, rotation="opq", queue=queue, **small()).fit(given)
    assert model.inertia_ < 0.97 * plain.inertia_
    assert -model.score(given) == pytest.approx(model.inertia_, rel=1e-12)
    kept = model._rotation
    whole = rotation.whole_rows(kept.fixed, given).astype(np.int64) - kept.center.astype(np.int64)
    turned = whole.astype(object).dot(kept.whole.astype(np.int64).astype(object))
    unit = int(kept.unit * (1 << 20))
    ends = np.iinfo(kept.dtype)
    wanted = np.array([[min(max(round(reference.Fraction(x, unit)), ends.min), ends.max) for x in r] for r in turned])
    found = np.concatenate([part.codebook_[model.transform(given)[:, i]] for i, part in enumerate(model._parts)], 1)
    for i, part in enumerate(model._parts):
        own = slice(5 * i, 5 * i + 5)
        assert np.array_equal(part.predict(wanted[:, own].astype(kept.dtype)), model.transform(given)[:, i])
    back = found.astype(object).dot(kept.whole.T.astype(np.int64).astype(object)).astype(float)
    exact = (back * 2.0**-20 * kept.unit + kept.center + kept.fixed.origins) * kept.fixed.scale
    expected = np.clip(np.rint(exact), 0, 255).astype(np.uint8) if dtype == np.uint8 else exact.astype(np.float32)
    assert np.array_equal(model.decode(model.encode(given)), expected)


def test_stages_code_what_is_left(queue: Any, rng: np.random.Generator) -> None:
    given = mixed(rng, components=5)
    model = ResidualQuantizer(3, 3, queue=queue, **small()).fit(given)
    numbers = model.transform(given)
    left = given
    for i in range(3):
        alone = VectorQuantizer(8, random_state=i, queue=queue, **small()).fit(left)
        assert np.array_equal(model.codebooks_[i], alone.codebook_)
        assert np.array_equal(numbers[:, i], alone.labels_)
        left = left - alone.codebook_[alone.labels_]
    assert model.inertia_ == alone.inertia_
    assert -model.score(given) == pytest.approx(model.inertia_, rel=1e-12)
    whole = (given * 9 + 128).clip(0, 255).astype(np.uint8)
    restored = ResidualQuantizer(2, 4, queue=queue, **small()).fit(whole)
    assert restored.decode(restored.encode(whole)).dtype == np.uint8


@pytest.mark.parametrize("kind", ["plain", "opq", "residual"])
def test_portions_and_files_give_the_same_bits(
    queue: Any, rng: np.random.Generator, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    given = mixed(rng, 150, 5 if kind == "residual" else 10)
    if kind == "residual":
        model: Any = ResidualQuantizer(2, 3, queue=queue, **small())
    else:
        model = ProductQuantizer(2, 3, rotation=None if kind == "plain" else "opq", queue=queue, **small())
    monkeypatch.setattr(rotation, "ROUNDS", 3)
    expected, found = model.fit(given).codebooks_, model.encode(given)
    other = given * rng.lognormal(0, 2, (len(given), 1)).astype(np.float32)
    error = model.score(other)
    portions = rows.RowSource.portions
    monkeypatch.setattr(rows.RowSource, "portions", lambda source, count=None: portions(source, count or 7))
    assert model.score(other) == error
    assert np.array_equal(model.encode(given), found)
    np.save(tmp_path / "rows.npy", given)
    lower(monkeypatch, rows__portion=4 * 10 * 40)
    monkeypatch.setattr(fit, "_DEVICE_SHARE", 1 << 60)
    model.fit(tmp_path / "rows.npy")
    assert np.array_equal(model.codebooks_, expected)
    assert np.array_equal(model.encode(tmp_path / "rows.npy"), found)
    model.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz", queue=queue)
    assert np.array_equal(again.encode(given), found)
    assert np.array_equal(again.decode(found), model.decode(found))
    assert (again.get_params(), again.inertia_) == (model.get_params(), model.inertia_)
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()
    with pytest.raises(ClquantError, match=f"holds a '{type(model).__name__}'; allowed: a VectorQuantizer"):
        VectorQuantizer.load(tmp_path / "model.npz")


def test_faiss_reads_the_codes(queue: Any, rng: np.random.Generator) -> None:
    faiss = pytest.importorskip("faiss")
    whole = (mixed(rng) * 9 + 128).clip(0, 255).astype(np.uint8)
    for bits in (4, 5):
        model = ProductQuantizer(2, bits, queue=queue, **small()).fit(whole)
        there = model.to_faiss()
        assert np.array_equal(there.decode(model.encode(whole)), model.decode(model.encode(whole)))
        assert np.array_equal(there.compute_codes(whole.astype(np.float32)), model.encode(whole))
        back = ProductQuantizer.from_faiss(there, queue=queue)
        assert np.array_equal(back.codebooks_, model.codebooks_)
        assert np.array_equal(back.encode(whole), model.encode(whole))
    turned = ProductQuantizer(2, 4, rotation="opq", queue=queue, **small()).fit(whole.astype(np.float32))
    index = turned.to_faiss()
    assert (index.sa_encode(whole.astype(np.float32)) == turned.encode(whole)).mean() > 0.98  # floats round
    np.testing.assert_allclose(index.sa_decode(turned.encode(whole)), turned.decode(turned.encode(whole)), atol=1e-3)
    assert ProductQuantizer.from_faiss(index, queue=queue).rotation_ == pytest.approx(turned.rotation_, abs=2**-20)
    coarse = VectorQuantizer(4, queue=queue, **small()).fit(whole)
    lists = model.to_faiss(coarse, by_residual=False)
    lists.add(whole.astype(np.float32))
    assert isinstance(lists, faiss.IndexIVFPQ)
    assert lists.ntotal == len(whole)
    with pytest.raises(ClquantError, match="there is a rotation"):
        turned.to_faiss(coarse)
    with pytest.raises(ClquantError, match="not trained"):
        ProductQuantizer.from_faiss(faiss.IndexPQ(8, 2, 4))
    with pytest.raises(ClquantError, match=r"allowed: faiss\.ProductQuantizer"):
        ProductQuantizer.from_faiss(faiss.IndexFlatL2(4))
    with pytest.raises(ClquantError, match=r"coarse is .*; allowed: a fitted one of rows of 10"):
        model.to_faiss(VectorQuantizer(4))
    moved, flat = faiss.LinearTransform(8, 8, True), faiss.LinearTransform(8, 8, False)
    faiss.copy_array_to_vector(np.ones(64, np.float32), flat.A)
    for step, message in ((moved, "other steps than one rotation"), (flat, "a transform that is no rotation")):
        whole_index = faiss.IndexPQ(8, 2, 4)
        with pytest.raises(ClquantError, match=message):
            ProductQuantizer.from_faiss(faiss.IndexPreTransform(step, whole_index))
    with pytest.raises(ClquantError, match="the codebook has 65537 codewords; allowed: at most 65536"):
        exchange.plain(np.zeros((65537, 1), np.uint8), queue)


def test_without_faiss_it_is_named(monkeypatch: pytest.MonkeyPatch, queue: Any) -> None:
    model = ProductQuantizer(2, 1, queue=queue, **small()).fit(GOOD)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ClquantError, match="faiss is not installed"):
        model.to_faiss()


def test_the_rotation_of_many_rows_is_learned_from_a_sample(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(rotation, "_LEAST_ROWS", 64)
    monkeypatch.setattr(rotation, "_ROWS_PER_WORD", 1)
    given, weights = np.arange(500)[:, None], rng.integers(0, 4096, 500).astype(np.uint16)
    for own in (None, weights):
        found, mass = rotation._sample(rows.RowSource(given, False), own, VectorQuantizer(9))
        places = found[:, 0]
        assert len(places) == 64
        assert (np.diff(places) > 0).all()
        assert np.array_equal(mass, np.ones(64) if own is None else np.ceil(own[places] * (256 / float(own.max()))))


def test_the_unit_of_rotated_rows_leaves_few_numbers_out(rng: np.random.Generator) -> None:
    for size in (900, 40000):
        given = rng.normal(0, 3000, size)
        given[7] = 1e7
        unit = rotation._unit(given)
        assert np.count_nonzero(np.abs(given) >= 128 * unit) << 14 <= size
        assert np.count_nonzero(np.abs(given) >= 64 * unit) << 14 > size
    assert rotation._unit(np.where(np.arange(40000) == 5, 1000.0, 0.0)) == 0.5  # not less where whole numbers fit


def test_progress_counts_all_codebooks_and_stops(queue: Any, rng: np.random.Generator) -> None:
    given, seen = mixed(rng, 60), []
    ProductQuantizer(2, 2, queue=queue, **small()).fit(given, progress=lambda *at: seen.append(at))
    assert seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen)
    model = ResidualQuantizer(2, 2, queue=queue, **small())
    with pytest.raises(StoppedError):
        model.fit(given[:, :5], progress=lambda *_: False)
    assert not hasattr(model, "codebooks_")


GOOD = np.arange(400.0).reshape(40, 10)


@pytest.mark.parametrize(
    ("parameters", "given", "message"),
    [
        ({}, GOOD[:15], "n_samples=15 rows; allowed: at least 16"),
        ({"n_subspaces": 3}, GOOD, "10 features; allowed: a multiple of n_subspaces=3"),
        ({"n_subspaces": 0}, GOOD, "n_subspaces is 0;"),
        ({"n_bits": 0}, GOOD, "n_bits is 0;"),
        ({"n_bits": 17}, GOOD, "n_bits is 17;"),
        ({"rotation": "pca"}, GOOD, "rotation is 'pca';"),
        ({"init": GOOD}, GOOD, "init is"),
        ({"init": "random"}, GOOD, "init is 'random';"),
        ({}, np.where(GOOD == 7, np.nan, GOOD), "NaN or infinity"),
        ({"rotation": "opq"}, np.where(GOOD == 7, np.inf, GOOD), "NaN or infinity"),
        ({}, GOOD[:, :0], "0 feature"),
    ],
)
def test_bad_input_is_one_clear_error(parameters: dict[str, Any], given: Any, message: str) -> None:
    with pytest.raises(ClquantError, match=message):
        ProductQuantizer(**{"n_subspaces": 2, "n_bits": 4, **parameters}).fit(given)


def test_bad_input_after_fit(queue: Any) -> None:
    model = ProductQuantizer(2, 3, queue=queue, **small())
    with pytest.raises(ClquantError, match="call fit first"):
        model.encode(GOOD)
    with pytest.raises(ClquantError, match="call fit first"):
        model.save("nowhere.npz")
    for weights, message in ((np.zeros(40), "zero everywhere"), (np.full(40, -1), "negative"), ([1], "shape")):
        with pytest.raises(ClquantError, match=message):
            model.fit(GOOD, sample_weight=weights)
    model.fit(GOOD)
    with pytest.raises(ClquantError, match="X has 3 features, but ProductQuantizer is expecting 10"):
        model.encode(GOOD[:, :3])
    for wrong, message in (
        (np.zeros((2, 2), np.uint8), r"has the shape \(2, 2\); allowed: \(n, 1\), for 2 x 3 bits"),
        (np.zeros(1, np.uint8), "has the shape"),
        (np.zeros((2, 1)), r"allowed: uint8, \(n, 1\)"),
    ):
        with pytest.raises(ClquantError, match=message):
            model.decode(wrong)
    for wrong, message in (([[0, 8]], "go from 0 to 8; allowed: 0 to 7"), ([[0.5, 1]], "integers"), ([[1]], "shape")):
        with pytest.raises(ClquantError, match=message):
            model.inverse_transform(wrong)
