"""What the benchmarks share: tables to JSON and back, time budgets, verdicts, peers that find the right neighbours."""

from __future__ import annotations

import json
import pathlib
import time

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import array_peers, figures, forms, growth, harness, methods, papers, peers
from clquant import runtime
from clquant.runtime.program import variants


def test_tables_come_back_from_json() -> None:
    table = harness.Table("Title", {"a": "first", "b": "second"}, note="A note.")
    table.add(a="x", b=1.5)
    again = harness.table_from(json.loads(json.dumps(table.as_dict())))
    assert again.text() == table.text()


def test_no_measurement_begins_after_the_deadline() -> None:
    calls: list[int] = []
    over = harness.Options(deadline=time.perf_counter() - 1)
    assert over.median_ms(lambda: calls.append(1)) is None
    assert calls == []
    assert harness.Options(repeat=3).median_ms(lambda: calls.append(1)) is not None
    assert len(calls) == 6


@pytest.mark.full
def test_growth_runs_at_every_number() -> None:
    options = harness.Options(repeat=1, largest=256, quick=True)
    tables = list(growth.by_number(options, harness.synthetic_photo(40, 40)))
    assert len(tables) == 3
    assert tables[0].rows


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # of asyncio, at the end of processes
def test_dask_is_measured_beside_the_plain_call(tmp_path: pathlib.Path) -> None:
    from benchmarks import dask, plots

    options, photo = harness.Options(repeat=1, quick=True, largest=48), harness.synthetic_photo(40, 40)
    one, several = dask.overhead(options, photo), dask.scaling(options, photo)
    assert len(one.rows) == len(several.rows) == 7
    assert all(row["ratio"] > 0 for row in [*one.rows, *several.rows])
    content = {"tables": [{"title": "Device limits: x"}, several.as_dict()]}
    assert [path.name for path in plots.draw(content, tmp_path, "cpu")] == ["benchmark_cpu_scaling.png"]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_several_devices_are_measured_beside_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import dask_devices

    monkeypatch.setenv(dask_devices.VARIABLE, "0,0")
    (table,) = dask_devices.run(harness.Options(repeat=1, quick=True))
    count = len(table.rows) // 4
    assert [row["x"] for row in table.rows] == [1, 2] * count + [1] * count + [2] * count
    assert count == 8
    assert all(row["rate"] > 0 for row in table.rows)
    over = harness.Options(repeat=1, quick=True, deadline=time.perf_counter() - 1)
    (table,) = dask_devices.run(over)
    assert table.rows == []
    assert table.note.count("one queue)") == count


@pytest.mark.full
def test_folders_are_measured() -> None:
    from benchmarks import folders

    (table,) = folders.run(harness.Options(repeat=1, quick=True))
    assert [row["same"] for row in table.rows] == ["yes"] * len(folders.WAYS)


def test_a_peer_that_fails_is_named(rng: np.random.Generator) -> None:
    def fails() -> None:
        raise ValueError("no such mood")

    picture = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    found = [harness.Method("a peer", fails), harness.Method("another", lambda: picture, None, np.asarray)]
    rows = peers.compared(harness.Options(repeat=1), "Title", picture, found).rows
    assert rows[0] == {"method": "a peer: failed"}
    assert rows[1]["mse"] == 0
    with pytest.raises(ValueError, match="no such mood"):
        peers.compared(harness.Options(), "Title", picture, [harness.Method("clquant", fails)])


def test_enlarged_pictures_have_many_colours() -> None:
    small = harness.synthetic_photo(32, 32)
    large = harness.photo_of_size(small, 200, 170)
    assert large.shape == (200, 170, 3)
    assert len(np.unique(large.reshape(-1, 3), axis=0)) > 10_000
    assert abs(large.mean() - small.mean()) < 2
    assert harness.photo_of_size(small, 16, 8).shape == (16, 8, 3)


def test_verdicts(queue: runtime.CommandQueue) -> None:
    made = figures.Figures(harness.Options())
    made.at_most("part", "low", 2, 2.0)
    made.at_most("part", "low", 2, 2.1)
    made.at_least("part", "high", 2, 2.0)
    made.at_least("part", "high", 2, None)
    assert [row["reached"] for row in made.table.rows] == ["yes", "no", "yes", "peer missing"]


def test_figures_of_several_runs_stand_side_by_side() -> None:
    runs = []
    for name, value in (("A", 1.0), ("B", 3.0)):
        table = harness.Table(f"Figures, {name}", figures.COLUMNS)
        reached = "yes" if value < 2 else "no"
        table.add(part="VQ", figure="time", aim="at most 2", measured=value, reached=reached)
        table.add(part="VQ", figure=f"of {name}", aim="at most 2", measured=None, reached="peer missing")
        runs.append({"tables": [table.as_dict()]})
    table = figures.side_by_side(runs)
    assert list(table.columns.values())[-2:] == ["A", "B"]
    assert table.rows[0] == {"part": "VQ", "figure": "time", "aim": "at most 2", "d0": "1", "d1": "3, missed"}
    assert len(table.rows) == 3


def test_what_there_is_no_time_for_is_named() -> None:
    made = figures.Figures(harness.Options(deadline=time.perf_counter() - 1))

    def step(_: figures.Figures) -> None:
        """A slow thing."""
        raise AssertionError

    made.measure([step])
    assert made.table.note == " No time left for: A slow thing."


def test_array_peers_find_the_nearest(rng: np.random.Generator) -> None:
    points, centers = (rng.integers(0, 256, (n, 3), dtype=np.uint8) for n in (50, 7))
    expected = ((points[:, None].astype(int) - centers) ** 2).sum(2)
    found = array_peers.with_arrays(np, points, centers, 40)
    assert np.array_equal(expected[np.arange(50), found], expected.min(1))


@pytest.mark.full
@pytest.mark.parametrize("job", [methods.palettes, methods.mapping, methods.vq, methods.halftones, methods.quadtrees])
def test_our_methods_give_pictures(queue: runtime.CommandQueue, job: methods.Job) -> None:
    picture = harness.synthetic_photo(32, 32)
    found = [method for method in job(picture, 8, runtime.profiling_queue(queue.device)) if "clquant" in method.name]
    table = peers.compared(harness.Options(repeat=1), "Title", picture, found)
    assert len(table.rows) == len(found)
    assert all(row["ms"] > 0 and row["kernel_ms"] > 0 and row["mse"] >= 0 for row in table.rows)


def test_a_run_is_printed_again_from_its_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = harness.Table("Title", {"a": "first"})
    path = tmp_path / "out.json"
    harness.show([table], path)
    shown = capsys.readouterr().out
    command.main(["--from", str(path)])
    assert capsys.readouterr().out == shown


def test_topics_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.parsed(["speed"])
    assert "no topic 'speed'" in capsys.readouterr().err
    assert command.parsed([]).topics == ["peers", "growth"]
    assert {"figures", "limits", "papers"} <= set(command.parsed(["all"]).topics)


def test_a_blocked_form_gives_way_to_the_next(device: object) -> None:
    limits = runtime.Limits.of(device)
    first, second = variants.Variant("lanes", "a.cl"), variants.Variant("portable", "b.cl")
    with forms.Choices() as choices:
        assert variants.choose((first, second), limits) is first
        choices.blocked = {("lanes", "a.cl")}
        assert variants.choose((first, second), limits) is second
    assert variants.choose((first, second), limits) is first
    assert choices.chosen == {("lanes", "a.cl"), ("portable", "b.cl")}


@pytest.mark.full
def test_every_room_with_forms_has_calls_that_are_timed(queue: runtime.CommandQueue) -> None:
    names = forms.jobs(queue, harness.synthetic_photo(64, 64))
    for name, file in forms.forms_of(runtime.Limits.of(queue.device)):
        words = forms.CALLS_PER_ROOM[file.split("/")[0]]
        assert any(job.startswith(words) for job in names), (name, file)


@pytest.mark.full
def test_jobs_of_the_papers_run() -> None:
    options = harness.Options(repeat=1, largest=64, quick=True)
    tables = [make(options, harness.synthetic_photo(40, 40)) for make in (papers.vq, papers.pinwheel, papers.quadtree)]
    assert [len(table.rows) for table in tables] == [1, 2, 1]
    assert all(row[name] > 0 for row in tables[0].rows for name in ("ms", "kernel_ms", "decode_ms"))
