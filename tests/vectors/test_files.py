"""Files of rows and of quantizers: what is read back, what is refused, nothing half-written."""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest

from clquant import (
    ClquantError,
    FileError,
    FormatError,
    InvalidArgument,
    ProductQuantizer,
    ResidualQuantizer,
    VectorQuantizer,
)
from clquant.vectors import files
from clquant.vectors.fixed_point import fixed_point
from clquant.vectors.rows import RowSource, read_rows

WHOLE = np.arange(60, dtype=np.uint8).reshape(12, 5)


@pytest.mark.parametrize(
    ("name", "dtype"), [("a.npy", np.float32), ("a.fvecs", np.float32), ("a.bvecs", np.uint8), ("a.zarr", np.int16)]
)
def test_what_is_written_is_read_back(tmp_path: pathlib.Path, name: str, dtype: Any) -> None:
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    given = WHOLE.astype(dtype)
    with files.written(tmp_path / name, given.shape, given.dtype) as put:
        put(given[:7])
        put(given[7:])
    source = read_rows(tmp_path / name)
    assert (source.count, source.components, source.dtype, source.is_stored) == (12, 5, dtype, True)
    assert np.array_equal(source.read(3, 9), given[3:9])
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.npy", "a.bvecs", "a.zarr"])
def test_what_fails_leaves_nothing(tmp_path: pathlib.Path, name: str) -> None:
    if name.endswith("zarr"):
        pytest.importorskip("zarr")

    def write() -> None:
        with files.written(tmp_path / name, WHOLE.shape, WHOLE.dtype) as put:
            put(WHOLE[:7])
            raise FormatError("midway")

    with pytest.raises(FormatError, match="midway"):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        ("a.txt", np.uint8, "has the suffix '.txt'; allowed"),
        ("a.fvecs", np.uint8, "holds rows of float32, not"),
        ("a.zarr", np.uint8, "exists, and a zarr is not replaced"),
        ("missing/a.npy", np.uint8, "cannot write"),
    ],
)
def test_places_that_cannot_hold_rows(tmp_path: pathlib.Path, name: str, dtype: Any, message: str) -> None:
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(ClquantError, match=message), files.written(tmp_path / name, (3, 2), np.dtype(dtype)):
        raise AssertionError("never reached")


@pytest.mark.parametrize("dtype", ["f4", "u2"])
def test_the_order_of_bytes_and_of_numbers_makes_no_difference(queue: Any, tmp_path: pathlib.Path, dtype: str) -> None:
    given = (WHOLE * 3).astype(dtype)
    expected = VectorQuantizer(3, refine=0, queue=queue).fit(given)
    for other in (given.astype(f">{dtype}"), np.asfortranarray(given)):
        np.save(tmp_path / "other.npy", other)
        for way in (other, tmp_path / "other.npy"):
            model = VectorQuantizer(3, refine=0, queue=queue).fit(way)
            assert np.array_equal(model.codebook_, expected.codebook_)
            assert model.codebook_.dtype == np.dtype(dtype)
            assert np.array_equal(model.predict(way), expected.labels_)


def npy(**header: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": (3, 4), **header})
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.npy", npy(), "no file of rows"),
        ("a.npy", npy(shape=(1 << 40, 1 << 20)), "no file of rows"),
        ("a.npy", npy(descr="|O") + bytes(96), "no file of rows.*[Pp]ython objects"),
        ("a.npy", b"\x80\x04K\x01.", "no file of rows"),
        ("a.npy", b"", "no file of rows"),
        ("a.npy", npy(shape=(12,)) + bytes(12), r"X has the shape \(12,\)"),
        ("a.fvecs", b"", "not of one length"),
        ("a.fvecs", b"\xff\xff\xff\x7f" + bytes(8), "not of one length"),
        ("a.fvecs", b"\xff\xff\xff\xff" + bytes(8), "not of one length"),
        ("a.bvecs", b"\x02\0\0\0ab\x02\0\0\0a", "not of one length"),
        ("a.bvecs", b"\x02\0\0\0ab\x03\0\0\0ab", "not of one length"),
        ("a.fvecs", b"\x01\0\0\0" + np.float32(np.nan).tobytes(), "NaN or infinity"),
        ("a.bvecs", b"\x00\x10\0\0" + bytes(4096), "at most 2048"),
        ("a.txt", b"1 2", "allowed: .npy"),
    ],
)
def test_hostile_files_of_rows(tmp_path: pathlib.Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ClquantError, match=message):
        VectorQuantizer(1, max_iter=1, refine=0).fit(tmp_path / name)


def test_bytes_of_an_array_are_not_taken_at_their_word() -> None:
    stream = io.BytesIO()
    np.save(stream, WHOLE)
    assert np.array_equal(files.array_of(stream.getvalue(), "it"), WHOLE)
    for data in (npy(shape=(1 << 50,)), npy(descr="|O") + bytes(96), stream.getvalue()[:-1], b"x"):
        with pytest.raises(FormatError, match=r"it is no \.npy file"):
            files.array_of(data, "it")


def test_what_is_no_file_of_rows(tmp_path: pathlib.Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    (tmp_path / "folder.npy").mkdir()
    for name, message in (("group.zarr", "a zarr group"), ("folder.npy", "cannot read"), ("none.npy", "No such file")):
        with pytest.raises(ClquantError, match=message):
            read_rows(tmp_path / name)


def changed(good: pathlib.Path, changes: dict[str, Any], kind: int = zipfile.ZIP_STORED, **arrays: Any) -> pathlib.Path:
    """A file of a quantizer with other words in its header, and other arrays."""
    with zipfile.ZipFile(good) as archive:
        entries = {name[:-4]: files.array_of(archive.read(name), "it") for name in archive.namelist()}
    header = {**json.loads(entries["header"].tobytes()), **changes}
    entries |= {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays}
    path = good.parent / f"{len(list(good.parent.iterdir()))}.npz"
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, array in entries.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array)
    return path


@pytest.mark.parametrize(
    ("shape", "chunks", "message"),
    [
        ([1 << 34, 8], [1 << 20, 8], "sides of up to 8589934592"),
        ([1 << 30, 8], [8, 1], "allowed: 67108864 chunks"),
        ([1 << 31, 8], [1 << 31, 8], "X: a chunk takes 17179869184 bytes; allowed by memory: 67108864"),
    ],
)
def test_stores_that_no_machine_can_read(
    tmp_path: pathlib.Path, shape: list[int], chunks: list[int], message: str
) -> None:
    pytest.importorskip("zarr")
    about = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "|u1", "order": "C", "fill_value": 0}
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps({**about, "compressor": None, "filters": None}))
    with pytest.raises(InvalidArgument, match=message):
        VectorQuantizer(4).fit(tmp_path / "x.zarr", memory="64 MiB")


def test_hostile_files_of_quantizers(queue: Any, tmp_path: pathlib.Path) -> None:
    good = tmp_path / "good.npz"
    VectorQuantizer(3, refine=0, queue=queue).fit(WHOLE).save(good)

    def rewritten(changes: dict[str, Any], *kind: int, **arrays: Any) -> pathlib.Path:
        return changed(good, changes, *kind, **arrays)

    fixed = VectorQuantizer.load(good)._state()[0]["fixed"]
    assert np.array_equal(VectorQuantizer.load(rewritten({})).codebook_, VectorQuantizer.load(good).codebook_)
    for path, message in (
        (rewritten({"format": 9}), "has the format 9; allowed: 1"),
        (rewritten({"kind": ["x"]}), "allowed: a VectorQuantizer"),
        (rewritten({"fixed": {**fixed, "scale": 3.0}}), "scale is 3.0; allowed: a power of two"),
        (rewritten({"fixed": {**fixed, "scale": 2.0**1000}}), "scale is 1.07"),
        (rewritten({"fixed": {**fixed, "bits": 17}}), "a fixed point that there is not"),
        (rewritten({"fixed": {**fixed, "dtype": "O"}}), "the dtype 'O'"),
        (rewritten({"parameters": {"nonsense": 1}}), "no saved VectorQuantizer"),
        (rewritten({}, words=np.zeros((2, 0), np.uint8)), r"codewords \(2, 0\)"),
        (rewritten({}, words=np.zeros((2, 5), np.float32)), "codewords .* of float32"),
        (rewritten({}, zipfile.ZIP_DEFLATED), "compressed"),
    ):
        with pytest.raises(FormatError, match=message):
            VectorQuantizer.load(path)
    (tmp_path / "bad.npz").write_bytes(good.read_bytes()[:-30])
    with pytest.raises(FormatError, match="no saved quantizer"):
        VectorQuantizer.load(tmp_path / "bad.npz")
    with pytest.raises(FileError, match="No such file"):
        VectorQuantizer.load(tmp_path / "none.npz")


def test_a_changed_byte_is_read_or_refused(queue: Any, tmp_path: pathlib.Path) -> None:
    good, rows, bad = tmp_path / "good.npz", tmp_path / "rows.npy", tmp_path / "bad.npy"
    VectorQuantizer(3, refine=0, queue=queue).fit(WHOLE).save(good)
    np.save(rows, WHOLE)
    refused = {VectorQuantizer.load: 0, read_rows: 0}
    for read, data in ((VectorQuantizer.load, good.read_bytes()), (read_rows, rows.read_bytes()[:160])):
        for place in range(len(data)):
            bad.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
            try:
                read(bad)
            except ClquantError:
                refused[read] += 1
    assert min(refused.values()) > 50


def test_hostile_files_of_several_codebooks(queue: Any, tmp_path: pathlib.Path) -> None:
    pairs, stages = ProductQuantizer(2, 1, rotation="opq", refine=0, queue=queue), ResidualQuantizer(2, 1, refine=0)
    pairs.fit(np.hstack([WHOLE, WHOLE[::-1]])).save(tmp_path / "pairs.npz")
    stages.fit(WHOLE).save(tmp_path / "stages.npz")
    narrow, three = np.zeros((2, 1), np.uint8), np.zeros((3, 5), np.uint8)
    for kind, changes, arrays, message in (
        (pairs, {}, {"words0": narrow}, "codebooks of the shapes"),
        (pairs, {}, {"words0": three, "words1": three}, "codebooks of the shapes"),
        (pairs, {"features": 6}, {}, "2 sub-spaces of rows of 6"),
        (pairs, {"dtype": "S999999999"}, {}, "the dtype .S999999999"),
        (pairs, {}, {"rotation": np.zeros((2, 2), np.int32)}, "a rotation of the wrong shape or dtype"),
        (stages, {"features": 3}, {}, "codebooks of 5 for rows of 3"),
    ):
        good = tmp_path / ("pairs.npz" if kind is pairs else "stages.npz")
        with pytest.raises(FormatError, match=message):
            type(kind).load(changed(good, changes, **arrays))


def test_rows_that_cannot_be_had(tmp_path: pathlib.Path) -> None:
    class Rows:
        shape, dtype, ndim = (12, 5), np.dtype(np.uint8), 2

        def __getitem__(self, _: Any) -> Any:
            return WHOLE[:1].astype(float)

    with pytest.raises(ClquantError, match=r"X gives rows \(1, 5\) of float64"):
        read_rows(Rows()).fetch(0, 3)
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ClquantError, match="all rows are needed in one process"):
        read_rows(dask.from_array(WHOLE)).fetch(0, 3)
    pytest.importorskip("zarr")
    (tmp_path / "bad.zarr").mkdir()
    (tmp_path / "bad.zarr" / "zarr.json").write_text("{")
    with pytest.raises(FileError, match=r"cannot read .*bad\.zarr"):
        read_rows(tmp_path / "bad.zarr")
    message = "cannot write .*: the disk is full"
    with pytest.raises(FileError, match=message), files.written(tmp_path / "a.zarr", (3, 5), WHOLE.dtype):
        raise OSError("the disk is full")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.zarr"]


def test_too_many_rows_for_exact_sums() -> None:
    source = RowSource(np.broadcast_to(np.float32(1), (1 << 44, 64)), False)
    with pytest.raises(ClquantError, match=r"X has \d+ rows of 64; allowed: fewer of this dtype"):
        fixed_point(source, None, False, None)
