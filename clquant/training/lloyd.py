"""Steps of the LBG algorithm on the device, none of which waits for the host.

Y. Linde, A. Buzo, R. M. Gray, "An Algorithm for Vector Quantizer Design", IEEE Transactions on Communications 28
(1980). The noise is that of K. Zeger, J. Vaisey, A. Gersho, "Globally optimal vector quantizer design by stochastic
relaxation", IEEE Transactions on Signal Processing 40 (1992). The kernels and their bounds are in
`cl/training/lloyd.cl`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.runtime import LocalMemory, PreparedLaunch, Program, Scope, Session, Variant
from clquant.training.blockset import BlockSet, Piece
from clquant.training.codewords import MOST_CHANGES, Codewords
from clquant.training.merging import Merging
from clquant.training.selection import Selection
from clquant.training.sums import RUN, Sums

# How the blocks of each codeword are summed: on CPUs every work-item has a table of its own.
SUMS = (
    Variant("parts", "training/lloyd.cl", lambda limits: limits.is_cpu, {"FOR_CPUS": 1}, gain=4.0),
    Variant("portable", "training/lloyd.cl", constants={"FOR_CPUS": 0}),
)
# Blocks times codewords from which on steps take longer than reading whether anything moved; steps between two readings
_LONG_STEP, _LONG_TURNS = 1 << 24, 2
_STATE, _DEAD = 3, 2  # ulong of `state` in cl/training/lloyd.cl, of which the error is the first, and how many are dead
_LEVEL_DIGITS = 2  # bytes of the keys by which dead codewords find blocks
_SQUARES, _BLOCKS_PER_SQUARE = 16384, 64  # partial sums per piece at most; blocks of one at least
_STATE_GROUP, _FOLD_GROUP = 256, 32
PLACE_BITS = 22  # of a block's number within its piece, beside its level, in cl/training/lloyd.cl
PLACE_MASK = (1 << PLACE_BITS) - 1


@dataclass(frozen=True)
class Motion:
    """How codewords move in a step; by default to the means."""

    quarters: int = 4  # how far they go to their means, in quarters of the way
    amplitude: int = 0  # of the noise that is added to them: 443 for the root mean squared error
    number: int = 0  # of the step: makes the noise differ


class Lloyd:
    """Steps that fit codewords to a set of blocks."""

    def __init__(
        self, session: Session, scope: Scope, blocks: BlockSet, words: Codewords, key: npt.NDArray[np.uint32]
    ) -> None:
        self._session = session
        self._blocks = blocks
        self._words = words
        self._total_weight = self._weight()
        self._mass = self._total_weight * blocks.shape.components
        form = session.choose(SUMS)
        self._sums = Sums(session, scope, blocks, words.capacity, form.name == "parts")
        self._program = self._built(form)
        self._square_launches = self._prepare_squares(scope)
        self.queue_squares()
        capacity, pieces = words.capacity, len(blocks.pieces)
        self.totals = scope.empty(8 * capacity * (blocks.shape.components + 1))
        self._errors = scope.empty(8 * capacity)
        self._worst = scope.empty(4 * capacity * pieces)
        self._state = scope.zeros(8 * _STATE)
        self._dead, self._keys = scope.empty(4 * capacity), scope.empty(8 * capacity)
        self._givers = Selection(session, scope, self._keys, capacity, _LEVEL_DIGITS, (self._state, _DEAD))
        self._merging = Merging(session, scope, blocks.shape, words.codebook, self.totals, capacity)
        self._searches = [self._prepare_search(scope, piece) for piece in blocks.pieces]
        self._accumulations = [self._sums.prepare(scope, self._program, piece) for piece in blocks.pieces]
        self._folds = [self._prepare_fold(scope, number) for number in range(pieces)]
        self._summary = self._prepare_state(scope)
        self._worsts = [self._prepare_worst(scope, number) for number in range(pieces)]
        self._giver_keys = self._prepare_giver_keys(scope)
        self._update = self._prepare_update(scope, key)
        self._repairs = [self._prepare_repair(scope, number) for number in range(pieces)]
        self._size = 0
        self._is_settled = False

    def _weight(self) -> int:
        """The weight of all blocks."""
        return self._blocks.total_weight

    def _built(self, form: Variant) -> Program:
        shape, blocks = self._blocks.shape, self._blocks
        return self._session.program(
            form.file,
            **shape.constants(),
            LARGEST=shape.largest,
            RUN=RUN,
            WEIGHTED=int(blocks.weights is not None),
            **form.constants,
        )

    def _prepare(self, name: str, scope: Scope, items: int, /, *arguments: object, **named: object) -> PreparedLaunch:
        kernel = self._program.kernel(name)
        group = self._session.work_group_size(kernel, self._session.tuned("vq.train_group"))
        return self._session.prepare(scope, kernel, items, group, *arguments, **named)

    def _prepare_squares(self, scope: Scope) -> list[PreparedLaunch]:
        """The launches that leave the weighted sum of the blocks' squared lengths at the beginning of `_squares`."""
        session, pieces = self._session, self._blocks.pieces
        kernel = self._program.kernel("vq_squares")
        group = session.work_group_size(kernel, session.tuned("vq.train_group"))
        items = [min(_SQUARES, -(-piece.count // _BLOCKS_PER_SQUARE)) for piece in pieces]
        items = [-(-each // group) * group for each in items]
        self._squares = squares = scope.empty(8 * sum(items))
        launches = []
        for number, piece in enumerate(pieces):
            arguments = piece.blocks, np.uint32(piece.count), piece.weights, squares, np.uint32(sum(items[:number]))
            launches.append(session.prepare(scope, kernel, items[number], group, *arguments))
        total = self._program.kernel("vq_sum_squares")
        lanes = session.work_group_size(total, _STATE_GROUP, 8)
        whole = squares, np.uint32(sum(items)), LocalMemory(8 * lanes)
        return [*launches, session.prepare(scope, total, lanes, lanes, *whole)]

    def queue_squares(self) -> None:
        """Queue the sum of the blocks' squared lengths, which blocks that changed need again."""
        for launch in self._square_launches:
            launch.queue()

    def _prepare_search(self, scope: Scope, piece: Piece) -> PreparedLaunch:
        shape = self._blocks.shape
        height, width = piece.count * shape.rows, shape.columns
        return self._words.search.prepare(scope, piece.blocks, height, width, piece.indices)

    def _prepare_fold(self, scope: Scope, number: int) -> PreparedLaunch:
        session, words = self._session, self._words
        kernel = self._program.kernel("vq_fold")
        lanes = 1 if session.limits.is_cpu else session.work_group_size(kernel, _FOLD_GROUP, 8)
        sizes = {"size": 0, "piece": number, "adds": number > 0, "capacity": words.capacity, "parts": self._sums.parts}
        return session.prepare(
            *(scope, kernel, words.capacity * lanes, lanes),
            sums=self._sums.tables,
            codebook=words.codebook,
            totals=self.totals,
            errors=self._errors,
            worst=self._worst,
            **{name: np.uint32(size) for name, size in sizes.items()},
            error=LocalMemory(8 * lanes),
        )

    def _prepare_state(self, scope: Scope) -> PreparedLaunch:
        session = self._session
        kernel = self._program.kernel("vq_state")
        group = session.work_group_size(kernel, _STATE_GROUP, 12)
        local = LocalMemory(8 * group), LocalMemory(4 * group)
        sizes = np.uint32(0), np.uint64(self._mass)
        arguments = self._errors, self.totals, *sizes, self._squares, self._state, self._dead
        return session.prepare(scope, kernel, group, group, *arguments, *local)

    def _prepare_worst(self, scope: Scope, number: int) -> PreparedLaunch:
        piece = self._blocks.pieces[number]
        rows = piece.blocks, piece.indices, np.uint32(piece.count), piece.weights, np.uint32(number)
        found = self._words.codebook, self._state, self._worst, np.uint32(self._words.capacity)
        return self._prepare("vq_worst", scope, piece.count, *rows, *found)

    def _prepare_giver_keys(self, scope: Scope) -> PreparedLaunch:
        sizes = np.uint32(self._words.capacity), np.uint32(len(self._blocks.pieces))
        found = self._worst, np.uint32(0), self._state, self._keys
        return self._prepare("vq_giver_keys", scope, self._words.capacity, *found, *sizes)

    @property
    def _moving(self) -> dict[str, object]:
        """Return the arguments of both kernels that move codewords; `_queue_moves` and `_resize` set the numbers."""
        words = self._words
        buffers = {"codebook": words.codebook, "moved": words.moved, "changes": words.changes, "state": self._state}
        return {**buffers, **dict.fromkeys(("size", "turn"), np.uint32(0))}

    def _prepare_update(self, scope: Scope, key: npt.NDArray[np.uint32]) -> PreparedLaunch:
        return self._prepare(
            *("vq_update", scope, self._words.capacity * self._blocks.shape.words),
            **self._moving,
            totals=self.totals,
            places=self._merging.places,
            key=key,
            **dict.fromkeys(("merging", "quarters", "amplitude", "step"), np.uint32(0)),
        )

    def _prepare_repair(self, scope: Scope, number: int) -> PreparedLaunch:
        sizes = {"capacity": self._words.capacity, "pieces": len(self._blocks.pieces), "piece": number}
        return self._prepare(
            *("vq_repair", scope, self._words.capacity),
            **self._moving,
            blocks=self._blocks.pieces[number].blocks,
            worst=self._worst,
            dead=self._dead,
            order=self._givers.chosen,
            **{name: np.uint32(size) for name, size in sizes.items()},
        )

    def _resize(self) -> None:
        """Set the number of codewords of all launches."""
        size = self._words.size
        if size == self._size:
            return
        self._size = size
        for launch in (*self._folds, self._summary, self._giver_keys, self._update, *self._repairs):
            launch.set(size=np.uint32(size))

    def queue_statistics(self) -> None:
        """Queue the assignment of all blocks, and what follows from it: `totals` and the error."""
        self._is_settled = False
        self._resize()
        self._queue_sums()
        self._summary.queue()

    def _queue_sums(self) -> None:
        """Queue what fills `totals` and the codewords' errors, and empties the worst blocks."""
        for search in self._searches:
            self._words.search.queue_search(search)
        for accumulations, fold in zip(self._accumulations, self._folds, strict=True):
            for accumulation in accumulations:
                accumulation.queue()
            fold.queue()

    def queue_sums(self, adds: bool) -> None:
        """Queue the assignment of all blocks and their sums, on top of those of the blocks before if it `adds`."""
        self._is_settled = False
        self._resize()
        self._folds[0].set(adds=np.uint32(adds))
        self._queue_sums()
        self._folds[0].set(adds=np.uint32(0))

    def _queue_worst(self) -> None:
        """Queue what finds the worst block of each codeword, if any codeword is dead."""
        for worst in self._worsts:
            worst.queue()

    def queue_step(self, *, repairs: bool = True, turn: int = 0) -> None:
        """Queue a plain step: codewords move to the rounded means of their blocks."""
        self.queue_statistics()
        self._queue_moves(Motion(), repairs, 0, turn)

    def queue_annealed_step(self, motion: Motion, *, repairs: bool, removed: int) -> None:
        """Queue a step with noise."""
        self.queue_statistics()
        if removed:
            self._merging.queue(self._words.size, removed, self._total_weight)
        self._queue_moves(motion, repairs, removed, 0)

    def _queue_moves(self, motion: Motion, repairs: bool, removed: int, turn: int) -> None:
        words = self._words
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

    def run(self, most: int) -> int:
        """Plain steps until nothing moves."""
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
            share = min(2 * share, longest)
        return most

    def step(self) -> tuple[int, bool]:
        """Make a plain step; returns the error before it and whether anything moved."""
        self._session.fill(self._words.changes, np.zeros(1, np.uint32), 4)
        self.queue_step()
        moved = bool(self._session.download(self._words.changes, 1, np.uint32)[0])
        self._is_settled = not moved
        return int(self._session.download(self._state, _STATE, np.uint64)[0]), moved

    def read_totals(self) -> npt.NDArray[np.uint64]:
        """Sums of the blocks of each codeword, (size, K + 1), the last column their weights; waits for them."""
        return self._session.download(self.totals, (self._words.size, self._blocks.shape.components + 1), np.uint64)

    def read_squares(self) -> int:
        """The weighted sum of the blocks' squared lengths; waits for it."""
        return int(self._session.download(self._squares, 1, np.uint64)[0])

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
        return int(self._session.download(self._state, _STATE, np.uint64)[0])
