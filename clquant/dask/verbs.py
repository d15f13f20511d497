"""What runs jobs and verbs on Dask's collections."""

from __future__ import annotations

from clquant.dask.coding import compress, decode
from clquant.dask.executor import figure, run
from clquant.dask.files import fit_many, stream
from clquant.dask.parts import here, store
from clquant.dask.quadtrees import leaves
from clquant.dask.reductions import reduce
from clquant.dask.rows import checked_rows, each_rows, later_rows, map_rows
from clquant.dask.training import RemoteParts, fit_codec
from clquant.palette.learned import fit_collections as fit
from clquant.palette.learned import fit_quality_of_collections as fit_quality

__all__ = [
    "RemoteParts",
    "checked_rows",
    "compress",
    "decode",
    "each_rows",
    "figure",
    "fit",
    "fit_codec",
    "fit_many",
    "fit_quality",
    "here",
    "later_rows",
    "leaves",
    "map_rows",
    "reduce",
    "run",
    "store",
    "stream",
]
