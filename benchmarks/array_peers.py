"""Nearest neighbours by PyTorch and CuPy, as one writes them: squared distances by a matrix product, in chunks."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import harness
from benchmarks.harness import Method

TORCH = harness.peer("torch")
CUPY = harness.peer("cupy")
# Distances a chunk: what fits a GPU's memory and a CPU's caches well enough.
GPU_CHUNK, CPU_CHUNK = 1 << 29, 1 << 24
Bytes = npt.NDArray[np.uint8]


def on_gpu() -> bool:
    """Whether PyTorch has a GPU here."""
    return TORCH is not None and bool(TORCH.cuda.is_available())


def with_torch(points: Any, centers: Any) -> Any:
    """(n,) indices of the nearest centers, tensors on the same device as the tensors given."""
    chosen = TORCH.empty(len(points), dtype=TORCH.int64, device=points.device)
    columns = centers.float()
    norms = (columns * columns).sum(1)
    step = max((GPU_CHUNK if points.is_cuda else CPU_CHUNK) // len(centers), 1)
    for begin in range(0, len(points), step):
        rows = points[begin : begin + step].float()
        chosen[begin : begin + step] = TORCH.addmm(norms, rows, columns.T, alpha=-2).argmin(1)
    return chosen


def with_arrays(xp: Any, points: Any, centers: Any, most: int = GPU_CHUNK) -> Any:
    """The same for a module with NumPy's interface, at most `most` distances at a time."""
    chosen = xp.empty(len(points), xp.int64)
    columns = centers.astype(xp.float32)
    norms = (columns * columns).sum(1)
    step = max(most // len(centers), 1)
    for begin in range(0, len(points), step):
        rows = points[begin : begin + step].astype(xp.float32)
        chosen[begin : begin + step] = (norms - 2 * rows @ columns.T).argmin(1)
    return chosen


def nearest(points: Bytes, centers: Bytes, shown: Callable[[Any], Bytes]) -> list[Method]:
    """The methods that are installed; on a GPU with device times, from arrays that are there already."""
    found = []
    if TORCH is not None:
        device = TORCH.device("cuda" if on_gpu() else "cpu")

        def torch_call() -> npt.NDArray[np.int64]:
            there = (TORCH.from_numpy(np.ascontiguousarray(a)).to(device) for a in (points, centers))
            return with_torch(*there).cpu().numpy()

        timed = partial(torch_kernel_ms, points, centers) if on_gpu() else None
        found.append(Method(f"PyTorch, {device.type}", torch_call, timed, shown))
    if CUPY is not None:
        with_arrays(CUPY, CUPY.asarray(points[:8]), CUPY.asarray(centers[:8]))  # compiles its kernels
        found.append(
            Method(
                "CuPy",
                lambda: CUPY.asnumpy(with_arrays(CUPY, CUPY.asarray(points), CUPY.asarray(centers))),
                None,
                shown,
            )
        )
    return found


def torch_kernel_ms(points: Bytes, centers: Bytes) -> float:
    """Milliseconds on the GPU, arrays there already, the best of three."""
    there = [TORCH.from_numpy(np.ascontiguousarray(a)).cuda() for a in (points, centers)]
    best = float("inf")
    for _ in range(3):
        TORCH.cuda.synchronize()
        began = time.perf_counter()
        with_torch(*there)
        TORCH.cuda.synchronize()
        best = min(best, 1e3 * (time.perf_counter() - began))
    return best
