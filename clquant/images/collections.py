"""Pictures that are evaluated later, by other processes: who does the verbs on them."""

from __future__ import annotations

import importlib
from typing import Any


def verbs_of(image: Any) -> Any | None:
    """The module with the verbs for a collection of Dask; None for every picture that is here.

    Modules below must not know those above them, so it is found by name.

    Parameters
    ----------
    image : object
    """
    return importlib.import_module("clquant.dask.verbs") if hasattr(image, "__dask_graph__") else None
