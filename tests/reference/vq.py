"""VQ by the book: Algorithms 1 and 2 of Manohar et al., "On GPU Acceleration of the Vector Quantization Image
Compression Algorithm", and one step of Linde, Buzo and Gray, "An Algorithm for Vector Quantizer Design", in
whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def blocks(image: Bytes, p: int, q: int) -> npt.NDArray[np.int64]:
    """All p x q blocks in raster order as rows; pixels beyond the image repeat its last row and column."""
    height, width = image.shape[:2]
    rows = []
    for top in range(0, height, p):
        for left in range(0, width, q):
            y = np.minimum(np.arange(top, top + p), height - 1)
            x = np.minimum(np.arange(left, left + q), width - 1)
            rows.append(image[y][:, x].ravel())
    return np.array(rows, np.int64)


def nearest(rows: npt.NDArray[np.int64], codebook: Bytes) -> npt.NDArray[np.int64]:
    """Algorithm 1: the index of the codeword of least squared Euclidean distance, the lowest on ties."""
    flat = codebook.reshape(len(codebook), -1).astype(np.int64)
    return np.array([((row - flat) ** 2).sum(1).argmin() for row in rows], np.int64)


def encode(image: Bytes, codebook: Bytes) -> npt.NDArray[np.int64]:
    """The index table."""
    p, q = codebook.shape[1:3]
    columns = -(-image.shape[1] // q)
    return nearest(blocks(image, p, q), codebook).reshape(-1, columns)


def decode(indices: npt.NDArray[np.integer], codebook: Bytes, height: int, width: int) -> Bytes:
    """Algorithm 2, cropped to the true size."""
    p, q = codebook.shape[1:3]
    image = np.zeros((height, width, *codebook.shape[3:]), np.uint8)
    for y in range(height):
        for x in range(width):
            image[y, x] = codebook[indices[y // p, x // q], y % p, x % q]
    return image


def lloyd_step(rows: npt.NDArray[np.int64], codebook: Bytes, weights: npt.NDArray[np.int64]) -> Bytes:
    """Each codeword to the mean of its blocks, rounded half up; codewords without blocks stay."""
    indices = nearest(rows, codebook)
    moved = codebook.reshape(len(codebook), -1).copy()
    for j in range(len(codebook)):
        mine = indices == j
        weight = int(weights[mine].sum())
        if weight:
            total = (rows[mine] * weights[mine, None]).sum(0)
            moved[j] = (2 * total + weight) // (2 * weight)
    return moved.reshape(codebook.shape)


def second_nearest(rows: npt.NDArray[np.int64], codebook: Bytes) -> npt.NDArray[np.int64]:
    """The nearest codeword besides the nearest."""
    flat = codebook.reshape(len(codebook), -1).astype(np.int64)
    return np.array([np.argsort(((row - flat) ** 2).sum(1), kind="stable")[1] for row in rows], np.int64)


def error(image: Bytes, decoded: Bytes) -> int:
    """Sum of squared differences."""
    return int(((image.astype(np.int64) - decoded) ** 2).sum())
