"""`VectorQuantizer`: equal to the reference, the same bits for every dtype's way in, portion and form, bad input."""

from __future__ import annotations

import contextlib
import copy
import pathlib
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import ClquantError, VectorQuantizer, runtime
from clquant.vectors import fit
from tests.lowering import lower
from tests.reference import vectors as reference
from tests.reference import vq_training

Rows = npt.NDArray[Any]


def table(rng: np.random.Generator, count: int, components: int) -> npt.NDArray[np.uint8]:
    """Rows about a few centers."""
    centers = rng.integers(30, 226, (7, components))
    return (centers[rng.integers(0, 7, count)] + rng.integers(-30, 30, (count, components))).astype(np.uint8)


def flat(first: Any) -> npt.NDArray[np.uint8]:
    """Rows of five components, all but the first zero."""
    return np.pad(np.asarray(first, np.uint8)[:, None], ((0, 0), (0, 4)))


def assert_reference(
    model: VectorQuantizer, given: Rows, whole: npt.NDArray[np.int64], weights: Any, bits: int
) -> None:
    """Codewords, labels, error and steps are those of the reference on whole numbers."""
    heavy = np.ones(len(whole), np.int64) if weights is None else weights.astype(np.int64)
    codebook, mse, steps = vq_training.train(
        whole, heavy, model.n_codewords, refine=model.refine, init=model.init, largest=(1 << bits) - 1,
        max_iter=model.max_iter, seed=model.random_state, of_rows=True,
    )  # fmt: skip
    np.testing.assert_array_equal(model._words, codebook)
    labels = reference.squares(whole, codebook).argmin(1)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(given), labels)
    assert model.n_iter_ == steps
    near = given.astype(float) - model._fixed.values(codebook)[labels]
    assert model.inertia_ == pytest.approx((heavy * (near**2).sum(1)).sum(), rel=1e-6)
    assert mse > 0


@pytest.mark.parametrize("components", [5, *(pytest.param(d, marks=pytest.mark.full) for d in (1, 70))])
def test_bytes_equal_the_reference(queue: Any, rng: np.random.Generator, components: int) -> None:
    given = table(rng, 90, components)
    model = VectorQuantizer(6, refine=3, queue=queue).fit(given)
    assert_reference(model, given, given.astype(np.int64), None, 8)
    assert (model.scale_, model.codebook_.dtype, model.n_features_in_) == (1.0, np.uint8, components)
    signed = VectorQuantizer(6, refine=3, queue=queue).fit((given.astype(np.int16) - 128).astype(np.int8))
    np.testing.assert_array_equal(signed.codebook_, model.codebook_.astype(np.int16) - 128)


@pytest.mark.parametrize("components", [5, *(pytest.param(d, marks=pytest.mark.full) for d in (1, 70))])
@pytest.mark.parametrize("init", ["k-means++", pytest.param("splitting", marks=pytest.mark.full)])
def test_floats_equal_the_reference(queue: Any, rng: np.random.Generator, components: int, init: str) -> None:
    given = rng.normal(0, 3, (80, components)).astype(np.float32)
    model = VectorQuantizer(6, refine=2, init=init, random_state=4, queue=queue).fit(given)
    scale, origins = reference.fixed_of(given, 16)
    assert model.scale_ == scale
    assert_reference(model, given, reference.encode(given, 16), None, 16)
    assert model.cluster_centers_.dtype == np.float32
    expected = (model._words.astype(float) - 32768) * scale + np.array(origins, float)
    np.testing.assert_array_equal(model.cluster_centers_, expected.astype(np.float32))


@pytest.mark.full
@pytest.mark.parametrize("form", ["portable", "lanes"])
@pytest.mark.parametrize("components", [3, 260, 2048])
def test_weights_and_forms_equal_the_reference(
    queue: Any, rng: np.random.Generator, form: str, components: int
) -> None:
    given = rng.normal(0, 3, (60, components))
    weights = np.append(rng.integers(0, 4095, 59), 4095).astype(float)
    bits = min(16, reference.bits_of(int(weights.sum()), components))
    with runtime.force_variant(form if form == "portable" or runtime.open_session(queue).limits.is_cpu else "portable"):
        model = VectorQuantizer(5, refine=2, queue=queue).fit(given, sample_weight=weights)
    assert_reference(model, given, reference.encode(given, bits), weights, bits)


def test_all_dtypes_of_the_same_numbers_give_the_same_labels(queue: Any, rng: np.random.Generator) -> None:
    given = table(rng, 200, 5) // 2
    plain = VectorQuantizer(9, refine=0, queue=queue)
    expected = plain.fit_predict(given.astype(np.float32))
    for dtype in (np.float16, np.float64, np.int32, np.int64):
        np.testing.assert_array_equal(plain.fit_predict(given.astype(dtype)), expected)
    for dtype in (np.uint16, np.int16):
        model = VectorQuantizer(9, refine=0, queue=queue).fit(given.astype(dtype))
        assert (model.scale_, model.codebook_.dtype) == (1.0, dtype)
        np.testing.assert_array_equal(model.predict(given.astype(np.float64)), model.labels_)


def test_distances_score_and_the_way_back(queue: Any, rng: np.random.Generator) -> None:
    given = rng.normal(0, 100, (70, 5))
    model = VectorQuantizer(5, queue=queue).fit(given)
    rounded = np.rint(given / model.scale_) * model.scale_
    expected = ((rounded[:, None] - model.cluster_centers_) ** 2).sum(2)
    np.testing.assert_allclose(model.transform(given), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.transform(given).argmin(1), model.labels_)
    exact = ((given - model.cluster_centers_[model.labels_]) ** 2).sum()
    assert model.score(given) == pytest.approx(-exact, rel=1e-6)
    assert model.inertia_ == -model.score(given)
    np.testing.assert_array_equal(model.inverse_transform(model.labels_), model.cluster_centers_[model.labels_])


def test_ties_go_to_the_lowest_index_and_no_codeword_is_dead(queue: Any, rng: np.random.Generator) -> None:
    start, given = flat([0, 10, 10, 20]), flat(np.repeat(np.arange(0, 40, 3), 4))
    assert len(np.unique(VectorQuantizer(4, init=start, queue=queue).fit(given).labels_)) == 4
    model = VectorQuantizer(2, init=flat([0, 10]), max_iter=1, queue=queue).fit(flat([0, 10]))
    np.testing.assert_array_equal(model.predict(flat([5, 6])), [0, 1])
    given = table(rng, 300, 5)
    assert len(np.unique(VectorQuantizer(64, queue=queue).fit(given).labels_)) == 64


def test_the_best_of_several_seeds_is_kept(queue: Any, rng: np.random.Generator) -> None:
    given = table(rng, 150, 5)
    each = [VectorQuantizer(9, refine=0, random_state=s, queue=queue).fit(given) for s in (3, 4, 5)]
    best = VectorQuantizer(9, refine=0, random_state=3, n_init=3, queue=queue).fit(given)
    assert best.inertia_ == min(model.inertia_ for model in each)
    assert best.inertia_ < max(model.inertia_ for model in each)


def test_rounds_never_lose_to_plain_steps(queue: Any) -> None:
    """With one round they would for some seed, and plain steps are taken."""
    rng = np.random.default_rng(5)
    centers = rng.integers(30, 226, (60, 5))
    given = (centers[rng.integers(0, 60, 400)] + rng.integers(-3, 4, (400, 5))).astype(np.uint8)
    shares = []
    for seed in range(3):
        plain, annealed = (VectorQuantizer(20, refine=r, random_state=seed, queue=queue).fit(given) for r in (0, 1))
        shares.append(annealed.inertia_ / plain.inertia_)
        assert (shares[-1] == 1) == np.array_equal(plain.codebook_, annealed.codebook_)
    assert min(shares) < max(shares) == 1


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.full)])
def test_portions_give_the_same_bits(
    queue: Any, rng: np.random.Generator, weighted: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    given = rng.normal(0, 1, (257, 5)).astype(np.float32)
    weights = rng.random(257) if weighted else None
    model = VectorQuantizer(11, refine=3, queue=queue)
    expected = model.fit(given, sample_weight=weights).codebook_
    labels, inertia = model.labels_, model.inertia_
    np.save(tmp_path / "rows.npy", given)
    lower(monkeypatch, rows__portion=4 * 5 * 50)
    monkeypatch.setattr(fit, "_DEVICE_SHARE", 1 << 60)
    for source in (given, tmp_path / "rows.npy", np.load(tmp_path / "rows.npy", mmap_mode="r")):
        model.fit(source, sample_weight=weights)
        np.testing.assert_array_equal(model.codebook_, expected)
        np.testing.assert_array_equal(model.labels_, labels)
        assert model.inertia_ == inertia


def test_no_chunk_of_a_store_is_read_twice(
    queue: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, reads = table(rng, 257, 5), []

    class Store:
        shape, dtype, chunks = given.shape, given.dtype, (60, 5)

        def __getitem__(self, rows: slice) -> Any:
            reads.append((rows.start, rows.stop))
            return given[rows]

    monkeypatch.setattr(fit, "_MOST_OF_CHUNKS", 150 * given[0].nbytes)
    model = VectorQuantizer(4, refine=0, queue=queue).fit(given)
    np.testing.assert_array_equal(model.predict(Store()), model.labels_)
    assert reads == [(0, 120), (120, 240), (240, 257)]


def test_files_of_vectors(queue: Any, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    given = table(rng, 40, 5)
    for suffix, dtype in ((".bvecs", np.uint8), (".fvecs", np.float32)):
        counted = [np.int32(5).tobytes() + row.astype(dtype).tobytes() for row in given]
        (tmp_path / f"x{suffix}").write_bytes(b"".join(counted))
        model = VectorQuantizer(4, queue=queue).fit(tmp_path / f"x{suffix}")
        np.testing.assert_array_equal(
            model.codebook_, VectorQuantizer(4, queue=queue).fit(given.astype(dtype)).codebook_
        )
    (tmp_path / "y.fvecs").write_bytes(b"\x05\x00\x00\x00abc")
    for path, message in (("y.fvecs", "no file of rows"), ("z.npy", "cannot read"), ("z.txt", "allowed: .npy")):
        with pytest.raises(ClquantError, match=message):
            VectorQuantizer(4, queue=queue).fit(tmp_path / path)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("metric", ["sqeuclidean", pytest.param("cosine", marks=pytest.mark.full)])
def test_device_arrays_stay_there_and_give_the_bits_of_host_rows(
    queue: Any, rng: np.random.Generator, dtype: Any, metric: str
) -> None:
    given = (rng.normal(0, 30, (157, 5)) + (120 if np.dtype(dtype).kind == "u" else 0)).astype(dtype)
    there = runtime.Array(queue, given.shape, given.dtype)
    there.set(given)
    host = VectorQuantizer(7, refine=2, metric=metric, queue=queue).fit(given)
    device = VectorQuantizer(7, refine=2, metric=metric).fit(there)
    np.testing.assert_array_equal(device.codebook_, host.codebook_)
    assert device.inertia_ == host.inertia_
    for made, expected in (
        (device.labels_, host.labels_),
        (device.predict(there), host.predict(given)),
        (device.transform(there), host.transform(given)),
    ):
        assert isinstance(made, runtime.Array)
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made.get(), expected)
    assert device.score(there) == host.score(given)
    words, codewords = host._fixed.encode(given).astype(np.int64), host._words.astype(np.int64)
    squares = ((words[:, None] - codewords) ** 2).sum(2) * host.scale_**2
    np.testing.assert_array_equal(host.transform(given), squares)


class Exported:
    """An array of another library, which has DLPack alone."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __dlpack__(self, **options: Any) -> Any:
        return self._rows.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._rows.__dlpack_device__()


def test_ways_in_give_the_same_bits(queue: Any, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    given = rng.normal(0, 3, (90, 5)).astype(np.float32)
    expected = VectorQuantizer(4, refine=1, queue=queue).fit(given)
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=given.shape)
    mapped[:] = given
    twice = runtime.Array(queue, (180, 5), np.float32)
    twice.set(np.concatenate([given, given]))
    ways: list[Any] = [mapped, Exported(given), np.asfortranarray(given), given.astype(">f4"), twice[90:]]
    with contextlib.suppress(ImportError):
        import zarr

        ways.append(zarr.create_array(store=tmp_path / "rows.zarr", shape=given.shape, chunks=(40, 3), dtype="f4"))
        ways[-1][:] = given
    for way in ways:
        model = VectorQuantizer(4, refine=1, queue=queue).fit(way)
        np.testing.assert_array_equal(model.codebook_, expected.codebook_)
        assert model.codebook_.dtype == np.float32
    with pytest.raises(ClquantError, match="strides"):
        VectorQuantizer(4, queue=queue).fit(twice[::2])


@pytest.mark.full
def test_half_floats_are_read_by_their_bits(queue: Any) -> None:
    """All finite ones, subnormal numbers among them: words on the device are those of the host."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)][:, None]
    model = VectorQuantizer(5, refine=0, max_iter=2, scale=2.0**-24, queue=queue)
    for source in (every, every.astype(np.float64)):
        model.fit(source)
        np.testing.assert_array_equal(model.labels_, VectorQuantizer.predict(model, every.astype(np.float64)))


def test_errors_name_the_row_of_all(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, rows__portion=4 * 5 * 10)
    given = np.ones((50, 5), np.float32)
    given[43, 2] = np.nan
    for dtype in (np.float32, np.float64):
        with pytest.raises(ClquantError, match="NaN or infinity in row 43;"):
            VectorQuantizer(2, queue=queue).fit(given.astype(dtype))
    model = VectorQuantizer(2, queue=queue).fit(given[:20] * np.arange(20, dtype=np.float32)[:, None])
    with pytest.raises(ClquantError, match="NaN or infinity in row 43;"):
        model.predict(given)
    given[43] = 0
    with pytest.raises(ClquantError, match="only zeros in row 43;"):
        VectorQuantizer(2, metric="cosine", queue=queue).fit(given)


def test_cosine_is_of_normalized_rows(queue: Any, rng: np.random.Generator) -> None:
    given = rng.normal(0, 1, (120, 5))
    long = given * np.exp2(rng.integers(-9, 9, (120, 1)))
    model = VectorQuantizer(6, metric="cosine", queue=queue).fit(given)
    other = VectorQuantizer(6, metric="cosine", queue=queue).fit(long)
    np.testing.assert_array_equal(model.codebook_, other.codebook_)
    np.testing.assert_array_equal(model.predict(long), model.labels_)
    unit = given / np.linalg.norm(given, axis=1, keepdims=True)
    np.testing.assert_array_equal(((unit[:, None] - model.codebook_) ** 2).sum(2).argmin(1), model.labels_)
    with pytest.raises(ClquantError, match="only zeros in row 1"):
        VectorQuantizer(1, metric="cosine", queue=queue).fit(np.array([[1.0], [0.0]]))


def test_batches_equal_the_reference(queue: Any, rng: np.random.Generator) -> None:
    batches = [table(rng, 50, 5) for _ in range(4)]
    first = VectorQuantizer(6, queue=queue).fit(batches[0])
    model = VectorQuantizer(6, queue=queue)
    for batch in batches:
        model.partial_fit(batch)
    whole = [batch.astype(np.int64) for batch in batches]
    np.testing.assert_array_equal(model.codebook_, reference.batches(whole, first.codebook_.astype(np.int64)))
    assert len(model.labels_) == 50
    again = VectorQuantizer(6, queue=queue).fit(batches[0])
    np.testing.assert_array_equal(again.codebook_, first.codebook_)


def blobs(rng: np.random.Generator, count: int = 400) -> Rows:
    """Rows about four corners of a square of 10."""
    corners = np.array([[0, 0], [10, 0], [0, 10], [10, 10.0]])
    return corners[rng.integers(0, 4, count)] + rng.normal(0, 0.01, (count, 2))


@pytest.mark.parametrize(("offset", "dtype"), [(1e6, "f8"), (-3e9, "f8"), (1e4, "f4"), (1.7e18, "i8")])
def test_an_offset_changes_nothing(queue: Any, rng: np.random.Generator, offset: float, dtype: str) -> None:
    near = blobs(rng) if dtype != "i8" else np.rint(blobs(rng) * 1000)
    given = (near + offset).astype(dtype) if dtype != "i8" else near.astype("i8") + np.int64(offset)
    given = np.c_[given, np.full(len(given), 2**20)].astype(dtype)
    model = VectorQuantizer(4, refine=1, queue=queue).fit(given)
    if dtype == "f8":
        plain = VectorQuantizer(4, refine=1, queue=queue).fit(np.c_[near, np.full(len(near), 2.0**20)])
        np.testing.assert_array_equal(model.labels_, plain.labels_)
    assert len(np.unique(model._words, axis=0)) == 4
    shifted = (given - given[0]).astype(float)
    codewords = np.stack([shifted[model.labels_ == j].mean(0) for j in range(4)])
    expected = ((shifted - codewords[model.labels_]) ** 2).sum()
    assert model.inertia_ == pytest.approx(expected, rel=1e-3)
    np.testing.assert_array_equal(model.predict(given), model.labels_)


def test_weights_keep_their_ratio(queue: Any, rng: np.random.Generator) -> None:
    given, weights = blobs(rng), np.ones(400)
    weights[3] = 2.0**28
    with pytest.warns(UserWarning, match="rounded to multiples"):  # of the heavy row's codeword
        model = VectorQuantizer(4, refine=1, queue=queue).fit(given, sample_weight=weights)
    expected = (weights * ((given - model.codebook_[model.labels_]) ** 2).sum(1)).sum()
    assert len(np.unique(model.codebook_, axis=0)) == 4
    assert model.inertia_ == pytest.approx(expected, rel=2e-2)
    assert model.score(given, sample_weight=weights) == -model.inertia_


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_rows_beyond_those_of_fit_are_exact(queue: Any, rng: np.random.Generator, dtype: str) -> None:
    model = VectorQuantizer(7, refine=0, queue=queue).fit((blobs(rng) * 9 + 50).astype(dtype))
    far = np.r_[rng.normal(0, 3e4, (20, 2)), [[1e12, -3e9], [40, 60.5]]].astype("f4")
    exact = [[sum((int(x * 2**20) - int(c * 2**20)) ** 2 for x, c in zip(row, word, strict=True)) for word in
              model.codebook_.tolist()] for row in far.tolist()]  # fmt: skip
    squares = np.array([[float(x) * 2.0**-40 for x in row] for row in exact])
    there = runtime.Array(queue, far.shape, far.dtype)
    there.set(far)
    for given in (far, there, far.astype(float)):
        labels, distances = model.predict(given), model.transform(given)
        labels, distances = (own.get() if isinstance(own, runtime.Array) else own for own in (labels, distances))
        np.testing.assert_array_equal(labels, [row.index(min(row)) for row in exact])
        np.testing.assert_allclose(distances[:21], squares[:21], rtol=1e-5 if dtype == "f8" else 1e-3)
        assert model.score(given) == pytest.approx(-squares.min(1).sum(), rel=1e-5)


def test_batches_go_on_beyond_their_range_and_after_fit_and_load(
    queue: Any, rng: np.random.Generator, tmp_path: pathlib.Path
) -> None:
    first, later = blobs(rng) / 1000, blobs(rng) + np.array([100.0, 0])
    heavy = rng.integers(1, 5, 400).astype(float)
    model = VectorQuantizer(4, refine=0, queue=queue).fit(first, sample_weight=np.full(400, 2.0))
    sums, counts = np.zeros((4, 2)), np.zeros((4, 1))
    np.add.at(sums, model.labels_, 2 * first)
    np.add.at(counts, model.labels_, 2)
    model.save(tmp_path / "a.npz")
    loaded = VectorQuantizer.load(tmp_path / "a.npz", queue=queue)
    words = model.codebook_
    for own in (model, loaded):
        own.partial_fit(later, sample_weight=heavy)
    before = reference.squares(np.rint(later / model.scale_), np.rint(words / model.scale_)).argmin(1)
    np.add.at(sums, before, heavy[:, None] * later)
    np.add.at(counts, before, heavy[:, None])
    np.testing.assert_allclose(model.codebook_, sums / counts, atol=2 * model.scale_)
    np.testing.assert_array_equal(loaded.codebook_, model.codebook_)
    assert model.codebook_.max() > 70
    state = {name: value for name, value in vars(model).items() if name != "queue"}
    with pytest.raises(ClquantError):
        model.partial_fit(np.full((5, 2), np.nan))
    assert all(vars(model)[name] is value for name, value in state.items())


def test_progress_counts_stages_of_all_seeds_and_stops(queue: Any, rng: np.random.Generator) -> None:
    seen: list[tuple[int, int]] = []
    given = table(rng, 60, 5)
    VectorQuantizer(4, refine=2, n_init=2, queue=queue).fit(given, progress=lambda *done: seen.append(done))
    assert seen[-1] == (46, 46)
    assert seen == sorted(seen)
    model = VectorQuantizer(4, queue=queue)
    with pytest.raises(ClquantError):
        model.fit(given, progress=lambda *_: False)
    assert not hasattr(model, "codebook_")


GOOD = np.arange(100.0).reshape(20, 5)


@pytest.mark.parametrize(
    ("parameters", "given", "message"),
    [
        ({}, GOOD[:3], "n_samples=3 rows; allowed: at least n_codewords=4"),
        ({}, GOOD[:, :0], "0 feature"),
        ({}, np.zeros((5, 2049)), "at most 2048"),
        ({}, GOOD[0], "shape"),
        ({}, np.where(GOOD == 7, np.nan, GOOD), "NaN or infinity"),
        ({}, np.where(GOOD == 7, np.inf, GOOD), "NaN or infinity"),
        ({}, GOOD.astype(complex), "Complex data not supported"),
        ({}, [["a"]], "dtype"),
        ({"n_codewords": 0}, GOOD, "n_codewords is 0;"),
        ({"n_codewords": 65537}, np.zeros((1, 1)), "n_codewords is 65537;"),
        ({"init": "random"}, GOOD, "init is 'random';"),
        ({"init": GOOD[:3]}, GOOD, "init has the shape"),
        ({"metric": "l1"}, GOOD, "metric is 'l1';"),
        ({"n_init": 0}, GOOD, "n_init is 0;"),
        ({"refine": -1}, GOOD, "refine is -1;"),
        ({"max_iter": 0}, GOOD, "max_iter is 0;"),
        ({"scale": 0.3}, GOOD, "a power of two"),
    ],
)
def test_bad_input_is_one_clear_error(parameters: dict[str, Any], given: Any, message: str) -> None:
    with pytest.raises(ClquantError, match=message):
        VectorQuantizer(**{"n_codewords": 4, **parameters}).fit(given)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "has the shape"),
        (np.zeros(20), "zero everywhere"),
        (np.full(20, -1.0), "negative"),
        (np.full(20, np.nan), "infinite"),
        ("abc", "a number for each row"),
    ],
)
def test_bad_weights_are_one_clear_error(weights: Any, message: str) -> None:
    with pytest.raises(ClquantError, match=message):
        VectorQuantizer(4).fit(GOOD, sample_weight=weights)


def test_bad_input_after_fit(queue: Any) -> None:
    model = VectorQuantizer(4, queue=queue)
    with pytest.raises(ClquantError, match="call fit first"):
        model.predict(GOOD)
    model.fit(GOOD)
    with pytest.raises(ClquantError, match="X has 1 features, but VectorQuantizer is expecting 5"):
        model.predict(GOOD[:, :1])
    for labels in ([4], [-1], [0.5]):
        with pytest.raises(ClquantError, match="labels"):
            model.inverse_transform(labels)


def test_masked_rows_are_refused_wherever_they_lie(queue: Any, rng: np.random.Generator) -> None:
    given = np.ma.masked_greater(blobs(rng), 9)

    class Store:
        shape, dtype = given.shape, given.dtype

        def __getitem__(self, rows: slice) -> Any:
            return given[rows]

    model, ways = VectorQuantizer(4, refine=0, queue=queue).fit(given.data), [given, Store()]
    with contextlib.suppress(ImportError):
        import dask.array

        ways.append(dask.array.from_array(given, chunks=(100, 2)))
    for way in ways:
        for verb in (VectorQuantizer(4, queue=queue).fit, model.predict, model.transform, model.score):
            with pytest.raises(ClquantError, match="masked values"):
                np.asarray(verb(way))


def test_what_devices_give_is_taken_back(queue: Any, rng: np.random.Generator, tmp_path: pathlib.Path) -> None:
    given = blobs(rng).astype(np.float32)
    there = runtime.Array(queue, given.shape, given.dtype)
    there.set(given)
    model = VectorQuantizer(4, init=blobs(rng)[:4], queue=queue).fit(there)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, model.labels_.get())
    np.testing.assert_array_equal(copy.deepcopy(model).labels_.get(), model.labels_.get())
    np.testing.assert_array_equal(model.inverse_transform(model.predict(there)), model.codebook_[model.labels_.get()])
    model.save(tmp_path / "a.npz")
    np.testing.assert_array_equal(VectorQuantizer.load(tmp_path / "a.npz", queue=queue).init, model.init)


def test_columns_with_names_keep_their_order(queue: Any, rng: np.random.Generator) -> None:
    class Table(np.ndarray):
        columns = ("x", "y")

    model = VectorQuantizer(4, refine=0, queue=queue).fit(blobs(rng).view(Table))
    assert model.feature_names_in_.tolist() == ["x", "y"]
    assert model.get_feature_names_out().tolist() == [f"vectorquantizer{j}" for j in range(4)]
    other = blobs(rng).view(Table)
    other.columns = ("y", "x")
    with pytest.raises(ClquantError, match="feature names should match"):
        model.predict(other)
    model.fit(blobs(rng))
    assert not hasattr(model, "feature_names_in_")


def test_lost_bits_and_repeated_codewords_are_warned_of(queue: Any, rng: np.random.Generator) -> None:
    given = blobs(rng)
    given[0] = 1e5
    with pytest.warns(UserWarning, match=r"rounded to multiples of 2, but .* outliers"):
        VectorQuantizer(5, refine=0, queue=queue).fit(given)
    with pytest.warns(UserWarning, match="2 codewords are different, n_codewords is 4"):
        VectorQuantizer(4, refine=0, queue=queue).fit(np.repeat([[0.0, 1], [2, 5]], 9, 0))
    with pytest.raises(ClquantError, match="too large to convert"):
        VectorQuantizer(1, queue=queue).fit(np.array([[10**400]], object))
