"""clquant on many devices and machines, by Dask (extra ``dask``).

The engines take `dask.array` themselves; here is what they do not have: histograms of collections, and clusters with
one worker per OpenCL device.
"""

from clquant.dask.cluster import LocalOpenCLCluster
from clquant.dask.parts import opened
from clquant.dask.verify import MismatchError, verify
from clquant.histogram.reduction import histogram
from clquant.images.collections import Files
from clquant.vq.container.stored import decompressed

__all__ = ["Files", "LocalOpenCLCluster", "MismatchError", "decompressed", "histogram", "opened", "verify"]
