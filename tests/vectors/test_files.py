"""Files of rows and of quantizers: what is read back, what is refused, nothing half-written."""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest

from clquant import ClquantError, FileError, FormatError, VectorQuantizer
from clquant.vectors import files
from clquant.vectors.rows import read_rows

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
    assert (source.count, source.components, source.dtype, source.is_lazy) == (12, 5, dtype, True)
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


def test_hostile_files_of_quantizers(queue: Any, tmp_path: pathlib.Path) -> None:
    good = tmp_path / "good.npz"
    VectorQuantizer(3, refine=0, queue=queue).fit(WHOLE).save(good)
    with zipfile.ZipFile(good) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(files.array_of(entries["header.npy"], "it").tobytes())

    def rewritten(changes: dict[str, Any], kind: int = zipfile.ZIP_STORED, **arrays: Any) -> pathlib.Path:
        text = np.frombuffer(json.dumps({**header, **changes}).encode(), np.uint8)
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npz"
        with zipfile.ZipFile(path, "w", kind) as archive:
            for name, array in {"header": text, "words": files.array_of(entries["words.npy"], "it"), **arrays}.items():
                with archive.open(f"{name}.npy", "w") as entry:
                    np.lib.format.write_array(entry, array)
        return path

    fixed = header["fixed"]
    assert np.array_equal(VectorQuantizer.load(rewritten({})).codebook_, VectorQuantizer.load(good).codebook_)
    for path, message in (
        (rewritten({"format": 9}), "has the format 9; allowed: 1"),
        (rewritten({"kind": ["x"]}), "allowed: a VectorQuantizer"),
        (rewritten({"fixed": {**fixed, "scale": 3.0}}), "a fixed point that there is not"),
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
