"""Collections of files: results of the same calls on lists of paths, and errors that name the file."""

from __future__ import annotations

import pathlib
from typing import Any

import dask
import numpy as np
import PIL.Image
import pytest

import clquant
from clquant.dask import Files, files, histogram
from tests.lowering import lower


@pytest.fixture(autouse=True)
def _in_turn() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for i in range(11):
        rng = np.random.default_rng(i)
        values = rng.integers(0, 6, (12 + i, 20, 3), np.uint8) * np.uint8(40)
        PIL.Image.fromarray(values).save(tmp_path / f"picture{i:02}.png")
    return tmp_path


def test_patterns_folders_and_lists(folder: pathlib.Path) -> None:
    paths = sorted(str(path) for path in folder.iterdir())
    for given in (folder, str(folder / "*.png"), paths, [pathlib.Path(path) for path in paths]):
        assert list(Files(given)) == paths
    assert list(Files(paths[3])) == [paths[3]]
    assert list(Files(folder)[2:5]) == paths[2:5]
    assert "Files(11 from " in repr(Files(folder))
    with pytest.raises(clquant.FileError, match="no file"):
        Files(str(folder / "*.jpeg"))
    with pytest.raises(clquant.FileError, match="empty"):
        Files([])
    for wrong in (7, b"x", [3]):
        with pytest.raises(clquant.InvalidType, match="pictures"):
            Files(wrong)


@pytest.mark.full
def test_the_same_calls_on_files(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TASKS_PER_WORKER", 4)
    given = Files(folder)
    paths = list(given)
    assert histogram(given) == clquant.ColorHistogram.of(paths)
    assert clquant.KMeansPalette(9).fit(given).palette_ == clquant.KMeansPalette(9).fit(paths).palette_
    assert clquant.NeuQuantCL(9).fit(given).palette_ == clquant.NeuQuantCL(9).fit_histogram(histogram(paths)).palette_
    one, other = (clquant.VQCodec(12, refine=2).fit(x) for x in (paths, given))
    assert np.array_equal(one.codebook_, other.codebook_)
    done: list[tuple[int, int]] = []
    for engine in (clquant.KMeansPalette(5), clquant.NeuQuantCL(6), clquant.KMeansPalette(5, color_space="oklab")):
        assert engine.fit_many(given, progress=lambda *now: done.append(now)) == engine.fit_many(paths)
        assert done.pop() == (11, 11)
    codec = clquant.VQCodec(12, refine=0).fit(paths)
    for lazy, plain in zip(codec.stream(given), codec.stream(paths), strict=True):
        assert np.array_equal(lazy, plain)
    with pytest.raises(clquant.StoppedError):
        clquant.KMeansPalette(5).fit_many(given, progress=lambda *_: False)


@pytest.mark.full
@pytest.mark.parametrize("least", [1, 1 << 30])
@pytest.mark.parametrize("group", [1, 1 << 28])
def test_files_of_other_kinds_and_folders_are_counted_like_one_collection(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, least: int, group: int
) -> None:
    monkeypatch.setattr(files, "TASKS_PER_WORKER", 2)
    monkeypatch.setattr("clquant.histogram.device_counts.LEAST_COLORS", least)  # for adding up on devices
    lower(monkeypatch, batches__bytes=group)
    rng = np.random.default_rng(8)
    below = folder / "below"
    below.mkdir()
    PIL.Image.fromarray(rng.integers(0, 5, (9, 8), np.uint8)).save(below / "gray.png")
    PIL.Image.fromarray(rng.integers(0, 256, (9, 8, 4), np.uint8)).save(folder / "z_alpha.png")
    PIL.Image.fromarray((rng.integers(0, 9, (7, 5)) * 7000).astype(np.uint16)).save(folder / "z_deep.png")
    paths = [str(path) for path in sorted(folder.iterdir())]
    some = [path for path in paths if "deep" not in path]
    for given in (paths, some, some[1:9]):
        assert histogram(given) == clquant.ColorHistogram.of(given)
    without_folder = Files([path for path in some if path != str(below)])
    one, other = (clquant.KMeansPalette(9).fit(x).palette_ for x in (list(without_folder), without_folder))
    assert one == other


def test_files_that_cannot_be_read_are_named(folder: pathlib.Path) -> None:
    (folder / "picture07.png").write_bytes(b"no picture")
    for work in (
        clquant.KMeansPalette(5).fit,
        clquant.KMeansPalette(5).fit_many,
        clquant.NeuQuantCL(5).fit,
        clquant.VQCodec(5).fit,
    ):
        with pytest.raises(clquant.FileError, match=r"images\[7\].*picture07.png"):
            work(Files(folder))
