"""Mappers to work with: new ones, or on CPUs that of an earlier job for the same palette.

A CPU takes as long to list a palette's candidates as to map a hundred thousand pixels, and pictures that come one after
another often share a palette.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from clquant import runtime
from clquant.palette.cells import FINER_PAYS
from clquant.palette.mapping import VARIANTS, Mapper
from clquant.palette.palette import Palette
from clquant.palette.spaces import Space

MOST_COLORS = 1024
"""Of a palette whose mapper is kept."""
MOST_BYTES = 1 << 23
"""Of the lists of a mapper that is kept."""


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
    if session.limits.is_cpu and len(palette) <= MOST_COLORS:
        key = _key(session, palette, space, expected_pixels, metric, lanes)
    with runtime.kept(session, key, make, lambda mapper: mapper.list_bytes <= MOST_BYTES) as mapper:
        yield mapper


def _key(
    session: runtime.Session, palette: Palette, space: Space, expected_pixels: int, metric: str, lanes: bool
) -> tuple[Hashable, ...]:
    """All that a mapper's lists and forms depend on."""
    searches = expected_pixels * len(palette)
    how = (metric, lanes, searches >= session.tuned("mapping.grid_pays"), searches >= FINER_PAYS)
    forms = (session.choose(VARIANTS).name, session.tuned("mapping.group"), session.tuned("mapping.table_pays"))
    return ("mapper", palette.colors.shape, palette.colors.tobytes(), space, how, forms)
