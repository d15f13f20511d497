"""``--jobs`` and ``--cluster``: an executor's processes do the command on one input each.

A fit has many small steps one after another, each of which a CPU's cores share badly: several pictures at once keep
all of them busy. Threads of one process would wait for Python's lock and for one pool of the runtime's threads.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any

from clquant.cli import batch, common
from clquant.cli.common import STDOUT
from clquant.cli.inputs import Pair, Source
from clquant.cli.parser import command_module
from clquant.params import shown
from clquant.runtime import ClquantError, InvalidArgument, NoDeviceError, open_session

MOST_JOBS = 64
# Unless ``--jobs`` says otherwise: most processes, fewest inputs of one, and bytes of all inputs from which they pay.
_MOST, _FEWEST_INPUTS, _LEAST_BYTES = 8, 2, 1 << 23
# Environment variables for how many threads PoCL starts, of older and newer versions.
_THREADS = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")
_LOCAL, _SECONDS = "local", 30

Told = tuple[str, dict[str, Any]]
"""A message of a worker, as `common.say` gets it: text, record."""
Result = list[Told] | ClquantError


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Declare ``--jobs``."""
    text = (
        "processes that share the inputs out; results are the same (default: on CPUs through PoCL one per core, "
        f"at most {_MOST}, for many inputs; else 1)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help=text)


def check(args: argparse.Namespace, pairs: Sequence[Pair], option: str) -> None:
    """Refuse what the workers of ``--jobs`` or ``--cluster`` cannot do, if it is given."""
    if getattr(args, option, None) is None:
        return
    common.refuse_both(args, "here", option)
    if option == "cluster" and getattr(args, "jobs", None) is not None:
        raise InvalidArgument("--jobs and --cluster are given; allowed: one of them")
    if any(_is_piped(*pair) for pair in pairs):
        raise InvalidArgument(f"--{option} is given with a pipe; allowed: with files that are read and written")


def processes(args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Return how many processes there should be; 1 for this one alone."""
    jobs: int | None = args.jobs
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise InvalidArgument(f"--jobs is {jobs}; allowed: 1 to {MOST_JOBS}")
    if jobs == 1:
        return 1
    if jobs is not None:
        common.refuse_both(args, "joint", "jobs")
        check(args, pairs, "jobs")
        return min(jobs, len(pairs))
    if common.given(args, "here") or common.given(args, "joint") or any(_is_piped(*pair) for pair in pairs):
        return 1
    files = [source.path for source, _ in pairs if os.path.isfile(source.path)]
    if len(pairs) < 2 * _FEWEST_INPUTS or sum(map(os.path.getsize, files)) < _LEAST_BYTES:
        return 1
    limits = open_session(common.open_queue(args)).limits
    if not (limits.is_cpu and limits.is_pocl):
        return 1
    return max(1, min(limits.compute_units, _MOST, len(pairs) // _FEWEST_INPUTS))


def _is_piped(source: Source, target: str | None) -> bool:
    return source.piped or target in (None, STDOUT)


@contextlib.contextmanager
def cluster(args: argparse.Namespace) -> Iterator[Any]:
    """Connect to the cluster that ``--cluster`` names; it computes what is asked for in the block."""
    if args.cluster is None:
        yield None
        return
    if args.device is not None:
        raise InvalidArgument("--device and --cluster are given; allowed: one of them, such as --cluster local:0")
    try:
        from distributed import Client

        from clquant.dask import LocalOpenCLCluster
    except ImportError as error:
        raise InvalidArgument("--cluster needs Dask (pip install clquant[dask])") from error
    kind, _, rest = args.cluster.partition(":")
    if kind == _LOCAL:
        devices = rest.split(",") if rest else None
        with LocalOpenCLCluster(devices, threads_per_worker=1, silence_logs=50) as workers, Client(workers) as client:
            yield client
        return
    if "://" not in args.cluster:
        allowed = "local, local:0,1 or an address such as tcp://host:8786"
        raise InvalidArgument(f"--cluster is {shown(args.cluster)}; allowed: {allowed}")
    try:
        client = Client(args.cluster, timeout=_SECONDS)
    except (OSError, ValueError) as error:
        raise NoDeviceError(f"--cluster {args.cluster}: no Dask scheduler answers there ({error})") from error
    with client:
        yield client


def later(read: Callable[..., Any], args: argparse.Namespace, source: Source) -> Any:
    """Return what a worker reads of an input, as `clquant.images.collections.Later`."""
    from clquant.images.collections import Later

    return Later(read, argparse.Namespace(**_portable(args)), _absolute(source))


def shared_out(
    args: argparse.Namespace, pairs: list[Pair], banded: Callable[[Pair], bool], here: Callable[[list[Pair]], int]
) -> int:
    """Do all inputs `here`; with a cluster its workers do whole ones one by one, and the bands of others together."""
    if args.cluster is None:
        return here(pairs) if pairs else 0
    check(args, pairs, "cluster")
    some = list(filter(banded, pairs))
    with cluster(args) as client:
        status = run_cluster(args, [pair for pair in pairs if pair not in some], client)
        return max(status, here(some)) if some else status


def run_jobs(args: argparse.Namespace, pairs: Sequence[Pair], jobs: int) -> int:
    """Do the command on each input in one of `jobs` processes; exit status."""
    threads = max(1, open_session(common.open_queue(args)).limits.compute_units // jobs)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, initializer=_begin_worker, initargs=(threads,)) as executor:
        return _run(args, pairs, executor, {})


def run_cluster(args: argparse.Namespace, pairs: Sequence[Pair], client: Any, **changes: Any) -> int:
    """Do the command on each input, with changed arguments, by a Dask client's workers; exit status."""
    return _run(args, pairs, client.get_executor(pure=False), changes) if pairs else 0


def _begin_worker(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts all: the command ends its workers
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    threading.Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    command = multiprocessing.parent_process()
    if command is not None:
        command.join()
        os._exit(1)  # it was killed, and nobody else would end its workers


def _run(args: argparse.Namespace, pairs: Sequence[Pair], executor: Executor, changes: dict[str, Any]) -> int:
    shared = _portable(args) | changes
    failed: list[tuple[Source, ClquantError]] = []
    with common.progress_bar(args, "pictures") as progress:
        jobs = [(shared | _place(args, str(target)), _absolute(source)) for source, target in pairs]
        futures = [executor.submit(do_one, *job) for job in jobs]
        try:
            for number, (source, target) in enumerate(pairs):
                result = _result(futures[number], jobs[number])
                if isinstance(result, ClquantError):
                    result.args = (str(result).replace(os.path.abspath(source.path), source.path), *result.args[1:])
                    if len(pairs) == 1 or not batch.is_about(source, result):
                        raise result
                    failed.append((source, result))
                    batch.complain(source, result)
                else:
                    _retell(args, source, str(target), result)
                progress(number + 1, len(pairs))
        finally:
            for future in futures:
                future.cancel()
    return batch.report_failures(args, len(pairs), failed)


def _result(future: Future[Result], job: tuple[dict[str, Any], Source]) -> Result:
    """Wait for an input's result; where a worker was ended, say for want of memory, it is done here."""
    try:
        return future.result()
    except BrokenExecutor:
        return do_one(*job)


def _retell(args: argparse.Namespace, source: Source, target: str, told: list[Told]) -> None:
    """Say what a worker has said, with names as they were typed."""
    for text, record in told:
        text = text.replace(os.path.abspath(target), target)
        if record:
            place = None if record["output"] is None else target
            common.say(args, text, **{**record, "input": source.path, "output": place})
        else:
            common.note(args, text)


def do_one(shared: dict[str, Any], source: Source) -> Result:
    """Do the command on one input, in a worker; returns its messages or its error."""
    told: list[Told] = []
    args = argparse.Namespace(**shared, inputs=[source], told=told)
    try:
        command_module(args.command).run(args)
    except ClquantError as error:
        return error
    return told


def _absolute(source: Source) -> Source:
    return dataclasses.replace(source, path=os.path.abspath(source.path))


def _place(args: argparse.Namespace, target: str) -> dict[str, Any]:
    """Arguments that lead a worker to the same place, whose folder it makes."""
    name = os.path.basename(target).replace("{", "{{").replace("}", "}}")
    if args.output is None or os.path.abspath(target) == os.path.abspath(args.output):
        return {"output": args.output and os.path.abspath(target), "name": name}
    return {"output": os.path.join(os.path.abspath(args.output), ""), "name": name}


def _portable(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments for workers, which may be in other folders: absolute paths, nothing shared out again."""
    own = ("records", "run", "inputs", "output", "name")
    made = {name: value for name, value in vars(args).items() if name not in own}
    files = [name for name in common.with_trait(args, "file") if made[name] and os.path.exists(made[name])]
    for name in (*files, *common.with_trait(args, "result")):
        made[name] = made[name] and os.path.abspath(made[name])
    is_told = common.is_reported(args)
    return made | {"cluster": None, "jobs": 1, "force": True, "no_clobber": False, "quiet": not is_told}
