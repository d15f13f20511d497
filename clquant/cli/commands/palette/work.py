"""The work of `clquant palette` on pictures in memory: palettes, mapping, encoding, figures."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant.cli import batch, common
from clquant.cli.batch import Item
from clquant.cli.commands.palette import options as palette_options
from clquant.cli.table import Table
from clquant.color.formats.names import SMALL_DISPLAYS, SOURCES
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.color.values import as_rgba
from clquant.images.decode import narrowed
from clquant.mapping.error import error_of
from clquant.palette import engine
from clquant.palette.sixel import shown_palette
from clquant.runtime import CommandQueue, PictureError

FEWEST_COLORS = 2
_Two = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


@dataclass(frozen=True)
class Options:
    """Checked arguments, with the palette of ``--use`` and the value of ``dither=``."""

    args: argparse.Namespace
    queue: CommandQueue
    palette: Palette | None
    dither: Any

    def quantize(self, picture: Any, palette: Palette, label: str, as_shown: bool, there: Any = None) -> IndexedImage:
        """Map one picture to a palette; `there` is the same, on its way to the device."""
        if picture.shape[2] == 4 and not narrowed(picture[:, :, 3]).all():
            palette = palette.with_transparent()
        if as_shown:
            palette = shown_palette(palette)
        given = picture if there is None else there
        how = {"color_space": self.args.space, "dither": self.dither, "queue": self.queue}
        with common.progress_bar(self.args, label) as progress:
            result = engine.quantize(given, palette, progress=progress, **how)
        return result if self.args.order == "fitted" else result.sorted(self.args.order)

    def learn(self, pictures: list[Any], label: str, most: int | None = None) -> Palette:
        """Return the palette of ``--use``, or else learn one of some pictures together."""
        if self.palette is not None:
            return self.palette
        learner = palette_options.learner(self.args, self.queue, most)
        bound = {} if self.args.memory is None else {"memory": self.args.memory}
        weights = palette_options.weights(self.args, pictures)
        with common.progress_bar(self.args, f"palette of {label}") as progress:
            if self.args.psnr is None and self.args.mse is None:
                learner.fit(pictures, weights, progress=progress, **bound)
            else:
                target = {"target_psnr": self.args.psnr, "max_mse": self.args.mse}
                learner.fit_quality(pictures, **target, sample_weight=weights, progress=progress)
        palette: Palette = learner.palette_
        return palette

    def encoded(self, result: IndexedImage, kind: str, kept: dict[str, Any]) -> bytes:
        """Encode a result as ``--effort``, ``--compression``, ``--lvgl`` and ``--color-format`` say."""
        more: dict[str, Any] = {}
        if kind == "PNG":
            more["effort"] = "normal" if self.args.effort == "medium" else self.args.effort
        if kind in SMALL_DISPLAYS and self.args.lvgl is not None:
            more["lvgl"] = self.args.lvgl
        elif kind in SOURCES:
            more["color_format"] = self.args.color_format
        return result.to_bytes(kind, **kept, **common.compression(self.args, kind), **more)

    def within_bytes(
        self, picture: Any, kind: str, label: str, kept: dict[str, Any], there: Any
    ) -> tuple[IndexedImage, bytes]:
        """Find the result of the most colours, up to ``--colors``, whose file has at most ``--max-bytes`` bytes."""
        # Bisection: a file of more colours is taken to be no smaller.
        low, high = FEWEST_COLORS, palette_options.colors(self.args)
        best: tuple[IndexedImage, bytes] | None = None
        count = high
        while low <= high:
            palette = self.learn([there], label, count)
            result = self.quantize(picture, palette, label, as_shown=kind == "SIXEL", there=there)
            data = self.encoded(result, kind, kept)
            if len(data) <= self.args.max_bytes:
                best, low = (result, data), count + 1
            else:
                high = min(count, len(result.palette)) - 1
            count = (low + high + 1) // 2
        if best is None:
            allowed = f"{len(data)}, which it takes in {FEWEST_COLORS} colours, or more"
            raise PictureError(f"--max-bytes is {self.args.max_bytes}; allowed for this picture: {allowed}")
        return best


def _as_seen(pixels: npt.NDArray[np.uint8], alpha: bool) -> npt.NDArray[np.uint8]:
    """(H, W, 3) uint8 of (H, W, C); with `alpha` (2 H, W, 3): over black, and below that over white."""
    colors = np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3))
    if not alpha:
        return colors
    cover = pixels[:, :, 3:].astype(np.uint16) if pixels.shape[2] == 4 else np.uint16(255)
    black = (colors * cover + 127) // 255
    return np.concatenate([black, black + (255 - cover)]).astype(np.uint8)


def _both_seen(picture: npt.NDArray[Any], seen: npt.NDArray[np.uint8]) -> _Two:
    alpha = 4 in (picture.shape[2], seen.shape[2])
    return _as_seen(narrowed(picture), alpha), _as_seen(seen, alpha)


def psnr(seen: Any, picture: npt.NDArray[Any], queue: CommandQueue, there: Any = None) -> float:
    """PSNR in dB of a result, or its colours, and its picture; of transparent ones over black and over white."""
    plain = there is not None and there.bits == 8 and there.channels == 3
    if isinstance(seen, IndexedImage):
        if plain and not seen.palette.has_alpha:
            return clquant.quality.squared_error.decibels(
                error_of(there, seen.host_indices(), seen.palette, queue), 255.0
            )
        seen = seen.to_array()
    if plain and seen.shape == there.shape:
        return float(clquant.quality.psnr(there, seen, queue=queue))
    return float(clquant.quality.psnr(*_both_seen(picture, seen), queue=queue))


def specks(seen: npt.NDArray[np.uint8], picture: npt.NDArray[Any]) -> float:
    """`clquant.quality.speck_error` of a result's colours and its picture, as `psnr` looks at them."""
    return clquant.quality.speck_error(*_both_seen(picture, seen))


def report(
    item: Item, palette: Palette, shape: tuple[int, int], sizes: batch.Sizes, figures: str = "", **record: Any
) -> batch.Report:
    """Make the report of a result in a palette; `figures` are words about it, beside its colours and bytes."""
    what = f", {common.counted(len(palette), 'colour')}{figures}{batch.sizes(*sizes)}"
    record = {"n_colors": len(palette), "colors": palette.hex(), "bytes": sizes[0], "input_bytes": sizes[1], **record}
    return item.said(shape, what, **record)


def shares(result: IndexedImage) -> list[dict[str, Any]]:
    """List the colours of a result with their pixels and shares of the picture, the most frequent first."""
    counts, names = result.counts(), result.palette.hex()
    order = np.argsort(-counts, kind="stable")
    total = int(counts.sum())
    return [{"color": names[i], "pixels": int(counts[i]), "share": int(counts[i]) / total} for i in order]


def stats_table(title: str, result: IndexedImage) -> str:
    """Print `shares` as a table, in percent."""
    table = Table(title, {"color": "colour", "pixels": "pixels", "percent": "%"})
    for one in shares(result):
        table.add(color=one["color"], pixels=one["pixels"], percent=100 * one["share"])
    return table.text()


def same_picture(result: IndexedImage, picture: Any) -> bool:
    """Whether a result has the very colours of its (H, W, C) picture; those of alpha 0 are all alike."""
    pixels = picture.repeat(3, axis=2) if picture.shape[2] == 1 else picture
    mine, theirs = (as_rgba(colors.reshape(-1, colors.shape[2])) for colors in (result.to_array(), pixels))
    hidden = (mine[:, 3] == 0) & (theirs[:, 3] == 0)
    return bool(((mine == theirs).all(axis=1) | hidden).all())
