"""`clquant tileset`: pictures of tiles with a small palette each, as consoles show them."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant.cli import batch, common, inputs
from clquant.cli.colors import given_palette
from clquant.cli.commands.palette import report
from clquant.cli.inputs import Source
from clquant.cli.loading import load_still
from clquant.cli.outputs import Outputs, lossless_kind, named, not_there, shown, source_name
from clquant.color import spaces
from clquant.color.display import DISPLAY_FORMATS
from clquant.color.indexed import IndexedImage
from clquant.runtime import InvalidArgument
from clquant.targets.tilesets.engine import ORDERED

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
    parser.epilog = EPILOG
    common.add_inputs(parser)
    common.add_output(parser, ".png, .gif, .tif, .c, .h and others without loss", "IN-tiles.png beside each input")
    common.add_batch(parser, "")
    parser.add_argument("--palettes", "--n-palettes", type=int, default=8, metavar="P", help="palettes (default: 8)")
    parser.add_argument(
        "-k", "--colors", "--n-colors", type=int, default=16, metavar="K", help="colours of each (default: 16)"
    )
    parser.add_argument(
        "--tile-size", default="8", metavar="N", help="side of a tile, or WIDTHxHEIGHT (default: 8); at most 256 pixels"
    )
    parser.add_argument(
        "--shared-color",
        metavar="COLOR",
        help=f"all palettes begin with this colour, '#f80' or black; {LEARNED}: with one that is learned; transparent: "
        "with an entry that no opaque pixel takes",
    )
    parser.add_argument(
        "--color-format", choices=tuple(DISPLAY_FORMATS), help="only colours with so many bits of red, green and blue"
    )
    parser.add_argument(
        "--space", "--color-space", choices=spaces.NAMES, default="srgb", help="where colours are compared"
    )
    parser.add_argument("--shared", action="store_true", help="learn the palettes for all inputs together")
    parser.add_argument("--dither", choices=ORDERED, help="ordered dithering within tiles (default: none)")
    parser.add_argument("--map", metavar="FILE", help="write the palette of each tile too: a .csv, a line per row")
    parser.add_argument("--seed", "--random-state", type=int, default=0, help="seed of what is random (default: 0)")
    common.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Make every input's picture."""
    sources = inputs.expand(args.inputs)
    name = named(args.name, lambda source: f"{source.stem}-tiles.png")
    sources = inputs.without_own_results(sources, name, args.output)
    places = Outputs(sources, force=args.force)
    targets = places.each(args.output, name)
    for target in targets:
        lossless_kind(target, "tiles")
    if args.map is not None:
        if sources.several:
            raise InvalidArgument("--map is given with several inputs; allowed: with one")
        places.one(args.map, "--map", (".csv",))
    queue = common.open_queue(args)
    engine = clquant.TilePalettes(
        args.palettes,
        args.colors,
        tile_size=_side(args.tile_size),
        shared_color=_shared(args.shared_color),
        color_space=args.space,
        color_format=args.color_format,
        random_state=args.seed,
        queue=queue,
    )
    pairs = not_there(args, sources, targets)
    if not pairs:
        return 0
    todo = [source for source, _ in pairs]
    read: batch.Read[Any] = partial(_read, args)
    if args.shared:
        kept = {source: _read(args, source) for source in todo}
        with common.progress_bar(args, "palettes of all inputs") as progress:
            engine.fit(list(kept.values()), progress=progress)
        read = kept.__getitem__

    def work(number: int, source: Source, picture: Any) -> batch.Finish:
        begin = time.perf_counter()
        with inputs.named(source), common.progress_bar(args, source.relative.name) as progress:
            if not args.shared:
                engine.fit(picture, progress=progress)
            made = engine.quantize(picture, args.dither)
        numbers = engine.tile_numbers(made)
        error = report.psnr(made.to_array(), picture, queue) if common.is_reported(args) else 0.0
        return partial(_finish, args, places, str(pairs[number][1]), source, made, numbers, error, begin)

    return batch.run(args, todo, read, work)


def _read(args: argparse.Namespace, source: Source) -> Any:
    return load_still(args, source, "tilesets are of one picture").pixels


def _finish(
    args: argparse.Namespace,
    places: Outputs,
    target: str,
    source: Source,
    made: IndexedImage,
    numbers: npt.NDArray[Any],
    error: float,
    begin: float,
) -> batch.Report:
    kind = lossless_kind(target, "tiles")
    options: dict[str, Any] = dict(source_name(kind, target, source))
    if options:
        options["color_format"] = args.color_format
    data = made.to_bytes(kind, **options)
    places.write(target, data)
    if args.map is not None:
        places.write(args.map, "".join(",".join(map(str, row)) + "\n" for row in numbers.tolist()).encode("ascii"))
    height, width = made.shape
    down, across = numbers.shape
    used = len(np.unique(numbers))
    seconds = time.perf_counter() - begin
    return partial(
        common.say,
        args,
        f"{source.relative} -> {shown(target)}: {width}x{height}, {across}x{down} tiles, {used} palettes of "
        f"{args.colors} colours, PSNR {error:.2f} dB, {seconds:.2f} s",
        input=source.path,
        output=target,
        width=width,
        height=height,
        tiles=numbers.tolist(),
        palettes=[made.palette[i : i + args.colors].hex() for i in range(0, len(made.palette), args.colors)],
        psnr=error,
        bytes=len(data),
        seconds=seconds,
    )


def _side(text: str) -> int | tuple[int, int]:
    """``--tile-size`` as `TilePalettes` takes it."""
    words = text.lower().split("x")
    if len(words) > 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise InvalidArgument(f"--tile-size is {text!r}; allowed: a number, or WIDTHxHEIGHT such as 16x8")
    return int(words[0]) if len(words) == 1 else (int(words[1]), int(words[0]))


def _shared(text: str | None) -> Any:
    """``--shared-color`` as `TilePalettes` takes it."""
    if text is None or text == LEARNED:
        return True if text else None
    colors = given_palette("--shared-color", text)
    if len(colors) != 1:
        raise InvalidArgument(f"--shared-color is {text!r}; allowed: one colour, or {LEARNED!r}")
    return colors[0]
