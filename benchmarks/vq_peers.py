"""Codebooks and the search for their nearest codewords by faiss, SciPy and scikit-learn, each behind one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from benchmarks import harness
from benchmarks.harness import Picture
from clquant import VQCodec, runtime
from clquant.training.blocks import BlockShape

FAISS = harness.peer("faiss")
SCIPY = harness.peer("scipy.cluster.vq")
SKLEARN = harness.peer("sklearn.cluster")
SHAPE = BlockShape(4, 4, 1)
OURS = "clquant VQCodec"
CONVERGED = 300
Blocks = npt.NDArray[np.uint8]


def gray(picture: Picture) -> Picture:
    """Luma; a picture that is gray already keeps its values."""
    return np.asarray(PIL.Image.fromarray(picture).convert("L"))


def rows(picture: Picture) -> Blocks:
    """The picture's 4x4 blocks in raster order; edge blocks repeat the last row and column."""
    height, width = picture.shape
    whole = np.pad(picture, ((0, -height % SHAPE.rows), (0, -width % SHAPE.columns)), mode="edge")
    split = whole.reshape(whole.shape[0] // SHAPE.rows, SHAPE.rows, -1, SHAPE.columns)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).reshape(-1, SHAPE.components)


def codec_of(picture: Picture, size: int, queue: runtime.CommandQueue) -> VQCodec:
    """A codec whose codewords are blocks of the picture: training has no part in search times."""
    blocks = rows(picture)
    chosen = np.random.default_rng(0).choice(len(blocks), size, replace=len(blocks) < size)
    codec = VQCodec(size, queue=queue)
    codec.codebook_ = blocks[chosen].reshape(size, 4, 4)
    return codec


def searchers(codec: VQCodec, picture: Picture) -> dict[str, Callable[[], Any]]:
    """The peers' exact searches, from blocks in memory as floats to indices."""
    floats = rows(picture).astype(np.float32)
    codewords = codec.codebook_.reshape(len(codec.codebook_), 16).astype(np.float32)
    calls: dict[str, Callable[[], Any]] = {}
    if FAISS is not None:
        index = FAISS.IndexFlatL2(16)
        index.add(codewords)
        calls["faiss IndexFlatL2"] = partial(index.search, floats, 1)
    if SCIPY is not None:
        calls["SciPy vq"] = partial(SCIPY.vq, floats, codewords, check_finite=False)
    return calls


def trainers(queue: runtime.CommandQueue) -> dict[str, Callable[[Picture, int], float]]:
    """Ways to a codebook; each gives the mean squared error of the picture coded by it."""

    def ours(picture: Picture, size: int, **parameters: Any) -> float:
        return VQCodec(size, queue=queue, **parameters).fit(picture).mse_

    def by_faiss(picture: Picture, size: int) -> float:
        data = rows(picture).astype(np.float32)
        kmeans = FAISS.Kmeans(16, size, niter=CONVERGED, seed=0, max_points_per_centroid=1 << 24)
        kmeans.cp.min_points_per_centroid = 1
        kmeans.train(data)
        return float(kmeans.index.search(data, 1)[0].sum(dtype=np.float64)) / data.size

    def by_sklearn(picture: Picture, size: int) -> float:
        data = rows(picture).astype(np.float32)
        found = SKLEARN.KMeans(size, n_init=1, random_state=0, max_iter=CONVERGED, tol=0).fit(data)
        return float(found.inertia_) / data.size

    calls: dict[str, Callable[[Picture, int], float]] = {
        OURS: ours,
        f"{OURS}, refine=0": partial(ours, refine=0),
        f"{OURS}, splitting, refine=0": partial(ours, refine=0, init="splitting"),
    }
    if FAISS is not None:
        calls["faiss Kmeans, converged"] = by_faiss
    if SKLEARN is not None:
        calls["scikit-learn KMeans, converged"] = by_sklearn
    return calls
