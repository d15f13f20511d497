"""Pictures made by integer arithmetic alone, so that they are the same bytes wherever they are made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clquant import runtime

Picture = npt.NDArray[np.uint8]


def noise(height: int, width: int, channels: int, seed: int) -> npt.NDArray[np.int64]:
    """Random integers 0..255, shape (height, width, channels), keyed by position."""
    position = np.arange(height * width * channels, dtype=np.uint32)
    counter = np.stack([position, *[np.zeros_like(position)] * 3], axis=-1)
    words = runtime.philox4x32(counter, np.array([seed, 0], np.uint32))[:, 0]
    return (words >> np.uint32(24)).astype(np.int64).reshape(height, width, channels)


def photo(height: int, width: int, channels: int = 3, seed: int = 1) -> Picture:
    """Gradients, edges, a disc and grain; (height, width) for one channel.

    With 4 channels a quarter of the picture is fully transparent and a quarter half so.
    """
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(min(channels, 3)):
        ramp = (x * (5 + 2 * c) + y * (3 - c) * 4) % 510
        fold = np.minimum(ramp, 509 - ramp)
        disc = ((x - width // 2) ** 2 + (y - height // 2) ** 2) * 9 < min(height, width) ** 2
        edge = ((x // 16 + y // 16) % 2) * 24
        planes.append(np.where(disc, 255 - fold // (c + 1), fold) + edge)
    picture = np.stack(planes, axis=-1) + noise(height, width, len(planes), seed) // 16 - 8
    if channels == 4:
        alpha = np.full((height, width, 1), 255)
        alpha[: height // 2, : width // 2] = 0
        alpha[height // 2 :, width // 2 :] = 128
        picture = np.concatenate([picture, alpha], axis=-1)
    clipped: Picture = np.clip(picture, 0, 255).astype(np.uint8)
    return clipped[..., 0] if channels == 1 else clipped


def flat(height: int, width: int, colors: int, seed: int = 2) -> Picture:
    """RGB blocks of few colours, as logos and pixel art have."""
    index = noise(-(-height // 4), -(-width // 4), 1, seed)[..., 0] % colors
    table = noise(colors, 1, 3, seed + 1)[:, 0].astype(np.uint8)
    return np.ascontiguousarray(table[index].repeat(4, 0).repeat(4, 1)[:height, :width])
