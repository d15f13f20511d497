"""Tunable numbers: no value of any changes a bit, and a damaged file is warned of once and passed over."""

from __future__ import annotations

import json
import pathlib
import warnings

import numpy as np
import pytest

from clquant import runtime
from clquant.images import upload
from clquant.palette import engine
from clquant.runtime.program import tuning
from portability.hashes import golden
from portability.jobs import JOBS, digest

# The golden jobs that read each engine's parameters, quick ones.
READERS = {
    "batch": ("kmeans many",),
    "counting": ("count rgb", "count rgba", "kmeans rgb 8"),
    "halftone": ("halftone 8", "halftone palette small"),
    "kmeans": ("kmeans rgb 8", "kmeans rgba"),
    "mapping": ("map 256", "map rgba", "bayer rgba oklab"),
    "neuquant": ("neuquant 8",),
    "quadtree": ("quadtree gray",),
    "vq": ("vq gray 4x4",),
}
BY_NAME = {job.name: job for job in JOBS}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "extreme", "form"),
    [
        (name, extreme, ("as chosen", "portable")[(number + extreme) % 2])
        for number, name in enumerate(name for name in tuning.NAMES if not name.startswith("transfer."))
        for extreme in (0, -1)
    ],
)
def test_extreme_values_change_no_bit(
    queue: runtime.CommandQueue, name: str, extreme: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "portable":
        monkeypatch.setenv("CLQUANT_VARIANT", form)
    with runtime.force_tuning({name: tuning.NAMES[name].allowed[extreme]}):
        for job in READERS[name.split(".")[0]]:
            assert digest(BY_NAME[job].run(queue)) == golden()[job]


@pytest.mark.full
@pytest.mark.parametrize("extreme", [0, -1], ids=["least", "most"])
def test_all_extremes_together_change_no_bit(queue: runtime.CommandQueue, extreme: int) -> None:
    with runtime.force_tuning({name: parameter.allowed[extreme] for name, parameter in tuning.NAMES.items()}):
        for name in ("kmeans oklab", "neuquant 32", "quadtree rgb", "vq rgb 2x3"):
            assert digest(BY_NAME[name].run(queue)) == golden()[name]


@pytest.mark.parametrize("bands", [1, 64])
def test_any_number_of_bands_gives_the_same_pixels(
    queue: runtime.CommandQueue, sample: np.ndarray, bands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "unified_memory=0")
    monkeypatch.setattr(upload, "STAGED_BYTES", 1 << 12)
    palette = runtime_palette()
    expected = engine.predict(sample, palette, queue=queue)
    with runtime.force_tuning({"transfer.bands": bands}):
        rows = upload.part_rows(runtime.open_session(queue), *sample.shape[:2], True)
        assert abs(-(-len(sample) // rows) - bands) <= bands // 8
        assert np.array_equal(engine.predict(sample, palette, queue=queue), expected)


def runtime_palette() -> engine.Palette:
    return engine.Palette(np.random.default_rng(3).integers(0, 256, (20, 3)))


def test_every_parameter_has_a_shipped_value_for_every_family() -> None:
    for family in ("any", "cpu", "nvidia"):
        values = tuning.shipped(family)
        assert list(values) == list(tuning.NAMES)
        assert {name: tuning.checked(name, value) for name, value in values.items()} == values


def test_the_user_file_is_read_for_its_device_alone(queue: runtime.CommandQueue, own_file: pathlib.Path) -> None:
    session = runtime.open_session(queue)
    name = runtime.describe(queue.device)
    own_file.write_bytes(tuning.unparse({name: {"kmeans.group": 2}, "another": {"mapping.group": 4}}))
    tuning.forget()
    assert session.tuned("kmeans.group") == 2
    assert session.tuned("mapping.group") == tuning.shipped(tuning.family(session.limits))["mapping.group"]


def test_the_environment_turns_the_user_file_off(
    queue: runtime.CommandQueue, own_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_file.write_bytes(tuning.unparse({runtime.describe(queue.device): {"kmeans.group": 2}}))
    monkeypatch.setenv(tuning.TUNING_VARIABLE, "off")
    assert runtime.open_session(queue).tuned("kmeans.group") != 2
    monkeypatch.setenv(tuning.TUNING_VARIABLE, "sometimes")
    with pytest.raises(runtime.InvalidArgument, match="CLQUANT_TUNING='sometimes'"):
        runtime.open_session(queue).tuned("kmeans.group")


@pytest.fixture
def own_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """A tuning file that only this test reads."""
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path))
    tuning.forget()
    yield tmp_path / tuning.FILE
    tuning.forget()


def damaged(values: object) -> bytes:
    return json.dumps({"format": tuning.FORMAT, "devices": {"a device": values}}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe\x00", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"[]", "lacks"),
        (b'{"format": "clquant tuning 2", "devices": {}}', "lacks"),
        (b'{"format": "clquant tuning 1", "devices": []}', "lacks"),
        (damaged([]), "no table of values"),
        (damaged({"kmeans.speed": 1}), "no parameter 'kmeans.speed'"),
        (damaged({"kmeans.group": 3}), "tuning kmeans.group is 3"),
        (damaged({"kmeans.group": "64"}), "tuning kmeans.group is '64'"),
        (damaged({"kmeans.group": 64.0}), "tuning kmeans.group is 64.0"),
        (damaged({"kmeans.group": True}), "tuning kmeans.group is True"),
        (damaged({"kmeans.group": 10**30}), "tuning kmeans.group is 1000"),
        (b" " * ((1 << 20) + 1), "longer than"),
    ],
)
def test_a_damaged_file_is_warned_of_once(
    queue: runtime.CommandQueue, own_file: pathlib.Path, content: bytes, message: str
) -> None:
    own_file.write_bytes(content)
    session = runtime.open_session(queue)
    with pytest.warns(RuntimeWarning, match=message) as warned:
        first = session.tuned("kmeans.group")
    assert len(warned) == 1
    assert first == tuning.shipped(tuning.family(session.limits))["kmeans.group"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.tuned("mapping.group") > 0


def test_a_file_that_cannot_be_read_is_passed_over(queue: runtime.CommandQueue, own_file: pathlib.Path) -> None:
    own_file.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        assert runtime.open_session(queue).tuned("kmeans.group") > 0


@pytest.mark.parametrize("given", [{"kmeans.group": 3}, {"kmeans.grupp": 64}])
def test_only_allowed_values_can_be_forced(given: dict[str, int]) -> None:
    with pytest.raises(runtime.InvalidArgument, match=r"allowed|there are"), runtime.force_tuning(given):
        pass
