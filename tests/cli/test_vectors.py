"""`clquant vectors`: equal to Python's verbs, through files and pipes, and wrong calls that leave nothing."""

from __future__ import annotations

import io
import pathlib
import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import ProductQuantizer, VectorQuantizer
from clquant.cli import main
from clquant.vectors import files


@pytest.fixture
def rows(tmp_path: pathlib.Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> npt.NDArray[np.uint8]:
    """Rows in the working folder, as rows.bvecs and rows.npy."""
    monkeypatch.chdir(tmp_path)
    given = rng.integers(0, 256, (120, 5), dtype=np.uint8)
    np.save("rows.npy", given)
    with files.written("rows.bvecs", given.shape, given.dtype) as put:
        put(given)
    return given


def call(text: str) -> int:
    return main(["vectors", *text.split()])


def test_rows_there_and_back(rows: npt.NDArray[np.uint8], capsys: pytest.CaptureFixture[str]) -> None:
    np.save("weights.npy", np.arange(120))
    assert call("train rows.bvecs -n 9 --refine 2 --seed 3 --sample-weight weights.npy -o book.npz") == 0
    assert call("encode rows.npy --codebook book.npz") == 0
    assert call("decode rows-codes.npy --codebook book.npz -o again.bvecs") == 0
    model = VectorQuantizer(9, refine=2, random_state=3).fit(rows, sample_weight=np.arange(120))
    assert np.array_equal(np.load("rows-codes.npy"), model.predict(rows))
    assert np.array_equal(files.opened(pathlib.Path("again.bvecs"))[:], model.inverse_transform(model.labels_))
    assert "9 codewords of 5 numbers" in capsys.readouterr().err
    assert call("info book.npz rows.bvecs") == 0
    assert capsys.readouterr().out.splitlines() == [
        "book.npz: 9 codewords of 5 numbers, uint8",
        "rows.bvecs: 120 x 5 uint8",
    ]


@pytest.mark.parametrize("dtype", ["u1", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("i2", "f4"))])
def test_plain_codewords_come_and_go_as_npy(rows: npt.NDArray[np.uint8], dtype: str) -> None:
    np.save("rows.npy", rows.astype(dtype) * (0.01 if dtype == "f4" else 1))
    assert call("train rows.npy -n 9 --refine 2 -o book.npy -q") == 0
    assert call("encode rows.npy --codebook book.npy -o labels.npy -q") == 0
    assert call("decode labels.npy --codebook book.npy -o again.npy -q") == 0
    model = VectorQuantizer(9, refine=2).fit(np.load("rows.npy"))
    assert np.array_equal(np.load("book.npy"), model.codebook_)
    assert np.load("book.npy").dtype == model.codebook_.dtype
    assert np.array_equal(np.load("labels.npy"), model.labels_)
    assert np.array_equal(np.load("again.npy"), model.inverse_transform(model.labels_))


@pytest.mark.full
def test_product_codes_through_pipes(
    rows: npt.NDArray[np.uint8], capfdbinary: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.hstack([rows, rows[::-1]])
    np.save("rows.npy", rows)
    assert call("train rows.npy --n-subspaces 2 --n-bits 3 --refine 2 -o pq.npz -q") == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pathlib.Path("rows.npy").read_bytes())))
    assert call("encode - --codebook pq.npz -o - -q") == 0
    found = np.load(io.BytesIO(capfdbinary.readouterr().out))
    model = ProductQuantizer(2, 3, refine=2).fit(rows)
    assert np.array_equal(found, model.encode(rows))
    np.save("codes.npy", found)
    assert call("decode codes.npy --codebook pq.npz -q") == 0
    assert np.array_equal(np.load("codes-rows.npy"), model.decode(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train rows.npy -n 121 -o x.npz", "n_samples=120 rows; allowed: at least -n=121"),
        ("train rows.npy -o x.fvecs", "has the suffix '.fvecs'; allowed: .npz, .npy"),
        ("train rows.npy --n-subspaces 2 --n-bits 2 -o x.npy", "cannot hold the codebooks of codes; allowed: .npz"),
        ("train rows.npy rows.bvecs -o x.npz", "there are 2 inputs; allowed: one file of rows"),
        ("train rows.npy --n-subspaces 4 --n-bits 2 -o x.npz", "5 features; allowed: a multiple of --n-subspaces=4"),
        ("train rows.npy --n-bits 2 -o x.npz", "--n-bits is given without --n-subspaces"),
        ("train rows.npy --n-stages 2 -n 4 -o x.npz", "-n is given with codes"),
        ("train rows.npy --n-stages 2 --rotation opq -o x.npz", "--rotation is given with --n-stages"),
        ("train rows.npy --device nonsense -o x.npz", "nonsense"),
        ("train none.npy -o x.npz", "there is no such file"),
        ("train bad.npy -n 2 -o x.npz", "is no file of rows"),
        ("train pickle.npy -n 2 -o x.npz", "is no file of rows"),
        ("encode rows.npy --codebook bad.npy -o x.npy", "is no file of rows"),
        ("encode wide.npy --codebook rows.npy -o x.npy", "7 features, but VectorQuantizer is expecting 5"),
        ("encode wide.npy --codebook book.npz -o x.npy", "7 features, but VectorQuantizer is expecting 5"),
        ("encode nan.npy --codebook book.npz -o x.npy", "NaN or infinity"),
        ("encode rows.npy --codebook book.npz -o x.bvecs", "holds rows of uint8, not"),
        ("encode rows.npy --codebook book.npz -o rows.npy", "is the input itself"),
        ("decode wide.npy --codebook book.npz -o x.npy", "labels is"),
        ("info none.npz", "there is no such file"),
    ],
)
def test_wrong_calls_say_why_and_leave_nothing(
    rows: npt.NDArray[np.uint8], text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("wide.npy", np.zeros((3, 7)))
    np.save("nan.npy", np.full((3, 5), np.nan))
    np.save("pickle.npy", np.array([{}], object))
    pathlib.Path("bad.npy").write_bytes(pathlib.Path("rows.npy").read_bytes()[:-1])
    VectorQuantizer(2, refine=0).fit(rows).save("book.npz")
    before = {path.name: path.read_bytes() for path in pathlib.Path().iterdir()}
    assert call(text) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert re.search(message, complaint), complaint
    assert {path.name: path.read_bytes() for path in pathlib.Path().iterdir()} == before
