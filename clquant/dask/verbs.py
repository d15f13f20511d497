"""The executor of jobs and verbs on Dask's collections: all that lower rooms know of Dask."""

from clquant.dask.chunks import checked, map_chunks, parts_of, records
from clquant.dask.executor import figure, run
from clquant.dask.files import fit_many, stream
from clquant.dask.parts import here, read_later, written
from clquant.dask.reductions import reduce
from clquant.dask.training import RemoteParts, bands_of, checked_rows, later_rows
from clquant.dask.work import later, values
from clquant.palette.learned import fit_collections as fit
from clquant.palette.learned import fit_quality_of_collections as fit_quality

__all__ = ["checked", "checked_rows", "figure", "fit", "fit_many", "fit_quality", "here", "reduce", "run", "stream"]
__all__ += ["RemoteParts", "bands_of", "later", "later_rows", "map_chunks", "parts_of"]
__all__ += ["read_later", "records", "values", "written"]
