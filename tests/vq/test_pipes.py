"""Binary files and pipes that people hold: taken whole, or refused by one clear error."""

from __future__ import annotations

import contextlib
import io
import pathlib
from typing import Any

import numpy as np
import pytest

from clquant import VQCodec, clvq_info
from clquant.runtime import FileError, FormatError, InvalidType

IMAGE = np.arange(40 * 52, dtype=np.uint16).reshape(40, 52).astype(np.uint8)


@pytest.fixture
def codec() -> VQCodec:
    made = VQCodec(64)
    made.codebook_ = np.random.default_rng(2).integers(0, 256, (64, 4, 4), np.uint8)
    return made


class Raw(io.RawIOBase):
    """Takes at most `most` bytes a call; None is the answer of a pipe that would have to wait."""

    def __init__(self, most: int | None) -> None:
        self.most, self.taken = most, b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int | None:
        if self.most is None:
            return None
        self.taken += bytes(data)[: self.most]
        return min(len(data), self.most)


class Silent:
    """A sink that takes all and says nothing."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: bytes) -> None:
        self.taken += data


@pytest.mark.full
def test_a_sink_that_takes_a_part_is_given_the_rest(codec: VQCodec) -> None:
    raw, silent = Raw(100), Silent()
    codec.compress_to(raw, IMAGE)
    codec.compress_to(silent, IMAGE)
    assert raw.taken == silent.taken == codec.compress(IMAGE)


class NothingYet:
    def read(self, _: int) -> None:
        return None


def opened(kind: str, path: pathlib.Path) -> Any:
    """What a person may give for a file: one opened in a mode, or something else."""
    closed = io.BytesIO()
    closed.close()
    others = {"text": io.StringIO("abc"), "closed": closed, "full": Raw(0), "busy": Raw(None), "later": NothingYet()}
    if kind in others:
        return others[kind]
    return open(path, kind, encoding=None if "b" in kind else "utf-8")


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("text", InvalidType, "allowed: a binary file open for writing"),
        ("w", InvalidType, "allowed: a binary file open for writing"),
        ("rb", FileError, "it is not open for that"),
        ("closed", FileError, "closed file"),
        ("full", FileError, "it takes no more bytes"),
        ("busy", FileError, "it takes no more bytes"),
        ("later", InvalidType, "allowed: a binary file open for writing"),
    ],
)
def test_sinks_that_take_no_bytes(
    codec: VQCodec, tmp_path: pathlib.Path, kind: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with contextlib.ExitStack() as stack:
        file = opened(kind, tmp_path / "file")
        if hasattr(file, "close"):
            stack.callback(file.close)
        with pytest.raises(error, match=message):
            codec.compress_to(file, IMAGE)


def test_a_full_disk(codec: VQCodec) -> None:
    if not pathlib.Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(FileError, match=r"cannot write .*No space"):
        codec.compress_to(file, IMAGE)


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("text", InvalidType, "gives str; allowed: a binary file open for reading"),
        ("r", InvalidType, "allowed: a binary file open for reading"),
        ("ab", FileError, "it is not open for that"),
        ("closed", FileError, "closed file"),
        ("later", FileError, "it has no bytes yet"),
    ],
)
def test_sources_that_give_no_bytes(
    codec: VQCodec, tmp_path: pathlib.Path, kind: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "file").write_bytes(codec.compress(IMAGE))
    with contextlib.ExitStack() as stack:
        file = opened(kind, tmp_path / "file")
        if hasattr(file, "close"):
            stack.callback(file.close)
        with pytest.raises(error, match=message):
            codec.decompress_from(file)


def test_bytes_that_are_not_contiguous(codec: VQCodec) -> None:
    data = codec.compress(IMAGE)
    spread = memoryview(np.frombuffer(data, np.uint8).repeat(2))[::2]
    assert not spread.c_contiguous
    np.testing.assert_array_equal(codec.decompress(spread), codec.decompress(data))
    assert clvq_info(spread).nbytes == len(data)


def test_errors_of_ones_own_pass(codec: VQCodec) -> None:
    class Pipe:
        def read(self, _: int) -> bytes:
            raise FormatError("mine")

        write = read

    for verb, arguments in (("decompress_from", ()), ("compress_to", (IMAGE,))):
        with pytest.raises(FormatError, match=r"^mine$"):
            getattr(codec, verb)(Pipe(), *arguments)
