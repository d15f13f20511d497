"""Floyd and Steinberg's serial scan of gray pictures in the form for NVIDIA's GPUs: rows in the lanes of warps."""

from __future__ import annotations

import numpy as np

from clquant import runtime

FILE = "halftone_warps.cl"
ROWS = 32
"""Rows of a strip: the work-items of a warp, which take one each."""
NO_ERROR = 127
"""What stands for an error of 0 in its byte."""


def admits(limits: runtime.Limits) -> bool:
    """Whether a device's work-items hand values to each other as this form does.

    Parameters
    ----------
    limits : runtime.Limits
    """
    return limits.is_nvidia and limits.compute_capability >= 70 and limits.work_group >= ROWS


class SerialWarps:
    """The scan's launches for the bands of one picture, top to bottom; device memory belongs to a scope.

    Parameters
    ----------
    session : runtime.Session
    scope : runtime.Scope
    width : int
        Of the picture.
    """

    rows = ROWS

    def __init__(self, session: runtime.Session, scope: runtime.Scope, width: int) -> None:
        self._session, self._width = session, width
        # Four errors of a strip's last row a word; the first ends with that of the picture's first column.
        self._words = (width - 1) // 4 + 2
        self._kernel = session.program(FILE).kernel("halftone_warps")
        self._above = scope.empty(4 * self._words)
        session.fill(self._above, np.uint8(NO_ERROR), 4 * self._words)

    @property
    def row_bytes(self) -> int:
        """A row of the picture in the largest of a band's buffers, the picture's own."""
        return self._width

    def run(self, scope: runtime.Scope, image: runtime.Buffer, output: runtime.Buffer, count: int) -> None:
        """Queue a band of `count` rows.

        Parameters
        ----------
        scope : runtime.Scope
        image, output : runtime.Buffer
            The rows' pixels, and where their results go.
        count : int
        """
        session, nbytes, strips = self._session, 4 * self._words, -(-count // ROWS)
        passed, ticket = scope.empty(nbytes * (strips + 1)), scope.zeros(4)
        session.copy(passed, self._above, nbytes)
        session.fill(passed, np.uint32(0), nbytes * strips, nbytes)
        sizes = (np.int32(count), np.int32(self._width), np.int32(self._words))
        session.launch(self._kernel, strips * ROWS, ROWS, image, output, passed, ticket, *sizes)
        session.copy(self._above, passed, nbytes, nbytes * strips)
