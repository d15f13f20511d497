"""Plots of a run's JSON: `python -m benchmarks --from out.json --plots FOLDER`. Needs matplotlib (extra ``bench``)."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
import numpy as np
import PIL.Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Content = Mapping[str, Any]
Series = dict[str, list[tuple[float, float]]]
OURS = "clquant"
BLUES = ("#0b3c8c", "#2f7fd6", "#7fb2e5", "#123d2f")
OTHERS = ("#d1495b", "#edae49", "#6a994e", "#8d6a9f", "#444444", "#bc6c25", "#e07a9b", "#9c9c9c")
DPI = 100


def series(table: Content, value: str) -> Series:
    """(x, value) of every method of a table of growth."""
    found: Series = {}
    for row in table["rows"]:
        if row.get(value):
            found.setdefault(row["method"], []).append((row["x"], row[value]))
    return found


def colors_of(names: list[str]) -> dict[str, str]:
    """A colour for each method: blues for ours."""
    ours = [name for name in names if name.startswith(OURS)]
    others = [name for name in names if not name.startswith(OURS)]
    found = {name: BLUES[i % len(BLUES)] for i, name in enumerate(ours)}
    return found | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}


def draw_growth(axes: Any, table: Content, value: str = "ms", unit: str = "ms") -> None:
    """Lines over x, both axes logarithmic: end to end whole, our kernels dashed."""
    whole, kernels = series(table, value), series(table, "kernel_ms")
    colors = colors_of(list(whole))
    for name, points in sorted(whole.items(), key=lambda item: not item[0].startswith(OURS)):
        mine = name.startswith(OURS)
        label = name.removeprefix("clquant ")
        style = {"linewidth": 2.2 if mine else 1.3, "marker": "o" if mine else "s", "markersize": 3.5 if mine else 3}
        axes.plot(*zip(*points, strict=True), color=colors[name], label=f"clquant: {label}" if mine else label, **style)
        if name in kernels:
            axes.plot(*zip(*kernels[name], strict=True), color=colors[name], linewidth=1.2, linestyle=":")
    axes.set_xscale("log", base=2 if "side" in table["columns"]["x"] or "co" in table["columns"]["x"] else 10)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_xlabel(table["columns"]["x"])
    axes.set_ylabel(unit)
    axes.set_title(table["title"].split(": by")[0], fontsize=10)
    _finish(axes)


def draw_quality(axes: Any, table: Content, value: str, what: str) -> None:
    """Time against error, a mark a method."""
    rows = [row for row in table["rows"] if row.get("ms") and row.get(value)]
    colors = colors_of([row["method"] for row in rows])
    for row in sorted(rows, key=lambda row: not row["method"].startswith(OURS)):
        mine = row["method"].startswith(OURS)
        name = row["method"].removeprefix("clquant ")
        label = f"clquant: {name}" if mine else name
        axes.plot(
            row["ms"],
            row[value],
            "o" if mine else "s",
            color=colors[row["method"]],
            label=label,
            markersize=9 if mine else 7,
        )
    axes.set_xscale("log")
    axes.set_xlabel("ms, end to end")
    axes.set_ylabel(what)
    axes.set_title(table["title"], fontsize=10)
    _finish(axes)


def draw_scaling(axes: Any, table: Content) -> None:
    """Time over that of one worker, by workers, a line a job."""
    jobs: Series = {}
    for row in table["rows"]:
        jobs.setdefault(row["job"], []).append((row["x"], row["ratio"]))
    for (name, points), color in zip(jobs.items(), (*BLUES, *OTHERS), strict=False):
        axes.plot(*zip(*points, strict=True), color=color, label=name, linewidth=1.6, marker="o", markersize=3.5)
    axes.axhline(1, color="#888888", linewidth=0.8, linestyle="--")
    axes.set_xticks(sorted({row["x"] for row in table["rows"]}))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("workers, each with as much work")
    axes.set_ylabel("time over one worker's")
    axes.set_title(table["title"], fontsize=10)
    _finish(axes)


def _finish(axes: Any) -> None:
    axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=2)


def draw(content: Content, folder: pathlib.Path, label: str | None) -> list[pathlib.Path]:
    """Write the plots that a run has tables for.

    Parameters
    ----------
    content : mapping
        Of a run's JSON.
    folder : Path
    label : str, optional
        In the file names; default ``gpu`` or ``cpu`` by the device.

    Returns
    -------
    list of Path
    """
    tables = content["tables"]
    device = tables[0]["title"].removeprefix("Device limits: ")
    kind = label or ("cpu" if "portable computing" in device.lower() else "gpu")
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [table for table in tables if table["title"].endswith(": by size") and table["rows"]]
    numbers = [table for table in tables if table["title"].endswith(": by number") and table["rows"]]
    counts = [table for table in tables if table["title"].endswith(": by their number") and table["rows"]]
    learned = [table for table in tables if table["title"].startswith("Learn 256 colours and map, ")]
    mapped = [table for table in tables if table["title"].startswith("Map to 16 given colours, ")]
    growth: list[Callable[[Any], None]] = [lambda axes, t=table: draw_growth(axes, t) for table in sizes]
    growth += [lambda axes, t=table: draw_growth(axes, t, "each_us", "us a picture") for table in counts]
    spread = [table for table in tables if table["title"] == "Dask: weak scaling" and table["rows"]]
    plots = {
        "size": growth,
        "number": [lambda axes, t=table: draw_growth(axes, t) for table in numbers],
        "quality": [lambda axes, t=table: draw_quality(axes, t, "mse", "mean squared error") for table in learned]
        + [lambda axes, t=table: draw_quality(axes, t, "seen", "visual error") for table in mapped],
        "scaling": [lambda axes, t=table: draw_scaling(axes, t) for table in spread],
    }
    written = []
    for name, panels in plots.items():
        if panels:
            written.append(_sheet(panels, folder / f"benchmark_{kind}_{name}.png", device))
    return written


def _sheet(panels: list[Callable[[Any], None]], path: pathlib.Path, device: str) -> pathlib.Path:
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(4.6 * columns, 4.9 * rows), squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        panel(axes)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(
        f"{device}   (lines: end to end; dotted: kernels alone)" if path.stem.endswith(("size", "number")) else device,
        fontsize=9,
    )
    figure.tight_layout()
    figure.set_dpi(DPI)
    figure.canvas.draw()
    drawn = PIL.Image.fromarray(np.ascontiguousarray(np.asarray(figure.canvas.buffer_rgba())[..., :3]))
    drawn.quantize(64, dither=PIL.Image.Dither.NONE).save(path, optimize=True)
    plt.close(figure)
    return path
