"""For workers on many hosts: ``dask worker tcp://… --preload clquant.dask.preload``.

Each worker process takes the device that ``CLQUANT_DEVICE`` names. Without it, the workers of a host that were started
with ``--nworkers`` take its devices in turn, by their places: the n-th worker of a host has the n-th device.

The workers of `clquant.dask.LocalOpenCLCluster` load it, too. Dask's own thread needs Python's lock for about a
millisecond per task, in the middle of what the threads of tasks and of copies do. So these take the lock less often,
and need not wait for it as long.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from clquant.runtime.device.discovery import DEVICE_VARIABLE, list_devices
from clquant.runtime.transfer.staging import limit_lanes

# Measured with chunks of 16.8 Mpx on an NVIDIA H200: 3.2 to 3.9 ms per chunk, 4.6 with eight lanes and Python's 5 ms.
LANES, SWITCH_S = 4, 0.0005


def dask_setup(worker: Any) -> None:
    """Choose the worker's device, and share Python's lock out; called by Dask when the worker starts.

    Parameters
    ----------
    worker : distributed.Worker
        Its name ends in its place among the workers of the host, as ``dask worker --nworkers`` names them.
    """
    place = re.search(r"(\d+)\Z", str(worker.name))
    if place is not None:
        os.environ.setdefault(DEVICE_VARIABLE, str(int(place[1]) % max(len(list_devices()), 1)))
    sys.setswitchinterval(SWITCH_S)
    limit_lanes(LANES)
