"""Dekker's sequential map of 1994, translated to Numba for one core, and scikit-learn's mini-batch k-means."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Picture, peer
from benchmarks.palette_peers import SKLEARN
from clquant import Palette

COLORS = 256
PRIMES = (499, 491, 487, 503)
NUMBA = peer("numba")


def _train(pixels: npt.NDArray[np.uint8], step: int, colors: int) -> npt.NDArray[np.int64]:
    """Dekker's training at sample factor 1: (colors, 3). Compiled by Numba, hence plain loops."""
    network = np.empty((colors, 3), np.int64)
    for i in range(colors):
        network[i, :] = (i << 12) // colors
    frequency = np.full(colors, 65536 // colors, np.int64)
    bias = np.zeros(colors, np.int64)
    pull = np.zeros(colors, np.int64)
    count = pixels.shape[0]
    per_cycle = max(count // 100, 1)
    alpha, radius = 1024, (colors >> 3) * 64
    reach = -1
    at = 0
    for sample in range(count):
        if sample % per_cycle == 0:
            if sample > 0:
                alpha -= alpha // 30
                radius -= radius // 30
            reach = radius >> 6 if radius >> 6 > 1 else 0
            for d in range(reach):
                pull[d] = alpha * (((reach * reach - d * d) * 256) // (reach * reach))
        x, y, z = (np.int64(pixels[at, 0]) << 4, np.int64(pixels[at, 1]) << 4, np.int64(pixels[at, 2]) << 4)
        least, fairest, nearest, winner = 1 << 40, 1 << 40, 0, 0
        for i in range(colors):
            distance = abs(network[i, 0] - x) + abs(network[i, 1] - y) + abs(network[i, 2] - z)
            if distance < least:
                least, nearest = distance, i
            if distance - (bias[i] >> 12) < fairest:
                fairest, winner = distance - (bias[i] >> 12), i
            share = frequency[i] >> 10
            frequency[i] -= share
            bias[i] += share << 10
        frequency[nearest] += 64
        bias[nearest] -= 65536
        point = (x, y, z)
        for c in range(3):
            move = alpha * (network[winner, c] - point[c])
            network[winner, c] -= move // 1024 if move >= 0 else -(-move // 1024)
        for i in range(max(winner - reach + 1, 0), min(winner + reach, colors)):
            if i != winner:
                for c in range(3):
                    move = pull[abs(i - winner)] * (network[i, c] - point[c])
                    network[i, c] -= move // 262144 if move >= 0 else -(-move // 262144)
        at = (at + step) % count
    return np.minimum((network + 8) >> 4, 255)


_COMPILED = NUMBA.njit(cache=True)(_train) if NUMBA is not None else None


def baseline(picture: Picture) -> Palette:
    """Dekker's palette on one core."""
    assert _COMPILED is not None
    pixels = picture.reshape(-1, 3)
    step = next((p for p in PRIMES if len(pixels) % p), PRIMES[-1])
    return Palette(_COMPILED(pixels, step, COLORS))


def mini_batch(picture: Picture) -> Palette:
    """scikit-learn's MiniBatchKMeans as it comes, seeded."""
    engine = SKLEARN.MiniBatchKMeans(COLORS, random_state=0, n_init=1).fit(picture.reshape(-1, 3).astype(np.float32))
    return Palette(np.clip(np.rint(engine.cluster_centers_), 0, 255).astype(np.uint8))
