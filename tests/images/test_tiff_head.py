"""The first directory of a TIFF."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tifffile

from clquant.images.tiff_head import HEIGHT, WIDTH, first_directory


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
