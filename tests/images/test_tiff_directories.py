"""The first directory of a TIFF."""

from __future__ import annotations

import pathlib
import struct

import numpy as np
import pytest
import tifffile

from clquant import runtime
from clquant.images import storage
from clquant.images.tiff.directories import HEIGHT, WIDTH, first_directory


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bigtiff", [False, True])
def test_tags_of_every_kind_of_tiff(tmp_path: pathlib.Path, order: str, bigtiff: bool) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((5, 300), np.uint8), byteorder=order, bigtiff=bigtiff, photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        tags = file.pages[0].tags
        found = first_directory(str(path))
        assert set(found) == {tag.code for tag in tags}
        assert (found[WIDTH], found[HEIGHT], found[262]) == (300, 5, 1)


@pytest.mark.parametrize(
    "data", [b"", b"II", b"II*\0\xff\xff\xff\xff", b"II*\0\x08\0\0\0\x05", b"GIF89a", b"MM\0+" + b"\xff" * 20]
)
def test_what_is_no_tiff_has_none(tmp_path: pathlib.Path, data: bytes) -> None:
    (tmp_path / "a.tif").write_bytes(data)
    assert first_directory(str(tmp_path / "a.tif")) == {}
    assert first_directory(str(tmp_path / "none.tif")) == {}


@pytest.mark.parametrize(
    ("tag", "value", "message"),
    [
        (256, 1 << 31, r"it claims 2147483648 x 48 pixels in tiles of 16 x 16, more than its \d+ bytes can hold"),
        (257, 1 << 22, r"it claims 40 x 4194304 pixels in tiles of 16 x 16, more than its \d+ bytes can hold"),
        (322, 1 << 31, r"it claims 40 x 48 pixels in tiles of 2147483648 x 16, more than its \d+ bytes can hold"),
        (323, 0, "cannot read"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_claims_are_checked_before_parts_are_read(
    tag: int, value: int, message: str, named: bool, tmp_path: pathlib.Path
) -> None:
    """By tifffile and by rasterio, which refuses some in its own words."""
    pytest.importorskip("rasterio" if named else "zarr")
    extra = [(42113, "s", 0, "255", True)] if named else []
    tifffile.imwrite(
        tmp_path / "a.tif", np.zeros((48, 40), np.uint8), tile=(16, 16), extratags=extra, compression="zlib"
    )
    data = bytearray((tmp_path / "a.tif").read_bytes())
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        at = file.pages[0].tags[tag].offset
    data[at + 2 : at + 12] = struct.pack("<HII", 4, 1, value)
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(runtime.FileError, match="cannot read" if named else message):
        np.asarray(storage.open_path(str(tmp_path / "a.tif"))[0:1])
