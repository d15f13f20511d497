"""Every public call has a row in the sweep of `benchmarks`, or a reason to have none."""

from __future__ import annotations

import pathlib

import numpy as np

from benchmarks import sweep, sweep_rows
from benchmarks.sweep_case import Case
from clquant import runtime


def test_every_public_call_has_a_row(tmp_path: pathlib.Path) -> None:
    case = Case(np.zeros((4, 4, 3), np.uint8), runtime.default_queue(), tmp_path)
    rows = list(sweep_rows.rows(case))
    missing = sweep.without_row(rows)
    assert missing == [], (
        f"add a row in benchmarks/sweep_rows.py, or a reason in LEFT_OUT of benchmarks/sweep.py: {missing}"
    )
    names = [row.name for row in rows]
    assert sorted(set(names)) == sorted(names)


def test_no_reason_is_left_over(tmp_path: pathlib.Path) -> None:
    calls = set(sweep.public_calls())
    homes = {name.rpartition(".")[0] for name in calls}
    assert [name for name in sweep.LEFT_OUT if name not in calls | homes | {"runtime"}] == []
    case = Case(np.zeros((4, 4, 3), np.uint8), runtime.default_queue(), tmp_path)
    private = {
        "ColorHistogram.__add__",
        "ColorHistogram.__sub__",
        "IndexedImage",
        "IndexedImage._repr_png_",
        "Quadtree.levels",
    }
    assert {row.of for row in sweep_rows.rows(case)} - calls <= private


def test_rows_are_timed_at_each_size_and_marked() -> None:
    queue = runtime.default_queue()
    times = {"a": [0.1, 3.2], "b": [0.1, 0.2], "c": [0.0001]}
    table = sweep.table_of({k: [sweep.Took(t, t / 2) for t in v] for k, v in times.items()}, (512, 1024), queue)
    assert table.rows[0]["call"] == "a"
    marks = {row["call"]: row["mark"] for row in table.rows}
    assert marks["a"] == "slow grows"
    assert "grows" not in str(marks["b"])
    assert table.rows[0]["growth"] == 8.0
