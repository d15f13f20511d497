"""The .clvq container: every coding, files and pipes, the golden file, and bytes that are not what they claim to be."""

from __future__ import annotations

import io
import pathlib
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

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
from clquant.vq import clvq_info
from clquant.vq.coding.bands import BandLayout, CodedBand
from clquant.vq.container import clvq_format
from tests.lowering import lower

Bytes = npt.NDArray[np.uint8]
DATA = pathlib.Path(__file__).parents[1] / "data"
NAMES = ("plain", "sidematch", "rgb", "shared", "codebook")
GOLDEN = {name: DATA / f"vq-v4-{name}.clvq" for name in NAMES}
GOLDEN_V3 = {name: DATA / f"vq-v3-{name}.clvq" for name in NAMES}


def codec(seed: int = 5, size: int = 40, state_size: int = 0, channels: int = 1) -> VQCodec:
    made = VQCodec(size, (4, 4), state_size=state_size)
    shape = (size, 4, 4) if channels == 1 else (size, 4, 4, channels)
    made.codebook_ = np.sort(np.random.default_rng(seed).integers(0, 256, shape, np.uint8), axis=0)
    return made


def scene(height: int = 45, width: int = 50, channels: int = 1) -> Bytes:
    y, x = np.mgrid[:height, :width]
    bands = [(4 * x + 3 * y + 31 * c) % 256 for c in range(channels)]
    return bands[0].astype(np.uint8) if channels == 1 else np.stack(bands, -1).astype(np.uint8)


@pytest.mark.full
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


@pytest.fixture
def small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands of few rows, coded one at a time."""
    lower(monkeypatch, bands__narrow=60, bands__rows=4, writing__reported=1, writing__small=0)


@pytest.mark.usefixtures("small_bands")
def test_many_bands_through_a_pipe() -> None:
    made, image = codec(), scene(70, 41)
    pipe = io.BytesIO()

    class Slow:
        """Gives at most 7 bytes a read, as a pipe may."""

        def read(self, size: int) -> bytes:
            return pipe.read(min(size, 7))

    made.compress_to(pipe, image)
    assert len(list(clvq_format.Reader(io.BytesIO(pipe.getvalue())).bands())) == 3
    pipe.seek(0)
    np.testing.assert_array_equal(made.decompress_from(Slow()), made.decode(made.encode(image), image.shape))


@pytest.mark.usefixtures("small_bands")
def test_some_rows_are_those_of_the_whole_picture() -> None:
    made, image = codec(), scene(70, 41)
    data = made.compress(image)
    whole = made.decompress(data)
    for rows in ((0, 70), (0, 1), (23, 24), (24, 70), (69, 70), (25, 30)):
        seen: list[tuple[int, int]] = []
        part = made.decompress(data, rows=rows, progress=lambda *done, seen=seen: seen.append(done))
        np.testing.assert_array_equal(part, whole[slice(*rows)])
        assert seen[-1] == (198, 198)
    for wrong in ((3, 3), (0, 71), (-1, 4)):
        with pytest.raises(InvalidArgument, match=r"rows\[[01]\] is"):
            made.decompress(data, rows=wrong)
    nonsense: Any = 4
    with pytest.raises(InvalidType, match="rows is 4;"):
        made.decompress(data, rows=nonsense)


@pytest.mark.usefixtures("small_bands")
@pytest.mark.parametrize("state_size", [0, 4])
def test_progress_counts_blocks_and_stops(state_size: int) -> None:
    made, image = codec(state_size=state_size), scene(46, 45)
    made.tolerance = 50.0
    data, table = made.compress(image), made.encode(image)
    calls: list[Callable[..., Any]] = [
        lambda **to: made.compress(image, **to),
        lambda **to: made.decompress(data, **to),
        lambda **to: made.encode(image, **to),
        lambda **to: made.decode(table, image.shape, **to),
    ]
    for i, call in enumerate(calls):
        seen: list[tuple[int, int]] = []
        result = call(progress=lambda done, total, seen=seen: seen.append((done, total)))
        np.testing.assert_array_equal(result, call())
        assert seen == sorted(set(seen))
        assert seen[-1] == (144, 144)
        assert len(seen) >= (3 if i < 2 else 1)
        with pytest.raises(StoppedError):
            call(progress=lambda *_: False)
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
    made = codec(state_size=6 if name == "sidematch" else 0, channels=channels)
    return made.set_params(tolerance=40.0), scene(channels=channels)


@pytest.mark.parametrize("name", ["plain", "sidematch", "rgb", "shared"])
def test_golden_files_stay_the_same_and_readable(name: str) -> None:
    made, image = golden_codec(name)
    data = GOLDEN[name].read_bytes()
    assert made.compress(image, embed_codebook=name != "shared") == data
    decoded = made.decompress(data)
    if name != "sidematch":
        np.testing.assert_array_equal(decoded, made.decode(made.encode(image), image.shape[:2]))
    np.testing.assert_array_equal(made.decompress(GOLDEN_V3[name].read_bytes()), decoded)


def test_golden_codebook_files_stay_readable() -> None:
    for path in (GOLDEN["codebook"], GOLDEN_V3["codebook"]):
        np.testing.assert_array_equal(VQCodec.load(path).codebook_, codec().codebook_)


def test_only_files_of_version_3_may_end_in_zeros() -> None:
    data, image = GOLDEN["plain"].read_bytes(), codec().decompress(GOLDEN["plain"].read_bytes())
    old = GOLDEN_V3["plain"].read_bytes()
    np.testing.assert_array_equal(codec().decompress(old + bytes(3000000)), image)
    for wrong in (data + bytes(1), old + bytes(1000) + b"\x01"):
        with pytest.raises(FormatError, match="has bytes after its end"):
            codec().decompress(wrong)


def test_codebooks_are_capped_and_cost_in_proportion_to_their_bytes() -> None:
    made = codec()
    data = made.compress(scene())
    np.testing.assert_array_equal(made.decompress(data, max_codebook=640), made.decompress(data))
    with pytest.raises(FormatError, match="claims 40 codewords of 16 bytes; at most 639 bytes are allowed, by max_cod"):
        made.decompress(data, max_codebook=639)
    shared = made.compress(scene(), embed_codebook=False)
    np.testing.assert_array_equal(made.decompress(shared, max_codebook=1), made.decompress(data))
    header = clvq_format.Header(clvq_format.PICTURE, 4, (4, 4), 65536, (4, 4), 0, bytes(16))
    with pytest.raises(FormatError, match="section claims 9 bytes; allowed: 131073 to 4194305"):
        made.decompress(header.to_bytes() + b"\x09\x00\x00\x00" + bytes(13))


def tampered(data: bytes, offset: int, change: bytes) -> bytes:
    """A file whose header says something else, with a check sum that fits."""
    header = bytearray(data[: clvq_format.HEADER_BYTES])
    header[offset : offset + len(change)] = change
    header[-4:] = struct.pack("<I", zlib.crc32(bytes(header[:-4])))
    return bytes(header) + data[clvq_format.HEADER_BYTES :]


@pytest.mark.parametrize(
    ("offset", "change", "message"),
    [
        (0, b"\x88", "do not begin like"),
        (8, b"\x02", "version 2"),
        (8, b"\x05", "version 5"),
        (9, b"\x03", "impossible kind"),
        (9, b"\x02", "impossible size"),
        (10, b"\x02", "number of channels"),
        (11, b"\x03", "impossible model"),
        (12, b"\x00", "block shape"),
        (13, b"\x21", "block shape"),
        (14, b"\xff", "state codebook"),
        (15, b"\x02", "mark of repeats"),
        (14, b"\x29", "state codebook"),
        (16, b"\x01\x00\x00\x00", "codebook size"),
        (16, b"\x01\x00\x01\x00", "codebook size"),
        (20, b"\x00\x00\x00\x00", "impossible size"),
        (20, b"\xff\xff\xff\xff", "impossible size"),
        (28, b"\x00\x00", "check sum"),
    ],
)
def test_headers_that_say_something_impossible(offset: int, change: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        codec().decompress(tampered(codec().compress(scene()), offset, change))


def test_a_huge_claim_is_refused_before_memory_is_taken() -> None:
    header = clvq_format.Header(clvq_format.PICTURE, 1, (1, 1), 2, (1 << 20, 1 << 20), 0, bytes(16))
    with pytest.raises(FormatError, match="at most 536870912 are allowed, by max_pixels"):
        codec().decompress(header.to_bytes())
    with pytest.raises(FormatError, match="at most 100 are allowed"):
        codec().decompress(codec().compress(scene()), max_pixels=100)


def test_pictures_beyond_the_bound_can_be_read(tmp_path: pathlib.Path) -> None:
    book = np.repeat(np.arange(2, dtype=np.uint8), 256).reshape(2, 16, 16)
    shape = 16640, 32768
    header = clvq_format.Header(clvq_format.PICTURE, 1, (16, 16), 2, shape, 0, clvq_format.codebook_id(book))
    layout = BandLayout(*header.table_shape)
    bands = [CodedBand(np.full(layout.lanes, 1 << 16, np.uint32), np.zeros(0, np.uint16))] * layout.count
    data = clvq_format.whole_file(header, b"\x00" + book.tobytes(), bands=bands)
    (tmp_path / "picture.clvq").write_bytes(data)
    np.testing.assert_array_equal(VQCodec.load(tmp_path / "picture.clvq").codebook_, book)
    with pytest.raises(FormatError, match="claims 16640 x 32768 pixels; at most 536870912 are allowed, by max_pixels"):
        clvq_info(data)
    info = clvq_info(data, max_pixels=16640 * 32768)
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
    with pytest.raises(FormatError, match="has bytes after its end"):
        VQCodec.load(path)
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(FormatError, match="check sum"):
        VQCodec.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        [(16, b"\x27")],
        [(16, b"\x30")],
        [(10, b"\x03")],
        [(12, b"\x08\x02"), (20, struct.pack("<II", 80, 26))],
    ],
    ids=["smaller", "larger", "channels", "blocks"],
)
def test_a_header_that_does_not_fit_the_codebook_it_names(changes: list[tuple[int, bytes]]) -> None:
    made, image = codec(), scene(40, 52)
    data = made.compress(image, embed_codebook=False)
    for offset, change in changes:
        data = tampered(data, offset, change)
    with pytest.raises(FormatError, match="does not fit the codebook that it names"):
        made.decompress(data)


def sections(data: bytes) -> list[bytes]:
    """The header of a file, and its sections' bytes without lengths and check fields."""
    parts, at = [data[: clvq_format.HEADER_BYTES]], clvq_format.HEADER_BYTES
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        parts.append(data[at + 4 : at + 4 + length])
        at += 8 + length
    return parts


def joined(parts: list[bytes]) -> bytes:
    """A picture with its codebook and model of these sections, whose check fields fit."""
    header = clvq_format.Header.from_bytes(parts[0])
    bands = [CodedBand.from_bytes(band, BandLayout(*header.table_shape).lanes) for band in parts[3:]]
    return clvq_format.whole_file(header, parts[1], parts[2], bands=bands)


@pytest.mark.full
@pytest.mark.usefixtures("small_bands")
def test_sections_with_right_checks_and_wrong_bytes() -> None:
    made = codec()
    image = np.random.default_rng(3).integers(0, 256, (160, 170)).astype(np.uint8)
    data = made.compress(image)
    parts = sections(data)
    assert clvq_format.Header.from_bytes(parts[0]).model
    assert joined(parts) == data
    rng, outcomes = np.random.default_rng(1), set()
    for _ in range(180):
        wrong = [bytearray(part) for part in parts]
        which = int(rng.integers(1, len(parts)))
        wrong[which][int(rng.integers(len(wrong[which])))] ^= 1 << int(rng.integers(8))
        try:
            made.decompress(joined([bytes(part) for part in wrong]))
        except FormatError as error:
            outcomes.add(str(error))
    assert len(outcomes) >= 2
    for which in range(1, len(parts)):
        for change in (parts[which][:-2], parts[which] + b"\x00\x00"):
            with pytest.raises(FormatError):
                made.decompress(joined([*parts[:which], change, *parts[which + 1 :]]))
    with pytest.raises(FormatError, match="check sum"):  # bands in the wrong order
        made.decompress(swapped_bands(data, parts))


def test_what_no_writer_makes_is_refused(tmp_path: pathlib.Path) -> None:
    made, image = codec(), scene(64, 64)
    header, book, *bands = sections(made.compress(image))
    assert not clvq_format.Header.from_bytes(header).model
    odd = clvq_format.whole_file(clvq_format.Header.from_bytes(header), book, bands=[_Bytes(bands[0] + b"\x00")])
    with pytest.raises(FormatError, match="half a word"):
        made.decompress(odd)
    with pytest.raises(InvalidArgument, match="image is 1 x 1048577 pixels; allowed: 1048576 per side"):
        made.compress(np.zeros((1, (1 << 20) + 1), np.uint8))
    stored = pytest.importorskip("clquant.dask.stored")
    made.save(tmp_path / "book.clvq")
    with pytest.raises(FormatError, match=r"book\.clvq.*holds a codebook and no picture"):
        stored.decompressed(tmp_path / "book.clvq", max_pixels=9)


class _Bytes(bytes):
    """A band of any bytes."""

    def to_bytes(self) -> bytes:  # type: ignore[override]
        return bytes(self)


def swapped_bands(data: bytes, parts: list[bytes]) -> bytes:
    """A file whose first two bands are exchanged with their check fields."""
    places = np.cumsum([len(parts[0]), *(8 + len(part) for part in parts[1:])])
    a, b, c = places[2:5]
    return data[:a] + data[b:c] + data[a:b] + data[c:]


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


@pytest.mark.full
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
    with pytest.raises(FormatError, match="has bytes after its end"):
        codec().decompress(data + b"\x00")


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
