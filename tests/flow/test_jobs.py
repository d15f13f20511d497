"""Jobs as an engine would write them: a map, a reduction and a scan, by every way with the same bits."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyopencl.array
import pytest

from clquant import flow, images, runtime
from clquant.images import Picture

GRAY = np.random.default_rng(5).integers(0, 256, (150, 90), dtype=np.uint8)


class Lowered(flow.Map):
    """Each row becomes the one above it; the first stays."""

    max_bits = 8

    @property
    def halo(self) -> int:
        return 1

    def result(self, picture: Picture) -> tuple[tuple[int, ...], Any]:
        return (picture.height, picture.width), np.uint8

    def open(self, _session: runtime.Session, _scope: runtime.Scope, _picture: Picture) -> Any:
        return contextlib.nullcontext(flow.Steps(self.step, rows=4, reach=1))

    def step(self, session: runtime.Session, _scope: runtime.Scope, portion: flow.Portion) -> None:
        width, above = portion.picture.width, portion.row0 - portion.first
        if not above:
            session.copy(portion.out, portion.pixels, width)
        begin = 0 if above else width
        nbytes = portion.count - begin
        session.copy(portion.out, portion.pixels, nbytes, 0, begin)


class Mean(flow.Reduce):
    """The mean of all values."""

    max_bits = 8

    def step(self, session: runtime.Session, _scope: runtime.Scope, portion: flow.Portion) -> Any:
        values = session.download(portion.pixels, (portion.count,), np.uint8)
        return np.array([values.sum(dtype=np.int64), portion.count])

    def finish(self, state: Any) -> float:
        return float(state[0] / state[1])


class Remembered(flow.Scan):
    """Each row becomes the picture's first row: what a scan can pass on."""

    max_bits = 8

    def result(self, picture: Picture) -> tuple[tuple[int, ...], Any]:
        return (picture.height, picture.width), np.uint8

    @contextlib.contextmanager
    def open(self, _session: runtime.Session, scope: runtime.Scope, picture: Picture) -> Iterator[flow.Steps]:
        first = scope.empty(picture.width)

        def step(session: runtime.Session, scope: runtime.Scope, portion: flow.Portion) -> None:
            if portion.row0 + picture.origin[0] == 0:
                session.copy(first, portion.pixels, picture.width)
            for row in range(portion.row1 - portion.row0):
                session.copy(portion.out, first, picture.width, 0, row * picture.width)

        yield flow.Steps(step, carried=(first, picture.width))


JOBS: dict[str, tuple[Any, Any]] = {
    "map": (Lowered(), np.concatenate([GRAY[:1], GRAY[:-1]])),
    "reduction": (Mean(), GRAY.mean()),
    "scan": (Remembered(), np.broadcast_to(GRAY[0], GRAY.shape)),
}


def run(job: Any, image: Any, **given: Any) -> Any:
    done = flow.reduce if isinstance(job, flow.Reduce) else flow.run
    return done(job, image, queue=None, progress=given.pop("progress", None), **given)


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return JOBS[request.param]


def test_on_the_host_in_bands_and_lazily(job: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, expected = job
    assert np.array_equal(run(own, GRAY), expected)
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1800")
    told: list[tuple[int, int]] = []
    assert np.array_equal(run(own, GRAY, progress=lambda *step: told.append(step)), expected)
    assert len(told) > 5
    assert told[-1] == (150, 150)
    with pytest.raises(runtime.StoppedError, match=r"at .* of 150"):
        run(own, GRAY, progress=lambda done, _: done < 60)
    monkeypatch.delenv("CLQUANT_LIMITS")
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=9000")
    np.save(tmp_path / "gray.npy", GRAY)
    assert np.array_equal(run(own, np.load(tmp_path / "gray.npy", mmap_mode="r")), expected)


def test_on_the_device(job: Any, queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    own, expected = job
    there = pyopencl.array.to_device(queue, GRAY)
    for limits in ("", "max_alloc=13000"):
        monkeypatch.setenv("CLQUANT_LIMITS", limits)
        made = run(own, there)
        assert np.array_equal(made.get() if isinstance(made, pyopencl.array.Array) else made, expected)


@pytest.mark.parametrize("chunks", [(150, 90), (31, 40), (150, 7)])
def test_on_dask_arrays(job: Any, chunks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own, expected = job
    monkeypatch.setattr("clquant.dask.maps.PIXELS", 2000)
    with dask.config.set(scheduler="synchronous"):
        made = run(own, da.from_array(GRAY, chunks))
        assert isinstance(made, da.Array) != isinstance(own, flow.Reduce)
        assert np.array_equal(np.asarray(made), expected)


def test_results_go_where_the_caller_wants_them(tmp_path: pathlib.Path) -> None:
    own, expected = JOBS["map"]
    out = np.zeros_like(GRAY)
    for image in (GRAY, da.from_array(GRAY, (40, 90))):
        out[:] = 0
        assert run(own, image, out=out) is out
        assert np.array_equal(out, expected)
    with pytest.raises(runtime.InvalidArgument, match=r"out has shape \(1, 1\)"):
        run(own, GRAY, out=np.zeros((1, 1), np.uint8))
    assert run(own, GRAY, out=tmp_path / "a.tif") == tmp_path / "a.tif"
    assert np.array_equal(images.read(tmp_path / "a.tif").array[..., 0], expected)  # type: ignore[index]
