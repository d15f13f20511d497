"""`clquant tiles`: a pyramid of map tiles in one palette."""

from __future__ import annotations

import argparse
import time
from typing import Any

from clquant import tiles
from clquant.cli import common
from clquant.cli.common import STDOUT, given_palette, option
from clquant.cli.inputs import Inputs
from clquant.cli.outputs import Outputs
from clquant.dithering.threshold_maps import ORDERED, SEAMLESS
from clquant.runtime import InvalidArgument

HELP = "reduce a pyramid of map tiles to one palette: folders z/x/y, MBTiles, PMTiles"
MOST_COLORS = 256  # without -k

EPILOG = """examples:
  clquant tiles tiles/ -k 64 -o small/                    PNG files z/x/y
  clquant tiles map.mbtiles -k 256 -o small.mbtiles
  clquant tiles map.pmtiles --use brand.gpl --dither blue-noise -o small.pmtiles

No seams: a pixel's colour depends on its own and on its place in the map. Equal tiles are worked on and stored once,
tiles without a visible pixel are left out."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="IN", help="a folder z/x/y.png (.jpg, .webp), .mbtiles or .pmtiles")
    option(parser, "-o --output OUT", "a new folder, or a file .mbtiles or .pmtiles", "everyday", required=True)
    common.add(parser, "colors", help=f"colours, 2 to 256 (default: {MOST_COLORS})")
    common.add_dither(parser, "without seams", names=[*ORDERED], const=SEAMLESS)
    option(parser, "--tms", "rows of folders are counted from the bottom")
    option(parser, "--keep-empty", "write tiles without a visible pixel, too")
    option(parser, "--memory SIZE", "host memory for tiles at work (default: 512MiB)")
    common.add(parser, "use", "space", "seed", "save_palette", "json", "device", "quiet")


def run(args: argparse.Namespace) -> int:
    """Quantize the pyramid."""
    if args.use is not None and args.colors is not None:
        raise InvalidArgument(f"--use takes a palette as it is; {common.typed(args, 'colors')} would learn one")
    if args.output == STDOUT:
        raise InvalidArgument("-o is '-'; allowed: a new folder, or a file .mbtiles or .pmtiles")
    Outputs(Inputs((), several=False), [args.source]).check_palette(args.save_palette)
    begin = time.perf_counter()
    colors = given_palette("--use", args.use) if args.use is not None else args.colors or MOST_COLORS
    how = common.parameters(args, tiles.quantize) | {"colors": colors, "queue": common.open_queue(args)}
    with common.progress_bar(args, args.source) as progress:
        made = tiles.quantize(args.source, args.output, progress=progress, **how)
    if args.save_palette is not None:
        made.palette.write(args.save_palette)
    seconds = time.perf_counter() - begin
    text = (
        f"{args.source} -> {args.output}: {made.written} of {made.tiles} tiles, {made.empty} empty, {made.distinct} "
        f"distinct, {common.counted(len(made.palette), 'colour')}, {made.nbytes} bytes, {seconds:.2f} s"
    )
    counts = {name: getattr(made, name) for name in ("tiles", "written", "empty", "distinct")}
    record: dict[str, Any] = {"colors": made.palette.hex(), "bytes": made.nbytes, "seconds": seconds}
    common.say(args, text, input=args.source, output=args.output, **counts, **record)
    return 0
