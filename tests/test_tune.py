"""The tuner: it finds what is faster by a clock of its own, keeps it, and refuses results that differ."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import tune
from benchmarks.measure import tuning as search
from clquant import runtime
from clquant.runtime.program import tuning

REAL_JOBS = search.jobs


class Clock:
    """Stands for `time`: it moves when a job says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def own_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path / "cache"))
    tuning.forget()
    yield tmp_path / "cache" / tuning.FILE
    tuning.forget()


@pytest.fixture(autouse=True)
def _jobs_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is fastest with groups of 16 and does not read the other parameter; one that nothing makes faster."""
    clock = Clock()
    monkeypatch.setattr(search, "time", clock)
    monkeypatch.setattr(search, "gc", SimpleNamespace(collect=list))  # which takes long where many tests have run

    def jobs(session: runtime.Session, side: int) -> Iterator[search.Job]:
        def grouped() -> np.ndarray:
            clock.now += 1 + abs(session.tuned("mapping.group") - 16)
            return np.arange(3)

        def steady() -> np.ndarray:
            clock.now += 1 + 1e-4 * session.tuned("kmeans.group")
            return np.arange(4)

        yield search.Job("map", ("mapping.group", "mapping.grid_pays"), (grouped,))
        yield search.Job("learn", ("kmeans.group",), (steady,))

    monkeypatch.setattr(search, "jobs", jobs)


def session() -> runtime.Session:
    return runtime.open_session()


def test_what_is_faster_is_kept_until_it_is_removed(own_file: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = session().tuned("kmeans.group")
    tune.main([])
    shown = capsys.readouterr().out
    assert "mapping.group" in shown
    assert "mapping.grid_pays" not in shown
    assert session().tuned("mapping.group") == 16
    assert session().tuned("kmeans.group") == shipped
    assert tuning.read(own_file) == {runtime.describe(session().device): {"mapping.group": 16}}
    own_file.unlink()
    tuning.forget()
    assert session().tuned("mapping.group") == 64


def test_quick_looks_at_neighbours_alone(own_file: pathlib.Path) -> None:
    tune.main(["--quick"])
    assert session().tuned("mapping.group") == 32


def test_other_devices_are_kept(own_file: pathlib.Path) -> None:
    own_file.parent.mkdir()
    own_file.write_bytes(tuning.unparse({"another": {"kmeans.group": 2}}))
    tune.main([])
    assert tuning.read(own_file)["another"] == {"kmeans.group": 2}
    assert len(tuning.read(own_file)) == 2


def test_a_dry_run_keeps_nothing(own_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune.main(["--dry-run"])
    assert not own_file.exists()
    monkeypatch.setenv("CLQUANT_CACHE_DIR", "")
    tune.main(["--dry-run"])


def test_a_damaged_file_and_no_folder_are_refused(own_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_file.parent.mkdir()
    own_file.write_bytes(b"{")
    with pytest.raises(runtime.FormatError, match="it is no JSON"):
        tune.main([])
    assert own_file.read_bytes() == b"{"
    monkeypatch.setenv("CLQUANT_CACHE_DIR", "")
    with pytest.raises(runtime.InvalidArgument, match="CLQUANT_CACHE_DIR is empty"):
        tune.main([])


def test_results_that_differ_are_an_error(own_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs(session: runtime.Session, side: int) -> Iterator[search.Job]:
        yield search.Job("map", ("mapping.group",), (lambda: np.array(session.tuned("mapping.group")),))

    monkeypatch.setattr(search, "jobs", jobs)
    with pytest.raises(
        runtime.DeviceError, match=r"map: results differ with mapping.group=\d+; the driver is at fault"
    ):
        search.tune(session().queue, True, runtime.Progress(None))


@pytest.mark.full
def test_every_parameter_is_decided_by_one_job() -> None:
    decided: list[str] = []
    for job in REAL_JOBS(session(), 576):
        decided += job.names
        assert all(call() is not None for call in job.calls)
    assert sorted(decided) == sorted(tuning.NAMES)
