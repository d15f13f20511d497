"""For workers on many hosts: ``dask worker tcp://… --preload clquant.dask.preload``.

Each worker process takes the device that ``CLQUANT_DEVICE`` names. Without it, the workers of a host that were started
with ``--nworkers`` take its devices in turn, by their places: the n-th worker of a host has the n-th device.

The workers of `clquant.dask.LocalOpenCLCluster` load it, too. Dask's own thread needs Python's lock for about a
millisecond per task, in the middle of what the threads of copies do: these ask for it less often with large pieces.
"""

from __future__ import annotations

import os
import re
from typing import Any

from clquant.runtime.device.discovery import DEVICE_VARIABLE, list_devices
from clquant.runtime.transfer import staging

# Page-locked memory for each copying thread: four threads copy a chunk of 16 Mpx RGB, each a quarter.
CHUNK_BYTES = 16 << 20


def dask_setup(worker: Any) -> None:
    """Choose the worker's device and how its copies are made; called by Dask when it starts.

    Parameters
    ----------
    worker : distributed.Worker
        Its name ends in its place among the workers of the host, as ``dask worker --nworkers`` names them.
    """
    place = re.search(r"(\d+)\Z", str(worker.name))
    if place is not None:
        os.environ.setdefault(DEVICE_VARIABLE, str(int(place[1]) % max(len(list_devices()), 1)))
    staging.CHUNK_BYTES = CHUNK_BYTES
