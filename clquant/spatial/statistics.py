"""The sums that a palette's best colours depend on; see `cl/spatial/statistics.cl`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.dithering.phase_planes import LANES, PHASES, PhaseSteps
from clquant.dithering.search_steps import ToggleSearch
from clquant.runtime import InvalidArgument, Limits, Session, Variant

# Pixels of a slice, so that no sum of it leaves 32 bits.
MOST_PIXELS = 1 << 17
# Most slices over which sums are spread, so that fewer work-items add to one number, and the bytes these may take.
SLICES, SLICE_BYTES = 256, 1 << 26
GROUP = 64

IN_LANES = Variant("lanes", "spatial/statistics_lanes.cl", Limits.has_lanes, gain=3.1)
PORTABLE = Variant("portable", "spatial/statistics.cl")
VARIANTS = (IN_LANES, PORTABLE)


@dataclass(frozen=True)
class Statistics:
    """Exact sums over all pixels."""

    pairs: npt.NDArray[np.int64]  # (k, k) int64: A(j, l), kernel weights over pairs of pixels of j and l
    counts: npt.NDArray[np.int64]  # (k,) int64: pixels of each entry
    slopes: npt.NDArray[np.int64]  # (k, dims) int64: the gathered errors of its pixels


def statistics(
    session: Session, search: ToggleSearch, kernel: npt.NDArray[np.int32], colors: int, dims: int
) -> Statistics:
    """Sum up a search as it stands, with its `kernel`."""
    layout, form = search.layout, session.choose(VARIANTS)
    program = session.program(form.file, DIMS=dims)
    add_phase = program.kernel("add_phase")
    group = 1 if form is IN_LANES else session.work_group_size(add_phase, GROUP)
    numbers = (colors + 1 + 2 * dims) * colors
    across = -(-layout.cells_across // (LANES if form is IN_LANES else group))
    runs = across * layout.cells_down
    cells = LANES if form is IN_LANES else group
    fewest = -(-runs // (MOST_PIXELS // (PHASES * cells)))
    slices = max(fewest, min(SLICES, SLICE_BYTES // (4 * numbers), runs), 1)
    if form is IN_LANES:
        slices = max(fewest, min(4 * session.limits.compute_units, runs), 1)
    if -(-runs // slices) * PHASES * cells > MOST_PIXELS:
        raise InvalidArgument(f"{layout.rows} x {layout.columns} pixels are too many for exact sums")
    stride = numbers + (form is IN_LANES)
    half = kernel.copy()
    half.ravel()[: kernel.size // 2 + 1] = 0
    places = PhaseSteps(layout)
    taps = [search.error_taps(phase) for phase in range(PHASES)]
    pairs = [places.taps(phase, half) for phase in range(PHASES)]
    sizes = (slices,) if form is IN_LANES else (layout.cells_across, layout.cells_down)
    lengths = {"n_taps": len(taps[0]), "n_pairs": len(pairs[0]), "colors": colors, "slices": slices}
    with session.scope() as scope:
        sums, totals = scope.zeros(4 * slices * stride), scope.empty(8 * numbers)
        given = {
            **_cells_of(search),
            **{name: np.uint32(length) for name, length in lengths.items()},
            "taps": scope.copy_of(np.concatenate(taps)),
            "pairs": scope.copy_of(np.concatenate(pairs)),
            "sums": sums,
        }
        for phase in range(PHASES):
            firsts = {"first_tap": phase * len(taps[0]), "first_pair": phase * len(pairs[0]), "phase": phase}
            now = {name: np.uint32(number) for name, number in firsts.items()}
            session.launch(add_phase, sizes, (group, 1)[: len(sizes)], **given, **now)
        add_slices = session.program(PORTABLE.file, DIMS=dims).kernel("add_slices")
        signed_from = (colors + 1 + dims) * colors
        wanted = session.work_group_size(add_slices, GROUP)
        session.launch(
            add_slices,
            numbers,
            wanted,
            *(sums, np.uint32(numbers), np.uint32(stride), np.uint32(slices), np.uint32(signed_from), totals),
        )
        found = session.download(totals, numbers, np.int64)
    later, counts, low, high = np.split(found, np.cumsum([colors * colors, colors, dims * colors]))
    middle = int(kernel[len(kernel) // 2, len(kernel) // 2])
    table = later.reshape(colors, colors)
    return Statistics(table + table.T + middle * np.diag(counts), counts, (high * 4096 + low).reshape(colors, dims))


def _cells_of(search: ToggleSearch) -> dict[str, Any]:
    """A search's cells as `add_phase` takes them."""
    layout = search.layout
    return {
        "errors": search.errors,
        "state": search.state,
        "columns": np.uint32(layout.cells_across),
        "rows": np.uint32(layout.cells_down),
        "stride": np.uint32(layout.stride),
        "plane": np.uint64(layout.plane),
    }
