"""What `clquant palette` says of its results."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant.cli.table import Table
from clquant.color.indexed import IndexedImage
from clquant.images.decode import narrowed
from clquant.runtime import CommandQueue


def _as_seen(pixels: npt.NDArray[np.uint8], alpha: bool) -> npt.NDArray[np.uint8]:
    """(H, W, 3) uint8 of (H, W, C); with `alpha` (2 H, W, 3): over black, and below that over white."""
    colors = np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3))
    if not alpha:
        return colors
    cover = pixels[:, :, 3:].astype(np.uint16) if pixels.shape[2] == 4 else np.uint16(255)
    black = (colors * cover + 127) // 255
    return np.concatenate([black, black + (255 - cover)]).astype(np.uint8)


def psnr(seen: npt.NDArray[np.uint8], picture: npt.NDArray[Any], queue: CommandQueue) -> float:
    """PSNR in dB of a result's colours and its picture; of transparent ones over black and over white."""
    picture = narrowed(picture)
    alpha = 4 in (picture.shape[2], seen.shape[2])
    return float(clquant.quality.psnr(_as_seen(picture, alpha), _as_seen(seen, alpha), queue=queue))


def count_of(colors: int) -> str:
    """A number of colours in words."""
    return "1 colour" if colors == 1 else f"{colors} colours"


def shares(result: IndexedImage) -> list[dict[str, Any]]:
    """The colours of a result with their pixels and shares of the picture, the most frequent first."""
    counts, names = result.counts(), result.palette.hex()
    order = np.argsort(-counts, kind="stable")
    total = int(counts.sum())
    return [{"color": names[i], "pixels": int(counts[i]), "share": int(counts[i]) / total} for i in order]


def stats_table(title: str, result: IndexedImage) -> str:
    """The same as a table, shares in percent."""
    table = Table(title, {"color": "colour", "pixels": "pixels", "percent": "%"})
    for one in shares(result):
        table.add(color=one["color"], pixels=one["pixels"], percent=100 * one["share"])
    return table.text()


def same_picture(result: IndexedImage, picture: Any) -> bool:
    """Whether a result has the very colours of its (H, W, C) picture; those of alpha 0 are all alike."""
    colors = result.to_array()
    pixels = np.broadcast_to(picture, (*picture.shape[:2], 3)) if picture.shape[2] == 1 else picture
    mine, theirs = (
        np.dstack([p, np.full(p.shape[:2], 255, np.uint8)]) if p.shape[2] == 3 else p for p in (colors, pixels)
    )
    hidden = (mine[:, :, 3] == 0) & (theirs[:, :, 3] == 0)
    return bool(((mine == theirs).all(axis=2) | hidden).all())
