"""All steps of the parallel map in one launch whose work-groups meet: the same palettes as by a launch a step."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from clquant import NeuQuantCL, runtime
from clquant.neuquant import step_grid

ALL, ALONE = step_grid.GATE, 2
CASES = (
    (ALL, 16, {}),
    (ALONE, 16, {}),
    (ALL, 7, {"refine_steps": 0, "sample_factor": 30}),
    (ALONE, 100, {"metric": "l1", "sample_factor": 7}),
    (ALL, 33, {"color_space": "oklab", "sample_factor": 9, "random_state": 5}),
    (ALL, 5, {"sample_factor": 30}),
    (ALL, 24, {"fixed_colors": ["#102030", "#ffffff"], "sample_factor": 20}),
    (ALL, 256, {"sample_factor": 30, "refine_steps": 9}),
)


@pytest.fixture
def launches(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What is launched in this form from now on, on any device: its fence is NVIDIA's, but groups of CPUs need none."""
    if not step_grid.GRID.admits(runtime.open_session(queue).limits):
        variant = dataclasses.replace(
            step_grid.GRID, admits=lambda _: True, constants={"DEVICE_FENCE": "(void)0", "MAX_LOOKS": 1 << 12}
        )
        monkeypatch.setattr(step_grid, "GRID", variant)
        monkeypatch.setattr(step_grid, "VARIANTS", (variant, step_grid.VARIANTS[-1]))
        monkeypatch.setattr(step_grid, "GROUP", 16)
    launched: list[bool] = []
    plain = step_grid.Grid.queue

    def noted(self: step_grid.Grid, refining: bool, *rest: Any) -> None:
        launched.append(refining)
        plain(self, refining, *rest)

    monkeypatch.setattr(step_grid.Grid, "queue", noted)
    return launched


@pytest.mark.full
@pytest.mark.parametrize(("gate", "k", "options"), CASES)
def test_palettes_are_those_of_a_launch_a_step(
    queue: runtime.CommandQueue,
    launches: list[bool],
    gate: int,
    k: int,
    options: dict[str, Any],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all groups take part, and where the first does all of the work alone."""
    y, x = np.mgrid[:90, :120]
    pictures = [
        rng.integers(0, 256, (20, 30, 3), dtype=np.uint8),
        np.stack([2 * x, 2 * y, x + y], -1).astype(np.uint8),
    ]
    if "color_space" in options:  # with alpha and many colours: kernels take longest to build here
        pictures = [rng.integers(0, 256, (140, 150, 4), dtype=np.uint8)]
    engine = NeuQuantCL(k, queue=queue, **options)
    monkeypatch.setattr(step_grid, "GATE", gate)
    found = [engine.fit(picture).palette_ for picture in pictures]
    refined = engine.refine_steps and engine.fixed_colors is None
    starts = [5 if refined and k <= 8 else int(bool(refined))] * len(pictures)
    assert launches == [kind for count in starts for kind in (False, *(True,) * count)]
    with runtime.force_variant("portable"):
        assert found == [engine.fit(picture).palette_ for picture in pictures]


@pytest.mark.full
def test_progress_and_many_colors_take_steps(
    queue: runtime.CommandQueue, launches: list[bool], rng: np.random.Generator
) -> None:
    picture = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    engine = NeuQuantCL(16, queue=queue, sample_factor=30)
    expected = engine.fit(picture).palette_
    assert launches == [False, True]
    told: list[int] = []
    assert engine.fit(picture, progress=lambda done, _: told.append(done)).palette_ == expected
    NeuQuantCL(300, queue=queue, sample_factor=30, keep_exact=False).fit(picture)
    NeuQuantCL(16, queue=queue, sample_factor=30, metric="l1", conscience=True).fit(picture)
    assert launches == [False, True]
    assert len(told) > 8
