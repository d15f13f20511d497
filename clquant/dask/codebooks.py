"""VQ codebooks from Dask arrays and files: one worker leads, which asks all for sums per codeword.

Each worker keeps blocks of its parts on its device between steps. A part that is lost with its worker is made anew from
the arrays' or files' graph, and so is the training if that worker led it. Nothing of a codebook depends on how blocks
are shared out (see `clquant.training.parted`). With a queue, or without a cluster, this process leads.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed, persist

from clquant import images as pictures
from clquant.dask.asking import Placement, train
from clquant.dask.chunks import checked, joined, on_grid
from clquant.dask.files import Later, expanded
from clquant.dask.leading import Teller, called
from clquant.dask.verify import connect, verified_share
from clquant.dask.work import client, held, located, named, release, workers
from clquant.images.foreign import is_dask
from clquant.runtime import InvalidArgument, Progress, Session, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape
from clquant.training.lines import Lines, Tile
from clquant.training.part import Part

# About how many bytes of pixels a part has; up to how many are brought together if steps are no work for several.
MOST_PART, MOST_BROUGHT = 1 << 30, 1 << 26
# Products of a step that one CPU, or one GPU, makes while several workers are asked and answer: about 4 ms.
MOST_ALONE = (1 << 29, 1 << 38)


def fit(codec: Any, given: Sequence[Any], sample_weight: Any, plan: training.Plan, progress: Progress) -> Any:
    """Train the codebook of Dask arrays, or of images that workers read, like `VQCodec.fit`."""
    images = expanded(given)
    with located(images), contextlib.closing(_Parts(images, tuple(codec.block_shape), sample_weight, plan)) as parts:
        there = client()
        if codec.queue is None and there is not None:
            return parts.trained_there(there, progress), parts.shape
        return parts.trained_here(open_session(codec.queue), progress), parts.shape


class _Parts:
    """Parts of pictures on workers, and which blocks of all pictures each has."""

    def __init__(self, given: Sequence[Any], block: tuple[int, int], sample_weight: Any, plan: training.Plan) -> None:
        self._block = block
        self._plan = plan
        pictures = [_Chunks.of(image, i, block) for i, image in enumerate(given)]
        shapes = _shapes(pictures)
        channels = {shape[2] for shape in shapes}
        if len(channels) > 1:
            raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
        self.shape = BlockShape(*block, channels.pop())
        tables = [self.shape.table_shape(*shape[:2]) for shape in shapes]
        firsts = [0, *itertools.accumulate(rows * columns for rows, columns in tables)]
        self.count = firsts.pop()
        weights = training.check_weights(sample_weight, tables)
        self.weights = None if weights is None else np.concatenate([w.ravel() for w in weights])
        pieces = [
            piece
            for i, chunks in enumerate(pictures)
            for piece in chunks.pieces(shapes[i], self.shape, firsts[i], None if weights is None else weights[i])
        ]
        count = workers()
        self._where = _gpu_first() if count > 1 else {}
        if self.count * self.shape.components <= MOST_BROUGHT:
            products = self.count * self.shape.components * plan.size
            count = min(count, -(-products // MOST_ALONE[bool(self._where)]))
        groups = _groups(pieces, count, MOST_PART // self.shape.components)
        self._are_together = len(groups) == 1
        self._lines = [line for chunks in pictures for line in chunks.lines]
        self._origins = [line for chunks in pictures for line in chunks.origins]
        self._futures = {future.key: future for image in given if is_dask(image) for future in held(image)}
        self._line_weights = None if weights is None else _by_lines(pictures, weights, block[0])
        self._groups = groups
        self._parts: Sequence[Any] = ()

    def close(self) -> None:
        """Release the parts."""
        for part in self._parts:
            release(held(part))

    def trained_here(self, session: Session, progress: Progress) -> training.Trained:
        """Train in this process, on all blocks or by calls to the parts."""
        if self._are_together and client() is None:
            (lines,) = compute(self._lines)
            given = _joined(lines, self._origins)
            return training.train(session, given, self._line_weights, self.shape, self._plan, progress)
        self._start()
        return train(session, self._placement(), self._parts, self._plan, progress)

    def trained_there(self, there: Any, progress: Progress) -> training.Trained:
        """Train on a worker, on all blocks or by calls to the parts."""
        if not self._are_together:
            self._start()
        begin = self._together if self._are_together else self._by_messages
        trained: training.Trained = called(there, progress, lambda teller: begin(there, teller))
        return trained

    def _together(self, there: Any, teller: Teller) -> Any:
        """Start one task that trains on all pixels, and return its future."""
        given, found = (self._origins, self._line_weights, self.shape, self._plan), self._futures
        lines: list[list[Any]] = [[found.get(tile.key) for tile in line] for line in self._lines]
        if all(None not in line for line in lines):
            return there.submit(named(_trained), teller, lines, *given, pure=False, **self._where)
        return there.compute(delayed(named(_trained), pure=False)(teller, self._lines, *given), **self._where)

    def _by_messages(self, there: Any, teller: Teller) -> Any:
        """Start the task that trains by calls to the parts, and return its future."""
        keys = [future.key for part in self._parts for future in held(part)]
        given = teller, keys, self._placement(), self._plan
        return there.submit(named(_led, 0.0), *given, pure=False, **self._where)

    def _start(self) -> None:
        """Have workers make the parts."""
        able = None if self.weights is None else self.weights > 0
        ranks = None if able is None else np.cumsum(able) - able
        made = [
            delayed(named(_part), pure=False)(
                [pixels for pixels, _, _ in group],
                None if self.weights is None else [own for _, _, own in group],
                self._block,
                Lines.of_tiles([tile for _, tile, _ in group], ranks),
            )
            for group in self._groups
        ]
        self._parts = persist(*made)

    def _placement(self) -> Placement:
        """Return the description of the parts that a training needs."""
        tiles = [[tile for _, tile, _ in group] for group in self._groups]
        return Placement(self.shape, self.count, self.weights, tiles, verified_share(), MOST_ALONE, workers())


def _gpu_first() -> dict[str, Any]:
    """Return `Client.submit` options that prefer workers with a GPU; none if there are none."""
    there = client()
    kinds = {} if there is None else there.run(_is_on_cpu, on_error="ignore")
    with_gpu = [address for address, on_cpu in kinds.items() if on_cpu is False]
    return {"workers": with_gpu, "allow_other_workers": True} if with_gpu else {}


def _is_on_cpu() -> bool:
    return open_session(None).limits.is_cpu


def _led(teller: Teller, keys: list[Any], placement: Placement, plan: training.Plan) -> training.Trained:
    """The training that a worker leads."""
    from distributed import Future, worker_client

    progress = teller.progress()
    connect()
    with worker_client() as there:
        parts = [Future(key, there) for key in keys]
        return train(open_session(None), placement, parts, plan, progress)


class _Chunks:
    """A picture whose chunks are whole blocks: of a Dask array, or one that a worker reads as one chunk."""

    def __init__(self, lines: list[list[Any]], heights: Sequence[int], widths: Sequence[int], shape: Any) -> None:
        self._lines = lines
        self._heights, self._widths = heights, widths
        self.shape = shape

    @property
    def lines(self) -> list[list[Any]]:
        """The chunks as they are, line by line of them."""
        return self._lines

    @property
    def origins(self) -> list[list[tuple[int, int]]]:
        """The rows and columns at which they begin."""
        rows, columns = ([0, *itertools.accumulate(sizes)][:-1] or [0] for sizes in (self._heights, self._widths))
        return [[(row, column) for column in columns] for row in rows]

    @property
    def _pixels(self) -> list[list[Any]]:
        """Tasks for the chunks' pixels, line by line."""
        work = delayed(named(_pixels), pure=False)
        both = zip(self._lines, self.origins, strict=True)
        return [[work(*each) for each in zip(line, places, strict=True)] for line, places in both]

    @property
    def heights(self) -> Sequence[int]:
        """Rows of pixels of each line; empty of a picture that is one chunk."""
        return self._heights

    @classmethod
    def of(cls, image: Any, number: int, block: tuple[int, int]) -> _Chunks:
        """Return the chunks of a picture; `number` is its index among the pictures, for errors."""
        if not is_dask(image):
            read = delayed(named(_read), pure=False)(image, number)
            return cls([[read]], (), (), delayed(named(np.shape), pure=False)(read))
        whole = checked(image)
        heights, widths = (on_grid(whole.chunks[axis], block[axis]) for axis in (0, 1))
        aligned = whole.rechunk({0: heights, 1: widths})
        tiles = aligned.to_delayed().reshape(len(heights), len(widths))
        channels = image.shape[2] if image.ndim == 3 else 1
        return cls(tiles.tolist(), heights, widths, (image.shape[0], image.shape[1], channels))

    def pieces(
        self, shape: tuple[int, int, int], blocks: BlockShape, first: int, weights: npt.NDArray[np.uint16] | None
    ) -> list[tuple[Any, Tile, npt.NDArray[np.uint16] | None]]:
        """Return each chunk's pixels, place among all blocks, and weights; `first` is the picture's first block."""
        heights, widths = self._heights or shape[:1], self._widths or shape[1:2]
        stride = blocks.table_shape(*shape[:2])[1]
        made, top = [], 0
        for line, height in zip(self._pixels, heights, strict=True):
            left = 0
            for pixels, width in zip(line, widths, strict=True):
                rows, columns = blocks.table_shape(height, width)
                own = None if weights is None else weights[top : top + rows, left : left + columns]
                made.append((pixels, Tile(first + top * stride + left, stride, rows, columns), own))
                left += columns
            top += rows
        return made


def _shapes(pictures: Sequence[_Chunks]) -> list[tuple[int, int, int]]:
    """(H, W, C) of each; workers read the files of which that is not known."""
    found = iter(compute(*[p.shape for p in pictures if not isinstance(p.shape, tuple)]))
    return [p.shape if isinstance(p.shape, tuple) else next(found) for p in pictures]


def _groups(pieces: Sequence[Any], count: int, most: int) -> list[list[Any]]:
    """Group neighbouring pieces to about `count` parts, of about `most` blocks at most."""
    sizes = [tile.rows * tile.columns for _, tile, _ in pieces]
    share = min(-(-sum(sizes) // count), most)
    groups: list[list[Any]] = []
    full = share
    for piece, size in zip(pieces, sizes, strict=True):
        if full >= share:
            groups.append([])
            full = 0
        groups[-1].append(piece)
        full += size
    return groups


def _read(image: Any, number: int) -> npt.NDArray[np.uint8]:
    picture = pictures.read(image() if isinstance(image, Later) else image, argument=f"images[{number}]")
    return picture.array  # type: ignore[return-value]


def _pixels(chunk: npt.NDArray[Any], origin: tuple[int, int]) -> npt.NDArray[np.uint8]:
    argument = f"chunk at row {origin[0]}, column {origin[1]}"
    return pictures.read(np.asarray(chunk), argument=argument).array  # type: ignore[return-value]


def _by_lines(
    pictures: Sequence[_Chunks], weights: Sequence[npt.NDArray[np.uint16]], rows: int
) -> list[npt.NDArray[np.uint16]]:
    """The weights of the blocks of each line of chunks; blocks have `rows` rows."""
    cuts = ([end // rows for end in itertools.accumulate(chunks.heights[:-1])] for chunks in pictures)
    return [part for own, places in zip(weights, cuts, strict=True) for part in np.split(own, places)]


def _trained(
    teller: Teller,
    lines: list[list[Any]],
    origins: list[list[tuple[int, int]]],
    weights: Any,
    shape: BlockShape,
    plan: training.Plan,
) -> training.Trained:
    """Train on pictures given as lines of chunks; blocks are numbered as in the whole pictures."""
    given = _joined(lines, origins)
    return training.train(open_session(None), given, weights, shape, plan, teller.progress())


def _joined(lines: list[list[Any]], origins: list[list[tuple[int, int]]]) -> list[Any]:
    """A picture of each line of chunks."""
    read = [[*map(_pixels, *both)] for both in zip(lines, origins, strict=True)]
    return [pictures.read(joined([line])) for line in read]


def _part(pieces: Any, weights: Any, block: tuple[int, int], lines: Lines) -> Part:
    return Part(pieces, weights, block, lines)
