"""VQ codebooks from Dask arrays and files: sums per codeword by the workers, merged as a tree, steps at the client.

Each worker keeps blocks of its parts on its device between steps. A part that is lost with its worker is made anew from
the arrays' or files' graph. Nothing of a codebook depends on how blocks are shared out (see `clquant.vq.parted`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import compute, delayed, persist

from clquant import images as pictures
from clquant.dask.actors import Actors
from clquant.dask.chunks import checked, joined, on_grid
from clquant.dask.files import Later, expanded
from clquant.dask.work import begun, held, located, named, release, tree, workers
from clquant.images.collections import is_lazy
from clquant.runtime import InvalidArgument, Progress, open_session
from clquant.vq import training
from clquant.vq.blocks import BlockShape
from clquant.vq.lloyd import Lloyd
from clquant.vq.part import Part, Rows, Tile, Worst
from clquant.vq.parted import Elsewhere, PartedBlocks, steps_on

# About how many bytes of pixels a part has; below how many blocks training runs at the client.
MOST_PART, FEW_BLOCKS = 1 << 30, 1 << 15


def fit(codec: Any, given: Sequence[Any], sample_weight: Any, plan: training.Plan, progress: Progress) -> Any:
    """As `VQCodec.fit` of the whole.

    Parameters
    ----------
    codec : VQCodec
        For its ``block_shape`` and ``queue``.
    given : sequence of dask.array.Array, or of images that workers read
    sample_weight : None or sequence
    plan : clquant.vq.training.Plan
    progress : Progress

    Returns
    -------
    (clquant.vq.training.Trained, clquant.vq.blocks.BlockShape)
    """
    images, session = expanded(given), open_session(codec.queue)
    with (
        located(images),
        session.scope() as scope,
        contextlib.closing(_Parts(images, tuple(codec.block_shape), sample_weight)) as parts,
    ):
        if parts.are_together and codec.queue is None and not progress.wanted:
            return parts.trained(plan), parts.shape
        parts.start()
        blocks = PartedBlocks(session, scope, parts.shape, parts.count, parts.weights, parts.elsewhere())
        if blocks.count <= FEW_BLOCKS and blocks.count > plan.size:
            here = blocks.gathered(scope)
            return training.train_on(session, scope, here, plan, progress, Lloyd), parts.shape
        return training.train_on(session, scope, blocks, plan, progress, steps_on), parts.shape


class _Parts:
    """Parts of pictures on workers, and which blocks of all pictures each has.

    Parameters
    ----------
    given : sequence of dask.array.Array, or of images that workers read
    block : pair of int
    sample_weight : None or sequence
        As `VQCodec.fit` takes it.
    """

    def __init__(self, given: Sequence[Any], block: tuple[int, int], sample_weight: Any) -> None:
        self._block = block
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
        groups = _groups(pieces, MOST_PART // self.shape.components)
        self.are_together = len(groups) == 1
        self._lines = [line for chunks in pictures for line in chunks.lines]
        self._origins = [line for chunks in pictures for line in chunks.origins]
        self._futures = {future.key: future for image in given if is_lazy(image) for future in held(image)}
        self._line_weights = None if weights is None else _by_lines(pictures, weights, block[0])
        self._groups = groups
        self._parts: Sequence[Any] = ()
        self._actors: Actors | None = None
        self._tiles = [[tile for _, tile, _, _ in group] for group in groups]
        self._tables = [[table for _, _, table, _ in group] for group in groups]

    def trained(self, plan: training.Plan) -> training.Trained:
        """What one worker learns from all, without the client.

        Parameters
        ----------
        plan : clquant.vq.training.Plan
        """
        given, found = (self._origins, self._line_weights, self.shape, plan), self._futures
        lines: list[list[Any]] = [[found.get(tile.key) for tile in line] for line in self._lines]
        trained: training.Trained
        if all(None not in line for line in lines):
            trained = begun(named(_trained), lines, *given).result()
        else:
            (trained,) = compute(delayed(named(_trained), pure=False)(self._lines, *given))
        return trained

    def start(self) -> None:
        """Have workers make the parts."""
        made = [
            delayed(named(_part), pure=False)(
                [pixels for pixels, _, _, _ in group],
                None if self.weights is None else [own for _, _, _, own in group],
                self._block,
            )
            for group in self._groups
        ]
        self._parts = persist(*made)
        self._actors = Actors.of(self._parts)

    def close(self) -> None:
        """Let go of the parts."""
        if self._actors is not None:
            self._actors.close()
        for part in self._parts:
            release(held(part))

    def elsewhere(self) -> Elsewhere:
        """What asks the parts."""
        return Elsewhere(self._sums, self._worst, self._squares, self._rows)

    def _asked(self, method: str, merge: Callable[..., Any], *shared: Any, own: Any = None) -> Any:
        """The merge of what a method of each part gives."""
        each = [()] * len(self._parts) if own is None else [(mine,) for mine in own]
        if self._actors is not None:
            return merge(self._actors.ask(method, shared, each))
        common = [delayed(one, pure=False) if isinstance(one, np.ndarray) else one for one in shared]
        work = named(getattr(Part, method))
        asked = [delayed(work, pure=False)(part, *common, *mine) for part, mine in zip(self._parts, each, strict=True)]
        return compute(tree(merge, asked))[0]

    def _sums(self, codebook: Rows, capacity: int) -> npt.NDArray[np.uint64]:
        found: npt.NDArray[np.uint64] = self._asked("statistics", _added, codebook, capacity)
        return found

    def _squares(self, capacity: int) -> int:
        return int(self._asked("squares", _added, capacity))

    def _worst(self, codebook: Rows, capacity: int) -> Worst:
        found: Worst = self._asked("worst", _worse, codebook, capacity, own=self._tiles)
        return found

    def _rows(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Blocks by their increasing numbers among all, each from the part that has it."""
        wanted = [_within(numbers, *each) for each in zip(self._tiles, self._tables, strict=True)]
        places = [np.concatenate(own) for _, own in wanted]
        if self._actors is not None:
            found = self._actors.ask("sample", (), [(own,) for own in places])
        else:
            sampled = delayed(named(Part.sample), pure=False)
            found = compute(*map(sampled, self._parts, places))
        rows = np.empty((len(numbers), self.shape.components), np.uint8)
        for (targets, own), sample in zip(wanted, found, strict=True):
            ends = itertools.accumulate(map(len, own))
            for target, of_tile, end in zip(targets, own, ends, strict=True):
                rows[target] = sample[end - len(of_tile) : end]
        return rows


# Positions in an array.
_Positions = slice | npt.NDArray[np.int64]


def _within(
    numbers: npt.NDArray[np.int64], tiles: Sequence[Tile], tables: Sequence[tuple[int, int]]
) -> tuple[list[_Positions], list[npt.NDArray[np.int64]]]:
    """Where blocks of each of a part's tiles are among some increasing numbers, and their numbers within the part."""
    targets: list[_Positions] = []
    places, start = [], 0
    for tile, (rows, columns) in zip(tiles, tables, strict=True):
        low, high = np.searchsorted(numbers, [tile.first, tile.first + (rows - 1) * tile.stride + columns])
        if columns == tile.stride:
            targets.append(slice(low, high))
            places.append(numbers[low:high] + (start - tile.first))
        else:
            row, column = np.divmod(numbers[low:high] - tile.first, tile.stride)
            mine = column < columns
            targets.append(low + np.flatnonzero(mine))
            places.append(start + (row * columns + column)[mine])
        start += rows * columns
    return targets, places


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
        """The chunks of a picture.

        Parameters
        ----------
        image : dask.array.Array or image
        number : int
            Among the pictures: for errors.
        block : pair of int
        """
        if not is_lazy(image):
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
    ) -> list[tuple[Any, Tile, tuple[int, int], npt.NDArray[np.uint16] | None]]:
        """Pixels, place among all blocks, block rows and columns, and weights of each chunk.

        Parameters
        ----------
        shape : (int, int, int)
            The picture's.
        blocks : BlockShape
        first : int
            The number of the picture's first block.
        weights : ndarray of uint16 or None
            (block rows, block columns) of the picture.
        """
        heights, widths = self._heights or shape[:1], self._widths or shape[1:2]
        stride = blocks.table_shape(*shape[:2])[1]
        made, top = [], 0
        for line, height in zip(self._pixels, heights, strict=True):
            left = 0
            for pixels, width in zip(line, widths, strict=True):
                rows, columns = blocks.table_shape(height, width)
                own = None if weights is None else weights[top : top + rows, left : left + columns]
                made.append((pixels, Tile(first + top * stride + left, stride), (rows, columns), own))
                left += columns
            top += rows
        return made


def _shapes(pictures: Sequence[_Chunks]) -> list[tuple[int, int, int]]:
    """(H, W, C) of each; workers read the files of which that is not known."""
    found = iter(compute(*[p.shape for p in pictures if not isinstance(p.shape, tuple)]))
    return [p.shape if isinstance(p.shape, tuple) else next(found) for p in pictures]


def _groups(pieces: Sequence[Any], most: int) -> list[list[Any]]:
    """Neighbouring pieces together: about one part per worker, of about `most` blocks at most."""
    sizes = [rows * columns for _, _, (rows, columns), _ in pieces]
    share = min(-(-sum(sizes) // workers()), most)
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
    lines: list[list[Any]],
    origins: list[list[tuple[int, int]]],
    weights: Any,
    shape: BlockShape,
    plan: training.Plan,
) -> training.Trained:
    """A codebook of pictures that are lines of chunks: their blocks have the numbers that those of the whole have."""
    read = [[*map(_pixels, *both)] for both in zip(lines, origins, strict=True)]
    given = [pictures.read(joined([line])) for line in read]
    return training.train(open_session(None), given, weights, shape, plan, Progress(None))


def _part(pieces: Any, weights: Any, block: tuple[int, int]) -> Part:
    return Part(pieces, weights, block)


def _added(parts: Sequence[Any]) -> Any:
    return sum(parts[1:], start=parts[0])


def _worse(parts: Sequence[Worst]) -> Worst:
    worst = parts[0]
    for part in parts[1:]:
        worst = worst.worse(part)
    return worst
