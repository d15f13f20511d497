"""`clquant vq`: train codebooks, encode pictures to .clvq files, decode these, and say what they hold."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image

from clquant import images, params
from clquant.cli import common
from clquant.cli.common import Source
from clquant.palette.indexed import format_of
from clquant.quality import psnr
from clquant.runtime import FileError, FormatError, InvalidArgument, NotFittedError
from clquant.vq import VQCodec, clvq_info, container

HELP = "vector-quantize pictures to .clvq files and back"
SUFFIX = ".clvq"
CLVQ_SUFFIXES = frozenset({SUFFIX})

EPILOG = """examples:
  clquant vq encode photo.png --gray                    writes photo.clvq with a codebook of its own
  clquant vq encode photo.png --gray -n 1024 --side-match 32 -o small.clvq
  clquant vq decode photo.clvq -o again.png
  clquant vq train pictures/ --gray -n 512 -o book.clvq       one codebook for many pictures
  clquant vq encode pictures/ --gray --codebook book.clvq -o coded/
  clquant vq decode coded/ --codebook book.clvq -o decoded/
  clquant vq info photo.clvq

The same pictures, options and seed give the same codebooks and indices on every device."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the four verbs and their arguments."""
    parser.epilog = EPILOG
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    train = verbs.add_parser("train", help="learn one codebook from pictures", epilog=EPILOG, formatter_class=_FORMAT)
    common.add_inputs(train)
    train.add_argument("-o", "--output", required=True, metavar="OUT", help="the codebook's .clvq file")
    _add_training(train)
    encode = verbs.add_parser("encode", help="pictures to .clvq files", epilog=EPILOG, formatter_class=_FORMAT)
    common.add_inputs(encode)
    common.add_output(encode, SUFFIX, "IN.clvq beside each input")
    _add_training(encode)
    encode.add_argument(
        "--codebook", metavar="FILE", help="use this codebook, named by the outputs but not held in them"
    )
    encode.add_argument("--embed", action="store_true", help="with --codebook: hold it in every output")
    encode.add_argument(
        "--side-match", type=int, default=0, metavar="S", help="code ranks in state codebooks of S codewords, 1 to 255"
    )
    encode.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="MSE",
        help="with --side-match: error a block may gain for a shorter code (default: %(default)s)",
    )
    decode = verbs.add_parser("decode", help=".clvq files to pictures", epilog=EPILOG, formatter_class=_FORMAT)
    common.add_inputs(decode, SUFFIX)
    common.add_output(decode, "its suffix names the format", "IN.png beside each input, unless it is there")
    decode.add_argument("--codebook", metavar="FILE", help="the codebook that the inputs name")
    info = verbs.add_parser("info", help="what .clvq files hold", epilog=EPILOG, formatter_class=_FORMAT)
    common.add_inputs(info, SUFFIX)
    for verb in (train, encode, decode, info):
        common.add_device(verb)


_FORMAT = argparse.RawDescriptionHelpFormatter


def _add_training(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--codewords", type=int, default=256, metavar="N", help="codewords, 2 to 65536 (default: %(default)s)"
    )
    parser.add_argument(
        "--block", type=_block, default=(4, 4), metavar="PxQ", help="block rows x columns in pixels (default: 4x4)"
    )
    parser.add_argument("--init", choices=["k-means++", "splitting"], default="k-means++", help="start of the training")
    parser.add_argument("--refine", type=int, default=30, metavar="R", help="rounds that move codewords (default: 30)")
    parser.add_argument("--gray", action="store_true", help="convert pictures to gray first")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is random (default: 0)")


def _block(text: str) -> tuple[int, int]:
    sides = text.lower().split("x")
    if len(sides) != 2 or not all(side.isdigit() for side in sides):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 4x4")
    return int(sides[0]), int(sides[1])


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    return {"train": _train, "encode": _encode, "decode": _decode, "info": _info}[args.verb](args)


def _train(args: argparse.Namespace) -> int:
    sources = common.expand_inputs(args.inputs)
    begin = time.perf_counter()
    pictures = [_pixels(source, args) for source in sources]
    codec = _codec(args, common.open_queue(args))
    with common.progress_bar(args, "codebook") as progress:
        codec.fit(pictures, progress=progress)
    codec.save(args.output)
    seconds = time.perf_counter() - begin
    count = "1 picture" if len(sources) == 1 else f"{len(sources)} pictures"
    common.say(
        args, f"{count} -> {args.output}: {len(codec.codebook_)} codewords, MSE {codec.mse_:.2f}, {seconds:.2f} s"
    )
    return 0


def _encode(args: argparse.Namespace) -> int:
    if args.embed and args.codebook is None:
        raise InvalidArgument("--embed is given without --codebook; allowed: with --codebook")
    sources = common.expand_inputs(args.inputs)
    several = len(sources) > 1
    targets = [common.output_path(s, args.output, several, _renamed(s, SUFFIX)) for s in sources]
    common.check_distinct(targets)
    queue = common.open_queue(args)
    shared = None if args.codebook is None else VQCodec.load(args.codebook, queue=queue)
    if shared is not None:
        shared.set_params(state_size=args.side_match, tolerance=args.tolerance)
    for source, target in zip(sources, targets, strict=True):
        begin = time.perf_counter()
        picture = _pixels(source, args)
        codec = shared or _codec(args, queue)
        if shared is None:
            with common.progress_bar(args, source.relative.name) as progress:
                codec.fit(picture, progress=progress)
        data = codec.compress(picture, embed_codebook=shared is None or args.embed)
        common.write_output(target, data)
        common.say(args, _summary(source, target, picture, codec, data, time.perf_counter() - begin))
    return 0


def _decode(args: argparse.Namespace) -> int:
    sources = common.expand_inputs(args.inputs, CLVQ_SUFFIXES)
    for source in sources:
        _check_kind(source)
    several = len(sources) > 1
    targets = [common.output_path(s, args.output, several, _renamed(s, ".png")) for s in sources]
    common.check_distinct(targets)
    for target in targets if args.output is None else []:
        if target != common.STDIN and os.path.exists(target):
            raise InvalidArgument(f"{target!r} is there already, perhaps as it was encoded; name an output with -o")
    formats = ["PNG" if target == common.STDIN else format_of(target) for target in targets]
    queue = common.open_queue(args)
    codec = VQCodec(queue=queue) if args.codebook is None else VQCodec.load(args.codebook, queue=queue)
    for source, target, form in zip(sources, targets, formats, strict=True):
        with _named(source):
            picture = codec.decompress(common.read_bytes(source))
        common.write_output(target, _picture_bytes(picture, form, target))
        height, width = picture.shape[:2]
        common.say(args, f"{source.relative} -> {_shown(target)}: {width}x{height}")
    return 0


def _info(args: argparse.Namespace) -> int:
    for source in common.expand_inputs(args.inputs, CLVQ_SUFFIXES):
        with _named(source):
            info = clvq_info(common.read_bytes(source))
        sys.stdout.write(f"{source.relative}: {info}\n")
    return 0


def _check_kind(source: Source) -> None:
    """Refuse a file that is no .clvq file before there is work; pipes can be read once only and are left alone.

    Raises
    ------
    FormatError, FileError
        Naming it.
    """
    if source.piped or not os.path.isfile(source.path):
        return
    try:
        with open(source.path, "rb") as file:
            begins = file.read(len(container.MAGIC))
    except OSError as error:
        raise FileError(f"cannot read {source.path!r}: {error.strerror or error}") from error
    if begins != container.MAGIC:
        raise FormatError(f"{params.shown(source.path)} is no .clvq file; allowed: files that clquant vq encode writes")


@contextlib.contextmanager
def _named(source: Source) -> Iterator[None]:
    """Say in errors about a file's bytes which of the inputs it is."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{params.shown(source.path)}: {error}") from error
    except NotFittedError as error:
        raise NotFittedError(f"{params.shown(source.path)}: {error}; --codebook names its file") from error


def _codec(args: argparse.Namespace, queue: Any) -> VQCodec:
    side_match = {}
    if args.verb == "encode":
        side_match = {"state_size": args.side_match, "tolerance": args.tolerance}
    return VQCodec(
        args.codewords,
        args.block,
        init=args.init,
        refine=args.refine,
        random_state=args.seed,
        queue=queue,
        **side_match,
    )


def _pixels(source: Source, args: argparse.Namespace) -> np.ndarray[Any, np.dtype[np.uint8]]:
    picture = images.read(common.read_input(source))
    assert picture.array is not None
    array = picture.array.reshape(picture.shape)
    return np.asarray(PIL.Image.fromarray(array).convert("L")) if args.gray else array


def _renamed(source: Source, suffix: str) -> str:
    return pathlib.PurePath(source.relative.name).stem + suffix


def _shown(target: str) -> str:
    return "standard output" if target == common.STDIN else target


def _picture_bytes(picture: Any, form: str, target: str) -> bytes:
    file = io.BytesIO()
    try:
        PIL.Image.fromarray(picture).save(file, form)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write {target!r}: {form} does not take this picture: {error}") from error
    return file.getvalue()


def _summary(source: Source, target: str, picture: Any, codec: VQCodec, data: bytes, seconds: float) -> str:
    decoded = codec.decompress(data)
    height, width = picture.shape[:2]
    what = f"{width}x{height}, {len(codec.codebook_)} codewords, {len(data)} bytes"
    return (
        f"{source.relative} -> {_shown(target)}: {what}, "
        f"{8 * len(data) / (height * width):.3f} bits a pixel, PSNR {psnr(picture, decoded):.2f} dB, {seconds:.2f} s"
    )
