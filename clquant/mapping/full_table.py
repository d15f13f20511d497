"""The answers for all colours in a table, which is made first where a picture has more pixels than that costs.

Each pixel then takes one read instead of a search. `cl/mapping/full_table.h` says how a table lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clquant.runtime import Buffer, Session, Variant

if TYPE_CHECKING:
    from clquant.mapping.nearest import Mapper
    from clquant.mapping.pixel_batch import Task

# The form of the mapping that may take a table; it is portable, but CPUs have a better one.
TABLE = Variant("table", "mapping/full_table.cl")
PLAIN_FILE = "mapping/full_table_plain.cl"
ORDERED_FILE = "dithering/ordered_table.cl"
# Bytes of an answer of ordered dithering, which palettes of more than 256 colours have no table of.
ANSWER_BYTES = 4
# What makes the answers where points are colours, and the most numbers of a mask that it does so for; bytes of what a
# pair of entries says, and how many pairs begin with the same entry; work-items that share answers.
PAIRS_FILE = "dithering/ordered_pairs.cl"
PAIRS_VALUES = 4096
PAIR_BYTES, PAIRS_OF_ONE = 32, 256
PAIRS_GROUP = 128
# COLUMNS of `cl/mapping/full_table.cl` and of the dithering's file: pixels that a tile is wide; most rows of one; tiles
# that a compute unit should have at least; work-items that share one, or that make a table; how wide pixels in no rows
# are taken to be. The answers of dithering take four times the cache of nearest entries, so that its tiles are squares.
COLUMNS, ORDERED_COLUMNS = 256, 128
MOST_ROWS, ORDERED_ROWS = 32, 128
TILES_A_UNIT = 8
GROUP, ORDERED_GROUP = 512, 512
TABLE_GROUP = 256
# How many times the pixels a table must have that is made from candidate lists, and one for ordered dithering: what the
# tables cost on an NVIDIA H200.
DEAR_LISTS, DEAR_DITHER = 4, 2
# Most colours of which `cl/mapping/full_table_colors.cl` makes a table, the sides of a group's box of colours, in a
# table by bricks and in a plain one, and work-items that share one.
FEW_FILE = "mapping/full_table_colors.cl"
FEW = 256
FEW_BOX, FEW_PLAIN_BOX = (16, 16, 16), (32, 16, 8)
FEW_GROUP = 256
ANY_WIDTH = 4096


def pays(mapper: Mapper, session: Session, channels: int, pixels: int, dithered: bool) -> bool:
    """Whether a table should be made for so many pixels, and fits the device.

    Parameters
    ----------
    mapper : Mapper
    session : Session
    channels : int
        1, 3 or 4.
    pixels : int
        Of the whole picture.
    dithered : bool
        Whether the table is that of ordered dithering, which admits at most 256 colours.
    """
    dear = (1 if _made_without_lists(mapper, channels) else DEAR_LISTS) * (DEAR_DITHER if dithered else 1)
    entry_bytes = ANSWER_BYTES if dithered else mapper.index_bytes
    return (
        pixels >= dear * session.tuned("mapping.table_pays")
        and _colors(channels) * entry_bytes <= session.limits.max_alloc
        and not (dithered and mapper.index_bytes > 1)
    )


def _made_without_lists(mapper: Mapper, channels: int) -> bool:
    return channels != 1 and mapper.points_are_colors and mapper.colors <= FEW


def map_pixels(mapper: Mapper, task: Task) -> None:
    """Queue what `Mapper.map` does, by a table.

    Parameters
    ----------
    mapper : Mapper
    task : Task
    """
    wide = task.width if task.width is not None and task.width >= COLUMNS else ANY_WIDTH
    tiles, rows = _tiles(mapper.session, task.count, wide, COLUMNS, MOST_ROWS)
    aligned = _aligned(wide, task)
    given = (*task.arguments, _nearest(mapper, task.channels), np.uint32(wide), np.uint32(rows))
    how: Any = {"groups": tiles, "searches": task.channels == 4, "ALIGNED": aligned}
    mapper.launch_any(TABLE.file, "map_pixels", task.channels, GROUP, *given, **how)


def dither_pixels(mapper: Mapper, task: Task, more: Sequence[Any]) -> None:
    """Queue ordered dithering by a table.

    Parameters
    ----------
    mapper : Mapper
        Of at most 256 colours.
    task : Task
    more : sequence
        The last arguments of `cl/dithering/ordered.cl`, from `width` on.
    """
    width, (side, extent, strength) = int(more[0]), more[-3:]
    aligned = _aligned(width, task) * int(side % 4 == 0)
    constants = {"ALIGNED": aligned}
    if mapper.session.limits.is_nvidia:
        constants["GROUP"] = 1 << (min(ORDERED_GROUP, mapper.session.limits.work_group).bit_length() - 1)
    answers = _answers(mapper, task.channels, side, extent, strength, constants)
    tiles, rows = _tiles(mapper.session, task.count, width, ORDERED_COLUMNS, ORDERED_ROWS)
    given = (*task.arguments, answers, np.uint32(rows), *more)
    how: Any = {"groups": tiles, "searches": task.channels == 4, "exact": "GROUP" in constants, **constants}
    mapper.launch_any(ORDERED_FILE, "dither_ordered", task.channels, ORDERED_GROUP, *given, **how)


def _aligned(width: int, task: Task) -> int:
    """ALIGNED of `cl/mapping/full_table.h`."""
    return int(width % 4 == 0 and task.count % 4 == 0)


def _colors(channels: int) -> int:
    return 1 << (8 if channels == 1 else 24)


def _nearest(mapper: Mapper, channels: int) -> Buffer:
    """The table of nearest entries."""
    colors = _colors(channels)

    def make() -> Buffer:
        table = mapper.scope.empty(colors * mapper.index_bytes)
        if _made_without_lists(mapper, channels):
            _map_few(mapper, table, channels, plain=False)
        else:
            fine, quads = channels != 1, np.uint32(colors // 4)
            _over_colors(mapper, TABLE.file, "map_colors", channels, fine, table, quads, ALIGNED=1)
        return table

    return mapper.kept(("nearest", channels), make)


def _map_few(mapper: Mapper, table: Buffer, channels: int, *, plain: bool) -> None:
    """Queue `cl/mapping/full_table_colors.cl`."""
    session, box = mapper.session, FEW_PLAIN_BOX if plain else FEW_BOX
    sides = dict(zip(("WIDE", "HIGH", "DEEP"), box, strict=True))
    program = session.program(FEW_FILE, **sides, PLAIN=int(plain), **mapper.constants(channels))
    kernel = program.kernel("map_colors")
    group = session.work_group_size(kernel, FEW_GROUP)
    groups = _colors(channels) // int(np.prod(box))
    session.launch(kernel, groups * group, group, mapper.points, np.uint32(mapper.colors), table)


def plain_table(mapper: Mapper) -> Buffer:
    """Queue what finds the nearest entries of all opaque colours.

    Parameters
    ----------
    mapper : Mapper

    Returns
    -------
    pyopencl.Buffer
        (2^24) of the palette's index dtype, by R | G << 8 | B << 16.
    """
    channels = 3

    def make() -> Buffer:
        table = mapper.scope.empty(_colors(channels) * mapper.index_bytes)
        if _made_without_lists(mapper, channels):
            _map_few(mapper, table, channels, plain=True)
        else:
            file, items = PLAIN_FILE, _colors(channels)
            mapper.launch_any(file, "nearest_of_all", channels, TABLE_GROUP, table, items=items)
        return table

    return mapper.kept("plain", make)


def _answers(
    mapper: Mapper, channels: int, side: np.uint32, extent: Any, strength: np.int32, constants: dict[str, int]
) -> Buffer:
    """The table of answers of ordered dithering, where need be by the program that has these constants."""
    colors, values = _colors(channels), int(side) ** 2

    def make() -> Buffer:
        answers = mapper.scope.empty(ANSWER_BYTES * colors)
        nearest, quads = _nearest(mapper, channels), np.uint32(colors // 4)
        if channels != 1 and mapper.points_are_colors and values <= PAIRS_VALUES:
            session, pairs = mapper.session, mapper.scope.empty(PAIR_BYTES * PAIRS_OF_ONE * mapper.colors)
            program, points = session.program(PAIRS_FILE, **mapper.constants(3)), mapper.points
            mix, dither = program.kernel("mix_pairs"), program.kernel("dither_colors")
            sizes = PAIRS_OF_ONE * mapper.colors, session.work_group_size(mix, TABLE_GROUP)
            session.launch(mix, *sizes, points, np.uint32(mapper.colors), pairs, np.int32(values), strength)
            group = session.work_group_size(dither, PAIRS_GROUP)
            session.launch(dither, int(quads), group, points, nearest, pairs, answers, quads, np.uint32(values))
        else:
            given = nearest, answers, quads, extent, np.int32(values), strength
            _over_colors(mapper, ORDERED_FILE, "dither_colors", channels, channels != 1, *given, **constants)
        return answers

    return mapper.kept(("answers", channels, int(side), int(strength)), make)


def _over_colors(
    mapper: Mapper, file: str, kernel_name: str, channels: int, fine: bool, *more: Any, **constants: Any
) -> None:
    """Queue a kernel with a work-item for every four colours."""
    items = _colors(channels) // 4
    mapper.launch_any(file, kernel_name, channels, TABLE_GROUP, *more, items=items, fine=fine, **constants)


def _tiles(session: Session, count: int, width: int, columns: int, most_rows: int) -> tuple[int, int]:
    """Tiles of pixels in rows, and rows of one."""
    rows = count // (columns * TILES_A_UNIT * session.limits.compute_units)
    # A tile's pixels are numbered in 32 bits.
    rows = max(1, min(most_rows, rows, (1 << 32) // width - 1))
    height = -(-count // width)
    return -(-width // columns) * -(-height // rows), rows
