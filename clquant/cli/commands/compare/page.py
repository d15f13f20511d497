"""The page of `clquant compare --html`: two pictures behind a slider, and the figures; one file that loads nothing."""

from __future__ import annotations

import base64
import html
import io
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import PIL.Image

Picture = npt.NDArray[np.uint8]

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>@TITLE@</title>
<style>
body { font: 16px system-ui, sans-serif; margin: 1rem; background: #fff; color: #222; }
#scroll { overflow: auto; max-height: 80vh; margin: 1rem 0; }
#stage { position: relative; }
#stage img { position: absolute; inset: 0; width: 100%; height: 100%; image-rendering: pixelated; }
#slider { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; appearance: none; background: none;
 cursor: ew-resize; }
#slider::-webkit-slider-thumb { appearance: none; width: 3px; height: var(--tall); background: #fff;
 box-shadow: 0 0 3px #000; }
#slider::-moz-range-thumb { width: 3px; height: var(--tall); border: 0; border-radius: 0; background: #fff;
 box-shadow: 0 0 3px #000; }
#slider:focus-visible { outline: 3px solid #1a73e8; }
table { border-collapse: collapse; }
th, td { padding: 0.2rem 0.8rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
</style>
</head>
<body>
<h1>@TITLE@</h1>
<p>
<label>Left <select id="left"></select></label>
<label>Right <select id="right"></select></label>
<label>Zoom <select id="zoom"><option>1<option>2<option>4<option>8</select></label>
</p>
<div id="scroll"><div id="stage"><img id="below" alt=""><img id="above" alt="">
<input id="slider" type="range" min="0" max="100" step="0.5" value="50"
 aria-label="how much of the left picture is shown">
</div></div>
@TABLE@
<script>
const names = @NAMES@, sources = @SOURCES@, width = @WIDTH@, height = @HEIGHT@;
const get = id => document.getElementById(id);
const [left, right, zoom, slider, stage] = ["left", "right", "zoom", "slider", "stage"].map(get);
for (const select of [left, right]) for (const name of names) select.add(new Option(name));
right.selectedIndex = 1;
function show() {
  get("above").src = sources[left.selectedIndex]; get("above").alt = left.value;
  get("below").src = sources[right.selectedIndex]; get("below").alt = right.value;
  stage.style.width = width * zoom.value + "px"; stage.style.height = height * zoom.value + "px";
  stage.style.setProperty("--tall", height * zoom.value + "px");
  get("above").style.clipPath = `inset(0 ${100 - slider.value}% 0 0)`;
}
for (const each of [left, right, zoom, slider])
  for (const event of ["input", "change"]) each.addEventListener(event, show);
show();
</script>
</body>
</html>
"""


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
    pieces = PAGE.split("@")  # text and names of parts in turn, so that no part is looked into
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
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
