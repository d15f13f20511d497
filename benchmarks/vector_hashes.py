"""Whether codebooks of rows are the same bits in every run: ours and the peers', by hash, each run a process.

Runs have other numbers of threads, as machines have: 1, 2, 3, 4 and 8.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import clquant
from benchmarks.harness import Options, Table

COLUMNS = {"method": "method", "hashes": "different codebooks in five runs", "first": "SHA-256 of the first"}
THREADS = (1, 2, 3, 4, 8)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT", "CL_CONFIG_CPU_NUM_THREADS")
DEVICE_VARIABLE = "VECTOR_HASHES_DEVICE"  # its number
ROWS, NUMBERS, CODEWORDS = 20_000, 32, 64


def rows() -> np.ndarray[Any, Any]:
    """Rows about 200 centers, by whole numbers alone."""
    rng = np.random.default_rng(1)
    centers = rng.integers(0, 200, (200, NUMBERS))
    return (centers[rng.integers(0, 200, ROWS)] + rng.integers(0, 56, (ROWS, NUMBERS))).astype(np.float32)


def _ours(name: str, **parameters: Any) -> Callable[[], Any]:
    queue = clquant.runtime.default_queue(clquant.runtime.find_device(os.environ[DEVICE_VARIABLE]))
    return lambda: getattr(clquant, name)(**parameters, queue=queue).fit(rows())


def _vector_quantizer() -> Any:
    return _ours("VectorQuantizer", n_codewords=CODEWORDS)().codebook_


def _product_quantizer() -> Any:
    return _ours("ProductQuantizer", n_subspaces=4, n_bits=6)().codebooks_


def _opq() -> Any:
    model = _ours("ProductQuantizer", n_subspaces=4, n_bits=6, rotation="opq")()
    return np.concatenate([model.rotation_.ravel(), model.codebooks_.ravel()])


def _faiss() -> Any:
    import faiss

    made = faiss.Kmeans(NUMBERS, CODEWORDS, niter=25, seed=1)
    made.train(rows())
    return made.centroids


def _faiss_opq() -> Any:
    import faiss

    made = faiss.OPQMatrix(NUMBERS, 4)
    made.train(rows()[:5000])
    return faiss.vector_to_array(made.A)


def _scikit_learn() -> Any:
    from sklearn.cluster import KMeans

    return KMeans(CODEWORDS, n_init=1, random_state=1).fit(rows()).cluster_centers_


METHODS: dict[str, Callable[[], Any]] = {
    "clquant.VectorQuantizer": _vector_quantizer,
    "clquant.ProductQuantizer": _product_quantizer,
    "clquant.ProductQuantizer, opq": _opq,
    "faiss.Kmeans": _faiss,
    "faiss.OPQMatrix": _faiss_opq,
    "sklearn.cluster.KMeans": _scikit_learn,
}


def run(options: Options) -> list[Table]:
    """Hash every method's codebooks in a process for each number of threads."""
    device = clquant.runtime.list_devices().index(options.queue().device)
    note = f"{ROWS} x {NUMBERS} float32, the same seed; runs with {', '.join(map(str, THREADS))} threads."
    table = Table("Codebooks: the same bits in every run?", COLUMNS, note=note)
    for name in METHODS:
        found = [_in_process(name, threads, str(device)) for threads in THREADS]
        if all(found):
            table.add(method=name, hashes=len(set(found)), first=found[0])
    return [table]


def _in_process(name: str, threads: int, device: str) -> str:
    """The hash of one run; empty if the package is not installed."""
    own = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), DEVICE_VARIABLE: device}
    command = [sys.executable, "-m", "benchmarks.vector_hashes", name]
    return subprocess.run(command, env=own, check=True, capture_output=True, text=True).stdout.strip()


def main(name: str) -> None:
    """Print the hash of one run."""
    try:
        found = METHODS[name]()
    except ImportError:
        return
    print(hashlib.sha256(np.ascontiguousarray(found).tobytes()).hexdigest()[:16])


if __name__ == "__main__":
    main(sys.argv[1])
