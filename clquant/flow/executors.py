"""Who runs jobs and verbs on what is not here: `clquant.dask`, which lies above and is found by name."""

from __future__ import annotations

import importlib
from typing import Any

from clquant.images.foreign import is_dask


def executor_of(image: Any) -> Any | None:
    """Return the module that runs jobs on a collection of Dask; None for every picture that is here."""
    spread = is_dask(image) or getattr(image, "spread_by_dask", False) is True
    return importlib.import_module("clquant.dask.verbs") if spread else None
