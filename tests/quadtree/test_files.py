"""CLQT files: what is written is read; what is damaged or made up is refused, in memory that fits the file."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clquant import runtime
from clquant.quadtree import Quadtree, QuadtreeBuilder
from clquant.quadtree.criteria import Criterion
from clquant.quadtree.files import HEADER
from clquant.quadtree.leaf_list import record_dtype
from tests.quadtree.test_builder import patches


def small_tree():
    """A tree of 5 leaves without a device: 3 x 3 gray pixels, split once, and its top-left quarter left whole."""
    leaves = np.zeros(6, record_dtype(1, True))
    rows = [(0, 0, 2, 7), (2, 0, 1, 8), (2, 1, 1, 9), (0, 2, 1, 10), (1, 2, 1, 11), (2, 2, 1, 12)]
    for leaf, row in zip(leaves, rows, strict=True):
        leaf["x"], leaf["y"], leaf["size"], leaf["mean"] = row
    return Quadtree((3, 3, 1), True, Criterion("deviation", 13 << 16, (), 0), leaves)


def signed(body):
    return bytes(body) + struct.pack("<I", zlib.crc32(bytes(body)))


@pytest.mark.full
@pytest.mark.parametrize(("channels", "method"), [(1, "bottom-up"), (3, "top-down"), (4, "top-down")])
def test_round_trip(queue, rng, tmp_path, channels, method):
    image = patches(rng, 33, 47, channels)
    options = {"criterion": "weighted", "weights": [3, 53, 103, 153]} if channels == 4 else {"min_size": 2}
    tree = QuadtreeBuilder(20.5, method=method, queue=queue, **options).build(image[..., 0] if channels == 1 else image)
    tree.save(tmp_path / "a.clqt")
    again = Quadtree.load(tmp_path / "a.clqt")
    assert again == tree
    assert again.to_bytes() == tree.to_bytes()
    assert (again.threshold, again.min_size, again.weights) == (tree.threshold, tree.min_size, tree.weights)
    assert np.array_equal(again.render(), tree.render())
    assert not again.exact
    assert not again.complete
    shown = again.render().reshape(33, 47, -1).astype(np.uint64)
    assert again.levels[0].sums[0, 0].tolist() == shown.sum((0, 1)).tolist()
    assert again.levels[0].squares[0, 0].tolist() == (shown**2).sum((0, 1)).tolist()


def test_the_bytes_are_as_documented():
    data = small_tree().to_bytes()
    header = b"CLQT" + bytes([1, 0, 1, 1]) + struct.pack("<HHIBBHII", 3, 3, 13 << 16, 0, 0, 0, 6, 1)
    # Root: fork. Its quarters in Morton order: whole; fork; fork; fork (pixels have no bit).
    assert data == signed(header + bytes([0b10111000]) + bytes([7, 8, 9, 10, 11, 12]))


def test_every_cut_and_every_flipped_bit_is_refused():
    data = small_tree().to_bytes()
    for length in range(len(data)):
        with pytest.raises(runtime.FormatError):
            Quadtree.from_bytes(data[:length])
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(runtime.FormatError):
            Quadtree.from_bytes(bytes(damaged))


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), min_size=1, max_size=6), st.binary(max_size=3))
def test_files_with_a_right_checksum_are_trees_or_refused(changes, tail):
    body = bytearray(small_tree().to_bytes()[:-4] + tail)
    for at, value in changes:
        body[at % len(body)] = value
    try:
        tree = Quadtree.from_bytes(signed(body))
    except runtime.FormatError:
        return
    covered = np.zeros((tree.height, tree.width), int) if tree.height * tree.width < 1 << 20 else None
    if covered is not None:
        for leaf in tree.leaves():
            covered[leaf["y"] : leaf["y"] + leaf["size"], leaf["x"] : leaf["x"] + leaf["size"]] += 1
        assert (covered == 1).all()
    assert tree.to_bytes() == signed(body)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (1, 2),
        (2, 5),
        (3, 0),
        (3, 17),
        (4, 2),
        (5, 0),
        (6, 0),
        (7, 256 << 16),
        (8, 3),
        (9, 1),
        (10, 1),
        (11, 7),
        (12, 2),
    ],
)
def test_header_fields_out_of_bounds(field, value):
    data = small_tree().to_bytes()
    fields = list(HEADER.unpack_from(data))
    fields[field] = value
    with pytest.raises(runtime.FormatError):
        Quadtree.from_bytes(signed(HEADER.pack(*fields) + data[HEADER.size : -4]))


def test_a_short_file_of_a_huge_picture_takes_little_memory():
    fields = [b"CLQT", 1, 0, 16, 0, 65535, 65535, 0, 0, 0, 0]
    whole = signed(HEADER.pack(*fields, 1, 1) + bytes([0]) + bytes(16))
    lies = [
        signed(HEADER.pack(*fields, 0xFFFFFFFF, 0xFFFFFFFF) + bytes(40)),
        signed(HEADER.pack(*fields, 2, 1000) + b"\xff" * 1000 + bytes(32)),
    ]
    tracemalloc.start()
    with pytest.raises(runtime.FormatError, match="claims 65535 x 65535 pixels; at most 536870912 are allowed, by max"):
        Quadtree.from_bytes(whole)
    tree = Quadtree.from_bytes(whole, max_pixels=1 << 32)
    assert (len(tree), tree.size, tree.find(65534, 65534)) == (1, 65536, 0)
    for data in lies:
        with pytest.raises(runtime.FormatError):
            Quadtree.from_bytes(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 23  # and what else the process does
    tracemalloc.stop()


def test_pixels_are_bounded(tmp_path):
    tree = small_tree()
    tree.save(tmp_path / "t.clqt")
    pixels = tree.height * tree.width
    assert Quadtree.load(tmp_path / "t.clqt", max_pixels=pixels) == tree
    with pytest.raises(runtime.FormatError, match="by max_pixels"):
        Quadtree.load(tmp_path / "t.clqt", max_pixels=pixels - 1)
    with pytest.raises(runtime.InvalidArgument, match="max_pixels is 0"):
        Quadtree.load(tmp_path / "t.clqt", max_pixels=0)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    target = tmp_path / "t.clqt"
    small_tree().save(target)
    before = target.read_bytes()
    with pytest.raises(runtime.FileError):
        small_tree().save(tmp_path)
    assert target.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.clqt"]
