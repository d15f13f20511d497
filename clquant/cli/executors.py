"""``--jobs`` and ``--cluster``: an executor's processes do the command on some inputs each.

A fit has many small steps one after another, each of which a CPU's cores share badly: several pictures at once keep
all of them busy. Threads of one process would wait for Python's lock and for one pool of the runtime's threads. A GPU
has one process, whose threads read and write: each further one would take a second to make a context of its own.
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
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from clquant.cli import batch, common, loading
from clquant.cli.common import STDOUT
from clquant.cli.inputs import Pair, Source
from clquant.params import import_package, shown
from clquant.runtime import ClquantError, InvalidArgument, NoDeviceError, open_session

MOST_JOBS = 64
# Unless ``--jobs`` says otherwise: most processes, fewest inputs of one, and bytes of all inputs from which they pay.
MOST_BY_DEFAULT, _FEWEST_INPUTS, _LEAST_BYTES = 8, 2, 1 << 23
# Environment variables for how many threads PoCL starts, of older and newer versions.
_THREADS = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")
_LOCAL, _SECONDS = "local", 30

Here = Callable[[argparse.Namespace, Sequence[Pair]], int]
"""Does a command on some of its inputs; workers are sent it by its name."""
Messages = list[tuple[str, dict[str, Any]]]
"""Messages of a worker, as `common.say` gets them: text, record."""
# Tasks of a cluster's worker, and inputs of a task at most.
_TASKS_EACH, _MOST_OF_A_TASK = 4, 64


def check(args: argparse.Namespace, pairs: Sequence[Pair], option: str) -> None:
    """Refuse what the workers of ``--jobs`` or ``--cluster`` cannot do, if it is given."""
    if getattr(args, option, None) is None:
        return
    common.refuse_both(args, common.with_trait(args, "here"), option)
    if option == "cluster" and "jobs" in args:
        common.refuse_both(args, ["jobs"], "cluster")
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
        common.refuse_both(args, common.with_trait(args, "joint"), "jobs")
        check(args, pairs, "jobs")
        limits = open_session(common.open_queue(args)).limits
        return min(jobs, len(pairs), max(limits.compute_units, 2)) if limits.is_cpu else 1
    if common.given(args, "here") or common.given(args, "joint") or any(_is_piped(*pair) for pair in pairs):
        return 1
    files = [source.path for source, _ in pairs if os.path.isfile(source.path)]
    if len(pairs) < 2 * _FEWEST_INPUTS or sum(map(os.path.getsize, files)) < _LEAST_BYTES:
        return 1
    limits = open_session(common.open_queue(args)).limits
    if not (limits.is_cpu and limits.is_pocl):
        return 1
    return max(1, min(limits.compute_units, MOST_BY_DEFAULT, len(pairs) // _FEWEST_INPUTS))


def _is_piped(source: Source, target: str | None) -> bool:
    return source.piped or target in (None, STDOUT)


@contextlib.contextmanager
def cluster(args: argparse.Namespace, pairs: Sequence[Pair]) -> Iterator[Any]:
    """Connect to the cluster of ``--cluster``, which computes for the block; None without the option."""
    check(args, pairs, "cluster")
    if args.cluster is None:
        yield None
        return
    if args.device is not None:
        raise InvalidArgument("--device and --cluster are given; allowed: one of them, such as --cluster local:0")
    client_of = import_package(
        "distributed", "use --cluster", "pip install 'dask[array]' distributed", InvalidArgument
    ).Client
    from clquant.dask import LocalOpenCLCluster

    kind, _, rest = args.cluster.partition(":")
    with contextlib.ExitStack() as stack:
        address: Any = args.cluster
        if kind == _LOCAL:
            devices = rest.split(",") if rest else None
            local = LocalOpenCLCluster(devices, threads_per_worker=1, silence_logs=50)
            address = stack.enter_context(local)
        elif "://" not in address:
            allowed = "local, local:0,1 or an address such as tcp://host:8786"
            raise InvalidArgument(f"--cluster is {shown(address)}; allowed: {allowed}")
        try:
            client = client_of(address, timeout=_SECONDS)
        except (OSError, ValueError) as error:
            raise NoDeviceError(f"--cluster {args.cluster}: no Dask scheduler answers there ({error})") from error
        yield stack.enter_context(client)


def spread(args: argparse.Namespace, source: Source, is_banded: bool, read: Callable[..., Any]) -> Any:
    """Return an input as workers read it: by bands, or whole by `read` as `clquant.images.collections.Later`."""
    from clquant.images.collections import Later

    return loading.picture(args, source) if is_banded else Later(read, _portable(args), _absolute(source))


def run(
    args: argparse.Namespace, pairs: Sequence[Pair], client: Any, is_banded: Callable[[Pair], bool], here: Here
) -> int:
    """Run a command on all inputs: whole ones by a cluster or the processes of ``--jobs``, others by `here`."""
    if client is not None:
        banded = list(filter(is_banded, pairs))
        whole = [pair for pair in pairs if pair not in banded]
        count = max(len(client.scheduler_info(n_workers=-1).get("workers", ())), 1)
        step = min(-(-len(whole) // (_TASKS_EACH * count)), _MOST_OF_A_TASK)
        status = _each(args, whole, client.get_executor(pure=False), here, step, cancels=True) if whole else 0
        return max(status, here(args, banded)) if banded else status
    jobs = processes(args, pairs) if "jobs" in args and not any(map(is_banded, pairs)) else 1
    if jobs == 1:
        return here(args, pairs) if pairs else 0
    threads = max(1, open_session(common.open_queue(args)).limits.compute_units // jobs)
    spawn = multiprocessing.get_context("spawn")
    end, command = spawn.Pipe(duplex=False)
    with command, ProcessPoolExecutor(jobs, spawn, initializer=_begin_worker, initargs=(threads, end)) as executor:
        try:
            return _each(args, pairs, executor, here, 1, cancels=False)
        except BaseException:
            command.close()  # ends the workers, pictures at work or not, and so the pool
            raise


def _begin_worker(threads: int, end: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts all: the command ends its workers
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    threading.Thread(target=_end_with_command, args=(end,), daemon=True).start()


def _end_with_command(end: Connection) -> None:
    """End this worker when the command closes its side of a pipe, or is killed."""
    end.poll(None)
    os._exit(1)


def _each(
    args: argparse.Namespace, pairs: Sequence[Pair], executor: Executor, here: Here, step: int, *, cancels: bool
) -> int:
    """Process `step` inputs a task, and print messages in the inputs' order; `cancels`: an error cancels the rest."""
    failures, own = batch.Failures(args, len(pairs)), _portable(args)
    with common.progress_bar(args, "pictures") as progress:
        groups = [pairs[first : first + step] for first in range(0, len(pairs), step)]
        jobs = [(here, own, [(_absolute(source), os.path.abspath(str(place))) for source, place in g]) for g in groups]
        futures = [executor.submit(_do, *job) for job in jobs]
        try:
            for number, group in enumerate(groups):
                try:
                    found = futures[number].result()
                except BrokenExecutor:  # a worker was ended, say for want of memory
                    found = _do(*jobs[number])
                _print(args, failures, group, found)
                progress(number * step + len(group), len(pairs))
        finally:
            for future in futures if cancels else ():
                future.cancel()
    return failures.status()


def _do(here: Here, args: argparse.Namespace, pairs: Sequence[Pair]) -> Messages:
    """Run the command on some inputs in a worker; return its messages, the last of which may be an error."""
    messages: Messages = []
    try:
        here(argparse.Namespace(**vars(args), messages=messages), pairs)
    except ClquantError as error:
        messages.append(("", {"failed": (pairs[0][0].path, error)}))
    return messages


def _print(args: argparse.Namespace, failures: batch.Failures, group: Sequence[Pair], messages: Messages) -> None:
    """Print a worker's messages, with names as they were typed."""
    sources = {os.path.abspath(source.path): source for source, _ in group}
    folders = {os.path.dirname(os.path.abspath(str(target))): os.path.dirname(str(target)) for _, target in group}
    for text, record in messages:
        if "lost" in record:
            name, loss = record["lost"]
            common.note_lost(args, name, [loss])
            continue
        if "failed" in record:
            path, error = record["failed"]
            error.args = (str(error).replace(path, sources[path].path), *error.args[1:])
            failures.add(sources[path], error)
            continue
        if record.get("output"):
            folder, name = os.path.split(record["output"])
            place = os.path.join(folders[folder], name)
            text, record["output"] = text.replace(record["output"], place), place
        else:
            for _, target in group:
                text = text.replace(os.path.abspath(str(target)), str(target))
        if record.get("input"):
            record["input"] = sources[record["input"]].path
        if not record:
            common.note(args, text)
            continue
        common.say(args, text, **record)


def _absolute(source: Source) -> Source:
    return dataclasses.replace(source, path=os.path.abspath(source.path))


def _portable(args: argparse.Namespace) -> argparse.Namespace:
    """Arguments for workers, which may be in other folders: with absolute paths, and without a cluster."""
    made = argparse.Namespace(**{name: value for name, value in vars(args).items() if name != "records"})
    results = common.with_trait(args, "result")
    for name in [*common.with_trait(args, "file"), *results]:
        value = getattr(args, name)
        if value and (name in results or os.path.exists(value)):
            setattr(made, name, os.path.abspath(value))
    made.cluster = None
    return made
