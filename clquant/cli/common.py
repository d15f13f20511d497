"""What the subcommands share: arguments, devices, messages, progress."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from clquant import runtime
from clquant.cli import streams
from clquant.cli.inputs import Source
from clquant.runtime import InvalidArgument

_COMPRESSIONS = {"none": "raw", "packbits": "packbits", "deflate": "tiff_adobe_deflate", "g4": "group4"}
ICC_HELP = "colours of a file with an ICC profile: become sRGB, or stay, and so does the profile (default: %(default)s)"


def add_inputs(parser: argparse.ArgumentParser, what: str = "picture", *, optional: bool = False) -> None:
    """Declare ``inputs``: one or more files and folders, or ``-``; or none, if that is allowed."""
    parser.add_argument(
        "inputs",
        nargs="*" if optional else "+",
        metavar="IN",
        help=f"{what} files, folders (searched with their subfolders), or - for standard input",
    )


def add_output(parser: argparse.ArgumentParser, suffixes: str, default: str) -> None:
    """Declare ``-o``."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help=f"file to write ({suffixes}), folder where IN is several files or a folder, or - for standard output; "
        f"default: {default}",
    )


def add_batch(parser: argparse.ArgumentParser, fields: str) -> None:
    """Declare how results are named and reported, and what becomes of files that are there."""
    parser.add_argument(
        "--name",
        metavar="TEMPLATE",
        help="names of results beside their inputs or in a folder, such as '{stem}-small.gif'; {stem}, {suffix} and "
        f"{{number}} are the input's{fields}",
    )
    there = parser.add_mutually_exclusive_group()
    there.add_argument("--force", action="store_true", help="let a result replace its own input")
    there.add_argument(
        "-n",
        "--no-clobber",
        action="store_true",
        help="leave files that are there, and skip what they would be made of",
    )
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="print what was done as JSON, instead of a line per result")


def add_compression(parser: Any) -> None:
    """Declare ``--compression``, in a parser or a group of one."""
    parser.add_argument(
        "--compression", choices=tuple(_COMPRESSIONS), help="TIFF: g4 of black and white alone (default: deflate)"
    )


def compression(args: argparse.Namespace, kind: str) -> dict[str, Any]:
    """What ``--compression`` says, as options of `IndexedImage.to_bytes` and of Pillow."""
    return {"compression": _COMPRESSIONS[args.compression]} if kind == "TIFF" and args.compression is not None else {}


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare ``--device`` and ``--quiet``."""
    parser.add_argument(
        "--device", metavar="NAME", help="OpenCL device: its number, gpu, cpu, or a part of its name (clquant devices)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def open_queue(args: argparse.Namespace) -> runtime.CommandQueue:
    """The queue of the device that ``--device`` names, else of the default device."""
    return runtime.default_queue(runtime.find_device(args.device) if args.device is not None else None)


def refuse(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Refuse options that were given in vain; `why` is the rest of the sentence after "--option is given"."""
    for name in names:
        if getattr(args, name) is not None:
            raise InvalidArgument(f"--{name.replace('_', '-')} is given {why}")


def chosen(args: argparse.Namespace, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name, those that were not given (None) with their defaults."""
    return {name: default if getattr(args, name) is None else getattr(args, name) for name, default in defaults.items()}


def say(args: argparse.Namespace, text: str, *, is_table: bool = False, **record: Any) -> None:
    """Print a line about the work to standard error, unless ``--quiet``; with ``--json`` keep its record instead."""
    if hasattr(args, "told"):
        args.told.append((text, is_table, record))
    elif wants_json(args):
        _records(args)["results"].append({name: value for name, value in record.items() if value is not None})
    else:
        note(args, text, "\n" if is_table else "")


def note(args: argparse.Namespace, text: str, keep: str = "") -> None:
    """Print a remark to standard error, unless ``--quiet``; of control characters only those of `keep` as they are."""
    if hasattr(args, "told"):
        args.told.append((text, False, {}))
    elif not args.quiet:
        streams.complain(streams.printable(text, keep) + "\n")


def sizes(nbytes: int | None, input_bytes: int | None) -> str:
    """The end of a line about a result: its bytes and its input's, as far as they are known."""
    before = "" if input_bytes is None else f" of {input_bytes}"
    return "" if nbytes is None else f", {nbytes}{before} bytes"


def skip(args: argparse.Namespace, source: Source, nbytes: int, input_bytes: int | None) -> None:
    """Say that a result is not written, as it is larger than its input."""
    say(
        args,
        f"{source.relative}: left out, as the result would be larger{sizes(nbytes, input_bytes)}",
        input=source.path,
        output=None,
        skipped="larger",
        bytes=nbytes,
        input_bytes=input_bytes,
    )


def is_larger(args: argparse.Namespace, nbytes: int, input_bytes: int | None) -> bool:
    """Whether ``--skip-if-larger`` leaves a result out."""
    return bool(args.skip_if_larger) and input_bytes is not None and nbytes > input_bytes


def wants_json(args: argparse.Namespace) -> bool:
    """Whether results are reported as JSON (see `add_batch`)."""
    return getattr(args, "json", None) is True


def is_reported(args: argparse.Namespace) -> bool:
    """Whether anybody reads what `say` is given, which may take time to find out."""
    return wants_json(args) or not args.quiet


def record_failures(args: argparse.Namespace, failures: Sequence[tuple[str, str]]) -> None:
    """Keep for ``--json`` which inputs failed, and why."""
    if wants_json(args):
        _records(args)["failed"] += [{"input": path, "error": error} for path, error in failures]


def _records(args: argparse.Namespace) -> dict[str, list[Any]]:
    if not hasattr(args, "records"):
        args.records = {"results": [], "failed": []}
    records: dict[str, list[Any]] = args.records
    return records


def print_records(args: argparse.Namespace) -> None:
    """Print what `say` and `record_failures` have kept, if ``--json`` was given."""
    if hasattr(args, "records"):
        # Infinite figures, as the PSNR of equal pictures, are null: JSON has no such numbers.
        all_finite = {name: [finite(record) for record in records] for name, records in args.records.items()}
        streams.write_text(json.dumps(all_finite, indent=2, allow_nan=False) + "\n")


def finite(record: dict[str, Any]) -> dict[str, Any]:
    """A record that JSON has: what is infinite or no number becomes None."""
    return {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in record.items()}


@contextlib.contextmanager
def progress_bar(args: argparse.Namespace, label: str) -> Iterator[Callable[[int, int], None]]:
    """A ``progress=`` callback that shows a bar on a terminal's standard error once a second has passed.

    Uses tqdm where it is installed (extra ``cli``), else a plain percentage.
    """
    if args.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    bar = _Bar(streams.printable(label))
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    DELAY_SECONDS = 1.0

    def __init__(self, label: str) -> None:
        self._label = label
        self._begin = time.monotonic()
        self._shown = False
        self._bar: Any = None
        self._text, self._width = "", 0

    def update(self, done: int, total: int) -> None:
        if time.monotonic() - self._begin < self.DELAY_SECONDS:
            return
        self._shown = True
        try:
            from tqdm import tqdm
        except ImportError:
            left = (time.monotonic() - self._begin) * (total - done) / max(done, 1)
            self._text = f"{self._label}: {100 * done // max(total, 1)} %, {left:.0f} s left"
            sys.stderr.write(f"\r{self._text:<{self._width}}")
            self._width = len(self._text)
            sys.stderr.flush()
            return
        if self._bar is None:
            self._bar = tqdm(total=total, desc=self._label, leave=False, file=sys.stderr)
        self._bar.total = total
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown:
            sys.stderr.write("\r" + " " * self._width + "\r")


def byte_count(text: str) -> int:
    """A number of bytes: ``"60000"``, ``"60k"``, ``"1.5M"``, ``"64Ki"``, ``"2MB"``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMG]?)(i?)B?", text.strip())
    if found is None or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, such as 60000, 60k or 1.5M")
    unit = 1024 if found[3] else 1000
    return int(float(found[1]) * unit ** " kMG".index(found[2].replace("K", "k") or " "))
