"""For workers on many hosts: ``dask worker tcp://… --preload clquant.dask.preload``.

Each worker process takes the device that ``CLQUANT_DEVICE`` names. Without it, the workers of a host that were started
with ``--nworkers`` take its devices in turn, by their places: the n-th worker of a host has the n-th device.
"""

from __future__ import annotations

import os
import re
from typing import Any

from clquant.runtime.device.discovery import DEVICE_VARIABLE, list_devices


def dask_setup(worker: Any) -> None:
    """Choose the worker's device; called by Dask when it starts.

    Parameters
    ----------
    worker : distributed.Worker
        Its name ends in its place among the workers of the host, as ``dask worker --nworkers`` names them.
    """
    place = re.search(r"(\d+)\Z", str(worker.name))
    if place is not None:
        os.environ.setdefault(DEVICE_VARIABLE, str(int(place[1]) % max(len(list_devices()), 1)))
