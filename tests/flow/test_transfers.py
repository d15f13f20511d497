"""A call of several jobs sends its picture to the device once, and brings its result home once."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant import runtime
from clquant.cli import main
from clquant.runtime.transfer import copy

from .every_verb import call_of, given_to, verbs

IMAGE = np.random.default_rng(3).integers(0, 256, (61, 70, 3), dtype=np.uint8)


def codec() -> clquant.VQCodec:
    """A codec whose encoder looks at the picture twice."""
    made = clquant.VQCodec(9, state_size=4, tolerance=50.0)
    made.codebook_ = np.random.default_rng(4).integers(0, 256, (9, 4, 4, 3), dtype=np.uint8)
    return made


CALLS: dict[str, Callable[[], Any]] = {
    "quantize": lambda: clquant.quantize(IMAGE, 5),
    "quantize to a palette": lambda: clquant.quantize(IMAGE, ["black", "red", "white"]),
    "quantize dithered": lambda: clquant.quantize(IMAGE, 5, dither="bayer4"),
    "fit_predict": lambda: clquant.KMeansPalette(5).fit_predict(IMAGE),
    "fit_transform": lambda: clquant.KMeansPalette(5).fit_transform(IMAGE),
    "fit_quality": lambda: clquant.KMeansPalette(9, color_space="oklab").fit_quality(IMAGE, max_mse=9000),
    "NeuQuant's fit_quality": lambda: clquant.NeuQuantCL(9).fit_quality(IMAGE, max_mse=9000),
    "the halftone": lambda: clquant.PinwheelHalftoner().transform(IMAGE),
    "side match": lambda: codec().compress(IMAGE),
}


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each upload to a device that seems to have memory of its own."""
    begun, own = list[int](), copy.Upload.__init__

    def counted(upload: Any, queue: Any, limits: Any, buffer: Any, array: Any, *given: Any, **named: Any) -> None:
        begun.append(array.nbytes)
        own(upload, queue, limits, buffer, array, *given, **named)

    monkeypatch.setattr(copy.Upload, "__init__", counted)
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    return begun


@pytest.mark.full
@pytest.mark.parametrize(("engine", "verb"), list(verbs()))
def test_a_verb_uploads_its_picture_once(engine: str, verb: str, uploads: list[int]) -> None:
    call, given = call_of(engine, verb), given_to(engine, verb)
    uploads.clear()
    call(given)
    assert uploads.count(given.nbytes) <= 1


@pytest.mark.parametrize("name", CALLS)
def test_a_call_uploads_its_picture_once(name: str, uploads: list[int]) -> None:
    CALLS[name]()
    assert uploads.count(IMAGE.nbytes) == 1


def test_fit_and_map_bring_one_result_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    counts = []
    for call in (lambda: clquant.KMeansPalette(5).fit(IMAGE), CALLS["fit_predict"], CALLS["quantize"]):
        with runtime.profile() as profile:
            call()
        counts.append(profile.counts())
    fit, *both = counts
    assert [c["download"] for c in both] == 2 * [fit["download"] + 1]


def test_the_command_uploads_its_picture_once(tmp_path: pathlib.Path, uploads: list[int]) -> None:
    path = str(tmp_path / "a.png")
    PIL.Image.fromarray(IMAGE).save(path)
    assert main(["palette", path, "--colors", "5", "--stats", "-q"]) == 0
    assert uploads.count(IMAGE.nbytes) == 1
    assert main(["palette", path, "--colors", "5", "-o", str(tmp_path / "b.png")]) == 0
    assert uploads.count(IMAGE.nbytes) == 2  # for its PSNR only the result's indices go there


def test_a_comparison_uploads_its_picture_and_each_result_once(
    tmp_path: pathlib.Path, uploads: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a.png")
    PIL.Image.fromarray(IMAGE).save(path)
    assert main(["compare", path, "-k", "5", "-o", str(tmp_path / "b.png"), "--json"]) == 0
    methods = json.loads(capsys.readouterr().out)["results"][0]["methods"]
    assert uploads.count(IMAGE.nbytes) == 1 + len(methods)
