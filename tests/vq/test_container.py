"""The .clvq container: every coding, files and pipes, the golden file, and bytes that are not what they claim to be."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import VQCodec
from clquant.runtime import (
    ClquantError,
    FileError,
    FormatError,
    InvalidArgument,
    InvalidType,
    NotFittedError,
    StoppedError,
)
from clquant.vq import clvq_info, container, entropy

Bytes = npt.NDArray[np.uint8]
DATA = pathlib.Path(__file__).parents[1] / "data"
GOLDEN = {name: DATA / f"vq-v1-{name}.clvq" for name in ("plain", "sidematch", "rgb", "shared", "codebook")}


def codec(seed: int = 5, size: int = 40, state_size: int = 0, channels: int = 1) -> VQCodec:
    made = VQCodec(size, (4, 4), state_size=state_size)
    shape = (size, 4, 4) if channels == 1 else (size, 4, 4, channels)
    made.codebook_ = np.sort(np.random.default_rng(seed).integers(0, 256, shape, np.uint8), axis=0)
    return made


def scene(height: int = 45, width: int = 50, channels: int = 1) -> Bytes:
    y, x = np.mgrid[:height, :width]
    bands = [(4 * x + 3 * y + 31 * c) % 256 for c in range(channels)]
    return bands[0].astype(np.uint8) if channels == 1 else np.stack(bands, -1).astype(np.uint8)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(0, 9),
    columns=st.integers(1, 9),
    limit=st.integers(2, 65536),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_tables_survive_every_coding(rows: int, columns: int, limit: int, seed: int, data: st.DataObject) -> None:
    values = np.random.default_rng(seed).integers(0, limit, (rows, columns))
    transform = data.draw(st.sampled_from(entropy.TRANSFORMS))
    plain = entropy.to_plain(values, limit, transform)
    assert len(plain) == entropy.plain_length(values.size, limit, transform)
    np.testing.assert_array_equal(entropy.from_plain(plain, (rows, columns), limit, transform), values)
    method, payload = entropy.pack(plain)
    assert len(payload) <= entropy.longest_payload(len(plain))
    assert entropy.unpack(method, payload, len(plain)) == plain


def test_spare_bits_are_0() -> None:
    plain = entropy.to_plain(np.full((3, 3), 4), 5, entropy.PACKED_BITS)  # 27 bits of 32
    for bit in range(5):
        changed = plain[:-1] + bytes([plain[-1] ^ 1 << bit])
        with pytest.raises(FormatError, match="spare bits"):
            entropy.from_plain(changed, (3, 3), 5, entropy.PACKED_BITS)


@pytest.mark.parametrize("plain", [b"", b"a", bytes(5000), bytes(range(256)) * 9], ids=len)
def test_every_method_is_read(plain: bytes) -> None:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    payloads = {entropy.STORED: plain, entropy.DEFLATE: deflater.compress(plain) + deflater.flush()}
    for method, payload in payloads.items():
        assert entropy.unpack(method, payload, len(plain)) == plain
        for wrong in (len(plain) + 1, len(plain) - 1):
            with pytest.raises(FormatError):
                entropy.unpack(method, payload, wrong)


@pytest.mark.parametrize(("state_size", "channels"), [(0, 1), (7, 1), (0, 3), (3, 4)])
@pytest.mark.parametrize("embed", [True, False])
def test_decompress_gives_the_decoded_picture(state_size: int, channels: int, embed: bool) -> None:
    made, image = codec(state_size=state_size, channels=channels), scene(channels=channels)
    data = made.compress(image, embed_codebook=embed)
    expected = made.decode(made.encode(image), image.shape[:2])
    np.testing.assert_array_equal(made.decompress(data), expected)
    if embed:
        np.testing.assert_array_equal(VQCodec().decompress(data), expected)
    info = clvq_info(data)
    assert (info.height, info.width, info.channels) == (45, 50, channels)
    assert info.bits_per_pixel == 8 * len(data) / (45 * 50)


def test_many_bands_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clquant.vq.container.MAX_BAND_BLOCKS", 30)
    made, image = codec(), scene(70, 41)
    pipe = io.BytesIO()

    class Slow:
        """Gives at most 7 bytes a read, as a pipe may."""

        def read(self, size: int) -> bytes:
            return pipe.read(min(size, 7))

    made.compress_to(pipe, image)
    assert len(list(container.Reader(io.BytesIO(pipe.getvalue())).bands())) == 9
    pipe.seek(0)
    np.testing.assert_array_equal(made.decompress_from(Slow()), made.decode(made.encode(image), image.shape))


@pytest.mark.parametrize("state_size", [0, 4])
def test_progress_counts_blocks_and_stops(monkeypatch: pytest.MonkeyPatch, state_size: int) -> None:
    monkeypatch.setattr("clquant.vq.container.MAX_BAND_BLOCKS", 60)  # 3 bands of 5, 5 and 2 rows of 12 blocks
    monkeypatch.setattr("clquant.vq.sidematch._TOLD_WORK", 40 * 16)
    made, image = codec(state_size=state_size), scene(46, 45)
    data = made.compress(image)
    calls: list[Callable[..., Any]] = [
        lambda **to: made.compress(image, **to),
        lambda **to: made.decompress(data, **to),
    ]
    for call in calls:
        seen: list[tuple[int, int]] = []
        result = call(progress=lambda done, total, seen=seen: seen.append((done, total)))
        np.testing.assert_array_equal(result, call())
        assert seen == sorted(set(seen))
        assert {(60, 144), (120, 144)} <= set(seen)
        assert seen[-1] == (144, 144)
        assert (len(seen) > 5) == bool(state_size)
        with pytest.raises(StoppedError):
            call(progress=lambda done, _: done < 60)
        with pytest.raises(InvalidType, match="progress is 3;"):
            call(progress=3)


def test_a_shared_codebook_in_its_own_file(tmp_path: pathlib.Path) -> None:
    made, image = codec(), scene()
    made.save(tmp_path / "book.clvq")
    data = made.compress(image, embed_codebook=False)
    loaded = VQCodec.load(tmp_path / "book.clvq")
    np.testing.assert_array_equal(loaded.codebook_, made.codebook_)
    np.testing.assert_array_equal(loaded.decompress(data), made.decompress(data))
    with pytest.raises(NotFittedError):
        VQCodec().decompress(data)
    with pytest.raises(InvalidArgument, match="names the shared codebook"):
        codec(seed=6).decompress(data)
    with pytest.raises(FormatError, match="holds a codebook and no picture"):
        made.decompress((tmp_path / "book.clvq").read_bytes())
    (tmp_path / "picture.clvq").write_bytes(data)
    with pytest.raises(FormatError, match="does not hold it"):
        VQCodec.load(tmp_path / "picture.clvq")
    with pytest.raises(FileError, match="cannot read"):
        VQCodec.load(tmp_path / "absent.clvq")
    with pytest.raises(FileError, match="cannot write"):
        made.save(tmp_path / "no folder" / "book.clvq")


def golden_codec(name: str) -> tuple[VQCodec, Bytes]:
    channels = 3 if name == "rgb" else 1
    return codec(state_size=6 if name == "sidematch" else 0, channels=channels), scene(channels=channels)


@pytest.mark.parametrize("name", ["plain", "sidematch", "rgb", "shared"])
def test_files_of_version_1_stay_readable(name: str) -> None:
    made, image = golden_codec(name)
    picture = made.decompress(GOLDEN[name].read_bytes())
    np.testing.assert_array_equal(picture, made.decode(made.encode(image), image.shape[:2]))


def test_the_codebook_file_of_version_1_stays_readable() -> None:
    np.testing.assert_array_equal(VQCodec.load(GOLDEN["codebook"]).codebook_, codec().codebook_)


def tampered(data: bytes, offset: int, change: bytes) -> bytes:
    """A file whose header says something else, with a check sum that fits."""
    header = bytearray(data[: container.HEADER_BYTES])
    header[offset : offset + len(change)] = change
    header[-4:] = struct.pack("<I", zlib.crc32(bytes(header[:-4])))
    return bytes(header) + data[container.HEADER_BYTES :]


@pytest.mark.parametrize(
    ("offset", "change", "message"),
    [
        (0, b"\x88", "do not begin like"),
        (8, b"\x02", "version 2"),
        (9, b"\x03", "impossible kind"),
        (9, b"\x02", "impossible size"),
        (10, b"\x02", "number of channels"),
        (11, b"\x01", "reserved"),
        (12, b"\x00", "block shape"),
        (14, b"\x21", "block shape"),
        (16, b"\x01\x00\x00\x00", "codebook size"),
        (16, b"\x01\x00\x01\x00", "codebook size"),
        (20, b"\x00\x00\x00\x00", "impossible size"),
        (20, b"\xff\xff\xff\xff", "impossible size"),
        (20, b"\x31", "padded size"),
        (28, b"\xff", "padded size"),
        (36, b"\xff", "state codebook"),
        (36, b"\x29", "state codebook"),
        (40, b"\x00\x00", "check sum"),
    ],
)
def test_headers_that_say_something_impossible(offset: int, change: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        codec().decompress(tampered(codec().compress(scene()), offset, change))


def test_a_huge_claim_is_refused_before_memory_is_taken() -> None:
    header = container.Header(container.PICTURE, 1, (1, 1), 2, (1 << 20, 1 << 20), 0, bytes(16))
    with pytest.raises(FormatError, match="at most 536870912 are allowed, by max_pixels"):
        codec().decompress(header.to_bytes())
    with pytest.raises(FormatError, match="at most 100 are allowed"):
        codec().decompress(codec().compress(scene()), max_pixels=100)
    work = dataclasses.replace(header, codebook_size=65536, shape=(1 << 14, 1 << 14), state_size=1)
    with pytest.raises(FormatError, match="more work than is allowed"):
        codec().decompress(work.to_bytes())


def test_a_section_that_inflates_beyond_its_length_is_stopped() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    payload = bomb.compress(bytes(50_000_000)) + bomb.flush()
    with pytest.raises(FormatError, match="does not hold the 100 bytes"):
        entropy.unpack(entropy.DEFLATE, payload, 100)


def test_pictures_beyond_the_bound_can_be_read(tmp_path: pathlib.Path) -> None:
    book = np.repeat(np.arange(2, dtype=np.uint8), 256).reshape(2, 16, 16)
    shape = 16640, 32768
    header = container.Header(container.PICTURE, 1, (16, 16), 2, shape, 0, container.codebook_id(book))
    file = io.BytesIO()
    writer = container.Writer(file, header, book)
    for rows in (512, 512, 16):
        writer.write(np.zeros((rows, 2048), np.uint8))
    (tmp_path / "picture.clvq").write_bytes(file.getvalue())
    np.testing.assert_array_equal(VQCodec.load(tmp_path / "picture.clvq").codebook_, book)
    with pytest.raises(FormatError, match="claims 16640 x 32768 pixels; at most 536870912 are allowed, by max_pixels"):
        clvq_info(file.getvalue())
    info = clvq_info(file.getvalue(), max_pixels=16640 * 32768)
    assert (info.height, info.width) == shape


@pytest.mark.parametrize("name", ["plain", "sidematch", "codebook"])
def test_load_checks_the_file_to_its_end(name: str, tmp_path: pathlib.Path) -> None:
    data = GOLDEN[name].read_bytes()
    path = tmp_path / "file.clvq"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            VQCodec.load(path)
    path.write_bytes(data + b"\x00")
    with pytest.raises(FormatError, match="goes on after its end"):
        VQCodec.load(path)
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(FormatError, match="check sum"):
        VQCodec.load(path)


def with_checks(data: bytes, *changes: tuple[int, bytes]) -> bytes:
    """A picture of a shared codebook with other bytes in its header and one band, and check fields that fit."""
    changed = bytearray(data)
    for offset, change in changes:
        changed[offset : offset + len(change)] = change
    body = changed[:60]
    check = zlib.crc32(body)
    rest = changed[64:-4]
    return bytes(body) + struct.pack("<I", check) + bytes(rest) + struct.pack("<I", zlib.crc32(rest, check))


@pytest.mark.parametrize(
    "changes",
    [
        [(16, b"\x27")],
        [(16, b"\x30")],
        [(10, b"\x03")],
        [(12, struct.pack("<HH", 8, 2)), (20, struct.pack("<IIII", 80, 26, 80, 26))],
    ],
    ids=["smaller", "larger", "channels", "blocks"],
)
def test_a_header_that_does_not_fit_the_codebook_it_names(changes: list[tuple[int, bytes]]) -> None:
    made, image = codec(), scene(40, 52)
    data = made.compress(image, embed_codebook=False)
    np.testing.assert_array_equal(made.decompress(with_checks(data)), made.decompress(data))
    with pytest.raises(FormatError, match="does not fit the codebook that it names"):
        made.decompress(with_checks(data, *changes))


@pytest.mark.parametrize("place", [(0, 1), (1, 0)])
def test_info_refuses_what_decompress_refuses(place: tuple[int, int]) -> None:
    made = codec()
    header = container.Header(container.PICTURE, 1, (4, 4), 40, (8, 8), 4, container.codebook_id(made.codebook_))
    file, symbols = io.BytesIO(), np.full((2, 2), container.ESCAPE, np.uint8)
    symbols[place] = 0
    container.Writer(file, header, made.codebook_).write(symbols, np.zeros(3, np.uint16))
    for read in (clvq_info, made.decompress):
        with pytest.raises(FormatError, match="no neighbours"):
            read(file.getvalue())
    with pytest.raises(FormatError, match="impossible state codebook"):
        clvq_info(tampered(GOLDEN["codebook"].read_bytes(), 36, b"\x03"))


@pytest.mark.parametrize(
    ("band", "method", "message"), [((2, 0, 0, 0), 9, "unknown method 9"), ((2, 1, 0, 0), 0, "escapes without side")]
)
def test_every_reader_refuses_a_band_that_breaks_a_rule(
    band: tuple[int, int, int, int], method: int, message: str, tmp_path: pathlib.Path
) -> None:
    made, file = codec(), io.BytesIO()
    header = container.Header(container.PICTURE, 1, (4, 4), 40, (8, 8), 0, container.codebook_id(made.codebook_))
    container.Writer(file, header, made.codebook_)
    data = file.getvalue()
    payload = entropy.to_plain(np.zeros((2, 2), int), 40, entropy.PACKED_BITS)
    rest = struct.pack("<IIBB", *band) + struct.pack("<BI", method, len(payload)) + payload
    data += rest + struct.pack("<I", zlib.crc32(rest, struct.unpack("<I", data[-4:])[0]))
    (tmp_path / "a.clvq").write_bytes(data)
    for read in (clvq_info, made.decompress, lambda _: VQCodec.load(tmp_path / "a.clvq")):
        with pytest.raises(FormatError, match=message):
            read(data)


def mutants(data: bytes, count: int, rng: np.random.Generator) -> list[bytes]:
    """Bit flips, overwritten and lost and doubled runs of bytes, truncations, in turn."""
    made = []
    for i in range(count):
        wrong = bytearray(data)
        place, length = int(rng.integers(len(data))), int(rng.integers(1, 9))
        if i % 5 == 0:
            wrong[place] ^= 1 << int(rng.integers(8))
        elif i % 5 == 1:
            wrong[place : place + length] = rng.bytes(length)
        elif i % 5 == 2:
            del wrong[place : place + length]
        elif i % 5 == 3:
            wrong[place:place] = wrong[place : place + length]
        else:
            del wrong[place:]
        made.append(bytes(wrong))
    return made


@pytest.mark.parametrize("name", ["plain", "sidematch", "rgb", "shared"])
def test_mutated_files_raise_or_give_the_same_picture(name: str) -> None:
    made, _ = golden_codec(name)
    data = GOLDEN[name].read_bytes()
    picture = made.decompress(data)
    for wrong in mutants(data, 400, np.random.default_rng(1)):
        try:
            found = made.decompress(wrong)
        except ClquantError:
            continue
        assert wrong == data
        np.testing.assert_array_equal(found, picture)


def test_every_truncation_is_found() -> None:
    data = GOLDEN["sidematch"].read_bytes()
    for length in range(len(data)):
        with pytest.raises(FormatError):
            codec().decompress(data[:length])
    with pytest.raises(FormatError, match="goes on after its end"):
        codec().decompress(data + b"\x00")


def test_writers_refuse_rows_that_do_not_fit() -> None:
    header = container.Header(container.PICTURE_OF_SHARED, 1, (4, 4), 40, (45, 50), 0, bytes(16))
    writer = container.Writer(io.BytesIO(), header, None)
    with pytest.raises(InvalidArgument, match="table has the shape"):
        writer.write(np.zeros((13, 13), np.uint8))
    with pytest.raises(InvalidArgument, match="12 block rows"):
        writer.close()
    with pytest.raises(InvalidArgument, match="codebook is not the one"):
        container.Writer(io.BytesIO(), dataclasses.replace(header, kind=container.PICTURE), codec().codebook_)


@pytest.mark.parametrize("source", [b"", b"\x89CLVQ\r\n\x1a", b"nonsense" * 20])
def test_info_of_what_is_no_clvq_file(source: bytes) -> None:
    with pytest.raises(FormatError):
        clvq_info(source)


def test_info_of_a_codebook_file_and_of_wrong_things(tmp_path: pathlib.Path) -> None:
    info = clvq_info(GOLDEN["codebook"])
    assert (info.kind, info.codebook_size, info.block_shape) == ("codebook", 40, (4, 4))
    assert "codebook of 40" in str(info)
    wrong: Any = 3
    with pytest.raises(ClquantError, match="source is 3;"):
        clvq_info(wrong)
    with pytest.raises(FileError):
        clvq_info(tmp_path / "absent.clvq")
