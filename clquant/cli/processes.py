"""``--jobs``: the inputs of a call are shared out among processes, which do the command on one at a time.

A fit has many small steps one after another, each of which a CPU's cores share badly: several pictures at once keep
all of them busy. Threads of one process would wait for Python's lock and for one pool of the runtime's threads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from clquant.cli import batch, common, relay
from clquant.cli.inputs import Source
from clquant.cli.outputs import STDOUT
from clquant.cli.relay import Pair, Result
from clquant.runtime import ClquantError, InvalidArgument, open_session

MOST_JOBS = 64
# Unless ``--jobs`` says otherwise: most processes, fewest inputs of one, and bytes of all inputs from which they pay.
_MOST, _FEWEST_INPUTS, _LEAST_BYTES = 8, 2, 1 << 23
# How many threads PoCL starts, by older and newer names.
_THREADS = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")
# What a worker runs: modules are found where they were found here, and not in the folder that it runs in.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from clquant.cli.worker import serve; serve()"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare ``--jobs``."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that share the inputs out; results are the same (default: on CPUs through PoCL one per core, "
        f"at most {_MOST}, for many inputs; else 1)",
    )


def wanted(args: argparse.Namespace, pairs: Sequence[Pair], refused: Sequence[str]) -> int:
    """How many processes there should be; 1 for this one alone."""
    jobs: int | None = args.jobs
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise InvalidArgument(f"--jobs is {jobs}; allowed: 1 to {MOST_JOBS}")
    if jobs == 1:
        return 1
    given = [name for name in refused if getattr(args, name) not in (None, False)]
    piped = any(source.piped or target in (None, STDOUT) for source, target in pairs)
    if jobs is not None:
        if given:
            raise InvalidArgument(f"--{given[0].replace('_', '-')} and --jobs are given; allowed: one of them")
        if piped:
            raise InvalidArgument("--jobs is given with a pipe; allowed: with files that are read and written")
        return min(jobs, len(pairs))
    if given or piped or len(pairs) < 2 * _FEWEST_INPUTS:
        return 1
    if sum(_size(source.path) for source, _ in pairs) < _LEAST_BYTES:
        return 1
    limits = open_session(common.open_queue(args)).limits
    if not (limits.is_cpu and limits.is_pocl):
        return 1
    return max(1, min(limits.compute_units, _MOST, len(pairs) // _FEWEST_INPUTS))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # the worker says what is wrong


def run(args: argparse.Namespace, pairs: Sequence[Pair], jobs: int) -> int:
    """Have processes do the command on each of some inputs.

    When this one ends, whatever the reason, each ends with the input that it is at.
    """
    threads = max(1, open_session(common.open_queue(args)).limits.compute_units // jobs)
    environment = dict(os.environ) | {name: str(threads) for name in _THREADS}
    workers: list[_Worker] = []
    with contextlib.suppress(OSError):  # where the system admits no more processes, fewer do the work
        while len(workers) < jobs:
            workers.append(_Worker(environment))
    with relay.folders(pairs):
        return relay.tell(args, pairs, _results(relay.portable(args), pairs, workers))


def _results(given: dict[str, Any], pairs: Sequence[Pair], workers: list[_Worker]) -> Iterator[tuple[int, Result]]:
    """What the workers say of each input, as they are done; without any all is done here."""
    if not workers:
        for number, (source, target) in enumerate(pairs):
            yield number, _checked(source, relay.one(given, source.path, str(target)))
        return
    free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def do(source: Any, target: str | None) -> Result:
        worker = free.get()
        try:
            return worker.do((given, source.path, str(target)))
        finally:
            free.put(worker)

    pool = ThreadPoolExecutor(len(workers), thread_name_prefix="clquant-jobs")
    try:
        numbers = {pool.submit(do, *pair): number for number, pair in enumerate(pairs)}
        for future in as_completed(numbers):
            number = numbers[future]
            yield number, _checked(pairs[number][0], future.result())
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.end()


def _checked(source: Source, result: Result) -> Result:
    if isinstance(result, ClquantError) and not batch.is_about(source, result):
        raise result
    return result


class _Worker:
    """A process that does what it is given until nobody gives it more."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-c", _PROGRAM.format(path=sys.path)]
        pipe = subprocess.PIPE
        # In a session of its own, so that an interrupt from the terminal comes to this process alone.
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)

    def do(self, job: tuple[dict[str, Any], str, str]) -> Result:
        """The result of a job; where the process was ended, say for want of memory, it is done here."""
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None
        assert taken is not None
        try:
            pickle.dump(job, given)
            given.flush()
            result: Result = pickle.load(taken)
        except (OSError, EOFError, pickle.UnpicklingError):
            result = relay.one(*job)
        return result

    def end(self) -> None:
        """Wait until it has ended."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):  # it may have ended before
                stream.close()
        self._process.wait()
