"""Counting the distinct colours of pictures if they are few: cheap, as photographs are left early."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Scope, Session

SLOTS = 1 << 16
MOST = 1 << 14
_RUN = 16
_RUN_ON_CPUS = 256
"""Whether there are too many colours is looked at before every run: a thread of a CPU pays more for an atomic read."""
_WORK_ITEMS_PER_UNIT = 2048
_GROUP = 256


@dataclass(frozen=True)
class FewColors:
    """What `few_colors` found.

    Attributes
    ----------
    colors : ndarray or None
        (n, 4) uint8, the distinct colours without those of alpha 0, in the order of R, G, B, alpha; None where
        there are more than asked for.
    counts : ndarray or None
        (n,) uint32, their pixels.
    transparent : bool
        Whether some pixel has alpha 0.
    partial : bool
        Whether some pixel's alpha is neither 0 nor 255.
    """

    colors: npt.NDArray[np.uint8] | None
    counts: npt.NDArray[np.uint32] | None
    transparent: bool
    partial: bool


def few_colors(
    session: Session,
    scope: Scope,
    bands: Iterable[tuple[Buffer, int, int]],
    most: int,
    meanwhile: Callable[[], None] | None = None,
) -> FewColors:
    """The distinct colours of some bands of pixels together, if they are at most `most`.

    Parameters
    ----------
    session : Session
    scope : Scope
    bands : iterable of (Buffer, int, int)
        Pixels (count, channels) uint8, channels (1, 3 or 4; gray v is (v, v, v)) and count, together below 2^32.
    most : int
        0 to `MOST`.
    meanwhile : callable, optional
        Called when all is queued, before the device is waited for.
    """
    assert 0 <= most <= MOST
    table = scope.zeros(4 * SLOTS)
    tally = scope.zeros(4 * SLOTS)
    found = scope.zeros(8)
    for pixels, channels, count in bands:
        run = _RUN_ON_CPUS if session.limits.is_cpu else _RUN
        kernel = session.program(
            "palette_distinct.cl", CHANNELS=channels, SLOTS=SLOTS, RUN=run, LOADS=int(session.limits.is_nvidia)
        ).kernel("palette_distinct")
        group = session.work_group_size(kernel, _GROUP)
        items = min(
            -(-count // run), session.limits.compute_units * (1 if session.limits.is_cpu else _WORK_ITEMS_PER_UNIT)
        )
        group = min(group, 1 if session.limits.is_cpu else group)
        session.launch(kernel, items, group, pixels, np.uint32(count), np.uint32(most), table, tally, found)
    if meanwhile is not None:
        meanwhile()
    number, alphas = (int(v) for v in session.download(found, 2, np.uint32))
    if number > most:
        return FewColors(None, None, bool(alphas & 1), bool(alphas & 2))
    packed = session.download(table, SLOTS, np.uint32)
    counts = session.download(tally, SLOTS, np.uint32)[packed != 0]
    rgba = packed[packed != 0].view(np.uint8).reshape(-1, 4)
    order = np.lexsort((rgba[:, 3], rgba[:, 2], rgba[:, 1], rgba[:, 0]))
    return FewColors(rgba[order], counts[order], bool(alphas & 1), bool(alphas & 2))
