"""16-bit pictures in files that Pillow does not read from 16 bits: exact values, whatever wrote them."""

from __future__ import annotations

import contextlib
import io
import pathlib
from typing import Any

import numpy as np
import pytest
import tifffile

import clquant
from clquant import flow, images
from clquant.images.tiff.directories import SHORT, directory_of, integer_field, with_directory
from clquant.runtime import FileError


def pixels(rng: np.random.Generator, channels: int) -> np.ndarray:
    """Ramps with noise, so that predictors have something to do; alpha of 0 and 65535 too."""
    rows, columns = np.mgrid[:21, :37]
    ramps = rows[..., None] * np.array([900, 700, 300, 0]) + columns[..., None] * np.array([400, 800, 1200, 0])
    values = (ramps + rng.integers(0, 2000, (21, 37, 4))).astype(np.uint16)
    values[..., 3] = rng.choice(np.array([0, 1, 30000, 65535], np.uint16), (21, 37))
    return values[..., [0, 3]] if channels == 2 else values[..., :channels]


def shown(values: np.ndarray) -> np.ndarray:
    """Gray with alpha as four channels."""
    return values[..., [0, 0, 0, 1]] if values.shape[2] == 2 else values


def read_both(path: pathlib.Path) -> np.ndarray:
    """What the path and its bytes are read as."""
    array = images.read(path, max_bits=16).array
    assert np.array_equal(images.read(path.read_bytes(), max_bits=16).array, array)
    return array


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("tile", [None, (16, 16)])
@pytest.mark.parametrize(("compression", "predictor"), [(None, False), ("zlib", False), ("zlib", True)])
@pytest.mark.parametrize(
    ("channels", "planar"), [(3, "separate"), (4, "separate"), (2, "contig"), (2, "separate"), (3, "contig")]
)
def test_tiff(
    tmp_path: pathlib.Path,
    rng: np.random.Generator,
    order: str,
    tile: tuple[int, int] | None,
    compression: str | None,
    predictor: bool,
    channels: int,
    planar: str,
) -> None:
    path = tmp_path / "a.tif"
    for values in (pixels(rng, channels), (pixels(rng, channels) >> 8).astype(np.uint8)):
        tifffile.imwrite(
            path,
            values.transpose(2, 0, 1) if planar == "separate" else values,
            photometric="rgb" if channels > 2 else "minisblack",
            planarconfig=planar,
            byteorder=order,
            bigtiff=channels == 3,
            compression=compression,
            predictor=predictor,
            tile=tile,
            rowsperstrip=None if tile else 5,
            extrasamples=["unassalpha"] if channels in (2, 4) else None,
        )
        array = images.read(path.read_bytes(), max_bits=16).array
        assert array.dtype == values.dtype
        assert np.array_equal(array, shown(values))
        assert np.array_equal(flow.open_picture(path, max_bits=16).in_memory().array, array)


def test_premultiplied_alpha(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    values, path = pixels(rng, 4), tmp_path / "a.tif"
    alpha = values[..., 3:].astype(np.int64)
    multiplied = np.concatenate([values[..., :3] * alpha // 65535, alpha], axis=2).astype(np.uint16)
    tifffile.imwrite(path, multiplied, photometric="rgb", extrasamples=["assocalpha"])
    array = read_both(path)
    expected = (multiplied[..., :3] * np.int64(65535) + alpha // 2) // np.maximum(alpha, 1)
    assert np.array_equal(array[..., :3], np.where(alpha > 0, expected, 0))
    assert np.array_equal(array[..., 3:], alpha)


@pytest.mark.parametrize("order", ["<", ">"])
def test_white_is_0(tmp_path: pathlib.Path, rng: np.random.Generator, order: str) -> None:
    values, path = pixels(rng, 1)[..., 0], tmp_path / "a.tif"
    tifffile.imwrite(path, values, photometric="miniswhite", byteorder=order)
    assert np.array_equal(read_both(path)[..., 0], 65535 - values)


def test_gray_of_12_bits(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    """0 to 4095 are black to white."""
    values, path = rng.integers(0, 4096, (7, 10)), tmp_path / "a.tif"
    pairs = values.reshape(7, 5, 2)
    packed = np.stack([pairs[..., 0] >> 4, (pairs[..., 0] & 15) << 4 | pairs[..., 1] >> 8, pairs[..., 1] & 255], axis=2)
    content = bytes(8) + packed.astype(np.uint8).tobytes()
    numbers = {256: 10, 257: 7, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 7, 279: len(content) - 8}
    fields = {tag: integer_field("<", SHORT, number) for tag, number in numbers.items()}
    path.write_bytes(with_directory(content, "<", False, fields))
    assert np.array_equal(read_both(path)[..., 0], np.floor(values * 65535 / 4095 + 0.5))


def test_orientation_and_profile_are_kept(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    values, path = pixels(rng, 3), tmp_path / "a.tif"
    tifffile.imwrite(
        path,
        values.transpose(2, 0, 1),
        photometric="rgb",
        planarconfig="separate",
        byteorder=">",
        extratags=[(274, 3, 1, 6, True)],
    )
    assert np.array_equal(read_both(path), np.rot90(values, -1))


@pytest.mark.parametrize("largest", [65535, 4095, 999])
@pytest.mark.parametrize("text", [False, True])
def test_ppm(tmp_path: pathlib.Path, rng: np.random.Generator, largest: int, text: bool) -> None:
    values, path = rng.integers(0, largest + 1, (6, 5, 3)), tmp_path / "a.ppm"
    head = b"%s # a comment\n5 6\n#another\n%d\n" % (b"P3" if text else b"P6", largest)
    body = b" ".join(b"%d" % v for v in values.ravel().tolist()) if text else values.astype(">u2").tobytes()
    path.write_bytes(head + body)
    assert np.array_equal(read_both(path), np.floor(values * 65535 / largest + 0.5))


@pytest.mark.parametrize("largest", [65535, 255, 100])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pam(tmp_path: pathlib.Path, rng: np.random.Generator, channels: int, largest: int) -> None:
    values, path = rng.integers(0, largest + 1, (6, 5, channels)), tmp_path / "a.pam"
    size = ">u2" if largest > 255 else "u1"
    head = b"P7\n# one\nWIDTH 5\nHEIGHT 6\nDEPTH %d\nMAXVAL %d\nTUPLTYPE RGB\nENDHDR\n" % (channels, largest)
    path.write_bytes(head + values.astype(size).tobytes())
    white = 65535 if largest > 255 else 255
    assert np.array_equal(read_both(path), shown(np.floor(values * white / largest + 0.5)))


@pytest.mark.parametrize("magic", [b"P6\n9 9\n65535\n", b"P7\nWIDTH 9\nHEIGHT 9\nDEPTH 3\nMAXVAL 65535\nENDHDR\n"])
def test_what_is_cut_off_is_refused(magic: bytes) -> None:
    with pytest.raises(clquant.FileError):
        images.read(magic + bytes(100))


def test_damaged_files_are_refused(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    """Cut off or with other bytes anywhere, a file is read or is a FileError."""
    path = tmp_path / "a.tif"
    values = pixels(rng, 3).transpose(2, 0, 1)
    tifffile.imwrite(path, values, photometric="rgb", planarconfig="separate", compression="zlib", predictor=True)
    whole = path.read_bytes()
    assert directory_of(whole) is not None
    for _ in range(150):
        data = bytearray(whole[: rng.integers(8, len(whole) + 1)])
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        with contextlib.suppress(clquant.ClquantError):
            images.read(bytes(data), max_bits=16)


def test_more_pixels_than_bytes_are_refused(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    """Before there is room made for them."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels(rng, 3).transpose(2, 0, 1), photometric="rgb", planarconfig="separate", tile=(16, 16))
    directory = directory_of(path.read_bytes())
    assert directory is not None
    fields = {**directory.fields, 257: integer_field("<", SHORT, 60000)}
    with pytest.raises(clquant.FileError):
        images.read(with_directory(path.read_bytes(), "<", False, fields), max_bits=16)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("how", [{}, {"compression": "zlib"}, {"tile": (16, 16)}, {"bigtiff": True}, {"planar": 1}])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_floats(channels: int, how: dict[str, Any], order: str, rng: np.random.Generator) -> None:
    """By path as in memory."""
    values, file = rng.random((40, 33, channels)).astype(np.float32), io.BytesIO()
    kind = {"photometric": "rgb" if channels > 1 else "minisblack", "extrasamples": [2] if channels == 4 else None}
    planes = np.moveaxis(values, 2, 0) if "planar" in how and channels > 1 else values.squeeze()
    kind |= {"planarconfig": "separate"} if planes.shape[0] == channels else {}
    how = {name: value for name, value in how.items() if name != "planar"}
    tifffile.imwrite(file, planes, byteorder=order, **kind, **how)
    assert np.array_equal(images.read(file.getvalue()).array, images.read(values).array)
    tifffile.imwrite(file := io.BytesIO(), 2 * planes, byteorder=order, **kind, **how)
    with pytest.raises(FileError, match=r"floats outside 0\.\.1, from .*; allowed: 0\.\.1"):
        images.read(file.getvalue())
