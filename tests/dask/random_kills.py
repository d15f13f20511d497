"""Workers killed at random while they fit, map, halftone and train: every result is the plain call's.

``python -m tests.dask.random_kills --seconds 15`` starts two workers on one device, and in most jobs kills one of them,
at a random time of the job. It prints what was done and exits with 1 if a result differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client

import clquant
from clquant.dask import LocalOpenCLCluster
from clquant.palette.engine import predict

WORKERS = 2
# Dask gives up a task that was on some workers when they died, three by default: here no result may depend on luck. And
# workers wait half a minute for those that are gone.
SETTINGS = {"distributed.scheduler.allowed-failures": 1000, "distributed.comm.timeouts.connect": "5s"}


def jobs(picture: Any) -> dict[str, Callable[[], Any]]:
    """What is done with a picture, an array or lazy, and gives an array or a lazy one.

    Parameters
    ----------
    picture : ndarray or dask.array.Array
        (H, W, 3) uint8.
    """
    palette = clquant.Palette([(0, 0, 0), (255, 255, 255), (200, 30, 30), (20, 90, 200)])
    return {
        "fit": lambda: clquant.KMeansPalette(8).fit(picture).palette_.colors,
        "predict": lambda: predict(picture, palette, dither="leaky"),
        "halftone": lambda: clquant.PinwheelHalftoner(8).transform(picture),
        "VQ training": lambda: clquant.VQCodec(12, refine=4, max_iter=6).fit(picture).codebook_,
    }


def _kill_one(cluster: LocalOpenCLCluster, chance: random.Random, kills: list[int]) -> None:
    living = [nanny.pid for nanny in list(cluster.workers.values()) if getattr(nanny, "pid", None)]
    if living:
        kills.append(chance.choice(living))
        with contextlib.suppress(ProcessLookupError):
            os.kill(kills[-1], signal.SIGKILL)


def run(seconds: float, seed: int, most_rounds: int = 1 << 30) -> tuple[Counter[str], int, list[str]]:
    """Do the jobs in turn while workers are killed.

    Parameters
    ----------
    seconds : float
        No round begins later, but that in which the first worker is killed.
    seed : int
        Of the picture and the kills.
    most_rounds : int
        Of all jobs.

    Returns
    -------
    done : Counter
        How often each job was done.
    kills : int
    wrong : list of str
        Names of jobs whose result was another.
    """
    begin, chance, kills = time.monotonic(), random.Random(seed), list[int]()
    done, wrong, taken = Counter[str](), list[str](), dict[str, float]()
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 40, (260, 300, 3), np.uint8) + np.arange(0, 200, 200 / 300).astype(np.uint8)[:, None]
    expected = {name: np.asarray(job()) for name, job in jobs(picture).items()}
    with (
        dask.config.set(SETTINGS),
        LocalOpenCLCluster([0] * WORKERS, silence_logs=60) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(WORKERS, timeout=120)
        for turn in range(most_rounds):
            lazy = da.from_array(picture, (60 + turn % 7, 70, 3))
            for name, job in jobs(lazy).items():
                killer = threading.Timer(chance.uniform(0, taken.get(name, 1.0)), _kill_one, (cluster, chance, kills))
                start = time.monotonic()
                killer.start()
                try:
                    found = job()
                    whole = found.compute() if hasattr(found, "__dask_graph__") else found
                finally:
                    killer.cancel()
                taken[name] = time.monotonic() - start
                done[name] += 1
                if not np.array_equal(whole, expected[name]):
                    wrong.append(name)
            if kills and time.monotonic() - begin > seconds:
                break
    return done, len(kills), wrong


def main() -> int:
    """Run as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="no round begins later (default: 15)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    done, kills, wrong = run(args.seconds, args.seed)
    print(f"{kills} workers killed, {sum(done.values())} results ({dict(done)}), wrong: {wrong or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
