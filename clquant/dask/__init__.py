"""clquant on many devices and machines, by Dask (extra ``dask``).

The engines take `dask.array` themselves; here is what they do not have: histograms of collections, and clusters with
one worker per OpenCL device.
"""

from clquant.dask.cluster import LocalOpenCLCluster
from clquant.dask.coding import decompressed
from clquant.dask.files import Files
from clquant.dask.parts import opened
from clquant.dask.reductions import histogram
from clquant.dask.verify import MismatchError, verify

__all__ = ["Files", "LocalOpenCLCluster", "MismatchError", "decompressed", "histogram", "opened", "verify"]
