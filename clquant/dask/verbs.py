"""What runs jobs and verbs on Dask's collections."""

from __future__ import annotations

from clquant.dask.codebooks import fit as fit_codec
from clquant.dask.coding import compress_to, decode
from clquant.dask.executor import figure, reduce, run
from clquant.dask.files import fit_many, stream
from clquant.dask.learning import histogram, learned
from clquant.dask.parts import here, store
from clquant.dask.quadtrees import leaves
from clquant.dask.vectors import checked_rows, rows_of

__all__ = [
    "checked_rows",
    "compress_to",
    "decode",
    "figure",
    "fit_codec",
    "fit_many",
    "here",
    "histogram",
    "learned",
    "leaves",
    "reduce",
    "rows_of",
    "run",
    "store",
    "stream",
]
