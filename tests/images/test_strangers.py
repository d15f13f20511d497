"""Files of strangers: what is opened is the file named and nothing else, and no part unpacks to more than it has."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import json
import lzma
import os
import pathlib
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import clquant
from clquant import flow, images
from clquant.images import storage
from clquant.images.tiff import geo, geo_files

SHAPE = (16, 24, 3)
BIG = 1 << 22
PICTURE = (np.arange(16 * 24 * 3) % 251).astype(np.uint8).reshape(SHAPE)


def store(folder: pathlib.Path, codec: dict[str, Any] | None, data: bytes, version: int, **more: Any) -> pathlib.Path:
    """A zarr of one chunk."""
    folder.mkdir()
    about: dict[str, Any] = {"zarr_format": version, "shape": SHAPE, "fill_value": 0}
    if version == 2:
        about |= {"chunks": SHAPE, "dtype": "|u1", "compressor": codec, "order": "C", "filters": None}
        (folder / ".zarray").write_text(json.dumps(about | more))
        (folder / "0.0.0").write_bytes(data)
        return folder
    names = {"gzip", "zstd", "blosc"}
    settings = {key: value for key, value in (codec or {}).items() if key != "id"}
    name = codec and (codec["id"] if codec["id"] in names else "numcodecs." + codec["id"])
    codecs = [{"name": "bytes"}, *([{"name": name, "configuration": settings}] if codec else [])]
    about |= {"node_type": "array", "data_type": "uint8", "codecs": codecs, "attributes": {}}
    about["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": SHAPE}}
    about["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    (folder / "c/0/0").mkdir(parents=True)
    (folder / "zarr.json").write_text(json.dumps(about | more))
    (folder / "c/0/0/0").write_bytes(data)
    return folder


def zstd_of_unknown_size(data: bytes) -> bytes:
    """A frame of runs that does not say what it unpacks to."""
    blocks = [data[at : at + (1 << 17)] for at in range(0, len(data), 1 << 17)]
    heads = [(len(block) << 3 | 2 | (block is blocks[-1])).to_bytes(3, "little") + block[:1] for block in blocks]
    return b"\x28\xb5\x2f\xfd\0\x58" + b"".join(heads)


def packers() -> dict[str, Any]:
    numcodecs = pytest.importorskip("numcodecs")
    return {
        "zlib": lambda data: ({"id": "zlib", "level": 1}, zlib.compress(data)),
        "gzip": lambda data: ({"id": "gzip", "level": 1}, gzip.compress(data[:100]) + gzip.compress(data[100:])),
        "bz2": lambda data: ({"id": "bz2", "level": 1}, bz2.compress(data)),
        "lzma": lambda data: ({"id": "lzma", "format": 1, "check": -1, "preset": None}, lzma.compress(data)),
        "lz4": lambda data: ({"id": "lz4", "acceleration": 1}, numcodecs.LZ4().encode(data)),
        "zstd": lambda data: ({"id": "zstd", "level": 1}, numcodecs.Zstd().encode(data)),
        "blosc": lambda data: (numcodecs.Blosc("zstd").get_config(), numcodecs.Blosc("zstd").encode(data)),
    }


@pytest.mark.parametrize("name", ["zlib", "gzip", "bz2", "lzma", "lz4", "zstd", "blosc"])
def test_a_chunk_unpacks_to_what_it_has(tmp_path: pathlib.Path, name: str) -> None:
    pytest.importorskip("zarr", minversion="3")
    pack = packers()[name]
    for version in (2, 3):
        codec, right = pack(PICTURE.tobytes())
        if version == 3 and name == "blosc":
            codec = codec | {"shuffle": "shuffle", "typesize": 1}
        if version == 3 and name == "zstd":
            codec = codec | {"checksum": False}
        good = store(tmp_path / f"good{version}", codec, right, version)
        assert np.array_equal(images.read(good).array, PICTURE)
        for i, data in enumerate([pack(bytes(BIG))[1], right[: len(right) // 2], b"", right[:3]]):
            bad = store(tmp_path / f"bad{version}-{i}", codec, data, version)
            wanted = "unpacks to more than" if i == 0 else "cannot read"
            with pytest.raises(clquant.FileError, match=wanted):
                images.read(bad)


def test_zstandard_without_a_size(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("zarr", minversion="3")
    codec = {"id": "zstd", "level": 1}
    flat = store(tmp_path / "flat", codec, zstd_of_unknown_size(bytes(PICTURE.size)), 2)
    assert not images.read(flat).array.any()  # type: ignore[union-attr]
    with pytest.raises(clquant.FileError, match="unpacks to more than"):
        images.read(store(tmp_path / "bomb", codec, zstd_of_unknown_size(bytes(BIG)), 2))


def test_only_listed_codecs_and_files_of_the_store(tmp_path: pathlib.Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    for codec, what in (({"id": "pickle"}, "pickle"), ({"id": "base64"}, "base64")):
        with pytest.raises(clquant.FileError, match=f"coded by '{what}'"):
            images.read(store(tmp_path / what, codec, b"", 2))
    twice = [{"id": "zlib", "level": 1}]
    with pytest.raises(clquant.FileError, match="one codec twice"):
        images.read(store(tmp_path / "twice", twice[0], b"", 2, filters=twice))
    with pytest.raises(clquant.FileError, match="dtype"):
        images.read(store(tmp_path / "wide", None, b"", 2, dtype="|S99999999"))
    (tmp_path / "secret").write_bytes(PICTURE.tobytes())
    link = store(tmp_path / "link", None, PICTURE.tobytes(), 2)
    assert np.array_equal(images.read(link).array, PICTURE)  # type: ignore[arg-type]
    (link / "0.0.0").unlink()
    (link / "0.0.0").symlink_to(tmp_path / "secret")
    with pytest.raises(clquant.FileError, match="is a link to"):
        images.read(link)
    (link / "0.0.0").unlink()
    os.mkfifo(link / "0.0.0")  # no reader waits for it
    assert not images.read(link).array.any()  # type: ignore[union-attr]
    group = zarr.open_group(tmp_path / "group", mode="w", zarr_format=2)
    group.attrs["multiscales"] = [{"datasets": [{"path": "../link"}]}]
    with pytest.raises(clquant.FileError, match="cannot read"):
        images.read(tmp_path / "group")
    group.attrs["multiscales"] = [{"datasets": [{"path": str(link)}]}]
    with pytest.raises(clquant.FileError, match="cannot read"):
        images.read(tmp_path / "group")


def test_damaged_chunks_of_rows_are_errors_of_files(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("zarr", minversion="3")
    for i, data in enumerate((zlib.compress(bytes(BIG)), b"", b"abc", zlib.compress(bytes(7)))):
        rows = store(tmp_path / str(i), {"id": "zlib", "level": 1}, data, 2, shape=(40, 5), chunks=(40, 5))
        (rows / "0.0.0").rename(rows / "0.0")
        with pytest.raises(clquant.FileError, match="cannot read rows"):
            clquant.VectorQuantizer(2).fit(rows)


def test_claims_of_a_store_are_bounded(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("zarr", minversion="3")
    for i, (shape, chunks) in enumerate((((16, 24, 1 << 28), SHAPE), (SHAPE, (1 << 15, 1 << 15, 3)))):
        with pytest.raises(clquant.ClquantError, match="allowed"):
            images.read(store(tmp_path / str(i), None, b"", 2, shape=shape, chunks=chunks))


def test_shards_and_picture_codecs_are_read(tmp_path: pathlib.Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    made = zarr.create_array(tmp_path / "s.zarr", shape=SHAPE, chunks=(8, 8, 3), shards=(16, 24, 3), dtype="u1")
    made[:] = PICTURE
    assert np.array_equal(images.read(tmp_path / "s.zarr").array, PICTURE)
    assert np.array_equal(flow.open_picture(tmp_path / "s.zarr").store.rows(3, 9), PICTURE[3:9])  # type: ignore[union-attr]


def with_tag(path: pathlib.Path, **items: str) -> None:
    import rasterio

    shape = {"height": 16, "width": 24, "count": 3, "dtype": "uint8"}
    with rasterio.open(path, "w", driver="GTiff", crs="EPSG:32633", photometric="RGB",
                       transform=rasterio.Affine(10, 0, 5e5, 0, -10, 5e6), **shape) as file:  # fmt: skip
        file.write(np.moveaxis(PICTURE, 2, 0))
        file.update_tags(ns="OVERVIEWS", **items)


def test_a_geotiff_reads_its_own_bytes_alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rasterio = pytest.importorskip("rasterio")
    scene, other = tmp_path / "scene.tif", tmp_path / "other.tif"
    for elsewhere in (str(other), "/vsicurl/http://127.0.0.1:9/x.tif", ":::BASE:::other.tif"):
        with_tag(scene, OVERVIEW_FILE=elsewhere)
        for read in (images.read, geo_files.place_of, clquant.ColorHistogram.of):
            with pytest.raises(clquant.FileError, match="its overviews are in"):
                read(scene)
    scene, other = tmp_path / "alone.tif", tmp_path / "beside.tif"  # rasterio would delete what those above name
    with_tag(scene)
    with_tag(other)
    whole, place = images.read(scene).array, geo_files.place_of(scene)
    assert np.array_equal(whole, PICTURE)  # type: ignore[arg-type]
    scene.with_suffix(".tfw").write_text("1\n0\n0\n-1\n7\n7\n")
    pathlib.Path(f"{scene}.aux.xml").write_text(
        f"<PAMDataset><Metadata domain='OVERVIEWS'><MDI key='OVERVIEW_FILE'>{other}</MDI></Metadata></PAMDataset>"
    )
    for suffix in (".ovr", ".msk"):
        pathlib.Path(f"{scene}{suffix}").write_bytes(other.read_bytes())
    assert np.array_equal(images.read(scene).array, PICTURE)  # type: ignore[arg-type]
    assert geo_files.place_of(scene) == place
    assert place is not None
    assert not place.overviews
    monkeypatch.chdir(tmp_path)
    scene.rename("GTIFF_DIR:1:x.tif")  # of this name GDAL would make page 1 of x.tif
    with_tag(tmp_path / "x.tif", OVERVIEW_FILE="y.tif")
    assert np.array_equal(images.read("GTIFF_DIR:1:x.tif").array, PICTURE)  # type: ignore[arg-type]
    (tmp_path / "vrt.tif").write_text(
        f"<VRTDataset rasterXSize='24' rasterYSize='16'><VRTRasterBand dataType='Byte' band='1'><SimpleSource>"
        f"<SourceFilename>{other}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with pytest.raises(rasterio.RasterioIOError), geo.gdal():
        geo.open_geotiff("vrt.tif", rasterio)
    with pytest.raises(clquant.FileError):
        images.read("vrt.tif")


def test_tags_named_as_arguments_are_kept(tmp_path: pathlib.Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    with_tag(tmp_path / "a.tif")
    with rasterio.open(tmp_path / "a.tif", "r+") as file:
        file.update_tags(BIDX="7", NS="north", self="me")
    place = geo_files.place_of(tmp_path / "a.tif")
    assert place is not None
    for name in ("bidx", "ns"):
        place.tags[name] = place.tags.pop(name.upper())
    writer = geo_files.Writer(
        str(tmp_path / "b.tif"), (16, 24), np.dtype("u1"), place, geo_files.Layout(False, (), "nearest"), None, None
    )
    writer.write(0, PICTURE[..., 0])
    writer.close()
    with rasterio.open(tmp_path / "b.tif") as file:
        assert {key: file.tags()[key] for key in ("BIDX", "NS", "self")} == {"BIDX": "7", "NS": "north", "self": "me"}


def test_a_tile_unpacks_to_what_it_has(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    wide = np.tile(PICTURE, (3, 3, 1))
    tifffile.imwrite(path, wide, tile=(16, 32), photometric="rgb", compression="zlib", predictor=True)
    opened = storage.open_path(str(path))
    assert np.array_equal(opened[5:40], wide[5:40])  # type: ignore[index]
    assert np.array_equal(opened[:, 30:71, 1:], wide[:, 30:71, 1:])  # type: ignore[index]
    gray = tmp_path / "g.tif"
    tifffile.imwrite(gray, wide[..., 0].astype(np.uint16) * 257, tile=(16, 16), compression="zlib")
    assert np.array_equal(storage.open_path(str(gray))[3:44], wide[3:44, :, 0].astype(np.uint16) * 257)  # type: ignore[index]
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        places, counts, bytecounts = page.dataoffsets, page.databytecounts, page.tags["TileByteCounts"]
    bomb = zlib.compress(bytes(16 * 32 * 3) + bytes(BIG))
    with open(path, "r+b") as file:
        at = file.seek(0, os.SEEK_END)
        file.write(bomb)
        file.seek(bytecounts.valueoffset)
        size = struct.calcsize({3: "<H", 4: "<I"}[int(bytecounts.dtype)])
        file.write(len(bomb).to_bytes(size, "little"))
    data = path.read_bytes().replace(struct.pack("<I", places[0]), struct.pack("<I", at), 1)
    path.write_bytes(data)
    assert counts[0] != len(bomb)
    sizes: list[int] = []
    real = zlib.decompressobj

    class Counting:
        def __init__(self) -> None:
            self._inner = real()

        def decompress(self, data: bytes, most: int = 0) -> bytes:
            found = self._inner.decompress(data, most)
            sizes.append(len(found))
            return found

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert not storage.open_path(str(path))[:16, :32].any()  # type: ignore[index]
    assert sizes == [16 * 32 * 3]


def test_further_files_of_an_ome_tiff_are_left_alone(tmp_path: pathlib.Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    uuid = '<UUID FileName="other.ome.tif">urn:uuid:1</UUID>'
    xml = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:0">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" SizeX="24" SizeY="16" SizeC="1" '
        f'SizeZ="1" SizeT="2"><TiffData FirstT="1" IFD="0">{uuid}</TiffData><TiffData FirstT="0" IFD="0"/>'
        "</Pixels></Image></OME>"
    )
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, PICTURE[..., 0], tile=(16, 16), description=xml, metadata=None)
    os.mkfifo(tmp_path / "other.ome.tif")  # who opens it waits for ever
    assert np.array_equal(storage.open_path(str(path))[:], PICTURE[..., 0])  # type: ignore[index]


def test_nothing_of_zarr_goes_on_behind_an_error(tmp_path: pathlib.Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    from zarr.core import sync

    path = tmp_path / "a.zarr"
    wide = zarr.create_array(path, shape=(8, 8000), chunks=(8, 8), dtype="u1")
    wide[:] = 1
    (path / "c/0/2").write_bytes(b"no chunk")
    with pytest.raises(clquant.FileError, match="cannot read"):
        images.read(path)
    assert not asyncio.all_tasks(sync.loop[0])
    for number in range(1, 1000, 7):  # where chunks should go, nothing can be written
        (path / f"c/0/{number}").unlink()
        (path / f"c/0/{number}").mkdir()
    with pytest.raises(clquant.FileError, match="out: cannot write rows"):
        clquant.KMeansPalette(2).fit(np.eye(8, dtype=np.uint8)).predict(np.ones((8, 8000), np.uint8), out=wide)
    assert not asyncio.all_tasks(sync.loop[0])
