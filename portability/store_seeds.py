"""Damaged files and folders of the readers that take more than a picture, for `fuzz`.

Histograms, codebooks, tile stores, zarr arrays, TIFFs in tiles and GeoTIFFs; those with checks mostly with the check
made right, as a hostile hand would.
"""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
import random
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image

import clquant
from clquant import images, tiles
from clquant.vectors import files
from clquant.vectors.rows import read_rows
from clquant.vq.container import clvq_format
from portability.inputs import photo

Damage = Callable[[random.Random, bytes], bytes]
Case = Callable[[random.Random], str | None]


def _in_folder(make: Callable[[pathlib.Path], Any]) -> dict[str, bytes]:
    """What was written into an empty folder: contents by path."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder)
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
        }


def histogram_case(damaged: Damage) -> Case:
    """`ColorHistogram.load`."""

    def seed(folder: pathlib.Path) -> None:
        clquant.ColorHistogram.of(photo(24, 28)).save(folder / "a")
        clquant.ColorHistogram.of(photo(9, 14, 4)).save(folder / "b")
        clquant.ColorHistogram.of(photo(9, 14).astype(np.uint16) * 257).save(folder / "c")

    seeds = list(_in_folder(seed).values())

    def case(rng: random.Random) -> str | None:
        whole = rng.choice(seeds)
        data = damaged(rng, whole)
        right = rng.random() < 0.7 and len(data) > 4
        if right:
            data = data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            read = clquant.ColorHistogram.load(file.name)
        colors, counts = read.to_arrays()
        wrong = len(colors) != len(counts) or read.total < int(counts.sum())
        return "damage was not noticed" if not right and data != whole else "odd counts" if wrong else None

    return case


def codebook_case(damaged: Damage) -> Case:
    """`VQCodec.load` and decompressing with what was loaded."""
    codec = clquant.VQCodec(8, max_iter=2, random_state=1).fit(photo(24, 28))
    small = clquant.VQCodec(6, (2, 3), max_iter=2, random_state=1, state_size=2, tolerance=9.0).fit(photo(24, 28, 1))
    coded = [(codec, codec.compress(photo(24, 28), embed_codebook=True)), (small, small.compress(photo(9, 14, 1)))]

    def seed(folder: pathlib.Path) -> None:
        codec.save(folder / "a")
        small.save(folder / "b")

    seeds = list(_in_folder(seed).values())

    def case(rng: random.Random) -> str | None:
        if rng.random() < 0.5:
            own, data = rng.choice(coded)
            own.decompress(_checked(rng, damaged(rng, data)), max_pixels=1 << 24)
            return None
        with tempfile.NamedTemporaryFile() as file:
            file.write(_checked(rng, damaged(rng, rng.choice(seeds))))
            file.flush()
            clquant.VQCodec.load(file.name)
        return None

    return case


def _checked(rng: random.Random, data: bytes) -> bytes:
    """Mostly with the checks of a `.clvq` file made right."""
    size = clvq_format.HEADER_BYTES
    if rng.random() < 0.2 or len(data) < size:
        return data
    made = bytearray(data[: size - 4] + struct.pack("<I", zlib.crc32(data[: size - 4])))
    try:
        header = clvq_format.Header.from_bytes(bytes(made))
    except clquant.ClquantError:
        return bytes(made) + data[size:]
    numbers = [clvq_format._REPEATS_SECTION] * header.repeating
    numbers += [clvq_format._CODEBOOK_SECTION] * (header.kind != clvq_format.PICTURE_OF_SHARED)
    numbers += [clvq_format._MODEL_SECTION] * (header.model != clvq_format.PRESET_CURVES)
    at = size
    for number in itertools.chain(numbers, itertools.count(clvq_format._FIRST_BAND)):
        if at + 8 > len(data) or not any(data[at:]):
            break
        (length,) = struct.unpack_from("<I", data, at)
        payload = data[at + 4 : at + 4 + length]
        made += data[at : at + 4] + payload + struct.pack("<I", clvq_format.section_check(header, number, payload))
        at += 8 + length
    return bytes(made) + data[at:]


def _tile_folders(folder: pathlib.Path) -> None:
    for x in range(2):
        for y in range(2):
            place = folder / "tiles" / "1" / str(x)
            place.mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(photo(16, 16, 4, seed=x + 2 * y)).save(place / f"{y}.png")
    (folder / "tiles" / "metadata.json").write_text('{"name": "a", "bounds": "-180,-85,180,85"}', encoding="utf-8")


def store_case(damaged: Damage) -> Case:
    """Tile stores, zarr arrays, TIFFs in tiles and GeoTIFFs, read in parts; of each one file is damaged."""

    def tile_stores(folder: pathlib.Path) -> None:
        _tile_folders(folder)
        tiles.quantize(folder / "tiles", folder / "a.mbtiles", 4)
        if importlib.util.find_spec("pmtiles") is not None:
            tiles.quantize(folder / "tiles", folder / "a.pmtiles", 4)

    def arrays(folder: pathlib.Path) -> None:
        picture = photo(40, 48)
        if importlib.util.find_spec("zarr") is not None:
            clquant.KMeansPalette(4).fit(picture).transform(picture, out=folder / "a.zarr")
        if importlib.util.find_spec("tifffile") is not None:
            clquant.KMeansPalette(4).fit(picture).transform(picture, out=folder / "a.tif")
        if importlib.util.find_spec("rasterio") is not None:
            _geotiff(folder / "g.tif", picture)

    seeds = (_in_folder(tile_stores), _in_folder(arrays))
    roots = {name.split("/")[0] for seed in seeds for name in seed}

    def case(rng: random.Random) -> str | None:
        root = rng.choice(sorted(roots))
        held = {name: data for seed in seeds for name, data in seed.items() if name.split("/")[0] == root}
        broken = rng.choice(sorted(held))
        with tempfile.TemporaryDirectory() as name:
            for path, data in held.items():
                place = pathlib.Path(name, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(damaged(rng, data) if path == broken else data)
            source = pathlib.Path(name, root)
            if root.endswith((".zarr", ".tif")):
                if rng.random() < 0.5:
                    images.read(str(source))
                else:
                    clquant.ColorHistogram.of(source, memory=1 << 24)
            else:
                tiles.histogram(source)
        return None

    return case


def rows_case(damaged: Damage) -> Case:
    """Files of rows, zarrs of them in each codec, and saved quantizers; of each one file is damaged."""
    rows = np.random.default_rng(1).integers(0, 9, (90, 5)).astype(np.uint8)
    plain = clquant.VectorQuantizer(3, refine=0).fit(rows)
    pairs = clquant.ProductQuantizer(2, 1, rotation="opq", refine=0).fit(np.hstack([rows, rows[::-1]]))

    def seed(folder: pathlib.Path) -> None:
        np.save(folder / "a.npy", rows)
        suffixes = [".bvecs", ".fvecs", *([".zarr"] if importlib.util.find_spec("zarr") is not None else [])]
        for suffix in suffixes:
            own = rows.astype(np.float32) if suffix == ".fvecs" else rows
            with files.written(folder / f"a{suffix}", own.shape, own.dtype) as put:
                put(own)
        plain.save(folder / "a.npz")
        pairs.save(folder / "b.npz")

    seeds = _in_folder(seed)
    roots = sorted({name.split("/")[0] for name in seeds})

    def case(rng: random.Random) -> str | None:
        root = rng.choice(roots)
        held = {name: data for name, data in seeds.items() if name.split("/")[0] == root}
        broken = rng.choice(sorted(held))
        with tempfile.TemporaryDirectory() as name:
            for path, data in held.items():
                place = pathlib.Path(name, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(damaged(rng, data) if path == broken else data)
            source = pathlib.Path(name, root)
            if root.endswith(".npz"):
                (clquant.VectorQuantizer if root == "a.npz" else clquant.ProductQuantizer).load(source)
            else:
                list(read_rows(source).portions())
        return None

    return case


def _geotiff(path: pathlib.Path, picture: Any) -> None:
    import rasterio
    import rasterio.transform

    how = {"driver": "GTiff", "height": picture.shape[0], "width": picture.shape[1], "count": 3, "dtype": "uint8"}
    how |= {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate", "crs": "EPSG:4326"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rasterio's use of affine
        with rasterio.open(path, "w", transform=rasterio.transform.from_origin(7, 46, 0.1, 0.1), **how) as file:
            file.write(np.moveaxis(picture, 2, 0))
