"""`clquant devices --check`: golden jobs on each device, and what becomes of devices that fail them."""

from __future__ import annotations

import json
import pathlib
import platform
import signal
import subprocess
import warnings

import numpy as np
import pytest

from clquant import check, runtime
from clquant.cli import main
from clquant.cli.commands import devices
from clquant.runtime.device import discovery, fitness


@pytest.fixture(autouse=True)
def _own_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path))
    fitness.forget()
    monkeypatch.setattr(fitness, "_warned", set())
    yield
    fitness.forget()


@pytest.mark.parametrize("name", check.JOBS)
def test_golden_jobs(queue: runtime.CommandQueue, name: str) -> None:
    outcome = check.check(queue, name)
    assert (outcome.error, outcome.right) == ("", True)
    assert outcome.digest == check.expected()[name]


def test_every_job_has_its_hash() -> None:
    assert set(check.expected()) == set(check.JOBS)


@pytest.mark.full
def test_the_report(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    assert main(["devices", "--check", "--only", "0", "--json", "--report", str(file)]) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report == json.loads(capsys.readouterr().out)
    assert report["passed"] is True
    assert set(report["machine"]) >= {"clquant", "Python", "PyOpenCL", "processor"}
    (device,) = report["devices"]
    assert device["unfit"] == ""
    assert all(device[name] for name in ("device", "driver", "version", "limits"))
    assert [job["job"] for job in device["jobs"]] == list(check.JOBS)
    assert all(job["right"] and len(job["digest"]) == 64 for job in device["jobs"])


@pytest.mark.parametrize(
    ("again", "around"), [("", "CLQUANT_VARIANT=portable gives right results"), ("crash", "use another device")]
)
def test_an_unfit_device(
    again: str, around: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [{"job": "VQ", "digest": "0" * 64, "right": not again, "first_ms": 1.0, "again_ms": 1.0, "error": "differs"}]

    def outcomes(number: int, environment: dict[str, str]) -> object:
        return jobs, again if environment else "VQ differs"

    monkeypatch.setattr(devices, "_outcomes", outcomes)
    assert main(["devices", "--check", "--only", "0"]) == 1
    shown = capsys.readouterr().out
    assert f"UNFIT: VQ differs; {around}" in shown
    device = runtime.list_devices()[-1]
    for _ in range(2):  # as kept in this process, and as read anew
        assert around in fitness.unfit(device)
        fitness.forget()
    with pytest.warns(RuntimeWarning, match="is unfit: VQ differs; "):
        runtime.default_queue(device)
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        runtime.default_queue(device)
    monkeypatch.setattr(devices, "_outcomes", lambda *_: (jobs, ""))
    assert main(["devices", "--check"]) == 0
    assert fitness.unfit(device) == ""


def test_a_report_is_written_whole_or_not_at_all(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    check_first = ["devices", "--check", "--only", "0", "--report"]
    monkeypatch.setattr(devices, "_outcomes", interrupted)
    assert main([*check_first, str(tmp_path / "stopped.json")]) == 130
    assert main([*check_first, str(tmp_path / "none" / "a.json")]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert not [file.name for file in tmp_path.iterdir() if "stopped" in file.name]
    monkeypatch.setattr(devices, "_outcomes", lambda *_: ([], "VQ differs"))
    assert main([*check_first, str(tmp_path / "wrong.json")]) == 1
    assert json.loads((tmp_path / "wrong.json").read_text(encoding="utf-8"))["passed"] is False


def test_unfit_devices_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    before = runtime.list_devices()
    monkeypatch.setattr(discovery, "unfit", lambda device: "wrong" if device == before[0] else "")
    assert runtime.list_devices() == [*before[1:], before[0]]


def test_a_process_that_crashes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.sys, "executable", "/bin/sh")
    assert devices._outcomes(0, {})[1].startswith("its process ended with ")


def test_processes_that_end_otherwise_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.CompletedProcess([], -signal.SIGSEGV, stdout=b"", stderr=b"first\nlast")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    assert devices._outcomes(0, {}) == ([], "its process was ended by SIGSEGV (last)")

    def hung(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("clquant", 600)

    monkeypatch.setattr(subprocess, "run", hung)
    assert devices._outcomes(0, {}) == ([], "its jobs were not done after 600 s")


def test_jobs_that_fail_or_differ_from_time_to_time(
    queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = iter([b"one", b"other"])

    def failing(_: runtime.CommandQueue) -> check.Arrays:
        raise runtime.BuildError("no compiler")

    def changing(_: runtime.CommandQueue) -> check.Arrays:
        return {"made": np.frombuffer(next(results), np.uint8)}

    monkeypatch.setattr(check, "JOBS", {"fails": failing, "changes": changing})
    assert check.check(queue, "fails").error == "BuildError: no compiler"
    assert check.check(queue, "changes").error == "differs from time to time"


def test_the_processor_where_the_system_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("builtins.open", missing)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert check.processor() == "riscv64"


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": {}}', b"\xff"])
def test_damaged_files_tell_nothing(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / fitness.FILE).write_bytes(content)
    assert fitness.unfit(runtime.list_devices()[0]) == ""


def test_a_wrong_result_is_seen(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "expected", lambda: dict.fromkeys(check.JOBS, "0" * 64))
    assert check.check(queue, "mapping").error == "differs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "0"], "--only is given without --check"),
        (["--report", "a.json"], "--report is given without --check"),
        (["--check", "--only", "99"], "--only is 99; allowed: "),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", *arguments]) == 2
    assert message in capsys.readouterr().err
