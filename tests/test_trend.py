"""The trend's page: figures of several runs, by commit."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from benchmarks import harness, trend


def run_file(folder: pathlib.Path, commit: str | None, day: int, ms: float, device: str = "a") -> pathlib.Path:
    table = harness.Table("Calls", {"call": "call", "n": "colours", "ms": "end to end, ms", "mark": "mark"})
    table.add(call="fit <a>", n=16, ms=ms, mark="slow" if ms > 1 else "")
    if day > 1:
        table.add(call="new", n=16, ms=1.0)
    content: dict[str, Any] = {"environment": {"date": f"2026-01-0{day}T00:00:00+00:00", "commit": commit}}
    content["tables"] = [{"title": f"Device limits: {device}", "columns": {}, "rows": []}, table.as_dict()]
    path = folder / f"run{day}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_figures_are_joined_over_the_runs_by_date(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [run_file(tmp_path, "c3", 3, 3.0), run_file(tmp_path, None, 1, 1.0), run_file(tmp_path, "c2", 2, 2.0)]
    runs = trend.runs_in_order(paths)
    assert [run["environment"]["commit"] for run in runs] == ["run1", "c2", "c3"]
    series = trend.series_of(runs)
    assert series == {
        ("Calls", "fit <a>, 16: end to end, ms"): [1.0, 2.0, 3.0],
        ("Calls", "new, 16: end to end, ms"): [None, 1.0, 1.0],
    }
    assert [ratio for _, _, ratio in trend.by_change(series)] == [2.0, 1.0]
    trend.main([*map(str, paths), "-o", str(tmp_path / "trend.html")])
    printed = capsys.readouterr().out
    assert "fit <a>" in printed
    assert "new" not in printed
    text = (tmp_path / "trend.html").read_text(encoding="utf-8")
    assert "fit &lt;a&gt;" in text
    assert text.count("<svg") == 2
    assert "http" not in text


def test_runs_of_two_devices_are_refused(tmp_path: pathlib.Path) -> None:
    paths = [run_file(tmp_path, "c1", 1, 1.0, "a"), run_file(tmp_path, "c2", 2, 1.0, "b")]
    with pytest.raises(SystemExit, match="the runs are of 2 devices, a; b; allowed: one"):
        trend.main([*map(str, paths)])
    paths[0].write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"run1\.json is no run of a benchmark"):
        trend.main([*map(str, paths)])
