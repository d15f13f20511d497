"""``--cluster``: the inputs of a call are shared out among Dask workers, which do the command on one at a time."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clquant.cli import relay
from clquant.cli.inputs import Source
from clquant.cli.outputs import STDOUT
from clquant.images.sinks import ArraySink
from clquant.params import shown
from clquant.runtime import InvalidArgument, NoDeviceError, Progress, ProgressCallback

if TYPE_CHECKING:  # engines are loaded by the commands that need them
    from clquant.vq import VQCodec

LOCAL = "local"
_SECONDS = 30


def add(parser: argparse.ArgumentParser) -> None:
    """Declare ``--cluster``."""
    parser.add_argument(
        "--cluster",
        metavar="WHERE",
        help="share the work out among Dask workers: local (one per device of this machine, or local:0,1 by their "
        "numbers), or a scheduler's address, such as tcp://host:8786, whose workers find the same files",
    )


@contextlib.contextmanager
def opened(args: argparse.Namespace) -> Iterator[None]:
    """The cluster that ``--cluster`` names, which computes what is asked for in the block; without it nothing."""
    if args.cluster is None:
        yield
        return
    if args.device is not None:
        raise InvalidArgument("--device and --cluster are given; allowed: one of them, such as --cluster local:0")
    try:
        from distributed import Client

        from clquant.dask import LocalOpenCLCluster
    except ImportError as error:
        raise InvalidArgument("--cluster needs Dask (pip install clquant[dask])") from error
    kind, _, rest = args.cluster.partition(":")
    if kind == LOCAL:
        devices = rest.split(",") if rest else None
        with LocalOpenCLCluster(devices, threads_per_worker=1, silence_logs=50) as cluster, Client(cluster):
            yield
        return
    if "://" not in args.cluster:
        raise InvalidArgument(
            f"--cluster is {shown(args.cluster)}; allowed: local, local:0,1 or an address such as tcp://host:8786"
        )
    try:
        client = Client(args.cluster, timeout=_SECONDS)
    except (OSError, ValueError) as error:
        raise NoDeviceError(f"--cluster {args.cluster}: no Dask scheduler answers there ({error})") from error
    with client:
        yield


def picture(path: str) -> Any:
    """A picture in storage, which the workers read in parts."""
    from clquant.dask.parts import opened as opened_parts  # an extra

    return opened_parts(path)


def decompressed(path: str, codec: VQCodec, max_pixels: int, progress: ProgressCallback | None) -> Any:
    """The picture of a .clvq file, by bands that the workers decode."""
    from clquant.dask.coding import decompressed as lazily  # an extra
    from clquant.dask.parts import store

    bands = lazily(path, codec, max_pixels=max_pixels)
    return store(bands, ArraySink(np.empty(bands.shape, np.uint8)), Progress(progress))


def later(read: Callable[..., Any], args: argparse.Namespace, source: Source) -> Any:
    """What a worker reads of an input, as `clquant.dask.files.Later`."""
    from clquant.dask.files import Later  # an extra

    whole = dataclasses.replace(source, path=os.path.abspath(source.path))
    return Later(read, argparse.Namespace(**relay.portable(args)), whole)


def check(args: argparse.Namespace, pairs: Sequence[tuple[Source, str | None]], options: Sequence[str] = ()) -> None:
    """Refuse what workers cannot do, if there is a cluster."""
    if args.cluster is None:
        return
    for name in options:
        if getattr(args, name) not in (None, False):
            raise InvalidArgument(f"--{name.replace('_', '-')} and --cluster are given; allowed: one of them")
    if any(source.piped or target in (None, STDOUT) for source, target in pairs):
        raise InvalidArgument("--cluster is given with a pipe; allowed: with files that are read and written")


def run(
    args: argparse.Namespace, pairs: Sequence[tuple[Source, str | None]], given: Mapping[str, Any] | None = None
) -> int:
    """Have workers do the command on each of some inputs, one by one."""
    from dask import delayed  # an extra

    from clquant.dask.work import results

    shared = relay.portable(args) | dict(given or {})
    tasks = [
        delayed(relay.one, pure=False)(shared, os.path.abspath(source.path), os.path.abspath(str(target)))
        for source, target in pairs
    ]
    with relay.folders(pairs):
        return relay.tell(args, pairs, results(tasks))
