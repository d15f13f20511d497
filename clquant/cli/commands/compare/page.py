"""The page of `clquant compare --html`: two pictures behind a slider, and the figures; one file that loads nothing."""

from __future__ import annotations

import base64
import html
import importlib.resources
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from clquant.color.formats import png

Picture = npt.NDArray[np.uint8]

TEMPLATE = "page.html"


def page(
    title: str, pictures: Mapping[str, Picture], columns: Mapping[str, str], figures: Mapping[str, Mapping[str, float]]
) -> bytes:
    """The page's bytes."""
    height, width = next(iter(pictures.values())).shape[:2]
    parts = {
        "TITLE": html.escape(title),
        "TABLE": _table(columns, figures),
        "NAMES": _script([*pictures]),
        "SOURCES": _script([_source(picture) for picture in pictures.values()]),
        "WIDTH": str(width),
        "HEIGHT": str(height),
    }
    text = importlib.resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    pieces = text.split("@")  # text and names of parts in turn, so that no part is looked into
    filled = (parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))
    return "".join(filled).encode("utf-8", "replace")


def _table(columns: Mapping[str, str], figures: Mapping[str, Mapping[str, float]]) -> str:
    rows = [["method", *columns.values()]]
    rows += [[name, *(_number(values[column]) for column in columns)] for name, values in figures.items()]
    return "<table>\n" + "\n".join(_row(row, "th" if row is rows[0] else "td") for row in rows) + "\n</table>"


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "-"


def _script(value: list[str]) -> str:
    """A literal of JavaScript that cannot end the script it stands in."""
    return json.dumps(value).replace("<", "\\u003c")


def _source(picture: Picture) -> str:
    return "data:image/png;base64," + base64.b64encode(png.picture(picture)).decode("ascii")
