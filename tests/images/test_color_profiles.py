"""Colours of files in sRGB: ICC profiles of every mode and way, and the colours that PNG's chunks name."""

from __future__ import annotations

import io
import pathlib
import struct
import zlib

import numpy as np
import PIL.Image
import PIL.ImageCms
import pytest
import tifffile

from clquant import flow, images
from clquant.cli import main

WHITE = struct.pack(">3i", 63190, 65536, 54061)  # D50
# Adobe RGB (1998): XYZ of its primaries at D50, and its gamma.
COLUMNS = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
GAMMA = 563 / 256
PIXEL, SHOWN = (180, 60, 120), (208, 57, 123)
CHRM_ADOBE = (0.3127, 0.329, 0.64, 0.33, 0.21, 0.71, 0.15, 0.06)


def profile(space: bytes, tags: dict[bytes, bytes], pcs: bytes = b"XYZ ") -> bytes:
    """An ICC profile of version 2."""
    tags = {b"desc": b"desc\0\0\0\0\0\0\0\2x\0" + b"\0" * 79, b"wtpt": b"XYZ \0\0\0\0" + WHITE, **tags}
    table, body, begin = b"", b"", 132 + 12 * len(tags)
    for name, tag in tags.items():
        table += name + struct.pack(">II", begin + len(body), len(tag))
        body += tag + b"\0" * (-len(tag) % 4)
    kind = b"prtr" if space == b"CMYK" else b"mntr"
    head = struct.pack(">I4sI", begin + len(body), b"lcms", 0x02400000) + kind + space + pcs + b"\0" * 12 + b"acsp"
    return (head.ljust(68, b"\0") + WHITE).ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def curve(gamma: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(256 * gamma))


ADOBE = profile(b"RGB ", {name + b"TRC": curve(GAMMA) for name in (b"r", b"g", b"b")} | {
    name + b"XYZ": b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(65536 * part) for part in column))
    for name, column in zip((b"r", b"g", b"b"), COLUMNS, strict=True)
})  # fmt: skip
GRAY = profile(b"GRAY", {b"kTRC": curve(1.5)})
# Lightness falls with black alone; every other ink does nothing.
_CORNERS = bytes(value for ink in range(16) for value in (0 if ink & 1 else 255, 128, 128))
_STEPS = bytes(range(256))
INKS = profile(b"CMYK", {
    b"A2B0": b"mft1\0\0\0\0\4\3\2\0" + struct.pack(">9i", *np.eye(3, dtype=int).ravel() * 65536)
    + 4 * _STEPS + _CORNERS + 3 * _STEPS,
}, b"Lab ")  # fmt: skip


def by_cms(image: PIL.Image.Image, icc: bytes) -> np.ndarray:
    opened = PIL.ImageCms.ImageCmsProfile(io.BytesIO(icc))
    return np.asarray(
        PIL.ImageCms.profileToProfile(image, opened, PIL.ImageCms.createProfile("sRGB"), outputMode="RGB")
    )


def saved(image: PIL.Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def encoded(light: np.ndarray) -> np.ndarray:
    light = np.clip(light, 0, 1)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def primaries(white_x: float, white_y: float, *places: float) -> np.ndarray:
    """Linear light of primaries whose white is D65 to XYZ."""
    columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in zip(places[::2], places[1::2], strict=True)]).T
    white = [white_x / white_y, 1, (1 - white_x - white_y) / white_y]
    return columns * np.linalg.solve(columns, white)


def png(values: np.ndarray, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of RGB or gray, of 8 or 16 bits."""
    height, width = values.shape[:2]
    big = values.astype(values.dtype.newbyteorder(">"))
    head = struct.pack(">IIBBBBB", width, height, 8 * values.itemsize, 2 if values.ndim == 3 else 0, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + row.tobytes() for row in big))
    parts = [(b"IHDR", head), *chunks, (b"IDAT", lines), (b"IEND", b"")]
    packed = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def gama(gamma: float) -> tuple[bytes, bytes]:
    return b"gAMA", struct.pack(">I", round(100000 * gamma))


def chrm(*places: float) -> tuple[bytes, bytes]:
    return b"cHRM", struct.pack(">8I", *(round(100000 * place) for place in places))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "PA", "HSV"])
def test_colors_of_every_mode(mode: str) -> None:
    plain = PIL.Image.new("RGB", (3, 2), PIXEL)
    assert by_cms(plain, ADOBE)[0, 0].tolist() == list(SHOWN)
    image = (
        plain.quantize(2).convert("PA") if mode == "PA" else plain.quantize(2) if mode == "P" else plain.convert(mode)
    )
    image.info["icc_profile"] = ADOBE
    sources: list[object] = [image]
    if mode in ("RGB", "RGBA", "P"):
        sources += [saved(image, kind, icc_profile=ADOBE) for kind in ("PNG", "TIFF")]
        sources += [saved(image.convert("RGBA"), "WEBP", icc_profile=ADOBE, lossless=True, exact=True)]
    for source in sources:
        colors = images.read(source).array[..., :3].astype(int)
        assert np.abs(colors - SHOWN).max() <= (2 if mode == "HSV" else 0)  # which has rounded the colour before


@pytest.mark.parametrize("kind", ["JPEG", "AVIF"])
def test_colors_with_losses(kind: str) -> None:
    data = saved(PIL.Image.new("RGB", (16, 16), PIXEL), kind, icc_profile=ADOBE)
    decoded = PIL.Image.open(io.BytesIO(data)).convert("RGB")
    assert np.array_equal(images.read(data).array, by_cms(decoded, ADOBE))


@pytest.mark.parametrize("icc", [GRAY, ADOBE])
def test_gray_stays_gray(icc: bytes) -> None:
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)
    image = PIL.Image.fromarray(gray)
    want = by_cms(image if icc == GRAY else image.convert("RGB"), icc)
    read = images.read(saved(image, "PNG", icc_profile=icc))
    assert read.gray
    assert np.abs(read.array[..., 0].astype(int) - want[..., 1]).max() <= 1
    with_alpha = images.read(saved(image.convert("LA"), "PNG", icc_profile=icc)).array
    assert np.abs(with_alpha[..., 0].astype(int) - want[..., 1]).max() <= 1
    assert np.array_equal(with_alpha[..., 3], np.full((16, 16), 255))
    deep = PIL.Image.fromarray(gray.astype(np.uint16) * np.uint16(257))
    exact = 65535 * encoded((gray / 255) ** (1.5 if icc == GRAY else GAMMA))
    for kind in ("PNG", "TIFF"):
        found = images.read(saved(deep, kind, icc_profile=icc), max_bits=16).array[..., 0]
        assert np.abs(found - exact).max() <= 1


def test_a_profile_of_other_channels_says_nothing() -> None:
    image = PIL.Image.new("RGB", (2, 2), PIXEL)
    for icc in (GRAY, INKS, b"no profile", ADOBE[:200]):
        assert images.read(saved(image, "PNG", icc_profile=icc)).array[0, 0].tolist() == list(PIXEL)


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk(kind: str) -> None:
    data = saved(PIL.Image.new("CMYK", (16, 16), (10, 200, 100, 90)), kind, icc_profile=INKS)
    want = by_cms(PIL.Image.open(io.BytesIO(data)), INKS)
    assert np.ptp(want[0, 0].astype(int)) <= 2  # of black alone
    assert np.array_equal(images.read(data).array, want)


@pytest.mark.parametrize("tile", [None, (16, 16)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_every_way_of_a_tiff(
    tile: tuple[int, int] | None, dtype: type, rng: np.random.Generator, tmp_path: pathlib.Path
) -> None:
    values = rng.integers(0, np.iinfo(dtype).max, (48, 40, 3), endpoint=True).astype(dtype)
    path, white = tmp_path / "a.tif", np.iinfo(dtype).max
    tifffile.imwrite(path, values, photometric="rgb", iccprofile=ADOBE, tile=tile)
    to_srgb = np.linalg.inv(primaries(0.3127, 0.329, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)) @ primaries(*CHRM_ADOBE)
    want = white * encoded((values / white) ** GAMMA @ to_srgb.T)
    read = images.read(path, max_bits=16).array
    # Of the light near black the primaries' rounding is some levels of 16 bits.
    assert np.abs(read - want).max() <= (1.5 if dtype == np.uint8 else 150)
    assert read.dtype == dtype
    parts = flow.open_picture(path, max_bits=16)
    assert (parts.store is None) == (tile is None)
    assert np.array_equal(read, read if parts.store is None else parts.store.rows(0, 48))
    if tile is not None:
        opened = pytest.importorskip("clquant.dask").opened(path)
        assert opened.dtype == dtype
        assert np.array_equal(opened.compute(scheduler="sync"), read)


def test_png_gamma_and_primaries() -> None:
    values = np.stack(np.meshgrid(*[np.arange(0, 256, 51, dtype=np.uint8)] * 3), axis=-1).reshape(-1, 6, 3)
    srgb = primaries(0.3127, 0.329, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
    p3 = (0.3127, 0.329, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06)

    def shown(*chunks: tuple[bytes, bytes], of: np.ndarray = values) -> np.ndarray:
        return images.read(png(of, *chunks), max_bits=16).array.squeeze()

    def want(gamma: float, places: tuple[float, ...] | None = None) -> np.ndarray:
        matrix = np.eye(3) if places is None else np.linalg.inv(srgb) @ primaries(*places)
        return np.floor(255 * encoded((values / 255) ** (1 / gamma) @ matrix.T) + 0.5)

    assert np.array_equal(shown(gama(1)), want(1))
    assert np.array_equal(shown(gama(0.55556)), want(0.55556))
    assert np.abs(shown(gama(0.45455), chrm(*p3)) - want(0.45455, p3)).max() <= 1
    light = np.where(values <= 0.04045 * 255, values / 255 / 12.92, ((values / 255 + 0.055) / 1.055) ** 2.4)
    of_p3 = 255 * encoded(light @ (np.linalg.inv(srgb) @ primaries(*p3)).T)
    for chunk in (chrm(*p3), (b"cICP", bytes([12, 13, 0, 1]))):
        assert np.abs(shown(chunk) - of_p3).max() <= 1
    gray = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    assert np.abs(shown(gama(1), of=gray) - 65535 * encoded(gray / 65535)).max() <= 1


@pytest.mark.parametrize(
    "chunks",
    [
        [gama(0.45455)],
        [gama(0.45455), chrm(0.3127, 0.329, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)],
        [(b"sRGB", b"\0"), gama(1)],
        [(b"cICP", bytes([1, 13, 0, 1])), gama(1)],
        [gama(0)],
        [chrm(*[0] * 8)],
        [chrm(*[0.5] * 8)],
    ],
)
def test_what_is_srgb_or_nonsense_changes_nothing(chunks: list[tuple[bytes, bytes]]) -> None:
    values = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5
    assert np.array_equal(images.read(png(values, *chunks)).array, values)


def test_a_profile_precedes_gamma() -> None:
    values = np.full((2, 2, 3), PIXEL, np.uint8)
    chunk = (b"iCCP", b"p\0\0" + zlib.compress(ADOBE))
    assert images.read(png(values, chunk, gama(1))).array[0, 0].tolist() == list(SHOWN)
    srgb = PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes()
    chunk = (b"iCCP", b"p\0\0" + zlib.compress(srgb))
    assert np.array_equal(images.read(png(values, chunk, gama(1))).array, values)


@pytest.mark.filterwarnings("default")
def test_hdr_is_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.full((2, 2, 3), PIXEL, np.uint8)
    path = tmp_path / "hdr.png"
    path.write_bytes(png(values, (b"cICP", bytes([9, 16, 0, 1]))))
    with pytest.warns(UserWarning, match="HDR colours by PQ"):
        assert np.array_equal(images.read(path).array, values)
    assert main(["palette", str(path), "-k", "2", "-o", str(tmp_path / "a.png")]) == 0
    assert "hdr.png' has HDR colours by PQ (primaries 9, transfer 16), which are read as if" in capsys.readouterr().err


def test_keep(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile of RGB may stay, with its colours; one of gray, which no indexed file may have, is applied."""
    for icc, mode, pixel in ((ADOBE, "RGB", PIXEL), (GRAY, "L", (170, 170, 170))):
        (tmp_path / "in.png").write_bytes(
            saved(PIL.Image.new(mode, (8, 8), PIXEL if mode == "RGB" else 100), "PNG", icc_profile=icc)
        )
        out = tmp_path / "out.png"
        command = ["palette", str(tmp_path / "in.png"), "--use", "black,white,#b43c78,#aaa", "--icc", "keep"]
        assert main([*command, "-o", str(out)]) == 0
        result = PIL.Image.open(out)
        assert result.info.get("icc_profile") == (icc if mode == "RGB" else None)
        assert result.convert("RGB").getpixel((0, 0)) == pixel
    assert "note: the ICC profile is dropped, as it is not of RGB (in.png)" in capsys.readouterr().err
