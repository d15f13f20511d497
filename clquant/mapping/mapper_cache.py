"""Mappers to work with: new ones, or that of an earlier job for the same palette.

A CPU takes as long to list a palette's candidates as to map a hundred thousand pixels, and a GPU's host as long to send
a palette's small tables as to do all the rest for a small picture; and pictures that come one after another often share
a palette.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from clquant import runtime
from clquant.color.palette import Palette
from clquant.color.spaces import Space
from clquant.mapping.candidates import FINER_PAYS
from clquant.mapping.full_table import TABLE
from clquant.mapping.nearest import VARIANTS, Mapper

MOST_COLORS = 1024
"""Of a palette whose mapper is kept."""
MOST_BYTES = 1 << 23
"""Of the lists and tables of a mapper that is kept."""


@contextlib.contextmanager
def open_mapper(
    session: runtime.Session,
    palette: Palette,
    space: Space,
    expected_pixels: int,
    metric: str = "l2",
    *,
    lanes: bool = True,
) -> Iterator[Mapper]:
    """A mapper whose device memory lasts as long as the block.

    Parameters
    ----------
    session, palette, space, expected_pixels, metric, lanes
        As `Mapper` takes them.
    """

    def make(scope: runtime.Scope) -> Mapper:
        return Mapper(session, scope, palette, space, expected_pixels, metric, lanes=lanes)

    key = None
    if len(palette) <= MOST_COLORS:
        key = _key(session, palette, space, expected_pixels, metric, lanes)
    with runtime.kept(session, key, make, lambda mapper: mapper.made_bytes <= MOST_BYTES) as mapper:
        yield mapper


def _key(
    session: runtime.Session, palette: Palette, space: Space, expected_pixels: int, metric: str, lanes: bool
) -> tuple[Hashable, ...]:
    """All that a mapper's lists and forms depend on."""
    searches = expected_pixels * len(palette)
    form = session.choose(VARIANTS)
    how = (metric, lanes, searches >= session.tuned("mapping.grid_pays"), searches >= FINER_PAYS)
    forms = (form.name, session.tuned("mapping.group"), session.tuned("mapping.table_pays"))
    # Whether a table pays is decided later, by the pixels and the channels of what is mapped.
    pixels = expected_pixels if form is TABLE else 0
    return ("mapper", palette.colors.shape, palette.colors.tobytes(), space, how, forms, pixels)
