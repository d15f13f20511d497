"""The commands that compare runtimes leave out what is optional, and nothing that must be seen."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable

import pytest

from clquant import runtime
from clquant.runtime.program import programs
from portability import agree, compilers, forms, matrix, offline, reports, suite
from portability.programs import FORMS, NEED_DOUBLES, NOT_BUILT, Build, load, recorded, save, unbuilt
from portability.reports import KeptReports, Report
from portability.runtimes import RUNTIMES, Runtime, UnavailableError

FOLDER = programs.kernel_folder()
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.cl"))


def test_a_kernel_file_that_no_job_builds_is_named() -> None:
    assert set(NOT_BUILT) <= set(FILES)
    builds = [Build(file, ()) for file in FILES if file != "kmeans/points.cl"]
    assert unbuilt(builds) == ["kmeans/points.cl"]


def test_what_jobs_build_is_recorded_and_kept(tmp_path: pathlib.Path) -> None:
    with recorded() as found:
        runtime.open_session().program("kmeans/points.cl", SPACE=0, SPACE_ALPHA=1)
    assert found == {Build("kmeans/points.cl", (("SPACE", 0), ("SPACE_ALPHA", 1)))}
    save(found, tmp_path / "builds")
    assert load(tmp_path / "builds") == found


def test_files_with_doubles_are_known() -> None:
    folder = programs.kernel_folder()
    with_pragma = [path for path in folder.rglob("*.cl") if "EXTENSION cl_khr_fp64" in path.read_text(encoding="utf-8")]
    assert sorted(path.relative_to(folder).as_posix() for path in with_pragma) == sorted(NEED_DOUBLES)


def test_every_file_and_every_constant_of_a_gpus_form_is_compiled_first() -> None:
    builds = {
        Build(file, (("N", n),)): form
        for file, n, form in (("a.cl", 1, "portable"), ("a.cl", 2, "GPU"), ("a.cl", 3, "CPU"), ("b.cl", 1, "CPU"))
    }
    assert set(builds.values()) == set(FORMS)
    found = [*compilers.AMD, *compilers.INTEL]
    planned = offline.tasks(builds, found)
    assert len(planned) == len(builds) * len(found)
    assert [task.order for task in planned] == sorted(task.order for task in planned)
    first = {(str(task.build).strip(), task.target) for task in planned if task.order == 0}
    assert first == {
        *(("a.cl N=1", target) for target in found),
        *(("b.cl N=1", target) for target in found),
        ("a.cl N=2", compilers.AMD[0]),
        ("a.cl N=2", compilers.INTEL[0]),
    }


def test_past_the_time_only_what_is_optional_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers.Compilers, "report", lambda _, build, target, **__: Report(build, target))
    tasks = [offline.Task(order, Build("a.cl", ()), "GPU", "skl") for order in (0, 0, 1, 2)]
    done, left = offline.run(tasks, 2, -1.0, KeptReports(None), {"skl": ""})
    assert [task.order for task, _ in done] == [0, 0]
    assert left == 2


def test_what_was_compiled_before_is_read_and_not_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    compiled: list[tuple[Build, str, bool]] = []

    def compile_one(_: compilers.Compilers, build: Build, target: str, *, optimized: bool) -> Report:
        compiled.append((build, target, optimized))
        return Report(build, target, {"kernel": {"VGPRs": "8"}}, ["spills"], failed=False)

    monkeypatch.setattr(compilers.Compilers, "report", compile_one)
    builds = [Build("kmeans/points.cl", (("SPACE", n),)) for n in range(2)]
    tasks = [offline.Task(2, build, "CPU", target) for build in builds for target in ("skl", "dg2")]
    kept, compiler = KeptReports(tmp_path / "kept"), {"skl": "one", "dg2": "one"}
    first, left = offline.run(tasks, 2, 60.0, kept, compiler)
    assert (len(first), left, len(compiled)) == (4, 0, 4)
    assert offline.run(tasks, 2, -1.0, kept, compiler) == (first, 0), "though there is no time"
    assert len(compiled) == 4
    _, left = offline.run(tasks, 2, -1.0, kept, {"skl": "one", "dg2": "another version"})
    assert left == 2

    as_a_gpu = [dataclasses.replace(task, form="GPU") for task in tasks]
    assert offline.run(as_a_gpu, 2, -1.0, kept, compiler) == ([], 4), "what is optimized is another thing"
    assert {optimized for *_, optimized in compiled} == {False}

    for file in (tmp_path / "kept").iterdir():
        file.write_text("damaged")
    again, _ = offline.run(tasks, 2, 60.0, kept, compiler)
    assert (again, len(compiled)) == (first, 8)


def test_a_source_is_known_without_clang_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "CLANG", "no-such-clang")
    assert reports.essence("int a; // without it, whatever is written") == "int a; // without it, whatever is written"


def test_a_library_is_cut_down_to_what_sources_name_and_that_calls() -> None:
    functions = {name: f"define void @{name}() {{\n  {body}\n}}\n" for name, body in (
        ("_Z3maxii", "call void @clc_max()"), ("clc_max", "ret void"), ("_Z3sinf", "ret void"), ("barrier", "ret void")
    )}  # fmt: skip
    module = "target = 1\n" + "\n".join(functions.values()) + "attributes = 2\n"
    kept = compilers.with_functions_of(module, {"max", "barrier", "kernel"})
    assert [name for name in functions if functions[name] in kept] == ["_Z3maxii", "clc_max", "barrier"]
    assert "target = 1\n" in kept
    assert "attributes = 2\n" in kept


def _options(timeout: float = 600) -> argparse.Namespace:
    return argparse.Namespace(folder=pathlib.Path(), fetch=False, only="", record=None, programs=None, timeout=timeout)


def _missing(folder: pathlib.Path, fetch: bool) -> dict[str, str]:
    raise UnavailableError("the network is down")


@pytest.mark.parametrize("required", [False, True])
def test_a_runtime_that_cannot_be_had_fails_only_where_it_is_required(required: bool) -> None:
    own = Runtime("other", "Other", _missing, required=required)
    (outcome,) = matrix.runtime_outcomes(own, _options(), time.monotonic() + 600)
    assert outcome.wrong == required
    assert "the network is down" in outcome.verdict


def test_an_optional_runtime_is_left_out_when_the_time_is_over() -> None:
    own = Runtime("other", "Other", _missing)
    (outcome,) = matrix.runtime_outcomes(own, _options(), time.monotonic() - 1)
    assert not outcome.wrong
    assert "left out" in outcome.verdict


@pytest.mark.full
def test_a_process_that_differs_fails_and_a_slow_one_only_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = RUNTIMES[0]
    setting = matrix.Setting("one", dataclasses.replace(own, device="no such device"), {})
    assert matrix.run(setting, _options(), 600).wrong
    untrusted = dataclasses.replace(setting.runtime, trusted=False)
    assert not matrix.run(dataclasses.replace(setting, runtime=untrusted), _options(), 600).wrong
    for required in (False, True):
        slow = dataclasses.replace(own, required=required)
        assert matrix.run(dataclasses.replace(setting, runtime=slow), _options(), 0.01).wrong == required


def test_where_no_other_runtime_can_be_had_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Runtime("other", "Other", _missing)
    monkeypatch.setattr(matrix, "RUNTIMES", (RUNTIMES[0], other))
    monkeypatch.setattr(suite, "RUNTIMES", (RUNTIMES[0], other))
    for command in (matrix, suite):
        assert command.main(["--runtime", "other"]) == 0
        assert "the network is down" in capsys.readouterr().out


def _parts(*files: str) -> list[suite.Part]:
    return [suite.Part(RUNTIMES[0], {}, file, 3) for file in files]


@pytest.mark.full
def test_tests_that_fail_or_are_late_are_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = _parts("tests/test_there_is_none.py", "tests/kmeans/test_box_cut.py")
    found = [*suite.outcomes(planned[:1], tmp_path, 1, time.monotonic() + 600)]
    found += suite.outcomes(planned[1:], tmp_path, 1, time.monotonic() - 1)
    assert [outcome.passed for outcome in found] == [False, None]
    assert "test_there_is_none.py: FAILED" in capsys.readouterr().out
    told = suite.report(RUNTIMES[0], found)
    assert "3 tests in 1 files, 1 files failed" in told
    assert "left out for want of time: tests/kmeans/test_box_cut.py (3 tests)" in told


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (lambda: {"same": b""}, ""),
        (lambda: {"limits": os.environ.get("CLQUANT_LIMITS", "").encode()}, "work_group="),
        (lambda: {}["nothing"], "WRONG KeyError"),
    ],
)
def test_jobs_that_do_not_agree_are_told(
    monkeypatch: pytest.MonkeyPatch, result: Callable[[], dict[str, bytes]], told: str
) -> None:
    monkeypatch.setattr(agree, "ENGINES", [lambda _: ("job", lambda _: result())])
    found = agree.case(1, 2, [runtime.default_device()])
    assert told in found if told and found else found is None


def test_forced_forms_are_run_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, job = runtime.default_queue(), next(job for job in forms.JOBS if job.name == "map 7")
    admitted = {form for form, variant in forms.forms().items() if variant.admits(runtime.open_session(queue).limits)}
    found = forms.run(queue, [job])
    assert set(found) == admitted
    assert found["lanes", "mapping/nearest_lanes.cl"] == [("map 7", True)]
    assert found["lanes", "training/search_lanes.cl"] == []
    monkeypatch.setattr(forms, "golden", lambda: {"map 7": "another"})
    assert forms.run(queue, [job])["lanes", "mapping/nearest_lanes.cl"] == [("map 7", False)]
