"""Starts of the training of codebooks: k-means++ and splitting.

D. Arthur, S. Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007; Y. Linde, A. Buzo, R. M. Gray,
"An Algorithm for Vector Quantizer Design", 1980. The kernels are in `cl/training/seeding.cl`.
"""

from __future__ import annotations

import numpy as np

from clquant.runtime import LocalMemory, Program, Scope, Session
from clquant.training.blocks import Key
from clquant.training.blockset import BlockSet
from clquant.training.lloyd import Lloyd
from clquant.training.search import Codewords

STARTS = ("k-means++", "splitting")
RUN = 16  # blocks whose distances are added before the sums are searched
LEVEL_STEPS = 10  # Lloyd steps between two splittings
_EQUAL, _ANEW, _LOWER = 0, 1, 2  # modes of vq_seed_distances
_SHARE = 4  # a pass draws at most a quarter of the codewords there are
_SCAN_GROUP = 256


def _program(session: Session, blocks: BlockSet) -> Program:
    shape = blocks.shape
    constants = {**shape.constants(), "LARGEST": shape.largest, "RUN": RUN}
    return session.program("training/seeding.cl", **constants, WEIGHTED=int(blocks.weights is not None))


def sample_codewords(session: Session, blocks: BlockSet, words: Codewords, size: int, key: Key) -> None:
    """Queue k-means++: codewords are blocks drawn in proportion to their squared distance to the others."""
    with session.scope() as scope:
        passes = _Passes(session, scope, blocks, words, key)
        shape = blocks.shape
        searches = [
            words.search.prepare(scope, piece.blocks, piece.count * shape.rows, shape.columns, piece.indices)
            for piece in blocks.pieces
        ]
        passes.queue_distances(_EQUAL, 0)
        passes.queue_draws(0, 1)
        made, last = 1, 1
        while made < size:
            words.search.load(words.codebook, last, made - last)
            for search in searches:
                words.search.queue_search(search)
            passes.queue_distances(_ANEW if made == 1 else _LOWER, made - last)
            last = min(max(1, made // _SHARE), size - made)
            passes.queue_draws(made, last)
            made += last
        words.size = size
        words.search.load(words.codebook, size)


class _Passes:
    """The launches of D^2 sampling."""

    def __init__(self, session: Session, scope: Scope, blocks: BlockSet, words: Codewords, key: Key) -> None:
        self._session, self._blocks = session, blocks
        self._program = _program(session, blocks)
        self._nearest = [scope.empty((8 if blocks.shape.is_deep else 4) * piece.count) for piece in blocks.pieces]
        runs = [-(-piece.count // RUN) for piece in blocks.pieces]
        self._starts = np.concatenate([[0], np.cumsum(runs)]).astype(np.uint32)
        totals = scope.empty(8 * sum(runs))
        self._known = {"codebook": words.codebook, "key": key, "runs": np.uint32(sum(runs)), "totals": totals}

    def queue_distances(self, mode: int, first: int) -> None:
        """Distances of all blocks to the codewords so far, of which those from `first` on are new."""
        session, sizes = self._session, {"mode": np.uint32(mode), "first": np.uint32(first)}
        self._queue_each("vq_seed_distances", np.diff(self._starts).tolist(), sizes)
        scan = self._program.kernel("vq_seed_scan")
        lanes = session.work_group_size(scan, _SCAN_GROUP, 8)
        session.launch(scan, lanes, lanes, **scan.among({**self._known, "sums": LocalMemory(8 * lanes)}))

    def queue_draws(self, made: int, number: int) -> None:
        """Queue draws of new codewords behind the `made` ones."""
        sizes = {"made": np.uint32(made), "number": np.uint32(number)}
        self._queue_each("vq_seed_draw", [number] * len(self._nearest), sizes)

    def _queue_each(self, name: str, items: list[int], sizes: dict[str, np.uint32]) -> None:
        """Queue a kernel for each piece of the blocks."""
        kernel = self._program.kernel(name)
        group = self._session.work_group_size(kernel, self._session.tuned("vq.train_group"))
        for i, (piece, nearest) in enumerate(zip(self._blocks.pieces, self._nearest, strict=True)):
            own = {"blocks": piece.blocks, "weights": piece.weights, "indices": piece.indices, "nearest": nearest}
            own |= {"count": np.uint32(piece.count), "run0": self._starts[i], "run1": self._starts[i + 1]}
            self._session.launch(kernel, items[i], group, **kernel.among({**self._known, **sizes, **own}))


def split_codewords(session: Session, blocks: BlockSet, words: Codewords, lloyd: Lloyd, size: int) -> int:
    """Run LBG's splitting: from the mean of all blocks, codewords are doubled and separated by Lloyd steps."""
    kernel = _program(session, blocks).kernel("vq_split")
    group = session.work_group_size(kernel, session.tuned("vq.train_group"))
    steps = 0
    words.size = 1
    words.search.load(words.codebook, 1)
    lloyd.queue_step()
    while words.size < size:
        lloyd.queue_statistics()
        added = min(words.size, size - words.size)
        sizes = np.uint32(words.size), np.uint32(added)
        session.launch(kernel, words.size, group, words.codebook, lloyd.totals, *sizes, words.moved)
        words.commit(words.size + added)
        steps += lloyd.run(LEVEL_STEPS)
    return steps
