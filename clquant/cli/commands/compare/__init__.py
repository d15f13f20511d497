"""`clquant compare`: one picture by every method, on one sheet."""

from __future__ import annotations

import argparse
import base64
import html
import importlib.resources
import json
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageDraw

from clquant import images, quality
from clquant.cli import batch, common, loading, outputs, streams
from clquant.cli.batch import Item
from clquant.cli.commands.palette.options import engine_class
from clquant.cli.common import option
from clquant.cli.inputs import Source
from clquant.cli.loading import Loaded, load_still
from clquant.cli.outputs import expected, full_color_kind, picture_bytes
from clquant.cli.table import Table
from clquant.color.formats import png
from clquant.runtime import CommandQueue, InvalidArgument

HELP = "show one picture by every palette method, with errors and times"

EPILOG = """examples:
  clquant compare photo.jpg -k 16                  writes photo-compare.png beside it
  clquant compare photo.jpg -k 64 --dither blue-noise -o sheet.png
  clquant compare photo.jpg --crop 256
  clquant compare photo.jpg --html photo.html      and a page with a slider, for a browser

Under each picture stand its mean squared error, PSNR, SSIM, the error after a model of the eye, the mean CIEDE2000
difference pixel by pixel and after a blur in linear light (of these three lower is better), and the time that learning
the palette and mapping the picture, which is on the device by then, took. Pillow is always there; libimagequant if its
Python binding (imagequant) is installed."""

Picture = npt.NDArray[np.uint8]
Method = partial[Picture]  # of a picture and a number of colours
Figures = dict[str, dict[str, float]]  # of each method, by the columns of the table
MARGIN = 8
SSIM_SIDE = 11  # smaller pictures have none
LABEL_LINES = 4
LINE_HEIGHT = 14
# The widest line of a label, in pixels of the font.
LABEL_WIDTH = 300
LABEL = (
    "{name}\nMSE {mse:.1f}   {quality}   SSIM {ssim:.3f}\nvisual error {visual:.2f}   "
    "CIEDE2000 {color:.2f}\nblurred CIEDE2000 {blurred:.2f}   {ms:.0f} ms"
)
MOST_COLUMNS = 3
# Headings of the figures, and what measures them.
MEASURES: dict[str, tuple[str, Callable[..., float]]] = {
    "mse": ("MSE", quality.mse),
    "psnr": ("PSNR, dB", quality.psnr),
    "ssim": ("SSIM", quality.ssim),
    "visual": ("visual error", quality.visual_error),
    "specks": ("speck error", quality.speck_error),
    "color": ("CIEDE2000", quality.color_difference),
    "blurred": ("blurred CIEDE2000", quality.blurred_color_difference),
}
COLUMNS = {name: heading for name, (heading, _) in MEASURES.items()} | {"ms": "ms"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    common.add_batch(parser, "a picture format", "IN-compare.png beside each input", ", {colors} is K")
    common.add(parser, "colors", help="colours, 2 to 256 (default: 16)", default=16)
    common.add_dither(parser, "dither our results", "(default: none; Pillow and libimagequant use their own)")
    option(parser, "--crop SIDE", "show only the middle SIDE x SIDE pixels of each", "everyday", type=int)
    text = "write a page with a slider between any two pictures too: an .html file, or a folder for several inputs"
    option(parser, "--html PAGE", text, "everyday")
    common.add(parser, "background", "bands", "seed", "range", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Compare on every input."""
    if not 2 <= args.colors <= 256:
        raise InvalidArgument(f"n_colors is {args.colors}; allowed: 2 to 256, which all methods know")
    if args.crop is not None and args.crop < 16:
        raise InvalidArgument(f"--crop is {args.crop}; allowed: 16 or more")
    places, pairs = expected(args, lambda source: f"{source.stem}-compare.png", colors=args.colors)
    for _, target in pairs:
        full_color_kind(str(target))
    pages = places.further(args.html, lambda source: f"{source.stem}-compare.html", "--html", (".html", ".htm"))
    if not pairs:
        return 0

    def read(source: Source, _: str | None) -> Loaded:
        return load_still(args, source, "comparisons are of one picture")

    return batch.run(args, pairs, read, partial(_one, pages, common.open_queue(args)))


def _one(pages: dict[Source, str], queue: CommandQueue, item: Item, loaded: Loaded) -> batch.Finish:
    args, source, laid = item.args, item.source, loaded.laid_over(item.args, None, is_gray=True)
    original = laid.pixels.repeat(3, axis=2) if laid.pixels.shape[2] == 1 else laid.pixels
    over, behind = loading.over(laid.background, has_alpha=False)
    pictures, figures = _results(args, queue, original)
    shape = [min(side, args.crop or side) for side in original.shape[:2]]
    shown = {name: _middle(picture, *shape) for name, picture in pictures.items()}
    label, colors = streams.printable(item.label), f"{args.colors} colours{over}"
    data = picture_bytes(_sheet(original, shown, figures), full_color_kind(item.place), item.place)
    web_page = page(f"{label}, {colors}", shown, COLUMNS, figures) if source in pages else b""
    height, width = original.shape[:2]
    table = Table(f"{label}, {width}x{height}, {colors}", {"method": "method", **COLUMNS})
    for name, values in figures.items():
        exact = {} if math.isfinite(values["psnr"]) else {"psnr": common.decibels(values["psnr"])}
        table.add(method=name, **values | exact)

    def finish() -> batch.Report:
        item.write(data)
        if web_page:
            outputs.write(pages[source], web_page)
        methods = {name: common.finite(values) for name, values in figures.items()}
        record = {"input": source.path, "output": item.place, "methods": methods, "over": behind}
        return partial(common.say, args, table.text(), is_table=True, **record)

    return finish


def _results(args: argparse.Namespace, queue: CommandQueue, original: Picture) -> tuple[dict[str, Picture], Figures]:
    """The original and the picture by each method, and each method's figures."""
    methods = _methods(args, queue)
    pictures, figures = {"original": original}, {}
    with common.progress_bar(args, "methods") as progress, images.sent(original, queue) as (_, sent):
        for number, (name, method) in enumerate(methods.items()):
            given = sent if method.func is _ours else original
            if method.func is _ours:
                method(given, args.colors)  # what is built at a first call does not count
            begin = time.perf_counter()
            result = method(given, args.colors)
            seconds = time.perf_counter() - begin
            pictures[name], figures[name] = result, _figures(queue, sent, result) | {"ms": 1000 * seconds}
            progress(number + 1, len(methods))
    return pictures, figures


def _methods(args: argparse.Namespace, queue: CommandQueue) -> dict[str, Method]:
    methods: dict[str, Method] = {
        "k-means": partial(_ours, args, queue, "kmeans", "srgb"),
        "k-means in OKLab": partial(_ours, args, queue, "kmeans", "oklab"),
        "NeuQuant": partial(_ours, args, queue, "neuquant", "srgb"),
        "Pillow, median cut": partial(_pillow, args.dither is not None),
    }
    try:
        import imagequant
    except ImportError:
        return methods
    return methods | {"libimagequant": partial(_imagequant, imagequant, args.dither is not None)}


def _ours(args: argparse.Namespace, queue: CommandQueue, method: str, space: str, picture: Any, colors: int) -> Picture:
    engine: Any = engine_class(method)(colors, color_space=space, random_state=args.seed, queue=queue)
    made: Picture = engine.fit(picture).transform(picture, args.dither)
    return made


def _pillow(dithered: bool, picture: Picture, colors: int) -> Picture:
    image = PIL.Image.fromarray(picture)
    made = image.quantize(colors, method=PIL.Image.Quantize.MEDIANCUT, dither=PIL.Image.Dither.NONE)
    if dithered:
        made = image.quantize(palette=made, dither=PIL.Image.Dither.FLOYDSTEINBERG)
    return np.asarray(made.convert("RGB"))


def _imagequant(module: Any, dithered: bool, picture: Picture, colors: int) -> Picture:
    height, width = picture.shape[:2]
    rgba = np.dstack([picture, np.full((height, width), 255, np.uint8)]).tobytes()
    indices, palette = module.quantize_raw_rgba_bytes(
        rgba, width, height, dithering_level=float(dithered), max_colors=colors
    )
    table = np.array(palette, np.uint8).reshape(-1, 4)[:, :3]
    return np.asarray(table[np.frombuffer(indices, np.uint8)].reshape(picture.shape))


def _figures(queue: CommandQueue, original: Any, result: Picture) -> dict[str, float]:
    without = {"ssim": math.nan} if min(result.shape[:2]) < SSIM_SIDE else {}
    with images.sent(result, queue) as (_, made):
        measures = {name: measure for name, (_, measure) in MEASURES.items() if name not in without}
        return {name: measure(original, made, queue=queue) for name, measure in measures.items()} | without


def _sheet(original: Picture, shown: dict[str, Picture], figures: Figures) -> PIL.Image.Image:
    """Draw all pictures beside and below each other, with their figures."""
    height, width = shown["original"].shape[:2]
    cell_width = max(width, LABEL_WIDTH) + MARGIN
    cell_height = height + LABEL_LINES * LINE_HEIGHT + 2 * MARGIN
    columns = min(MOST_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    sheet = PIL.Image.new("RGB", (columns * cell_width + MARGIN, rows * cell_height + MARGIN), "white")
    draw = PIL.ImageDraw.Draw(sheet)
    count = len(np.unique(original.reshape(-1, 3), axis=0))
    labels = [
        f"original\n{count} colours",
        *(
            LABEL.format(name=name, quality=common.decibels(values["psnr"]), **values)
            for name, values in figures.items()
        ),
    ]
    for number, (label, picture) in enumerate(zip(labels, shown.values(), strict=True)):
        left = MARGIN + number % columns * cell_width
        top = MARGIN + number // columns * cell_height
        sheet.paste(PIL.Image.fromarray(picture), (left, top))
        for line, text in enumerate(label.splitlines()):
            draw.text((left, top + height + 3 + line * LINE_HEIGHT), text, fill="black")
    return sheet


def _middle(picture: Picture, height: int, width: int) -> Picture:
    top, left = (picture.shape[0] - height) // 2, (picture.shape[1] - width) // 2
    return np.ascontiguousarray(picture[top : top + height, left : left + width])


def page(
    title: str, pictures: Mapping[str, Picture], columns: Mapping[str, str], figures: Mapping[str, Mapping[str, float]]
) -> bytes:
    """The page of ``--html``: two pictures behind a slider, and the figures; one file that loads nothing."""
    height, width = next(iter(pictures.values())).shape[:2]
    encoded = [base64.b64encode(png.picture(picture)).decode("ascii") for picture in pictures.values()]
    parts = {
        "TITLE": html.escape(title),
        "TABLE": _table(columns, figures),
        "NAMES": _script([*pictures]),
        "SOURCES": _script([f"data:image/png;base64,{data}" for data in encoded]),
        "WIDTH": str(width),
        "HEIGHT": str(height),
    }
    text = importlib.resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    pieces = text.split("@")  # text and names of parts in turn, so that no part is looked into
    filled = (parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))
    return "".join(filled).encode("utf-8", "replace")


def _table(columns: Mapping[str, str], figures: Mapping[str, Mapping[str, float]]) -> str:
    rows = [["method", *columns.values()]]
    for name, values in figures.items():
        rows.append([name, *(f"{values[one]:.4g}" if math.isfinite(values[one]) else "-" for one in columns)])
    lines = []
    for row in rows:
        tag = "th" if row is rows[0] else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _script(value: list[str]) -> str:
    """A literal of JavaScript that cannot end the script it stands in."""
    return json.dumps(value).replace("<", "\\u003c")
