"""clquant tune: it finds what is faster by a clock of its own, keeps it, forgets it, and refuses damaged files."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

from clquant import runtime
from clquant.cli import main, tune_search
from clquant.runtime.program import tuning

REAL_JOBS = tune_search.jobs


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
    monkeypatch.setattr(tune_search, "time", clock)

    def jobs(session: runtime.Session, side: int) -> Iterator[tune_search.Job]:
        def grouped() -> np.ndarray:
            clock.now += 1 + abs(session.tuned("mapping.group") - 16)
            return np.arange(3)

        def steady() -> np.ndarray:
            clock.now += 1 + 1e-4 * session.tuned("kmeans.group")
            return np.arange(4)

        yield tune_search.Job("map", ("mapping.group", "mapping.grid_pays"), (grouped,))
        yield tune_search.Job("learn", ("kmeans.group",), (steady,))

    monkeypatch.setattr(tune_search, "jobs", jobs)


def session() -> runtime.Session:
    return runtime.open_session()


def test_what_is_faster_is_kept_until_it_is_reset(own_file: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = session().tuned("kmeans.group")
    assert main(["tune"]) == 0
    shown = capsys.readouterr().err
    assert "mapping.group" in shown
    assert "mapping.grid_pays" not in shown
    assert session().tuned("mapping.group") == 16
    assert session().tuned("kmeans.group") == shipped
    assert tuning.read(own_file) == {runtime.describe(session().device): {"mapping.group": 16}}
    assert main(["tune", "--list"]) == 0
    assert "mapping.group" in capsys.readouterr().out
    assert main(["tune", "--reset"]) == 0
    assert session().tuned("mapping.group") == 64
    assert tuning.read(own_file) == {}


def test_quick_looks_at_neighbours_alone(own_file: pathlib.Path) -> None:
    assert main(["tune", "--quick"]) == 0
    assert session().tuned("mapping.group") == 32


def test_other_devices_are_kept(own_file: pathlib.Path) -> None:
    own_file.parent.mkdir()
    own_file.write_bytes(tuning.unparse({"another": {"kmeans.group": 2}}))
    assert main(["tune", "--quiet"]) == 0
    assert tuning.read(own_file)["another"] == {"kmeans.group": 2}
    assert len(tuning.read(own_file)) == 2


def test_a_dry_run_keeps_nothing(own_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["tune", "--dry-run"]) == 0
    assert not own_file.exists()
    monkeypatch.setenv("CLQUANT_CACHE_DIR", "")
    assert main(["tune", "--dry-run"]) == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_damaged_file_is_refused_and_reset_removes_it(
    own_file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_file.parent.mkdir()
    own_file.write_bytes(b"{")
    assert main(["tune"]) == 2
    assert "cannot be used: it is no JSON" in capsys.readouterr().err
    assert own_file.read_bytes() == b"{"
    assert main(["tune", "--reset"]) == 0
    assert tuning.read(own_file) == {}


@pytest.mark.parametrize(
    ("arguments", "cache", "message"),
    [
        (["--reset", "--list"], None, "exclude each other"),
        ([], "", "CLQUANT_CACHE_DIR is empty"),
        (["--device", "abacus"], None, "abacus"),
    ],
)
def test_wrong_calls(
    arguments: list[str],
    cache: str | None,
    message: str,
    own_file: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if cache is not None:
        monkeypatch.setenv("CLQUANT_CACHE_DIR", cache)
    assert main(["tune", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_unwritable_folder_is_one_sentence(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert main(["tune"]) == 2
    assert "cannot be used: it cannot be read" in capsys.readouterr().err


def test_results_that_differ_are_an_error(own_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs(session: runtime.Session, side: int) -> Iterator[tune_search.Job]:
        yield tune_search.Job("map", ("mapping.group",), (lambda: np.array(session.tuned("mapping.group")),))

    monkeypatch.setattr(tune_search, "jobs", jobs)
    with pytest.raises(
        runtime.DeviceError, match=r"map: results differ with mapping.group=\d+; the driver is at fault"
    ):
        tune_search.tune(session().queue, True, runtime.Progress(None))


def test_every_parameter_is_decided_by_one_job() -> None:
    decided: list[str] = []
    for job in REAL_JOBS(session(), 576):
        decided += job.names
        assert all(call() is not None for call in job.calls)
    assert sorted(decided) == sorted(tuning.NAMES)
