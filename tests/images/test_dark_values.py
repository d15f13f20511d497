"""The warning of uint16 values that look like 8-bit values: once a call, of whole pictures."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant.cli import main
from clquant.runtime import CommandQueue

Job = Callable[[Any, CommandQueue], object]
JOBS: dict[str, Job] = {
    "k-means": lambda image, queue: clquant.KMeansPalette(4, max_iter=1, queue=queue).fit(image),
    "two images": lambda image, queue: clquant.KMeansPalette(4, max_iter=1, queue=queue).fit([image, image]),
    "fit_many": lambda image, queue: clquant.KMeansPalette(4, max_iter=1, queue=queue).fit_many([image, image]),
    "quantize": lambda image, queue: clquant.quantize(image, ["#000", "#fff"], dither="bayer", queue=queue),
    "NeuQuant": lambda image, queue: clquant.NeuQuantCL(8, queue=queue).fit(image),
    "histogram": lambda image, queue: clquant.ColorHistogram.of(image, queue=queue, memory="1 MiB"),
    "8 bits": lambda image, queue: clquant.ColorHistogram.of(image, queue=queue, max_bits=8, memory="1 MiB"),
    "quadtree": lambda image, queue: clquant.QuadtreeBuilder(queue=queue).leaves(image),
}


def warnings_of(job: Job, image: Any, queue: CommandQueue) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job(image, queue)
    return [one for one in caught if "uint16" in str(one.message)]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_once_a_call(
    queue: CommandQueue, rng: np.random.Generator, tmp_path: pathlib.Path, job: Job, lazy: bool
) -> None:
    """It names the caller's line. 400 rows are several bands of 1 MiB."""
    dark = (16 * rng.integers(0, 16, (400, 300, 3))).astype(np.uint16)
    image: Any = dark
    if lazy:
        image = np.memmap(tmp_path / "dark", np.uint16, "w+", shape=dark.shape)
        image[:] = dark
    found = warnings_of(job, image, queue)
    assert len(found) == 1
    assert found[0].filename == __file__
    image[-1, -1] = 4096
    assert not warnings_of(job, image, queue)


@pytest.mark.parametrize(("largest", "white"), [(255, 255), (256, 1023), (1023, 1023), (1024, 4095), (4095, 4095)])
def test_ranges_of_files(largest: int, white: int, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every format of 16 bits; the command maps the value that is white to 65535, then to 8 bits."""
    values = np.linspace(0, largest, 64).astype(np.uint16).reshape(8, 8)
    for name in ("a.tif", "a.png"):
        PIL.Image.fromarray(values).save(tmp_path / name)
        with pytest.warns(UserWarning, match=f"no value above {white}, so nearly black.*--range {white}"):
            clquant.images.read(tmp_path / name)
        command = ["halftone", str(tmp_path / name), "--palette", "black,white,#777", "--range", str(white), "--force"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert main([*command, "-o", str(tmp_path / "out.png")]) == 0
        palette = clquant.Palette(["black", "white", "#777"])
        stretched = ((values.astype(int) * 65535 + white // 2) // white).astype(np.uint16)
        want = palette.colors[clquant.PinwheelHalftoner(palette=palette).transform(stretched)]
        assert np.array_equal(np.asarray(PIL.Image.open(tmp_path / "out.png").convert("RGB")), want)
    PIL.Image.fromarray(values.astype(np.uint8)).save(tmp_path / "8.png")
    assert main(["palette", str(tmp_path / "8.png"), "--range", "255"]) == 2
    assert "--range is for values of 16 bits" in capsys.readouterr().err


def test_chunks_are_not_looked_at(queue: CommandQueue, rng: np.random.Generator) -> None:
    da = pytest.importorskip("dask.array")
    dark = rng.integers(0, 256, (40, 30, 3)).astype(np.uint16)
    palette = clquant.KMeansPalette(4, max_iter=1, queue=queue).fit(dark.astype(np.uint8))
    chunks = da.from_array(dark, chunks=(16, 16, 3))
    assert not warnings_of(lambda image, _: palette.predict(image).compute(scheduler="sync"), chunks, queue)
