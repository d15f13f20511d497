"""`clquant vectors`: train codebooks of rows of numbers, encode rows by them, decode codes, and say what files hold."""

from __future__ import annotations

import argparse
import io
import pathlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import clquant
from clquant.cli import batch, common, inputs, streams
from clquant.cli.common import STDOUT, option, shown
from clquant.cli.inputs import Source
from clquant.cli.outputs import Outputs, check_targets, make_folder
from clquant.runtime import FormatError, InvalidArgument
from clquant.training.seeding import STARTS
from clquant.vectors import exchange, files, saved
from clquant.vectors.base import RowQuantizer
from clquant.vectors.code_quantizer import CodeQuantizer
from clquant.vectors.codes import code_bytes
from clquant.vectors.quantizer import METRICS
from clquant.vectors.rows import read_rows

HELP = "quantize rows of numbers: codebooks, product codes"
MODEL, PLAIN = ".npz", ".npy"
KINDS: dict[str, type[RowQuantizer]] = {
    kind.__name__: kind for kind in (clquant.VectorQuantizer, clquant.ProductQuantizer, clquant.ResidualQuantizer)
}
ROWS = f"rows of numbers: {', '.join(files.SUFFIXES)}"
_LABELS_AT_ONCE = 1 << 16
Made = tuple[
    tuple[int, ...], np.dtype[Any], Iterable[npt.NDArray[Any]]
]  # an array's shape, its dtype, and its portions

EPILOG = """examples:
  clquant vectors train rows.npy -n 1024 -o book.npz        k-means of rows (n, d)
  clquant vectors encode rows.npy --codebook book.npz -o labels.npy
  clquant vectors train sift.bvecs --n-subspaces 8 -o pq.npz         8 bytes a row
  clquant vectors encode sift.bvecs --codebook pq.npz -o codes.npy
  clquant vectors decode codes.npy --codebook pq.npz -o again.bvecs
  clquant vectors info pq.npz

Rows that do not fit memory are read in portions. The same rows, options and seed give the same codebooks and codes on
every device."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the four verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    train = verbs.add_parser("train", help="learn codebooks from rows", epilog=EPILOG)
    common.add_inputs(train, ROWS)
    text = "the codebook's file, .npz; .npy has plain codewords (k, d), not of codes"
    option(train, "-o --output OUT", text, "everyday", required=True)
    _add_training(train)
    encode = verbs.add_parser("encode", help="rows to labels or codes", epilog=EPILOG)
    decode = verbs.add_parser("decode", help="labels or codes to rows", epilog=EPILOG)
    info = verbs.add_parser("info", help="what files of rows and codebooks hold", epilog=EPILOG)
    common.add_inputs(encode, ROWS)
    common.add_inputs(decode, "labels or codes: .npy, .bvecs, .zarr")
    common.add_inputs(info, f"codebooks ({MODEL}) and {ROWS}")
    common.add_output(encode, ".npy, .zarr; codes also .bvecs", "IN-codes.npy beside each input")
    common.add_output(decode, ".npy, .fvecs, .bvecs, .zarr", "IN-rows.npy beside each input")
    for verb in (encode, decode):
        text = "the file that train wrote, or codewords (k, d) in a .npy"
        option(verb, "--codebook FILE", text, "everyday file", required=True)
    for verb in (train, encode, decode, info):
        common.add(verb, "json", "device", "quiet")


def _add_training(parser: argparse.ArgumentParser) -> None:
    add = partial(option, parser)
    add("-k -n --codewords --n-codewords N", "codewords, 1 to 65536 (default: 256)", "everyday", type=int)
    add("--n-subspaces M", "product codes: cut rows into M sub-spaces, each with a codebook", "everyday", type=int)
    add("--n-stages M", "residual codes: M codebooks in turn", "everyday", type=int)
    add("--n-bits B", "bits of a number of a code, 1 to 16 (default: 8)", "everyday", type=int)
    add("--rotation", "with --n-subspaces: rotate rows first", "everyday", choices=["opq"])
    add("--refine R", "rounds of annealed training, or 0", "everyday", type=int, default=20)
    add("--init", "start of the training", choices=STARTS, default=STARTS[0])
    add("--n-init S", "seeds to try; the least error is kept (default: 1)", type=int, default=1)
    add("--max-iter I", "most Lloyd steps after the rounds (default: 100)", type=int, default=100)
    add("--metric", "cosine: rows are normalized first; not of codes", choices=METRICS)
    add("--scale SCALE", "a power of two, of which numbers become multiples; not of codes", type=float)
    add("--sample-weight FILE", "a weight for each row, .npy", "file")
    add("--memory SIZE", "memory for rows that are read in portions (default: 512 MiB)")
    common.add(parser, "seed")


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    return {"train": _train, "encode": _encode, "decode": _decode, "info": _info}[args.verb](args)


def _train(args: argparse.Namespace) -> int:
    sources = inputs.expand(args.inputs, frozenset(files.SUFFIXES))
    if len(sources) != 1:
        raise InvalidArgument(f"there are {len(sources)} inputs; allowed: one file of rows")
    target = Outputs(sources, common.files_read(args)).one(args.output, suffixes=(MODEL, PLAIN))
    begin, source = time.perf_counter(), next(iter(sources))
    model, is_plain = _model(args), target.lower().endswith(PLAIN)
    if is_plain and isinstance(model, CodeQuantizer):
        raise InvalidArgument(f"the output {shown(target)} cannot hold the codebooks of codes; allowed: {MODEL}")
    rows = _rows(source)
    weights = None if args.sample_weight is None else np.asarray(files.opened(pathlib.Path(args.sample_weight))[...])
    with common.progress_bar(args, "codebook") as progress:
        model.fit(rows, sample_weight=weights, progress=progress, memory=args.memory)
    if is_plain:
        with files.written(target, model.codebook_.shape, model.codebook_.dtype) as put:
            put(model.codebook_)
    else:
        model.save(target)
    seconds, count = time.perf_counter() - begin, read_rows(rows).count
    error = model.inertia_ / count
    common.say(
        args,
        f"{source.relative} -> {shown(target)}: {_described(model)}, squared error {error:.6g} a row, {seconds:.2f} s",
        input=source.path,
        output=target,
        rows=count,
        squared_error=error,
        seconds=seconds,
    )
    return 0


def _model(args: argparse.Namespace) -> Any:
    """The quantizer that the options choose."""
    kind: Any = clquant.VectorQuantizer
    if args.n_subspaces is None and args.n_stages is None:
        common.refuse(args, ["n_bits", "rotation"], "without --n-subspaces; allowed: with codes")
    else:
        why = "with codes; allowed: without --n-subspaces and --n-stages"
        common.refuse(args, ["codewords", "metric", "scale"], why)
        kind = clquant.ProductQuantizer
    if args.n_stages is not None:
        common.refuse(args, ["n_subspaces", "rotation"], "with --n-stages; allowed: one of both")
        kind = clquant.ResidualQuantizer
    return kind(**common.parameters(args, kind), queue=common.open_queue(args))


def _rows(source: Source) -> Any:
    """Return rows as Python's verbs take them."""
    if source.piped:
        return files.array_of(streams.read(), "standard input")
    if not source.path.lower().rstrip("/").endswith(files.SUFFIXES):
        raise FormatError(f"{source.shown} is no file of rows; allowed: {', '.join(files.SUFFIXES)}")
    return pathlib.Path(source.path)


def _load(args: argparse.Namespace, path: str) -> Any:
    """The quantizer of a file, of whatever kind."""
    if path.lower().endswith(PLAIN):
        return exchange.plain(files.opened(pathlib.Path(path)), common.open_queue(args))
    kind = saved.read(path)[0].get("kind")
    if kind not in KINDS:
        raise FormatError(f"{shown(path)} holds a {kind!r}; allowed: {', '.join(KINDS)}")
    return KINDS[str(kind)].load(path, queue=common.open_queue(args))


def _encode(args: argparse.Namespace) -> int:
    model = _load(args, args.codebook)

    def make(source: Source) -> Made:
        rows = read_rows(_rows(source))
        if isinstance(model, CodeQuantizer):
            width = code_bytes(len(model.codebooks_), (model.codebooks_.shape[1] - 1).bit_length())
            codes = (np.asarray(model.encode(own)) for _, own in rows.numbered_rows())
            return (rows.count, width), np.dtype(np.uint8), codes
        return (rows.count,), np.dtype(np.int32), (model.predict(own) for _, own in rows.numbered_rows())

    return _each(args, "codes", make)


def _decode(args: argparse.Namespace) -> int:
    model = _load(args, args.codebook)

    def make(source: Source) -> Made:
        given = _rows(source)
        codes = files.opened(given) if isinstance(given, pathlib.Path) else given
        back = model.decode if isinstance(model, CodeQuantizer) else model.inverse_transform
        portions = _portions(codes)
        dtype = back(np.asarray(codes[:0])).dtype
        return (codes.shape[0], model.n_features_in_), dtype, (back(own) for own in portions)

    return _each(args, "rows", make)


def _portions(codes: Any) -> Iterable[npt.NDArray[Any]]:
    """Labels or codes, some at a time."""
    if len(codes.shape) not in (1, 2):
        raise FormatError(f"labels or codes have the shape {tuple(codes.shape)}; allowed: (n,) or (n, bytes)")
    return (np.asarray(codes[i : i + _LABELS_AT_ONCE]) for i in range(0, codes.shape[0], _LABELS_AT_ONCE))


def _each(args: argparse.Namespace, what: str, make: Callable[[Source], Made]) -> int:
    """Make an array of each input, portion by portion, and write it."""
    sources = inputs.expand(args.inputs, frozenset(files.SUFFIXES))
    places = Outputs(sources, common.files_read(args))
    targets = places.each(args.output, lambda source: f"{source.stem}-{what}.npy", suffixes=files.SUFFIXES)
    check_targets(args, targets)

    def work(item: batch.Item, _: None) -> batch.Finish:
        with item.working() as progress:
            made = make(item.source)
            _write(item.place, made, progress)
        shape, dtype = made[:2]
        text = f"{item.source.relative} -> {shown(item.place)}: {' x '.join(map(str, shape))} {dtype}"
        record: dict[str, Any] = {"shape": list(shape), "dtype": str(dtype), "seconds": item.seconds()}
        text += f", {record['seconds']:.2f} s"
        said = partial(common.say, args, text, input=item.source.path, output=item.target, **record)
        return lambda: said

    return batch.run(args, list(zip(sources, targets, strict=True)), lambda *_: None, work)


def _write(target: str, made: Made, progress: Callable[[int, int], object]) -> None:
    shape, dtype, portions = made
    if target == STDOUT:
        stream = io.BytesIO()
        np.save(stream, np.concatenate([np.empty((0, *shape[1:]), dtype), *portions]))
        streams.write(stream.getvalue())
        return
    make_folder(target)
    done = 0
    with files.written(target, shape, dtype) as put:
        for rows in portions:
            put(rows)
            done += len(rows)
            progress(done, shape[0])


def _info(args: argparse.Namespace) -> int:
    suffixes = (MODEL, *files.SUFFIXES)
    for source in inputs.expand(args.inputs, frozenset(suffixes)):
        if source.path.lower().endswith(MODEL):
            model = _load(args, source.path)
            text, record = _described(model), {"kind": type(model).__name__, "features": model.n_features_in_}
        else:
            given = _rows(source)
            found = files.opened(given) if isinstance(given, pathlib.Path) else given
            shape = [int(n) for n in found.shape]
            text = f"{' x '.join(map(str, shape))} {found.dtype}"
            record = {"shape": shape, "dtype": str(found.dtype)}
        if common.wants_json(args):
            common.say(args, "", input=source.path, **record)
        else:
            streams.write_text(f"{streams.printable(str(source.relative))}: {text}\n")
    return 0


def _described(model: Any) -> str:
    if not isinstance(model, CodeQuantizer):
        count = common.counted(len(model.codebook_), "codeword")
        return f"{count} of {model.n_features_in_} numbers, {model.codebook_.dtype}"
    count, size, width = model.codebooks_.shape
    rotated = "" if getattr(model, "rotation_", None) is None else ", rotated"
    books = f"{count} codebooks of {size} x {width}{rotated}"
    return f"{books}, {code_bytes(count, (size - 1).bit_length())} bytes for {model.n_features_in_} numbers"
