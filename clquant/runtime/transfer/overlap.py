"""The bands of one job whose uploads, kernels and downloads overlap.

Bands are queued one after another by the calling thread. An upload returns at once where the pixels are page-locked,
else when they were read (see `clquant.runtime.transfer.staging`), and a result in page-locked memory is awaited at the
end only (`HostResult`), so one band's kernels run while the next one's pixels are on their way.
"""

from __future__ import annotations

from clquant.runtime.session import Session
from clquant.runtime.transfer.staging import SMALLEST


def overlap_bands(
    session: Session, height: int, row_bytes: int, multiple_of: int = 1, smallest: int = 0
) -> list[tuple[int, int]]:
    """Divide a picture into bands of rows whose copies and kernels overlap: `transfer.bands`, or as memory allows.

    `row_bytes` are those of the largest buffer of a band; every band but the last has a multiple of `multiple_of` rows
    and at least `smallest` bytes. One band if the device shares the host's memory or the picture is small.
    """
    most = max(session.limits.max_alloc // max(row_bytes, 1), 1)
    if not session.limits.unified_memory and height * row_bytes >= SMALLEST:
        bands = session.tuned("transfer.bands")
        least = max(SMALLEST, smallest)
        most = min(most, max(-(-height // bands), -(-least // max(row_bytes, 1))))
    rows = max(most // multiple_of, 1) * multiple_of
    return [(row0, min(row0 + rows, height)) for row0 in range(0, height, rows)]
