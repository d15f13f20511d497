"""How figures went from commit to commit: a page from the JSON of several runs.

`python -m benchmarks.trend RUN.json RUN.json ... -o trend.html`. Each run is what `--json` of any benchmark kept; it
names its commit. All must be of one device. A figure is a time or an error of a table's row, so less is better.
"""

from __future__ import annotations

import argparse
import datetime
import html
import json
import math
import pathlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clquant import runtime
from clquant.cli.table import Table

Run = Mapping[str, Any]
Series = dict[tuple[str, str], list[float | None]]
LESS_IS_BETTER = (" ms", " us", "processor ns per pixel", "microseconds per pixel", "MSE", "visual error")
NOT_OF_A_ROW = ("mark", "reached", "term")  # words that follow from the figures
DEVICE = "Device limits: "
NOTABLE = 1.1
WIDTH, HEIGHT = 160, 28
STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse } td, th { padding: .2em .8em; text-align: left; border-bottom: 1px solid #ddd }
td.n { text-align: right; font-variant-numeric: tabular-nums } .worse { color: #b3261e } .better { color: #1b6e3c }
svg { display: block } polyline { fill: none; stroke: #2f7fd6; stroke-width: 1.5 } circle { fill: #0b3c8c }"""


def runs_in_order(paths: Sequence[pathlib.Path]) -> list[Run]:
    """The runs by the dates of their commits; one that knows no commit has its file's name and its own date instead.

    Raises
    ------
    ClquantError
        If a file is no benchmark's run, or the runs are of more than one device.
    """
    runs: list[Run] = []
    for path in paths:
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            run["environment"]["commit"] = run["environment"].get("commit") or path.stem
            _ = _time_of(run), [(table["title"], table["rows"]) for table in run["tables"]]
            runs.append(run)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise runtime.FileError(f"{path} is no run of a benchmark: {error}") from error
    titles = [table["title"] for run in runs for table in run["tables"]]
    devices = sorted({title.removeprefix(DEVICE) for title in titles if title.startswith(DEVICE)})
    if len(devices) > 1:
        raise runtime.InvalidArgument(f"the runs are of {len(devices)} devices, {'; '.join(devices)}; allowed: one")
    return sorted(runs, key=_time_of)


def _time_of(run: Run) -> datetime.datetime:
    about = run["environment"]
    return datetime.datetime.fromisoformat(about.get("committed") or about["date"])


def figures_of(run: Run) -> Iterator[tuple[tuple[str, str], float]]:
    """Each figure of a run under its table's title and the words of its row and column."""
    for table in run["tables"]:
        if table["title"].startswith(DEVICE):
            continue
        tracked = {name: head for name, head in table["columns"].items() if head.endswith(LESS_IS_BETTER)}
        for row in table["rows"]:
            named = [row.get(name) for name in table["columns"] if name not in (*tracked, *NOT_OF_A_ROW)]
            about = ", ".join(str(word) for word in named if isinstance(word, str | int))
            for name, head in tracked.items():
                if isinstance(row.get(name), int | float):
                    yield (table["title"], f"{about}: {head}" if about else head), float(row[name])


def series_of(runs: Sequence[Run]) -> Series:
    """Each figure over the runs; None where a run lacks it."""
    found: Series = {}
    for place, run in enumerate(runs):
        for key, value in figures_of(run):
            found.setdefault(key, [None] * len(runs))[place] = value
    return found


def change(values: Sequence[float | None]) -> float | None:
    """The last run's figure over the median of the earlier ones; None where either is missing or 0."""
    earlier = [value for value in values[:-1] if value]
    return values[-1] / statistics.median(earlier) if earlier and values[-1] else None


def by_change(series: Series) -> list[tuple[tuple[str, str], list[float | None], float | None]]:
    """The figures, the most changed first, those without two runs last."""
    rows = [(key, values, change(values)) for key, values in series.items()]
    return sorted(rows, key=lambda row: -1.0 if row[2] is None else abs(math.log(row[2])), reverse=True)


def line(values: Sequence[float | None]) -> str:
    """The values as a small drawing that begins at 0, a point per run."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    step = (WIDTH - 8) / max(len(values) - 1, 1)
    points = [
        (4 + step * place, HEIGHT - 4 - (HEIGHT - 8) * value / most)
        for place, value in enumerate(values)
        if value is not None
    ]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    last = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><polyline points="{drawn}"/>{last}</svg>'


def page(runs: Sequence[Run], series: Series) -> str:
    """One self-contained page: a row per figure, the most changed first."""
    labels = [str(run["environment"]["commit"]) for run in runs]
    rows = []
    for (title, about), values, ratio in by_change(series):
        kind = "" if ratio is None else "worse" if ratio > NOTABLE else "better" if ratio < 1 / NOTABLE else ""
        known = [f"{label}: {value:.4g}" for label, value in zip(labels, values, strict=True) if value is not None]
        shown = "" if ratio is None else f"{ratio:.2f}"
        last = "" if values[-1] is None else f"{values[-1]:.4g}"
        rows.append(
            f"<tr><td>{html.escape(about)}</td>"
            f'<td title="{html.escape(", ".join(known))}">{line(values)}</td>'
            f'<td class="n">{last}</td><td class="n {kind}">{shown}</td><td>{html.escape(title)}</td></tr>'
        )
    names = ("figure", "over the runs", "last", "last / earlier median", "table")
    heads = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>clquant: trend</title>\n'
        f"<style>{STYLE}</style></head>\n<body><h1>Figures from commit to commit</h1>\n"
        f"<p>Runs: {html.escape(', '.join(labels))}. Less is better; hover over a line for its values.</p>\n"
        f"<table>{heads}\n{chr(10).join(rows)}\n</table></body></html>\n"
    )


def changed_table(runs: Sequence[Run], series: Series) -> Table:
    """The figures that changed by more than a tenth, for a terminal."""
    last = str(runs[-1]["environment"]["commit"])
    columns = {"about": "figure", "last": last, "ratio": "over the earlier median", "title": "table"}
    table = Table(f"{len(runs)} runs, {len(series)} figures; those that changed by more than a tenth", columns)
    for (title, about), values, ratio in by_change(series):
        if ratio is not None and not 1 / NOTABLE <= ratio <= NOTABLE:
            table.add(title=title, about=about, last=values[-1], ratio=ratio)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Read the runs, print what changed, write the page."""
    parser = argparse.ArgumentParser(description="A page of figures from commit to commit.")
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN.json", help="what --json has kept")
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="PAGE.html", help="write a page with a line each")
    found = parser.parse_args(arguments)
    try:
        runs = runs_in_order(found.runs)
    except runtime.ClquantError as error:
        sys.exit(f"benchmarks: {error}")
    series = series_of(runs)
    print(changed_table(runs, series).text())
    if found.output is not None:
        found.output.write_text(page(runs, series), encoding="utf-8")


if __name__ == "__main__":
    main()
