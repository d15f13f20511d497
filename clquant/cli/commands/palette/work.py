"""The work of `clquant palette` on pictures in memory: learning palettes, mapping, files within a number of bytes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from clquant.cli import common
from clquant.cli.commands.palette import options as palette_options
from clquant.color.formats.names import SMALL_DISPLAYS, SOURCES
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.images.decode import narrowed
from clquant.palette import engine
from clquant.palette.sixel import shown_palette
from clquant.runtime import CommandQueue, PictureError

FEWEST_COLORS = 2


@dataclass(frozen=True)
class Options:
    """The arguments, checked.

    Attributes
    ----------
    args : Namespace
    queue : pyopencl.CommandQueue
    palette : Palette or None
        What ``--use`` named.
    dither : object
        For ``dither=``.
    """

    args: argparse.Namespace
    queue: CommandQueue
    palette: Palette | None
    dither: Any

    def quantize(self, picture: Any, palette: Palette, label: str, as_shown: bool) -> IndexedImage:
        """One picture through a palette."""
        chosen = palette
        if picture.shape[2] == 4 and not narrowed(picture[:, :, 3]).all():
            chosen = chosen.with_transparent()
        if as_shown:
            chosen = shown_palette(chosen)
        with common.progress_bar(self.args, label) as progress:
            result = engine.quantize(
                picture,
                chosen,
                color_space=self.args.space,
                dither=self.dither,
                queue=self.queue,
                progress=progress,
            )
        return result if self.args.order == "fitted" else result.sorted(self.args.order)

    def learn(self, pictures: list[Any], label: str, most: int | None = None) -> Palette:
        """The palette that ``--use`` names, or else one learned of some pictures together."""
        if self.palette is not None:
            return self.palette
        learner = palette_options.learner(self.args, self.queue, most)
        bound = {} if self.args.memory is None else {"memory": self.args.memory}
        weights = palette_options.weights(self.args, pictures)
        with common.progress_bar(self.args, f"palette of {label}") as progress:
            if self.args.psnr is None and self.args.mse is None:
                learner.fit(pictures, weights, progress=progress, **bound)
            else:
                learner.fit_quality(
                    pictures,
                    target_psnr=self.args.psnr,
                    max_mse=self.args.mse,
                    sample_weight=weights,
                    progress=progress,
                )
        palette: Palette = learner.palette_
        return palette

    def encoded(self, result: IndexedImage, kind: str, kept: dict[str, Any]) -> bytes:
        """A result in a file format, as ``--effort``, ``--compression``, ``--lvgl`` and ``--color-format`` say."""
        more: dict[str, Any] = {}
        if kind == "PNG":
            more["effort"] = self.args.effort
        if kind in SMALL_DISPLAYS and self.args.lvgl is not None:
            more["lvgl"] = self.args.lvgl
        elif kind in SOURCES:
            more["color_format"] = self.args.color_format
        return result.to_bytes(kind, **kept, **common.compression(self.args, kind), **more)

    def within_bytes(self, picture: Any, kind: str, label: str, kept: dict[str, Any]) -> tuple[IndexedImage, bytes]:
        """The result of the most colours, up to ``--colors``, whose file has at most ``--max-bytes`` bytes.

        Bisection: a file of more colours is taken to be no smaller.
        """
        low, high = FEWEST_COLORS, palette_options.colors(self.args)
        best: tuple[IndexedImage, bytes] | None = None
        count = high
        while low <= high:
            result = self.quantize(picture, self.learn([picture], label, count), label, as_shown=kind == "SIXEL")
            data = self.encoded(result, kind, kept)
            if len(data) <= self.args.max_bytes:
                best, low = (result, data), count + 1
            else:
                high = min(count, len(result.palette)) - 1
            count = (low + high + 1) // 2
        if best is None:
            raise PictureError(
                f"--max-bytes is {self.args.max_bytes}; allowed for this picture: {len(data)}, which it takes in "
                f"{FEWEST_COLORS} colours, or more"
            )
        return best
