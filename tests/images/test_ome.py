"""OME-Zarr of several versions: channels before rows, levels, and what is no single picture."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tifffile

import clquant
from clquant import images

zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11

AXES = {
    "0.5": [{"name": n, "type": "space"} for n in "tczyx"],
    "0.4": [{"name": n, "type": "space"} for n in "cyx"],
    "0.3": list("czyx"),
    "0.2": None,
}


def slide(path: pathlib.Path, picture: npt.NDArray[np.uint8], version: str) -> pathlib.Path:
    """Two levels, as writers of this version lay them out."""
    axes = AXES[version]
    group = zarr.open_group(path, mode="w", zarr_format=3 if version == "0.5" else 2)
    names = "tczyx" if axes is None else "".join(a["name"] if isinstance(a, dict) else a for a in axes)
    for level, pixels in (("full", picture), ("half", picture[::2, ::2])):
        planes = np.moveaxis(pixels, 2, 0).reshape(*(3 if n == "c" else 1 for n in names[:-2]), *pixels.shape[:2])
        chunks = (*(1,) * (len(names) - 2), 32, 32)
        group.create_array(level, shape=planes.shape, chunks=chunks, dtype="u1")[...] = planes
    scales: dict[str, Any] = {"version": version, "datasets": [{"path": "full"}, {"path": "half"}]}
    if axes is not None:
        scales["axes"] = axes
    group.attrs.update(
        {"ome": {"version": version, "multiscales": [scales]}} if version == "0.5" else {"multiscales": [scales]}
    )
    return path


@pytest.fixture
def picture(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    return rng.integers(0, 256, (90, 71, 3), dtype=np.uint8)


@pytest.mark.full
@pytest.mark.parametrize("version", sorted(AXES))
def test_levels_are_pictures(
    tmp_path: pathlib.Path, picture: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = slide(tmp_path / "slide.zarr", picture, version)
    assert np.array_equal(images.read(path).array, picture)
    if version != "0.4":  # whose levels have three axes, as pictures have
        assert np.array_equal(images.read(path / "half").array, picture[::2, ::2])
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    engine = clquant.KMeansPalette(6).fit(path)
    assert engine.palette_ == clquant.KMeansPalette(6).fit(picture).palette_
    assert np.array_equal(engine.predict(path, "bayer"), engine.predict(picture, "bayer"))
    assert np.array_equal(clquant.QuadtreeBuilder(9).leaves(path), clquant.QuadtreeBuilder(9).leaves(picture))


def test_stacks_are_refused(tmp_path: pathlib.Path) -> None:
    group = zarr.open_group(tmp_path / "stack.zarr", mode="w")
    group.create_array("0", shape=(2, 3, 5, 8, 8), chunks=(1, 1, 1, 8, 8), dtype="u1")
    group.attrs["ome"] = {"multiscales": [{"datasets": [{"path": "0"}], "axes": AXES["0.5"]}]}
    with pytest.raises(clquant.FileError, match="it has 2 along t and 5 along z; allowed: one"):
        images.read(tmp_path / "stack.zarr")
    (tmp_path / "empty.zarr").mkdir()
    zarr.open_group(tmp_path / "empty.zarr", mode="w")
    with pytest.raises(clquant.FileError, match="cannot read"):
        images.read(tmp_path / "empty.zarr")


@pytest.mark.full
def test_of_several_frames_of_a_tiff_the_first_is_read(tmp_path: pathlib.Path, picture: Any) -> None:
    frames = np.moveaxis(picture, 2, 0)
    tifffile.imwrite(tmp_path / "t.tif", frames, tile=(32, 32), photometric="minisblack")
    tree = clquant.QuadtreeBuilder(9)
    assert np.array_equal(tree.leaves(tmp_path / "t.tif"), tree.leaves(frames[0]))
