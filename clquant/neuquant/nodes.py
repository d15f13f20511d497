"""Nodes of NeuQuant's networks as integers: their fraction bits, the networks that learning begins with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant.color.spaces import Space

# Fraction bits of the parallel map's nodes (cl/neuquant/map.h).
NODE_BITS = 12


def coordinate_bits(space: Space) -> int:
    """Bits of the largest coordinate."""
    return max(space.extent).bit_length()


def search_shift(space: Space) -> int:
    """Fraction bits of nodes in a search: as many as keep every squared distance below 2^24, so exact in fp32."""
    shift = 0
    # A node may lie up to one coordinate beyond the extent: the first network's last nodes above 255.
    reach = sum((e + 1) ** 2 for e in space.extent)
    while shift < 3 and reach << (2 * shift + 2) < 2**24:
        shift += 1
    return shift


def map_constants(space: Space) -> dict[str, int]:
    """Return the constants of `cl/neuquant/map.h` that a space decides."""
    return {"DIMS": space.dims, "SEARCH_SHIFT": search_shift(space), "COORDINATE_BITS": coordinate_bits(space)}


def whole_nodes(nodes: npt.NDArray[np.int32], space: Space) -> npt.NDArray[np.int64]:
    """(..., dims) whole coordinates of (..., 4) nodes."""
    whole = (nodes.astype(np.int64) + (1 << (NODE_BITS - 1))) >> NODE_BITS
    return np.asarray(np.minimum(whole[..., : space.dims], np.array(space.extent)))


def as_vectors(nodes: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Pad (..., dims) nodes to the (..., 4) vectors that kernels take."""
    vectors = np.zeros((*nodes.shape[:-1], 4), np.int32)
    vectors[..., : nodes.shape[-1]] = nodes
    return vectors


def gray_axis(space: Space, n_colors: int, bits: int) -> npt.NDArray[np.int32]:
    """Return the first network, (n_colors, dims) int32: (i << 8 + bits) / n_colors of the gray axis, rounded down."""
    grays = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    points = space.coordinates(grays).astype(np.int64)
    beyond = points[-1:] + (points[-1:] - points[-2:-1]) * (np.array(space.extent) == 255)
    points = np.concatenate([points, beyond])
    whole, part = np.divmod(np.arange(n_colors) * 256, n_colors)
    between = points[whole] * (n_colors - part)[:, None] + points[whole + 1] * part[:, None]
    return np.asarray((between << bits) // n_colors, np.int32)


def other_starts(space: Space, n_colors: int) -> npt.NDArray[np.int32]:
    """Return (4, n_colors, dims) further networks that few nodes are refined from, `NODE_BITS` fraction bits."""
    # The three diagonals of the colour cube that are not gray (one channel reversed), evenly filled, and all nodes at
    # 0: of these the first wins all points, and the refinement moves the others one by one to where the error is.
    ramp = (2 * np.arange(n_colors)[:, None] + 1) * 128 // n_colors
    colors = np.stack([np.where(np.arange(3) == channel, 255 - ramp, ramp) for channel in range(3)]).astype(np.uint8)
    diagonals = space.coordinates(colors.reshape(-1, 3)).reshape(3, n_colors, space.dims).astype(np.int32)
    return np.concatenate([diagonals << NODE_BITS, np.zeros_like(diagonals[:1])])
