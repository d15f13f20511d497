"""Counting the distinct colours of pictures if they are few: cheap, as photographs are left early."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Scope, Session

SLOTS = 1 << 16
MAX_DISTINCT = 1 << 14
_RUN = 16
_RUN_ON_CPUS = 256
# On CPUs, where atomic operations are slow, a thread counts up to 2^_MEMO_BITS colours by itself first.
_MEMO_BITS = 14
_WORK_ITEMS_PER_UNIT = 2048
_GROUP = 256


@dataclass(frozen=True)
class DistinctColors:
    """Result of `distinct_colors`."""

    colors: npt.NDArray[np.uint8] | None  # (n, 4) uint8 of alpha above 0, sorted; None for more than asked
    counts: npt.NDArray[np.uint32] | None  # (n,) uint32, their pixels
    transparent: bool  # whether an alpha is 0
    partial: bool  # whether an alpha is neither 0 nor 255


def distinct_colors(
    session: Session,
    scope: Scope,
    bands: Iterable[tuple[Buffer, int, int]],
    most: int,
    meanwhile: Callable[[], None] | None = None,
) -> DistinctColors:
    """List the colours of bands (pixels, channels, count) if they are at most `most`, up to `MAX_DISTINCT`."""
    # `meanwhile` is called when all is queued, before the device is waited for.
    table = scope.zeros(4 * SLOTS)
    tally = scope.zeros(4 * SLOTS)
    found = scope.zeros(8)
    limits, on_cpu = session.limits, session.limits.is_cpu
    run, most_items = (_RUN_ON_CPUS, 1) if on_cpu else (_RUN, _WORK_ITEMS_PER_UNIT)
    most_items *= limits.compute_units
    if on_cpu:
        most_items = max(1, min(most_items, limits.max_alloc >> _MEMO_BITS + 3))
    constants = {"SLOTS": SLOTS, "RUN": run, "MEMO": int(on_cpu), "LOADS": int(limits.is_nvidia)}
    for pixels, channels, count in bands:
        kernel = session.program("histogram/distinct.cl", CHANNELS=channels, **constants).kernel("palette_distinct")
        group = 1 if on_cpu else session.work_group_size(kernel, _GROUP)
        items = min(-(-count // run), most_items)
        given = [pixels, np.uint32(count), np.uint32(most), table, tally, found]
        if on_cpu:
            bits = max(1, min(_MEMO_BITS, (count // items).bit_length()))
            given += scope.empty(items << bits + 3), np.uint32(bits)
        session.launch(kernel, items, group, *given)
    if meanwhile is not None:
        meanwhile()
    number, alphas = (int(v) for v in session.download(found, 2, np.uint32))
    if number > most:
        return DistinctColors(None, None, bool(alphas & 1), bool(alphas & 2))
    packed = session.download(table, SLOTS, np.uint32)
    counts = session.download(tally, SLOTS, np.uint32)[packed != 0]
    rgba = packed[packed != 0].view(np.uint8).reshape(-1, 4)
    order = np.lexsort((rgba[:, 3], rgba[:, 2], rgba[:, 1], rgba[:, 0]))
    return DistinctColors(rgba[order], counts[order], bool(alphas & 1), bool(alphas & 2))
