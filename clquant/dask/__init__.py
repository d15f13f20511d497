"""clquant on many devices and machines, by Dask (extra ``dask``).

The engines take `dask.array` themselves; here is what they do not have: histograms of collections, and clusters with
one worker per OpenCL device.
"""

from clquant.dask.cluster import LocalOpenCLCluster
from clquant.dask.palettes import histogram
from clquant.dask.parts import opened
from clquant.dask.stored import decompressed
from clquant.dask.verify import MismatchError, verify
from clquant.images.collections import Files

__all__ = ["Files", "LocalOpenCLCluster", "MismatchError", "decompressed", "histogram", "opened", "verify"]
