"""The engine of docs/architecture.md, as it stands there, by every way."""

from __future__ import annotations

import pathlib
import re
import shutil
from typing import Any

import dask.array as da
import numpy as np
import pyopencl.array
import pytest

from clquant import runtime
from clquant.runtime.program import programs

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "architecture.md"
PICTURE = np.random.default_rng(4).integers(0, 256, (90, 50, 3), dtype=np.uint8)


@pytest.fixture
def inverter(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    section = PAGE.read_text(encoding="utf-8").split("**An engine.**")[1]
    kernel, code = (re.search(f"```{kind}\n(.*?)```", section, re.S) for kind in ("c", "python"))
    assert kernel is not None
    assert code is not None
    assert len([line for line in code[1].splitlines() if line.strip()]) <= 10
    shutil.copytree(programs.kernel_folder() / "common", tmp_path / "common")
    (tmp_path / "invert").mkdir()
    (tmp_path / "invert" / "invert.cl").write_text(kernel[1], encoding="utf-8")
    monkeypatch.setattr(programs, "kernel_folder", lambda: tmp_path)
    made: dict[str, Any] = {}
    exec(code[1], made)
    return made["Inverter"]()


def test_the_pages_engine_takes_all_that_people_hand_in(
    inverter: Any, tmp_path: pathlib.Path, queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = 255 - PICTURE
    assert np.array_equal(inverter.transform(PICTURE), expected)
    assert np.array_equal(inverter.transform(PICTURE[..., 0]), expected[..., 0])
    assert np.array_equal(inverter.transform(pyopencl.array.to_device(queue, PICTURE)).get(), expected)
    assert np.array_equal(inverter.transform(da.from_array(PICTURE, (40, 20, 3))).compute(), expected)
    assert all(np.array_equal(made, expected) for made in inverter.stream([PICTURE, PICTURE]))
    np.save(tmp_path / "a.npy", PICTURE)
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    told: list[tuple[int, int]] = []
    given: dict[str, Any] = {"out": np.empty_like(PICTURE), "progress": lambda *step: told.append(step)}
    assert np.array_equal(inverter.transform(np.load(tmp_path / "a.npy", mmap_mode="r"), **given), expected)
    assert len(told) > 1


def test_the_pages_engine_runs_on_two_queues(
    inverter: Any, tmp_path: pathlib.Path, queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr = pytest.importorskip("zarr")
    monkeypatch.setenv("CLQUANT_LIMITS", "shared_pixels=500")
    inverter.queue = [queue, runtime.sibling_queue(queue)]
    told: list[tuple[int, int]] = []
    assert np.array_equal(inverter.transform(PICTURE, progress=lambda *step: told.append(step)), 255 - PICTURE)
    assert len(told) > 1  # a portion each
    assert np.array_equal(inverter.transform(da.from_array(PICTURE, (40, 20, 3))).compute(), 255 - PICTURE)
    inverter.transform(PICTURE, out=tmp_path / "a.zarr")
    assert np.array_equal(zarr.open(tmp_path / "a.zarr")[:], 255 - PICTURE)
