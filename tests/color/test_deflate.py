"""zlib streams in bands: what they decode to, and how libdeflate's streams are opened for the next band."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from clquant.color.formats import deflate, parallel


def stream(data: bytes, band: int, effort: str) -> bytes:
    count = max(-(-len(data) // band), 1)
    made = deflate.bands(
        count,
        len(data),
        lambda i: data[i * band : (i + 1) * band],
        lambda i: data[max(i * band - deflate.WINDOW_BYTES, 0) : i * band],
        deflate.EFFORTS[effort],
    )
    for one in made:
        assert one.crc == zlib.crc32(one.data)
    return b"".join(one.data for one in made)


def datas(rng: np.random.Generator) -> list[bytes]:
    steps = np.cumsum(rng.integers(-1, 2, 200_000)) % 256
    return [
        b"",
        b"a",
        bytes(70_000),
        rng.bytes(50_000),
        rng.integers(0, 7, 120_000, np.uint8).tobytes(),
        steps.astype(np.uint8).tobytes(),
        rng.bytes(999) * 90,
    ]


@pytest.mark.parametrize("effort", list(deflate.EFFORTS))
@pytest.mark.parametrize("libdeflate", [False, True])
def test_streams_decode(effort, libdeflate, rng, monkeypatch):
    if libdeflate:
        pytest.importorskip("deflate", reason="the extra `fast`")
    else:
        monkeypatch.setattr(deflate, "libdeflate", None)
    for data in datas(rng):
        for band in (1 << 20, 30_000, 4097):
            assert zlib.decompress(stream(data, band, effort)) == data


@pytest.mark.parametrize("strategy", [zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY])
def test_a_finished_stream_is_opened(strategy, rng):
    """Any encoder's streams will do: here zlib's, at every bit that they may end on."""
    for size in range(3000, 3040):
        data = rng.integers(0, 17, size, np.uint8).tobytes() * 4
        coder = zlib.compressobj(9, zlib.DEFLATED, -15, 8, strategy)
        opened = deflate._unfinished(coder.compress(data) + coder.flush(), data)
        assert opened is not None
        decoder = zlib.decompressobj(-15)
        assert decoder.decompress(opened) == data
        assert not decoder.eof
        assert decoder.decompress(zlib.compress(b"next", wbits=-15)) == b"next"
        assert decoder.eof


def test_streams_without_dynamic_codes_are_left(rng):
    assert deflate._unfinished(zlib.compress(b"short", wbits=-15), b"short") is None
    noise = rng.bytes(5000)
    assert deflate._unfinished(zlib.compress(noise, wbits=-15), noise) is None


def test_checksums_of_parts(rng):
    first, second = rng.bytes(70_001), rng.bytes(65_521 * 2 + 5)
    together = deflate._combined_adler(zlib.adler32(first), zlib.adler32(second), len(second))
    assert together == zlib.adler32(first + second)


def test_tables_are_looked_up_in_parts(rng, monkeypatch):
    monkeypatch.setattr(parallel, "_PART_ENTRIES", 50)
    monkeypatch.setattr(parallel, "_LOOKUP_ENTRIES", 7)
    for dtype, count in ((np.uint8, 256), (np.uint16, 60_000)):
        indices = rng.integers(0, count, (13, 29), dtype)
        table = rng.integers(0, 256, (count, 3), np.uint8)
        assert np.array_equal(parallel.looked_up(table, indices), table[indices])
        assert np.array_equal(parallel.looked_up(table[:, 0], indices), table[:, 0][indices])
        assert np.array_equal(parallel.counted(indices, count), np.bincount(indices.ravel(), minlength=count))
    assert np.array_equal(parallel.counted(np.full((3, 70), 4, np.uint8), 5), [0, 0, 0, 0, 210])


@pytest.mark.parametrize("shape", [(13, 30), (13, 29), (0, 4)])
@pytest.mark.parametrize("count", [1, 77, 256])
def test_bytes_are_looked_up_in_pairs(rng, monkeypatch, shape, count):
    monkeypatch.setattr(parallel, "_PAIRS_PAY", 2)
    monkeypatch.setattr(parallel, "_PART_ENTRIES", 50)
    indices, table = rng.integers(0, count, shape, np.uint8), rng.integers(0, 256, count, np.uint8)
    assert np.array_equal(parallel.looked_up(table, indices), table[indices])
    assert np.array_equal(parallel.looked_up(table, indices[:, 1:]), table[indices[:, 1:]])
