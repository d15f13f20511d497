"""Pictures that are evaluated later, by other processes: who does the verbs on them."""

from __future__ import annotations

import importlib
from typing import Any


def is_lazy(image: Any) -> bool:
    """Whether something is a collection of Dask, or labels one.

    An xarray.DataArray has the method that Dask asks for always, and no graph where its values are here.

    Parameters
    ----------
    image : object
    """
    graph = getattr(image, "__dask_graph__", None)
    return graph is not None and graph() is not None


def verbs_of(image: Any) -> Any | None:
    """The module with the verbs for a collection of Dask; None for every picture that is here.

    Modules below must not know those above them, so it is found by name.

    Parameters
    ----------
    image : object
    """
    spread = is_lazy(image) or getattr(image, "spread_by_dask", False) is True
    return importlib.import_module("clquant.dask.verbs") if spread else None
