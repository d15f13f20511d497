"""Every figure the engines are built to reach, measured anew in one run: `python -m benchmarks figures`.

Speed figures of GPUs are measured on devices with memory of their own, those of CPUs on CPUs; quality figures on
either, over the pictures of `--images`. What a missing peer leaves open is named.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import harness
from benchmarks.harness import Options, Table
from clquant import runtime

PARTS = ("speed_on_gpus", "speed_on_cpus", "quality_figures")
COLUMNS = {
    "part": "part",
    "figure": "figure",
    "aim": "aim",
    "measured": "measured",
    "reached": "reached",
}


class Figures:
    """The table, and what every part needs to fill it.

    Parameters
    ----------
    options : Options
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.queue = options.queue()
        self.plain = runtime.default_queue(self.queue.device)  # what is timed by the clock: profiling takes time
        self.limits = runtime.Limits.of(self.queue.device)
        self.table = Table(f"Figures, {runtime.describe(self.queue.device)}", COLUMNS)

    def at_most(self, part: str, figure: str, aim: float, measured: float | None) -> None:
        """A figure that should be low; None where a peer is missing."""
        self._add(part, figure, f"at most {aim:g}", measured, measured is not None and measured <= aim)

    def at_least(self, part: str, figure: str, aim: float, measured: float | None) -> None:
        """A figure that should be high; None where a peer is missing."""
        self._add(part, figure, f"at least {aim:g}", measured, measured is not None and measured >= aim)

    def _add(self, part: str, figure: str, aim: str, measured: float | None, reached: bool) -> None:
        verdict = "peer missing" if measured is None else "yes" if reached else "no"
        self.table.add(part=part, figure=figure, aim=aim, measured=measured, reached=verdict)

    def measure(self, steps: list[Callable[[Figures], None]]) -> None:
        """Run the steps until the time budget is used up; what is left out is named."""
        for step in steps:
            if self.options.is_over:
                self.table.note += f" No time left for: {(step.__doc__ or step.__name__).rstrip('.')}."
                continue
            step(self)


def side_by_side(contents: Sequence[Mapping[str, Any]]) -> Table:
    """The figures of several runs in one table: a column a device, empty where a figure does not apply there."""
    found = [table for content in contents for table in content["tables"] if table["title"].startswith("Figures, ")]
    devices = {f"d{i}": table["title"].removeprefix("Figures, ") for i, table in enumerate(found)}
    result = Table("Figures", {"part": "part", "figure": "figure", "aim": "aim", **devices})
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for column, table in zip(devices, found, strict=True):
        for row in table["rows"]:
            cells = rows.setdefault(
                (row["part"], row["figure"]), {name: row[name] for name in ("part", "figure", "aim")}
            )
            if row["measured"] is not None:
                cells[column] = f"{row['measured']:.4g}" + ("" if row["reached"] == "yes" else ", missed")
    for cells in rows.values():
        result.add(**cells)
    return result


def run(options: Options) -> Iterator[Table]:
    """One table."""
    figures = Figures(options)
    for part in PARTS:
        steps = importlib.import_module(f"benchmarks.{part}").steps(figures)
        figures.measure(steps)
    yield figures.table


if __name__ == "__main__":
    harness.main(run)
