"""`clquant tileset`: pictures of tiles with a small palette each, as consoles show them."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant.cli import batch, common, loading, outputs
from clquant.cli.batch import Item
from clquant.cli.commands import palette
from clquant.cli.common import given_palette, option
from clquant.cli.inputs import Source
from clquant.cli.loading import Loaded, load_still
from clquant.cli.outputs import expected, lossless_kind, source_name
from clquant.color.indexed import IndexedImage
from clquant.dithering.threshold_maps import ORDERED, SEAMLESS
from clquant.runtime import InvalidArgument

HELP = "reduce pictures to tiles with a few small palettes, for consoles"
LEARNED = "learned"

EPILOG = """examples:
  clquant tileset title.png --palettes 8 -k 16 --color-format rgb555        8 of 16 colours, tiles of 8x8 pixels
  clquant tileset title.png --palettes 8 -k 4 --color-format rgb555 -o title.c
  clquant tileset room.png --palettes 4 -k 4 --tile-size 16 --shared-color black
  clquant tileset map.png --palettes 4 -k 16 --color-format rgb333 --map map.csv

Results are indexed pictures whose palette is all palettes in turn: an index divided by K is the palette, the rest the
entry. Pixels of alpha below 128 are transparent and take their palette's first entry, which nothing else takes then.
Scale pictures first."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    common.add_batch(parser, ".png, .gif, .tif, .c, .h and others without loss", "IN-tiles.png beside each input")
    made = clquant.TilePalettes
    option(parser, "--palettes --n-palettes P", "palettes (default: {default})", "everyday", made, type=int)
    most = common.default_of(made, "n_colors")
    common.add(parser, "colors", help="colours of each (default: %(default)s)", default=most)
    text = "palettes to take instead of learning some, one each time: 'black,#f80' or a palette file"
    option(parser, "--use COLORS", text, action="append")
    text = "side of a tile, or WIDTHxHEIGHT (default: 8); at most 256 pixels"
    option(parser, "--tile-size N", text, "everyday", default="8")
    text = (
        f"all palettes begin with this colour, '#f80' or black; {LEARNED}: with one that is learned; transparent: "
        "with an entry that no opaque pixel takes"
    )
    option(parser, "--shared-color COLOR", text, "everyday")
    common.add(parser, "color_format", help="only colours with so many bits of red, green and blue")
    option(parser, "--shared", "learn the palettes for all inputs together", "everyday")
    common.add_dither(parser, "ordered dithering within tiles", names=[*ORDERED], const=SEAMLESS)
    option(parser, "--map FILE", "write the palette of each tile too: a .csv, a line per row", "everyday")
    common.add(parser, "background", "bands", "space", "seed", "range", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Make every input's picture."""
    places, pairs = expected(args, lambda source: f"{source.stem}-tiles.png")
    for _, target in pairs:
        lossless_kind(str(target), "tiles")
    if args.map is not None:
        if places.inputs.several:
            raise InvalidArgument("--map is given with several inputs; allowed: with one")
        places.one(args.map, "--map", (".csv",))
    queue = common.open_queue(args)
    how = common.parameters(args, clquant.TilePalettes) | {"tile_size": _side(args.tile_size), "queue": queue}
    if args.use is None:
        engine = clquant.TilePalettes(**how | {"shared_color": _shared(args.shared_color)})
    else:
        learning = ["palettes", "colors", "shared_color", "color_format", "shared", "seed"]
        common.refuse(args, learning, "with --use; allowed: without it")
        how = {name: how[name] for name in ("tile_size", "color_space", "queue") if name in how}
        engine = clquant.TilePalettes.with_palettes([given_palette("--use", one) for one in args.use], **how)
        args.colors = len(engine.palettes_[0])
    if not pairs:
        return 0

    def read(source: Source, target: str | None) -> Loaded:
        return load_still(args, source, "tilesets are of one picture").laid_over(args, target)

    given: batch.Read[Loaded] = read
    if args.shared:
        given, pictures = batch.read_together(args, read, pairs)
        with common.progress_bar(args, "palettes of all inputs") as progress:
            engine.fit([loaded.pixels for loaded in pictures.values()], progress=progress)

    def work(item: Item, loaded: Loaded) -> batch.Finish:
        picture = loaded.pixels
        with item.working() as progress:
            if not args.shared and args.use is None:
                engine.fit(picture, progress=progress)
            made = engine.quantize(picture, args.dither)
        error = palette.psnr(made.to_array(), picture, queue) if common.is_reported(args) else 0.0
        over = loading.over(loaded.background, picture.shape[2] == 4)
        return partial(_finish, item, made, engine.tile_numbers(made), error, over)

    return batch.run(args, pairs, given, work)


def _finish(
    item: Item, made: IndexedImage, numbers: npt.NDArray[Any], error: float, over: tuple[str, list[str] | None]
) -> batch.Report:
    args, kind = item.args, lossless_kind(item.place, "tiles")
    options: dict[str, Any] = dict(source_name(args, kind, item.target, item.source))
    if options:
        options["color_format"] = args.color_format
    data = made.to_bytes(kind, **options)
    item.write(data)
    if args.map is not None:
        rows = "".join(",".join(map(str, row)) + "\n" for row in numbers.tolist())
        outputs.write(args.map, rows.encode("ascii"))
    down, across = numbers.shape
    used = f"{common.counted(len(np.unique(numbers)), 'palette')} of {args.colors} colours"
    return item.said(
        made.shape,
        f", {across}x{down} tiles, {used}, {common.decibels(error)}{over[0]}",
        tiles=numbers.tolist(),
        palettes=[made.palette[i : i + args.colors].hex() for i in range(0, len(made.palette), args.colors)],
        psnr=error,
        psnr_over=over[1],
        bytes=len(data),
    )


def _side(text: str) -> int | tuple[int, int]:
    """Parse ``--tile-size`` for `TilePalettes`."""
    words = text.lower().split("x")
    if len(words) > 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise InvalidArgument(f"--tile-size is {text!r}; allowed: a number, or WIDTHxHEIGHT such as 16x8")
    return int(words[0]) if len(words) == 1 else (int(words[1]), int(words[0]))


def _shared(text: str | None) -> Any:
    """Parse ``--shared-color`` for `TilePalettes`."""
    if text is None or text == LEARNED:
        return True if text else None
    colors = given_palette("--shared-color", text)
    if len(colors) != 1:
        raise InvalidArgument(f"--shared-color is {text!r}; allowed: one colour, or {LEARNED!r}")
    return colors[0]
