"""Training on blocks that stay on the workers that have them: one share of them a worker.

A share that is lost with its worker is made anew from its graph. Nothing of a codebook depends on how blocks are shared
out (see `clquant.training.shares`). Steps on samples are made by the process that trains; where one worker has all
blocks, it trains alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dask import compute, delayed, is_dask_collection, persist

from clquant.dask.chunks import checked, placed
from clquant.dask.work import client, cluster_errors, held, named, release, wait, workers
from clquant.flow.residents import Residents
from clquant.runtime import Progress, QueueLike, open_session
from clquant.training import training
from clquant.training.blocks import BlockShape, Weights
from clquant.training.shares import MERGES, Share, SharedBlocks

# Pixels of a part, about.
MOST_PIXELS = 1 << 29
FEW_ANSWERS = 2  # that come to the process that trains, and are merged there
EXCHANGE = 16  # times as long as between queues of one process does the exchange of sums between workers take


class WorkerShares(Residents):
    """A `Share` on each worker, of all blocks that delayed calls make there; for a ``with`` block.

    `work` is the products of a step, and `nbytes` the bytes of all blocks: where a step takes one device no longer than
    the exchange of sums, and one worker has room, all blocks go there.
    """

    @cluster_errors()
    def __init__(self, made: Sequence[Any], work: int = 0, nbytes: int = 0) -> None:
        super().__init__(MERGES)
        self._made = persist(*made)
        self._cluster = client()
        if self._cluster is None:
            self.owners = [0] * len(self._made)
            self._shares = [Share.joined(compute(*self._made))]
            return
        futures = [future for one in self._made for future in held(one)]
        wait(futures)
        places = [next(iter(self._cluster.who_has([future])[future.key]), "") for future in futures]
        if len(set(places)) > 1 and work:
            busiest = max(sorted(set(places)), key=places.count)
            if self._cluster.run(_takes_all, work, nbytes, workers=[busiest])[busiest]:
                places = [busiest] * len(places)
        owners = list(dict.fromkeys(places))
        self.owners = [owners.index(place) for place in places]
        self._shares = [
            self._cluster.submit(
                named(Share.joined),
                [future for future, own in zip(futures, places, strict=True) if own == place],
                workers=[place] if place else None,
                allow_other_workers=True,
                pure=False,
            )
            for place in owners
        ]

    def __enter__(self) -> WorkerShares:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None:
            release(self._shares)
            for one in self._made:
                release(held(one))

    @cluster_errors()
    def train(self, plans: Sequence[training.Plan]) -> training.Trained | None:
        """Train where all blocks are, if that is one worker; None if they are shared out."""
        if self._cluster is None or len(self._shares) > 1:
            return None
        found: training.Trained = self._cluster.submit(named(_train), self._shares[0], plans, pure=False).result()
        return found

    @cluster_errors()
    def _answers(self, method: str, args: Sequence[Any]) -> Any:
        if self._cluster is None:
            return [getattr(self._shares[0], method)(*args)]
        work = named(getattr(Share, method))
        tasks = [self._cluster.submit(work, share, *args, pure=False) for share in self._shares]
        if len(tasks) > FEW_ANSWERS:  # merged by one of the workers, so that one answer comes here
            tasks = [self._cluster.submit(partial(functools.reduce, self._merges[method]), tasks, pure=False)]
        return self._cluster.gather(tasks)

    @cluster_errors()
    def call_some(self, method: str, given: Mapping[int, Any]) -> Sequence[Any]:
        """See `Residents`."""
        if self._cluster is None:
            return [getattr(self._shares[0], method)(own) for own in given.values()]
        work = named(getattr(Share, method))
        tasks = [self._cluster.submit(work, self._shares[i], own, pure=False) for i, own in given.items()]
        found: Sequence[Any] = self._cluster.gather(tasks)
        return found


def _takes_all(work: int, nbytes: int) -> bool:
    """Whether this worker's device alone is as fast at steps of so many products, and has room for so many bytes."""
    limits = open_session().limits
    return work < EXCHANGE * limits.shared_work and nbytes < limits.global_memory // 6


def _train(share: Share, plans: Sequence[training.Plan]) -> training.Trained:
    """Train on the blocks of one share, on this worker."""
    session = open_session()
    with session.scope() as scope:
        return training.train(session, share.blocks(session, scope), plans, Progress(None))


def train(
    queue: QueueLike,
    shape: BlockShape,
    counts: Sequence[int],
    weights: Weights,
    made: Sequence[Any],
    plans: Sequence[training.Plan],
    report: Progress,
) -> training.Trained:
    """Train on the shares that delayed calls make of blocks, `counts` each; steps on all blocks where these are."""
    numbers = sum(counts) * shape.components
    work = numbers * max(plan.size for plan in plans) if not report.wanted else 0
    with WorkerShares(made, work, sum(counts) * shape.nbytes) as shares:
        found = shares.train(plans) if not report.wanted else None
        if found is None:
            session = open_session(queue)
            found = training.train(
                session, SharedBlocks(session, shape, counts, weights, shares, shares.owners), plans, report
            )
        return found


def bands_of(image: Any, name: str, rows: int, work: Callable[..., Any]) -> tuple[list[Any], int, tuple[int, ...]]:
    """Cut a picture into about as many bands as workers: `work` of each, its height (of some rows each), the shape."""
    # `work` gets what was given, or an array, and its name in errors. A picture that a worker reads is one band, whose
    # shape only the worker knows.
    call = delayed(named(work), pure=False)
    if not is_dask_collection(image):
        return [call(image, name)], 0, ()
    whole = placed(checked(image, name), name)
    height, width = whole.shape[:2]
    most = min(-(-height // workers()), max(MOST_PIXELS // width, 1))
    high = -(-most // rows) * rows
    heights = tuple(min(high, height - top) for top in range(0, height, high))
    pixels = whole if whole.ndim == 3 else whole[:, :, None]
    chunks = pixels.rechunk({0: heights, 1: width}).to_delayed().ravel()
    return [call(band, f"chunk at row {i * high}, column 0") for i, band in enumerate(chunks)], high, whole.shape
