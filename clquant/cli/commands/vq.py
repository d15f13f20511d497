"""`clquant vq`: train codebooks, encode pictures to .clvq files, decode these, and say what they hold."""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import flow
from clquant.cli import batch, common, executors, inputs, loading, streams
from clquant.cli.batch import Item
from clquant.cli.common import STDOUT, option
from clquant.cli.inputs import Pair, Source
from clquant.cli.loading import Loaded, load_still
from clquant.cli.outputs import Outputs, expected, full_color_kind, picture_bytes
from clquant.quality import psnr
from clquant.runtime import ClquantError, FileError, FormatError, InvalidArgument, NotFittedError, ProgressCallback
from clquant.training.seeding import STARTS
from clquant.vq import VQCodec, clvq_info
from clquant.vq.container import clvq_format

HELP = "vector-quantize pictures to .clvq files and back"
SUFFIX = ".clvq"
CLVQ_SUFFIXES = frozenset({SUFFIX})
# Workers of a cluster decode bands of larger pictures, and others whole.
MOST_PIXELS_AT_ONCE = 1 << 25

Picture = npt.NDArray[np.uint8]

EPILOG = """examples:
  clquant vq encode photo.png --gray                    writes photo.clvq with a codebook of its own
  clquant vq encode photo.png --gray -n 1024 --side-match 32 --tolerance 20 -o small.clvq
  clquant vq decode photo.clvq -o again.png
  clquant vq train pictures/ --gray -n 512 -o book.clvq       one codebook for many pictures
  clquant vq encode pictures/ --gray --codebook book.clvq -o coded/
  clquant vq decode coded/ --codebook book.clvq -o decoded/
  clquant vq info photo.clvq

The same pictures, options and seed give the same codebooks and indices on every device."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the four verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    train = verbs.add_parser("train", help="learn one codebook from pictures", epilog=EPILOG)
    common.add_inputs(train)
    option(train, "-o --output OUT", "the codebook's .clvq file", "everyday", required=True)
    _add_training(train)
    encode = verbs.add_parser("encode", help="pictures to .clvq files", epilog=EPILOG)
    common.add_inputs(encode)
    common.add_output(encode, SUFFIX, "IN.clvq beside each input")
    _add_training(encode)
    option(encode, "--codebook FILE", "use this codebook, named by the outputs but not held in them", "everyday file")
    text = "with --codebook: hold it in every output"
    encode.add_argument("--embed", "--embed-codebook", action="store_true", help=text)
    text = "with --tolerance: choose among the S likeliest codewords, 1 to 255"
    option(encode, "--side-match --state-size S", text, "everyday", type=int)
    text = "with --side-match: error a block may gain for a shorter code (default: {default})"
    option(encode, "--tolerance MSE", text, of=VQCodec, type=float)
    decode = verbs.add_parser("decode", help=".clvq files to pictures", epilog=EPILOG)
    common.add_inputs(decode, SUFFIX)
    common.add_output(decode, "its suffix names the format", "IN.png beside each input, unless it is there")
    option(decode, "--codebook FILE", "the codebook that the inputs name", "everyday file")
    common.add(decode, "background")
    info = verbs.add_parser("info", help="what .clvq files hold", epilog=EPILOG)
    common.add_inputs(info, SUFFIX)
    text = "refuse files that claim more (default: %(default)s)"
    for verb in (decode, info):
        verb.add_argument("--max-pixels", type=int, default=clvq_format.MAX_PIXELS, metavar="PIXELS", help=text)
    text = "refuse files that claim a larger codebook (default: %(default)s)"
    decode.add_argument("--max-codebook", type=int, default=clvq_format.MAX_CODEBOOK, metavar="BYTES", help=text)
    for verb in (train, encode, decode, info):
        common.add(verb, "json", "device", "quiet", *(() if verb is info else ("cluster",)))


def _add_training(parser: argparse.ArgumentParser) -> None:
    made = VQCodec
    text = "codewords, 2 to 65536 (default: {default})"
    option(parser, "-k -n --codewords --codebook-size N", text, "everyday learns", made, type=int)
    text = "block rows x columns in pixels (default: 4x4)"
    option(parser, "--block --block-shape PxQ", text, "everyday learns", type=common.sides)
    text = "start of the training (default: {default})"
    option(parser, "--init", text, "learns", made, choices=STARTS)
    text = "rounds of annealed training (default: {default})"
    option(parser, "--refine R", text, "everyday learns", made, type=int)
    option(parser, "--gray", "convert pictures to gray first", "everyday")
    common.add(parser, "background", "bands", "range")
    common.add(parser, "seed", default=None, traits="learns")


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    return {"train": _train, "encode": _encode, "decode": _decode, "info": _info}[args.verb](args)


def _train(args: argparse.Namespace) -> int:
    sources = inputs.expand(args.inputs)
    target = Outputs(sources).one(args.output, suffixes=CLVQ_SUFFIXES)
    begin = time.perf_counter()
    with executors.cluster(args, [(source, target) for source in sources]):
        codec = VQCodec(**common.parameters(args, VQCodec), queue=common.open_queue(args))
        pictures = []
        with common.progress_bar(args, "reading") as progress:
            for source in sources:
                pictures.append(_picture(args, source))
                progress(len(pictures), len(sources))
        with common.progress_bar(args, "codebook") as progress:
            codec.fit(pictures, progress=progress)
    codec.save(target)
    seconds = time.perf_counter() - begin
    count = common.counted(len(sources), "picture")
    size, mse, paths = len(codec.codebook_), float(codec.mse_), [source.path for source in sources]
    text = f"{count} -> {args.output}: {common.counted(size, 'codeword')}, MSE {mse:.2f}, {seconds:.2f} s"
    common.say(args, text, inputs=paths, output=args.output, codebook_size=size, mse=mse, seconds=seconds)
    return 0


def _picture(args: argparse.Namespace, source: Source) -> Any:
    """Read a picture, or open it as a cluster's workers read it."""
    if args.cluster is None:
        return _pixels(args, source)
    return executors.spread(args, source, bool(loading.suffix_of(source)), _pixels)


def _encode(args: argparse.Namespace) -> int:
    if args.embed and args.codebook is None:
        raise InvalidArgument("--embed is given without --codebook; allowed: with --codebook")
    if args.codebook is not None:
        names = common.with_trait(args, "learns")
        common.refuse(args, names, "with --codebook, which holds what it would choose; allowed: without")
    if args.side_match is None:
        common.refuse(args, ["tolerance"], "without --side-match; allowed: with --side-match")
    _, pairs = expected(args, lambda source: source.stem + SUFFIX, suffixes=CLVQ_SUFFIXES)
    with executors.cluster(args, pairs) as client:
        return executors.run(args, pairs, client, lambda pair: bool(loading.suffix_of(pair[0])), _encode_here)


def _encode_here(args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Encode inputs one by one; workers do the chunks of large ones if there is a cluster."""
    queue = common.open_queue(args)
    shared = None if args.codebook is None else VQCodec.load(args.codebook, queue=queue)
    if shared is not None:
        shared.set_params(**common.parameters(args, VQCodec))

    def read(source: Source, _: str | None) -> Any:
        return _loaded(args, source) if args.cluster is None else _picture(args, source)

    return batch.run(args, pairs, read, partial(_encode_one, shared, queue))


def _encode_one(shared: VQCodec | None, queue: Any, item: Item, found: Any) -> batch.Finish:
    picture, behind = (found.pixels, found.background) if isinstance(found, Loaded) else (found, None)
    args, codec = item.args, shared or VQCodec(**common.parameters(item.args, VQCodec), queue=queue)
    if shared is None:
        with common.progress_bar(args, item.label) as progress:
            codec.fit(picture, progress=progress)
    with item.working(", coding") as coding:
        data = codec.compress(picture, embed_codebook=shared is None or args.embed, progress=coding)
    seconds, count = item.seconds(), len(codec.codebook_)
    error, bits = _error(item, codec, picture, data), 8 * len(data) / (picture.shape[0] * picture.shape[1])
    what = (
        f", {common.counted(count, 'codeword')}, {len(data)} bytes, {bits:.3f} bits per pixel, {common.decibels(error)}"
    )
    over, colors = loading.over(behind, False)
    what += " of colours and alpha" if tuple(picture.shape[2:]) == (4,) else over

    def finish() -> batch.Report:
        item.write(data)
        figures = {
            "codebook_size": count,
            "bytes": len(data),
            "bits_per_pixel": bits,
            "psnr": error,
            "psnr_over": colors,
        }
        return item.said(picture.shape, what, **figures, seconds=seconds)

    return finish


def _error(item: Item, codec: VQCodec, picture: Any, data: bytes) -> float:
    """PSNR of a coded picture; 0 if nobody asks."""
    if not common.is_reported(item.args):
        return 0.0
    with common.progress_bar(item.args, f"{item.label}, looking at it") as progress:
        if item.args.cluster is None or codec.state_size:  # with which blocks need not have their nearest codeword
            most = {"max_pixels": picture.size, "max_codebook": codec.codebook_.nbytes}
            decoded = codec.decompress(data, **most, progress=progress)
        else:
            decoded = codec.decode(codec.encode(picture), picture.shape)
    return float(psnr(picture, decoded, queue=codec.queue))


def _decode(args: argparse.Namespace) -> int:
    sources = inputs.expand(args.inputs, CLVQ_SUFFIXES)
    for source in sources if len(sources) == 1 else ():
        if not source.piped and os.path.isfile(source.path):  # a pipe can be read once only
            with inputs.opened(source) as file:
                begins = file.read(len(clvq_format.MAGIC))
            if begins != clvq_format.MAGIC:
                allowed = "files that clquant vq encode writes"
                raise FormatError(f"{source.shown} is no .clvq file; allowed: {allowed}")
    _, pairs = expected(args, lambda source: source.stem + ".png", known=CLVQ_SUFFIXES)
    for _, target in pairs:
        full_color_kind(str(target))
        if args.output is None and target != STDOUT and os.path.exists(str(target)):
            raise InvalidArgument(f"{target!r} is there already, perhaps as it was encoded; name an output with -o")
    with executors.cluster(args, pairs) as client:
        return executors.run(args, pairs, client, partial(_has_many_pixels, args), _decode_here)


def _has_many_pixels(args: argparse.Namespace, pair: Pair) -> bool:
    """Whether a .clvq file's picture is decoded by bands; not if its head is damaged, which its decoder will say."""
    try:
        with inputs.opened(pair[0]) as file:
            height, width = clvq_format.Reader(file, args.max_pixels, args.max_codebook).header.shape
    except (FileError, FormatError):
        return False
    return height * width > MOST_PIXELS_AT_ONCE


def _decode_here(args: argparse.Namespace, pairs: Sequence[Pair]) -> int:
    """Decode inputs one by one; if there is a cluster, its workers do the bands."""
    queue = common.open_queue(args)
    codec = VQCodec(queue=queue) if args.codebook is None else VQCodec.load(args.codebook, queue=queue)

    def work(item: Item, _: None) -> batch.Finish:
        try:
            with item.working() as progress:
                picture = _decoded(args, codec, item.source, progress)
        except NotFittedError as error:
            raise NotFittedError(f"{item.source.shown}: {error}; --codebook names its file") from error

        def finish() -> batch.Report:
            image, kind = PIL.Image.fromarray(picture), full_color_kind(item.place)
            item.write(picture_bytes(image, kind, item.place, args.background))
            return item.said(picture.shape, "", timed=False)

        return finish

    return batch.run(args, pairs, lambda *_: None, work)


def _decoded(args: argparse.Namespace, codec: VQCodec, source: Source, progress: ProgressCallback) -> Picture:
    if args.cluster is None:
        most = {"max_pixels": args.max_pixels, "max_codebook": args.max_codebook}
        with inputs.opened(source) as file:
            return codec.decompress_from(file, **most, progress=progress)
    from clquant.dask import decompressed  # an extra

    picture: Picture = flow.fetch(decompressed(source.path, codec, max_pixels=args.max_pixels), progress)
    return picture


def _info(args: argparse.Namespace) -> int:
    sources = inputs.expand(args.inputs, CLVQ_SUFFIXES)
    failures = batch.Failures(args, len(sources))
    for source in sources:
        try:
            with inputs.named(source), inputs.opened(source) as file:
                info = clvq_info(file, max_pixels=args.max_pixels)
        except ClquantError as error:
            failures.add(source, error)
            continue
        if common.wants_json(args):
            common.say(args, "", input=source.path, **dataclasses.asdict(info), bits_per_pixel=info.bits_per_pixel)
        else:
            streams.write_text(f"{streams.printable(str(source.relative))}: {info}\n")
    return failures.status()


def _pixels(args: argparse.Namespace, source: Source) -> Picture:
    array: Picture = _loaded(args, source).pixels
    return array


def _loaded(args: argparse.Namespace, source: Source, _: str | None = None) -> Loaded:
    loaded = load_still(args, source, "coded are single pictures").laid_over(args, None, args.gray)
    is_done = not args.gray or loaded.pixels.shape[2] == 1
    return loaded if is_done else dataclasses.replace(loaded, pixels=loading.luma(loaded.pixels))
