"""Host pictures on their way to a device, in parts, so that transfers and kernels overlap.

Parts are queued one after another by the calling thread. An upload returns at once where the pixels are page-locked,
else when they were read, and a result in page-locked memory is awaited at the end only (`HostResult`), so one part's
kernels run while the next one's pixels are on their way.
"""

from __future__ import annotations

from clquant.images.decode import Samples
from clquant.runtime import STAGED_BYTES, Buffer, Scope, Session, Upload

PARTS_AHEAD = 1  # of a picture sent in parts: begun before they are needed; two delay downloads
PAGEABLE_PART = 96 << 20  # bytes; smaller ones are staged at a lower rate than is gained
PARTS_THERE = 4  # at most, of a picture that is on the device: enough for results to overlap the kernels


def part_rows(
    session: Session, height: int, row_bytes: int, pinned: bool, multiple_of: int = 1, there: bool = False
) -> int:
    """Return the rows of a part of a host picture by which copies and kernels overlap, or as memory allows.

    `row_bytes` are those of the largest buffer of a part, whose rows are a multiple of `multiple_of`.
    """
    most = max(session.limits.max_alloc // max(row_bytes, 1), 1)
    if not session.limits.unified_memory and height * row_bytes >= STAGED_BYTES:
        of_its_kind = -(-height // PARTS_THERE) * row_bytes if there else 0
        least = max(STAGED_BYTES, of_its_kind, 0 if pinned else PAGEABLE_PART)
        most = min(most, max(-(-height // session.tuned("transfer.bands")), -(-least // max(row_bytes, 1))))
    return int(max(most // multiple_of, 1) * multiple_of)


class SentRows:
    """A host picture on its way to a device, in parts: a part's upload is begun well before its rows are asked for.

    Not all are begun at once: the small copies of a job's tables would have to wait for them.
    """

    def __init__(self, session: Session, scope: Scope, array: Samples) -> None:
        self._scope = scope
        self._array = array
        self._row_bytes = array[0].nbytes
        self._buffer = scope.room_for(array)
        rows = part_rows(session, len(array), self._row_bytes, session.is_pinned(array))
        self._parts = [(row0, min(row0 + rows, len(array))) for row0 in range(0, len(array), rows)]
        self._begun: list[Upload] = []
        self._ordered = 0
        self._begin(1)

    @property
    def are_there(self) -> bool:
        """Whether all rows were asked for before, so that nothing waits for the host any more."""
        return self._ordered == len(self._parts)

    def begin(self, rows: int) -> None:
        """Begin the uploads of the first `rows` rows."""
        self._begin(self._needed(rows))

    def _needed(self, rows: int) -> int:
        """Parts that have the first rows."""
        return sum(begin < rows for begin, _ in self._parts)

    def _begin(self, count: int) -> None:
        """Begin the uploads of the first `count` parts."""
        for row0, row1 in self._parts[len(self._begun) : count]:
            upload = self._scope.begin_upload(self._buffer, self._array[row0:row1], row0 * self._row_bytes)
            self._begun.append(upload)

    def _order(self, count: int) -> None:
        """Make what is queued from now on wait for the first `count` parts."""
        for upload in self._begun[self._ordered : count]:
            upload.order()
        self._ordered = max(self._ordered, count)

    def rows(self, session: Session, scope: Scope, row0: int, row1: int) -> Buffer:
        """Return a buffer with rows ``row0..row1``, valid for what is queued from now on."""
        needed = self._needed(row1)
        self._begin(needed + PARTS_AHEAD)
        self._order(needed)
        if row1 - row0 == len(self._array):
            return self._buffer
        nbytes = (row1 - row0) * self._row_bytes
        part = scope.empty(nbytes)
        session.copy(part, self._buffer, nbytes, row0 * self._row_bytes)
        return part
