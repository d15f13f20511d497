"""The executor of Dask's collections: jobs and verbs where workers have, or will read, what a call is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from clquant import flow
from clquant.dask import codec, palettes, quadtree
from clquant.dask.figures import figure
from clquant.dask.files import fit_many, stream
from clquant.dask.maps import mapped
from clquant.dask.parts import here, written
from clquant.dask.reductions import reduce
from clquant.dask.rows import WorkerRows
from clquant.flow.file_sinks import About
from clquant.runtime import CommandQueue, Progress


class WorkerExecutor:
    """Runs jobs where Dask's workers have, or will read, what they are given (see `clquant.executors`)."""

    def __init__(self, verbs: Mapping[str, Callable[..., Any]], queue: CommandQueue | None = None) -> None:
        self.verbs = verbs  # public verbs that are no single job, by their qualified names
        self._queue = queue

    def on(self, queue: CommandQueue | None) -> WorkerExecutor:
        """Return an executor that makes values on a queue of this process from what workers reduced."""
        return WorkerExecutor(self.verbs, queue)

    def map(self, job: flow.Map, image: Any, *, out: Any, about: About, memory: Any, report: Progress) -> Any:  # noqa: ARG002
        """Return a job's lazy result, or `out` with it."""
        return written(mapped(job, image), out, about, report)

    def reduce(self, job: flow.Reduce, image: Any, *, memory: Any, report: Progress, argument: str) -> Any:  # noqa: ARG002
        """Return a reduction's value; made on the executor's queue if it has one, else where the states are."""
        return reduce(job, image, self._queue, report, argument)

    def fetch(self, result: Any, report: Progress) -> Any:
        """Return a lazy result as an array of this process."""
        return here(result, report)

    def rows(self, given: Any) -> WorkerRows:
        """Return rows of numbers that workers have."""
        return WorkerRows.of(given)

    def stream(self, engine: Any, images: Any, method: str, depth: int, arguments: dict[str, Any]) -> Iterator[Any]:
        """Stream the results of files by workers."""
        return stream(engine, images, method, depth, arguments)


# Public verbs that are no single job, by the qualified names of those who call `flow.verb`.
VERBS: Mapping[str, Callable[..., Any]] = {
    "KMeansPalette.fit": palettes.fit,
    "NeuQuantCL.fit": palettes.fit,
    "KMeansPalette.fit_many": fit_many,
    "NeuQuantCL.fit_many": fit_many,
    "PaletteEngine.fit_quality": palettes.fit_quality,
    "dominant_colors": palettes.dominant_colors,
    "compared": figure,
    "QuadtreeBuilder.leaves": quadtree.leaves,
    "fit_codebook": codec.fit_codebook,
    "BlockCoder.decode": codec.decode,
    "Compressor.write": codec.write,
}
EXECUTOR = WorkerExecutor(VERBS)
