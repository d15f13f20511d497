"""Tables of figures, printed as text or kept as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Cell = str | int | float | None


class Table:
    """Rows of named cells under headings."""

    def __init__(self, title: str, columns: Mapping[str, str], note: str = "") -> None:
        self.title = title
        self.columns = dict(columns)
        self.note = note
        self.rows: list[dict[str, Cell]] = []

    def add(self, **cells: Cell) -> None:
        """Append a row; cells that are left out stay empty."""
        unknown = set(cells) - set(self.columns)
        if unknown:
            raise KeyError(f"no column for {sorted(unknown)}; there is {list(self.columns)}")
        self.rows.append(cells)

    def text(self) -> str:
        """The table for a terminal, numbers right-aligned; also a Markdown table."""
        heads = list(self.columns.values())
        body = [[_cell(row.get(name)) for name in self.columns] for row in self.rows]
        widths = [max(len(line[i]) for line in [heads, *body]) for i in range(len(heads))]
        numeric = [
            all(not isinstance(row.get(name), str) for row in self.rows) and bool(self.rows) for name in self.columns
        ]

        def line(cells: list[str]) -> str:
            padded = zip(cells, widths, numeric, strict=True)
            return "| " + " | ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in padded) + " |"

        rule = "|" + "|".join("-" * (w + 1) + (":" if n else "-") for w, n in zip(widths, numeric, strict=True)) + "|"
        lines = [self.title, "", line(heads), rule, *map(line, body)]
        return "\n".join([*lines, "", self.note] if self.note else lines) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON takes it; infinities become strings."""
        rows = [
            {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}
            for row in self.rows
        ]
        return {"title": self.title, "columns": self.columns, "note": self.note, "rows": rows}


def _cell(value: Cell) -> str:
    """Four significant digits for numbers, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        digits = 3 - (math.floor(math.log10(abs(value))) if value else 0)
        return f"{value:.{min(max(digits, 0), 4)}f}"
    return str(value)
