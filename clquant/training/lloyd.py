"""Steps of the LBG algorithm on the device, none of which waits for the host.

Y. Linde, A. Buzo, R. M. Gray, "An Algorithm for Vector Quantizer Design", IEEE Transactions on Communications 28
(1980). The noise is that of K. Zeger, J. Vaisey, A. Gersho, "Globally optimal vector quantizer design by stochastic
relaxation", IEEE Transactions on Signal Processing 40 (1992). The kernels and their bounds are in
`cl/training/lloyd.cl`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import LocalMemory, PreparedLaunch, Scope, Session, Variant, bound
from clquant.training.blocks import Key
from clquant.training.blockset import BlockRun, BlockSet
from clquant.training.merging import Merging
from clquant.training.search import MOST_CHANGES, Codewords
from clquant.training.selection import Selection

# How the blocks of each codeword are summed: on CPUs every work-item has a table of its own.
SUMS = (
    Variant("parts", "training/lloyd.cl", lambda limits: limits.is_cpu, {"FOR_CPUS": 1}, gain=4.0),
    Variant("portable", "training/lloyd.cl", constants={"FOR_CPUS": 0}),
)
# Blocks times codewords from which on steps take longer than reading whether anything moved; steps between two readings
_LONG_STEP, _LONG_TURNS = 1 << 24, 2
_STATE, _ERROR = 3, 1  # ulong of `state` in cl/training/lloyd.cl; the first is how many codewords are dead
_LEVEL_DIGITS = 2  # bytes of the keys by which dead codewords find blocks
_SQUARES, _BLOCKS_PER_SQUARE = 16384, 64  # partial sums per piece at most; blocks of one at least
_STATE_GROUP, _FOLD_GROUP = 256, 32
PLACE_BITS = 22  # of a block's number within its piece, beside its level, in cl/training/lloyd.cl
PLACE_MASK = (1 << PLACE_BITS) - 1
_MOST_EACH = 8  # blocks of a work-item that sorts and adds them
_SUM_GROUP = 256


@dataclass(frozen=True)
class Motion:
    """The movement of codewords in a step; by default to the means."""

    quarters: int = 4  # how far they go to their means, in quarters of the way
    amplitude: int = 0  # of the noise that is added to them: 443 for the root mean squared error
    number: int = 0  # of the step: makes the noise differ


PLAIN = Motion()


class Lloyd:
    """Steps that fit codewords to a set of blocks."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        blocks: BlockSet,
        words: Codewords,
        key: Key,
        total_weight: int | None = None,
    ) -> None:
        self._session, self._scope, self._blocks, self._words = session, scope, blocks, words
        self._total_weight = blocks.total_weight if total_weight is None else total_weight
        form, capacity, shape = session.choose(SUMS), words.capacity, blocks.shape
        constants = {**shape.constants(), "LARGEST": shape.largest, **form.constants}
        self._program = session.program(form.file, **constants, WEIGHTED=int(blocks.weights is not None))
        self.totals, self._errors = scope.empty(8 * capacity * (shape.components + 1)), scope.empty(8 * capacity)
        self._worst, self._state = scope.empty(4 * capacity * len(blocks.pieces)), scope.zeros(8 * _STATE)
        self._in_parts, keys = form.name == "parts", scope.empty(8 * capacity)
        self._givers = Selection(session, scope, keys, capacity, _LEVEL_DIGITS, self._state)
        self._merging = Merging(session, scope, shape, words, self.totals)
        self._known = {"key": key, "keys": keys, **self._sum_tables(), **self._arguments()}
        pieces = [self._of_piece(number, piece) for number, piece in enumerate(blocks.pieces)]
        self._known["squares"] = scope.copy_of(np.array([self.squares()], np.uint64))
        self._searches = [
            words.search.prepare(scope, piece.blocks, piece.count * shape.rows, shape.columns, piece.indices)
            for piece in blocks.pieces
        ]
        self._accumulations = [self._prepare_sums(piece, own) for piece, own in zip(blocks.pieces, pieces, strict=True)]
        self._folds = [self._prepare_fold(own, number) for number, own in enumerate(pieces)]
        lanes = self.lanes("vq_state", _STATE_GROUP, 12)
        local = {"error": LocalMemory(8 * lanes), "empty": LocalMemory(4 * lanes)}
        self._summary = self.prepare("vq_state", lanes, lanes, **local)
        self._worsts = [self.prepare("vq_worst", int(own["count"]), **own) for own in pieces]
        self._giver_keys = self.prepare("vq_giver_keys", capacity)
        self._update = self.prepare("vq_update", capacity * shape.words)
        self._repairs = [self.prepare("vq_repair", capacity, **own) for own in pieces]
        self._size = 0
        self._is_settled = False

    def _arguments(self) -> dict[str, Any]:
        """Kernel arguments by name; numbers that are set later are 0."""
        words, scope = self._words, self._scope
        sizes = {"capacity": words.capacity, "pieces": len(self._blocks.pieces)}
        sizes |= dict.fromkeys(("size", "turn", "adds", "merging", "quarters", "amplitude", "step"), 0)
        return {
            **{name: np.uint32(size) for name, size in sizes.items()},
            **{name: getattr(words, name) for name in ("codebook", "moved", "changes")},
            **{name: getattr(self, f"_{name}") for name in ("errors", "worst", "state")},
            "totals": self.totals,
            "dead": scope.empty(4 * words.capacity),
            "order": self._givers.chosen,
            "places": self._merging.places,
            "mass": np.uint64(max(1, self._total_weight) * self._blocks.shape.components),
        }

    def _sum_tables(self) -> dict[str, Any]:
        """The tables of sums, and how many there are."""
        blocks, scope, limits, capacity = self._blocks, self._scope, self._session.limits, self._words.capacity
        halves = 2 if blocks.weights is not None or blocks.shape.is_deep else 1
        each, parts = 4 * halves * capacity * (blocks.shape.components + 1), 1
        if self._in_parts:
            parts = max(1, min(limits.compute_units, limits.max_alloc // each, blocks.count // capacity))
        return {"parts": np.uint32(parts), "sums": scope.zeros(parts * each)}

    def _prepare_sums(self, piece: BlockRun, own: dict[str, Any]) -> PreparedLaunch:
        """The launch that adds up a piece; `own` are its arguments by their names."""
        if self._in_parts:
            parts = int(self._known["parts"])
            return self.prepare("vq_accumulate_parts", parts, 1, share=np.uint32(-(-piece.count // parts)), **own)
        limits, capacity = self._session.limits, self._words.capacity
        lanes = self.lanes("vq_accumulate", _SUM_GROUP, 8 + 6 * _MOST_EACH)
        each = max(1, min(_MOST_EACH, piece.count // (lanes * limits.compute_units)))
        local = {"ranks": 2 * lanes * each, "order": 4 * lanes * each, "room": 8 * lanes}
        fits = capacity <= bound("lloyd.bins") and 4 * capacity + sum(local.values()) <= limits.local_memory
        bins = capacity if fits else 0
        rooms = {name: LocalMemory(nbytes) for name, nbytes in {**local, "own": 4 * max(1, bins)}.items()}
        groups = -(-piece.count // (lanes * each))
        numbers = {"each": np.uint32(each), "bins": np.uint32(bins)}
        return self.prepare("vq_accumulate", groups * lanes, lanes, **numbers, **rooms, **own)

    def _of_piece(self, number: int, piece: BlockRun) -> dict[str, Any]:
        """Kernel arguments of a piece, by name."""
        arrays = {"blocks": piece.blocks, "indices": piece.indices, "weights": piece.weights}
        return {**arrays, "count": np.uint32(piece.count), "piece": np.uint32(number)}

    def lanes(self, name: str, wanted: int | None = None, nbytes: int = 0) -> int:
        """Work-items of a kernel's group, each with so many bytes of local memory."""
        return self._session.work_group_size(
            self._program.kernel(name), wanted or self._session.tuned("vq.train_group"), nbytes
        )

    def prepare(self, name: str, items: int, group: int | None = None, /, **own: object) -> PreparedLaunch:
        """Prepare a kernel's launch by its `own` arguments and the training's common ones."""
        kernel = self._program.kernel(name)
        sizes = items, group or self.lanes(name)
        return self._session.prepare(self._scope, kernel, *sizes, **kernel.among({**self._known, **own}))

    def squares(self) -> int:
        """The weighted sum of the blocks' squared lengths; waits for it."""
        session, kernel, group = self._session, self._program.kernel("vq_squares"), self.lanes("vq_squares")
        counts = np.array([piece.count for piece in self._blocks.pieces])
        items = -(-np.minimum(_SQUARES, -(-counts // _BLOCKS_PER_SQUARE)) // group) * group
        ends = np.cumsum(items)
        with session.scope() as scope:
            squares = scope.empty(8 * int(ends[-1]))
            for piece, each, first in zip(self._blocks.pieces, items, ends - items, strict=True):
                given = piece.blocks, np.uint32(piece.count), piece.weights, squares, np.uint32(first)
                session.launch(kernel, int(each), group, *given)
            return int(session.download(squares, int(ends[-1]), np.uint64).sum(dtype=np.uint64))

    def _prepare_fold(self, own: dict[str, Any], number: int) -> PreparedLaunch:
        lanes = 1 if self._session.limits.is_cpu else self.lanes("vq_fold", _FOLD_GROUP, 8)
        more = {"adds": np.uint32(number > 0), "error": LocalMemory(8 * lanes)}
        return self.prepare("vq_fold", self._words.capacity * lanes, lanes, **own, **more)

    def queue_statistics(self) -> None:
        """Queue the assignment of all blocks, and what follows from it: `totals` and the error."""
        self._is_settled = False
        if self._words.size != self._size:
            self._size = self._words.size
            for launch in (*self._folds, self._summary, self._giver_keys, self._update, *self._repairs):
                launch.set(size=np.uint32(self._size))
        self._queue_sums()
        self._summary.queue()

    def _queue_sums(self) -> None:
        """Queue what fills `totals` and the codewords' errors, and empties the worst blocks."""
        for search in self._searches:
            self._words.search.queue_search(search)
        for accumulation, fold in zip(self._accumulations, self._folds, strict=True):
            accumulation.queue()
            fold.queue()

    def _queue_worst(self) -> None:
        """Queue what finds the worst block of each codeword, if any codeword is dead."""
        for worst in self._worsts:
            worst.queue()

    def queue_step(self, motion: Motion = PLAIN, *, repairs: bool = True, removed: int = 0, turn: int = 0) -> None:
        """Queue a step, by default a plain one: codewords move to the rounded means of their blocks."""
        words = self._words
        self.queue_statistics()
        if removed:
            self._merging.queue(removed, self._total_weight)
        self._update.set(
            merging=np.uint32(removed > 0),
            quarters=np.uint32(motion.quarters),
            amplitude=np.uint32(motion.amplitude),
            step=np.uint32(motion.number),
            turn=np.uint32(turn),
        )
        self._update.queue()
        if repairs:
            self._queue_worst()
            self._giver_keys.queue()
            self._givers.queue(words.size)
            for repair in self._repairs:
                repair.set(turn=np.uint32(turn))
                repair.queue()
        words.commit(words.size - removed)

    def run(self, most: int, report: Callable[[int], None] | None = None) -> int:
        """Plain steps until nothing moves; `report` is called with the steps that are over."""
        done, share = 0, 2
        longest = MOST_CHANGES if self._blocks.count * self._words.size < _LONG_STEP else _LONG_TURNS
        while done < most:
            share = min(share, most - done)
            self._session.fill(self._words.changes, np.zeros(1, np.uint32), 4 * MOST_CHANGES)
            for turn in range(share):
                self.queue_step(turn=turn)
            still = np.flatnonzero(self._session.download(self._words.changes, share, np.uint32) == 0)
            if len(still):
                self._is_settled = True
                return done + int(still[0]) + 1
            done += share
            if report is not None:
                report(done)
            share = min(2 * share, longest)
        return most

    def step(self) -> tuple[int, bool]:
        """Make a plain step; returns the error before it and whether anything moved."""
        self._session.fill(self._words.changes, np.zeros(1, np.uint32), 4)
        self.queue_step()
        moved = bool(self._session.download(self._words.changes, 1, np.uint32)[0])
        self._is_settled = not moved
        return int(self._session.download(self._state, _STATE, np.uint64)[_ERROR]), moved

    def read_totals(self) -> npt.NDArray[np.uint64]:
        """Sums of the blocks of each codeword, (size, K + 1), the last column their weights; waits for them."""
        return self._session.download(self.totals, (self._words.size, self._blocks.shape.components + 1), np.uint64)

    def read_errors(self) -> npt.NDArray[np.uint64]:
        """What each codeword's blocks add to the error, less their squares, (size,), modulo 2^64; waits for it."""
        return self._session.download(self._errors, self._words.size, np.uint64)

    def read_worst(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Wait for each codeword's worst block: its level (0: no block has an error) and its number."""
        # They are those of the codebook of the last `queue_statistics`, and only there if any codeword is dead.
        self._queue_worst()
        shape = len(self._blocks.pieces), self._words.capacity
        found = self._session.download(self._worst, shape, np.uint32)[:, : self._words.size]
        piece = (found >> PLACE_BITS).argmax(0)
        packed = found[piece, np.arange(found.shape[1])]
        first = np.concatenate([[0], np.cumsum([piece.count for piece in self._blocks.pieces])])
        return packed >> PLACE_BITS, first[piece] + (PLACE_MASK - (packed & PLACE_MASK)).astype(np.int64)

    def error(self) -> int:
        """Wait for the exact weighted sum of squared distances to the nearest codewords."""
        # A `run` that ended as nothing moved has computed it already; the codebook must be the same still.
        if not self._is_settled:
            self.queue_statistics()
        return int(self._session.download(self._state, _STATE, np.uint64)[_ERROR])
