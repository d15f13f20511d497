"""Statistics of a tree's levels that are made again from the picture when they are asked for."""

from __future__ import annotations

import concurrent.futures
import os
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, runtime
from clquant.images import Picture
from clquant.quadtree import figures
from clquant.quadtree.assembly import Decomposition, TreeJob, decompose
from clquant.quadtree.geometry import MAX_CHANNELS, grid_pixels
from clquant.quadtree.leaf_list import LeafList
from clquant.quadtree.levels import INSIDE, Kinds, Level, Words, unpack
from clquant.runtime import bound

Pixels = npt.NDArray[np.uint8]
LONG_LIST = 8  # a list of leaves is long from an eighth of the picture's bytes on
MAX_THREADS = 8  # which keep memory busy


class OwnPixels:
    """A private copy of a picture's pixels, made in the background; `session` reads pictures on a device."""

    def __init__(self, picture: Picture, session: runtime.Session) -> None:
        self._copies: list[concurrent.futures.Future[None]] = []
        if picture.array is None:
            self._pixels = picture.on_host(session)
            return
        self._pixels = np.empty(picture.array.shape, np.uint8)
        threads = min(picture.array.nbytes // bound("picture_statistics.thread"), MAX_THREADS, os.cpu_count() or 1)
        if threads < 2:
            self._pixels[...] = picture.array
            return
        rows = -(-picture.height // threads)
        pool = concurrent.futures.ThreadPoolExecutor(threads)
        for row in range(0, picture.height, rows):
            self._copies.append(pool.submit(np.copyto, self._pixels[row : row + rows], picture.array[row : row + rows]))
        pool.shutdown(wait=False)

    def array(self) -> Pixels:
        """The pixels, once all are copied."""
        for copy in self._copies:
            copy.result()
        return self._pixels


class PictureStatistics:
    """Statistics of all nodes (bottom-up), or of the tree's own nodes (top-down), computed on first access."""

    # Only the pixels are kept until then: reducing them again takes less time than storing and sending what most
    # callers never look at. Copies and pickles work on the default device.

    def __init__(
        self,
        pixels: Pixels,
        job: TreeJob,
        complete: bool,
        leaves: npt.NDArray[np.void],
        queue: runtime.CommandQueue | None,
    ) -> None:
        self.pixels = pixels
        self.complete = complete
        self._criterion = job.criterion
        self._leaves = leaves
        self._queue = queue
        self._made: tuple[dict[int, Words], Kinds] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_queue": None, "_made": None}

    def level(self, level: int) -> Level:
        """Return a level, counted from the pixels."""
        height, width, _ = self.pixels.shape
        if self._made is None:
            found = self._decomposed(TreeJob(self._picture(), self._criterion, levels=True))
            self._made = found.words, Kinds(height, width, self._leaves)
        kinds = self._made[1].level(level)
        values = self._made[0][level] if level else np.moveaxis(self.pixels, -1, 0)
        if not self.complete:
            values = values * (kinds != INSIDE)
        if level:
            sums, squares = unpack(values)
        else:
            sums = values.astype(np.uint64)
            squares = sums * sums
        places = kinds, grid_pixels(height, width, level)
        return Level(1 << level, *places, np.moveaxis(sums, 0, -1), np.moveaxis(squares, 0, -1))

    def leaves_down_to(self, level: int) -> LeafList:
        """The leaves of the tree that ends at a level: what is still to be split is a leaf there."""
        criterion = replace(self._criterion, floor_level=max(self._criterion.floor_level, level))
        found = self._decomposed(TreeJob(self._picture(), criterion, levels=False))
        height, width, channels = self.pixels.shape
        return LeafList(height, width, channels, found.leaves)

    def squared_error(self) -> int:
        """Sum of squared differences between the picture and its leaves' means; exact."""
        session, (height, width, channels) = self.session(), self.pixels.shape
        leaves = LeafList(height, width, channels, self._leaves)
        limits, nbytes = session.limits, leaves.records.nbytes
        room = min(limits.max_alloc, limits.global_memory // 4)
        is_long = self.pixels.nbytes // LONG_LIST <= nbytes <= room and self.pixels.nbytes <= room
        if limits.unified_memory or not is_long:
            return figures.squared_error(session, leaves, self.pixels)
        # Where the list is long, listing it again takes less time than sending it.
        array = session.new_array(self.pixels.shape, np.uint8)
        session.write(images.buffer_of(array), self.pixels)
        picture = replace(self._picture(), array=None, device_array=array)
        found = self._decomposed(TreeJob(picture, self._criterion, levels=False))
        return figures.squared_error_on_device(session, array, found.leaves)

    def session(self) -> runtime.Session:
        """Open a session where the tree was built, else on the default device."""
        return runtime.open_session(self._queue)

    def _decomposed(self, job: TreeJob) -> Decomposition:
        return decompose(self.session(), job, runtime.Progress(None))

    def _picture(self) -> Picture:
        return images.read(self.pixels, max_channels=MAX_CHANNELS)
