"""clquant on many devices and machines, by Dask (extra ``dask``).

The engines take `dask.array` themselves; here is what they do not have: histograms of collections, and clusters with
one worker per OpenCL device.
"""

from typing import TYPE_CHECKING, Any

from clquant.dask.verify import MismatchError, verify  # `verify` at once, as a module has the same name

if TYPE_CHECKING:
    from clquant.dask.cluster import LocalOpenCLCluster
    from clquant.dask.palettes import histogram
    from clquant.dask.parts import opened
    from clquant.dask.stored import decompressed
    from clquant.images.collections import Files

__all__ = ["Files", "LocalOpenCLCluster", "MismatchError", "decompressed", "histogram", "opened", "verify"]

# Imported when they are first asked for, so that workers, and the command, start without `dask.array`: two seconds.
_HOME_OF = {
    "Files": "clquant.images.collections",
    "LocalOpenCLCluster": "clquant.dask.cluster",
    "decompressed": "clquant.dask.stored",
    "histogram": "clquant.dask.palettes",
    "opened": "clquant.dask.parts",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME_OF:
        raise AttributeError(f"module 'clquant.dask' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
