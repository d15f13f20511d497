"""`clquant palette`: pictures in few colours."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant.cli import common, inputs, palette_options, terminal
from clquant.cli.colors import given_palette
from clquant.cli.inputs import Inputs, Source
from clquant.cli.outputs import STDOUT, Outputs, shown
from clquant.color.formats import registry
from clquant.color.indexed import IndexedImage, format_of
from clquant.color.palette import Palette
from clquant.palette import animation, engine
from clquant.palette.sixel import shown_palette
from clquant.runtime import CommandQueue, InvalidArgument

HELP = "reduce pictures to a palette of few colours"

configure = palette_options.configure


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
        """One picture through a palette.

        Parameters
        ----------
        picture : ndarray of uint8, (H, W, C)
        palette : Palette
            Gets a transparent entry where the picture has pixels of alpha 0.
        label : str
            The progress bar's.
        as_shown : bool
            Whether to take the colours that sixel rounds the palette to.

        Returns
        -------
        IndexedImage
            Its palette in the order that ``--order`` names.
        """
        chosen = palette
        if picture.shape[2] == 4 and not picture[:, :, 3].all():
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

    def learn(self, pictures: list[Any], label: str) -> Palette:
        """The palette that ``--use`` names, or else one learned of some pictures together.

        Parameters
        ----------
        pictures : list of ndarray of uint8, (H, W, C) each
        label : str
            What the progress bar calls the pictures.

        Returns
        -------
        Palette
        """
        if self.palette is not None:
            return self.palette
        learner = palette_options.learner(self.args, self.queue)
        weights = palette_options.weights(self.args, pictures)
        with common.progress_bar(self.args, f"palette of {label}") as progress:
            if self.args.psnr is None and self.args.mse is None:
                learner.fit(pictures, weights, progress=progress)
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


def run(args: argparse.Namespace) -> int:
    """Quantize every input."""
    palette_options.check(args)
    if args.show:
        terminal.check()
    sources = inputs.expand(args.inputs)
    places = Outputs(sources, [args.use, args.weights, args.fixed])
    if args.save_palette is not None:
        registry.format_of(args.save_palette)
        if sources.several and not args.shared and args.use is None and args.animate is None:
            raise InvalidArgument("--save-palette with several inputs needs --shared: each would have its own palette")
        places.one(args.save_palette, "--save-palette")
    targets = _targets(args, sources, places)
    used = given_palette("--use", args.use) if args.use is not None else None
    options = Options(args, common.open_queue(args), used, palette_options.ditherer(args))
    if args.animate is not None:
        return _animate(options, sources, places)
    # Read once: a pipe can be read no second time.
    pictures = [inputs.read_picture(source) for source in sources] if args.shared else None
    shared = None if pictures is None else options.learn(pictures, "all inputs")
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        begin = time.perf_counter()
        picture = inputs.read_picture(source) if pictures is None else pictures[number]
        result = _one(options, source, target, places, picture, shared)
        if not args.quiet:  # what is said takes time to find out
            seconds = time.perf_counter() - begin
            error = _psnr(result, picture, options.queue)
            common.say(args, _summary(source, target, result, error, seconds))
    return 0


def _one(
    options: Options, source: Source, target: str | None, places: Outputs, picture: Any, shared: Palette | None
) -> IndexedImage:
    args, name = options.args, source.relative.name
    palette = shared or options.learn([picture], name)
    kind = None if target is None else "PNG" if target == STDOUT else format_of(target)
    result = options.quantize(picture, palette, name, as_shown=kind in (None, "SIXEL"))
    data = b"" if kind is None else result.to_bytes(kind)
    if args.save_palette is not None:
        result.palette.write(args.save_palette)
    if target is not None:
        places.write(target, data)
    if args.show:
        terminal.show(result)
    return result


def _animate(options: Options, sources: Inputs, places: Outputs) -> int:
    args = options.args
    frames = [frame for source in sources for frame in inputs.read_frames(source)]
    begin = time.perf_counter()
    shared = options.learn(frames, "all frames") if args.shared or options.palette else None
    pictures = []
    for number, frame in enumerate(frames):
        label = f"frame {number + 1} of {len(frames)}"
        pictures.append(options.quantize(frame, shared or options.learn([frame], label), label, as_shown=False))
    if args.save_palette is not None:
        pictures[0].palette.write(args.save_palette)
    data = animation.gif_bytes(pictures, delay_ms=args.animate)
    places.write(args.output, data)
    seconds = time.perf_counter() - begin
    count = "1 frame" if len(frames) == 1 else f"{len(frames)} frames"
    common.say(args, f"{count} -> {shown(args.output)}: {len(data)} bytes, {seconds:.2f} s")
    return 0


def _targets(args: argparse.Namespace, sources: Inputs, places: Outputs) -> list[str | None]:
    """Where results go, one an input; None where they are only shown, and of an animation its one file."""
    if args.animate is not None:
        if args.output is None or (args.output != STDOUT and not args.output.lower().endswith(".gif")):
            raise InvalidArgument("--animate needs one .gif file to write, named with -o")
        return [STDOUT if args.output == STDOUT else places.one(args.output)]
    if args.show and args.output is None:
        return [None] * len(sources)
    count = "palette" if args.use is not None else palette_options.colors(args)
    targets = places.each(args.output, lambda source: f"{source.stem}-{count}.png")
    for target in targets:
        if target != STDOUT:
            format_of(target)
    return [*targets]


def _as_seen(pixels: npt.NDArray[np.uint8], alpha: bool) -> npt.NDArray[np.uint8]:
    """(H, W, 3) uint8 of (H, W, C); with `alpha` (2 H, W, 3): over black, and below that over white."""
    colors = np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3))
    if not alpha:
        return colors
    cover = pixels[:, :, 3:].astype(np.uint16) if pixels.shape[2] == 4 else np.uint16(255)
    black = (colors * cover + 127) // 255
    return np.concatenate([black, black + (255 - cover)]).astype(np.uint8)


def _psnr(result: IndexedImage, picture: Any, queue: CommandQueue) -> float:
    colors = result.to_array()
    alpha = 4 in (picture.shape[2], colors.shape[2])
    return clquant.quality.psnr(_as_seen(picture, alpha), _as_seen(colors, alpha), queue=queue)


def _summary(source: Source, target: str | None, result: IndexedImage, error: float, seconds: float) -> str:
    height, width = result.shape
    where = "the terminal" if target is None else shown(target)
    count = "1 colour" if len(result.palette) == 1 else f"{len(result.palette)} colours"
    return f"{source.relative} -> {where}: {width}x{height}, {count}, PSNR {error:.2f} dB, {seconds:.2f} s"
