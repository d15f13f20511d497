"""The command with ``--jobs``: files and messages are those of one process."""

from __future__ import annotations

import filecmp
import json
import os
import pathlib
from collections import namedtuple
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np
import PIL.Image
import pytest

from clquant import cli
from clquant.cli import executors
from clquant.runtime import ClquantError
from tests.lowering import lower


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for i, name in enumerate(("a.png", "b.png", "sub/c.png", "d.png")):
        values = np.random.default_rng(i).integers(0, 9, (24 + i, 33, 3), np.uint8) * np.uint8(28)
        PIL.Image.fromarray(values).save(tmp_path / "in" / name)
    (tmp_path / "in" / "bad.png").write_text("no picture")
    return tmp_path


def _told(text: str) -> Any:
    found = json.loads(text)
    for each in found["results"]:
        del each["seconds"]
        each["output"] = each["output"].partition("/")[2]
    return found


@pytest.mark.full
def test_files_and_messages_are_those_of_one_process(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for jobs in ("1", "2"):
        command = ["palette", "in", "-k", "5", "--dither", "bayer", "--jobs", jobs, "-o", f"out{jobs}", "--json"]
        assert cli.main(command) == 1
        out = capsys.readouterr()
        told.append((_told(out.out), out.err))
    assert told[0] == told[1]
    assert "in/bad.png" in told[1][1]
    names = [str(path.relative_to(folder / "out1")) for path in (folder / "out1").rglob("*.png")]
    assert len(names) == 4
    assert filecmp.cmpfiles(folder / "out1", folder / "out2", names, shallow=False)[0] == names


def test_what_a_process_leaves_undone_is_done_here(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: Future[Any] = Future()
    broken.set_exception(BrokenProcessPool("a process was ended"))
    monkeypatch.setattr(Executor, "submit", lambda *_: broken)
    monkeypatch.setattr(executors, "ProcessPoolExecutor", lambda *_, **__: Executor())
    assert cli.main(["palette", "in/a.png", "in/b.png", "-k", "5", "--jobs", "2", "-o", "out", "-q"]) == 0
    assert sorted(os.listdir("out")) == ["a-5.png", "b-5.png"]


def test_a_result_that_is_left_out_is_said(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken: Future[Any] = Future()
    broken.set_exception(BrokenProcessPool("a process was ended"))
    monkeypatch.setattr(Executor, "submit", lambda *_: broken)
    monkeypatch.setattr(executors, "ProcessPoolExecutor", lambda *_, **__: Executor())
    PIL.Image.new("RGB", (90, 90)).save("flat.webp")
    given = ["palette", "flat.webp", "in/a.png", "-k", "5", "--skip-if-larger", "--jobs", "2", "-o", "out", "--json"]
    assert cli.main(given) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert (results[0]["input"], results[0]["skipped"]) == ("flat.webp", "larger")
    assert (results[1]["input"], results[1]["output"]) == ("in/a.png", "out/a-5.png")


def test_an_interrupt_leaves_nothing_partial(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Future[Any]] = []

    def submit(*_: Any) -> Any:
        waiting.append(Future())
        if len(waiting) == 1:
            waiting[0].set_exception(KeyboardInterrupt())
        return waiting[-1]

    ends = []

    def begin(*_: Any, initargs: Any, **__: Any) -> Executor:
        ends.append(initargs[1])
        return Executor()

    monkeypatch.setattr(Executor, "submit", submit)
    monkeypatch.setattr(executors, "ProcessPoolExecutor", begin)
    assert cli.main(["palette", "in", "-k", "5", "--jobs", "2", "-o", "new/out", "-q"]) == 130
    assert not any(future.cancelled() for future in waiting[1:])  # the pool would fail at them
    assert not (folder / "new").exists()
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    executors._end_with_command(ends[0])  # in a worker
    assert ended == [1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--jobs", "0"], "--jobs is 0; allowed: 1 to 64"),
        (["--jobs", "65"], "--jobs is 65; allowed: 1 to 64"),
        (["--jobs", "2", "--cluster", "local"], "--jobs and --cluster are given"),
        (["--jobs", "2", "--method", "neuquant", "--sample-factor", "99"], "clquant: --sample-factor is 99; allowed"),
        (["--jobs", "2", "--shared"], "--shared and --jobs are given"),
        (["--jobs", "2", "--stats"], "--stats and --jobs are given"),
    ],
)
def test_what_does_not_go_is_refused(
    folder: pathlib.Path, given: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["palette", "in/a.png", "in/b.png", "in/d.png", "-k", "5", "-o", "new/out", *given]) == 2
    told = capsys.readouterr().err
    assert text in told
    assert told.count("\n") == 1
    assert not (folder / "new").exists()


def test_many_pictures_share_the_cores_of_a_cpu(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def begin(jobs: int, *_: Any, **__: Any) -> Any:
        started.append(jobs)
        raise ClquantError("enough is known")

    limits = namedtuple("limits", "is_cpu is_pocl compute_units")
    cases = (
        (limits(True, True, 3), [], 2),
        (limits(True, True, 1), [], None),
        (limits(True, False, 99), [], None),
        (limits(True, False, 3), ["--jobs", "64"], 3),
        (limits(True, True, 99), ["--jobs", "64"], 4),
        (limits(False, False, 99), ["--jobs", "64"], None),
    )
    for made, given, jobs in cases:
        monkeypatch.setattr(executors, "open_session", lambda _, made=made: namedtuple("session", "limits")(made))
        monkeypatch.setattr(executors, "ProcessPoolExecutor", begin)
        monkeypatch.setattr(executors, "_LEAST_BYTES", 0)
        inputs = ["in/a.png", "in/b.png", "in/d.png", "in/sub/c.png"]
        assert cli.main(["palette", *inputs, "-k", "5", "-o", "out", "-q", *given]) == (0 if jobs is None else 2)
        assert started == ([] if jobs is None else [jobs])
        started.clear()


@pytest.mark.full
def test_a_gpu_has_one_process_with_threads(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["palette", "in", "-k", "5", "--jobs", "1", "-o", "one", "--json"]) == 1
    expected = capsys.readouterr()
    monkeypatch.setattr(executors, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("processes were started"))
    lower(monkeypatch, is_cpu=0, folders__bytes=4 * 33 * 25)  # one picture at a time, or one that is larger
    assert cli.main(["palette", "in", "-k", "5", "--jobs", "8", "-o", "other", "--json"]) == 1
    found = capsys.readouterr()
    assert (_told(found.out), found.err) == (_told(expected.out), expected.err)
    names = [str(path.relative_to(folder / "one")) for path in (folder / "one").rglob("*.png")]
    assert filecmp.cmpfiles(folder / "one", folder / "other", names, shallow=False)[0] == names
    assert len(names) == 4
    assert cli.main(["palette", "in/a.png", "in/b.png", "-k", "0", "-o", "new/out"]) == 2
    assert not (folder / "new").exists()


def test_few_small_pictures_stay_in_one_process(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("processes were started"))
    assert cli.main(["palette", "in/a.png", "in/b.png", "in/d.png", "in/sub/c.png", "-k", "5", "-o", "out", "-q"]) == 0
