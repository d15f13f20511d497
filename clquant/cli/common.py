"""Options, devices, messages and progress of all subcommands."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from clquant import runtime
from clquant.cli import bar, streams
from clquant.color import spaces
from clquant.color.display import DISPLAY_FORMATS
from clquant.color.palette import Palette
from clquant.color.values import ALLOWED, css_color, opaque_color
from clquant.dithering.registry import DEFAULT, dither_names
from clquant.runtime import InvalidArgument

STDOUT = "-"
_MOST_NAMED = 3
NO_DITHER = "none"
EXIT_FAILED = 1
_COMPRESSIONS = {"none": "raw", "packbits": "packbits", "deflate": "tiff_adobe_deflate", "g4": "group4"}
TRAITS = {
    "everyday": "shown by --help, not by --help-all alone",
    "file": "its value may name a file that is read",
    "result": "its value names a file that is written",
    "here": "its result is shown by this process: not with --jobs or --cluster",
    "joint": "joins all inputs: not with --jobs",
    "learns": "chooses how a palette, a codebook or a tree is made: not where one is given",
    "whole": "needs the whole picture: not where pictures are read and written by bands",
    "bands": "of results that are written by bands: .zarr and .tif",
}


class Declared(NamedTuple):
    """An option's traits, its default and the parameter that it sets."""

    traits: frozenset[str]
    default: Any
    parameter: str  # its last word, which is that of Python's parameter


def option(
    parser: Any, words: str, help: str, traits: str = "", of: Callable[..., Any] | None = None, **declaration: Any
) -> None:
    """Declare an option in a parser or a group of one, by its words as helps print them, such as ``-k --colors K``.

    `traits` are words of `TRAITS`. What has neither a placeholder nor choices is a flag. The last word is the name of
    the parameter that the option sets, and `of` what has it: its default takes the place of ``{default}`` in the help.
    """
    assert set(traits.split()) <= set(TRAITS), traits
    names = [word for word in words.split() if word.startswith("-")]
    parameter = names[-1].lstrip("-").replace("-", "_")
    if of is not None:
        default = default_of(of, parameter)
        help = help.replace("{default}", f"{default:g}" if isinstance(default, float) else str(default))
    if placeholder := words.split()[len(names) :]:
        declaration["metavar"] = placeholder[0]
    elif "choices" not in declaration:
        declaration["action"] = "store_true"
    action = parser.add_argument(*names, help=help, **declaration)
    known = parser.get_default("options") or {}
    parser.set_defaults(options={**known, action.dest: Declared(frozenset(traits.split()), action.default, parameter)})


def default_of(target: Callable[..., Any], parameter: str) -> Any:
    """The default of a callable's parameter."""
    return inspect.signature(target).parameters[parameter].default


def parameters(args: argparse.Namespace, target: Callable[..., Any]) -> dict[str, Any]:
    """Values of the options that are parameters of a callable; those that were not given are left to it."""
    known = inspect.signature(target).parameters
    found = {one.parameter: getattr(args, name) for name, one in args.options.items()}
    return {name: value for name, value in found.items() if name in known and value is not None}


def with_trait(args: argparse.Namespace, trait: str) -> list[str]:
    """Names of all options with a trait."""
    return [name for name, one in args.options.items() if trait in one.traits]


def given(args: argparse.Namespace, trait: str) -> list[str]:
    """Return the options with a trait, as they were typed, whose values are not their defaults."""
    return [typed(args, name) for name in with_trait(args, trait) if is_given(args, name)]


def typed(args: argparse.Namespace, name: str) -> str:
    """Return the word by which an option was given, else the one that helps show, which is Python's."""
    return getattr(args, "typed", {}).get(name) or f"--{args.options[name].parameter.replace('_', '-')}"


def as_typed(args: argparse.Namespace, message: str) -> str:
    """Name options in an error as they were typed, instead of Python's parameters."""
    words: dict[str, str] = getattr(args, "typed", {})
    parameters = {one.parameter: typed(args, name) for name, one in getattr(args, "options", {}).items()}
    for name, word in {**parameters, **words}.items():
        is_subject = "_" not in name
        if not is_subject or word in words.values():
            place = rf"^{name}(?= (is|has|are|holds)\b)" if is_subject else rf"(?<!['\w-]){name}(?!['\w])"
            message = re.sub(place, word, message)
    return message


def is_given(args: argparse.Namespace, name: str) -> bool:
    """Whether an option's value is not its default."""
    return bool(getattr(args, name) != args.options[name].default)


def files_read(args: argparse.Namespace) -> list[str | None]:
    """Values of the options that may name files which are read."""
    return [getattr(args, name) for name in with_trait(args, "file")]


def add_inputs(parser: argparse.ArgumentParser, what: str = "picture", *, optional: bool = False) -> None:
    """Declare ``inputs``: one or more files and folders, or ``-``; or none, if that is allowed."""
    text = f"{what} files, folders (searched with their subfolders), or - for standard input"
    parser.add_argument("inputs", nargs="*" if optional else "+", metavar="IN", help=text)


def add_output(parser: argparse.ArgumentParser, suffixes: str, default: str) -> None:
    """Declare ``-o``."""
    text = (
        f"file to write ({suffixes}), folder where IN is several files or a folder, or - for standard output; "
        f"default: {default}"
    )
    option(parser, "-o --output OUT", text, "everyday")
    parser.set_defaults(name=None, force=False, no_clobber=False)  # of commands without these options


def add_batch(
    parser: argparse.ArgumentParser, suffixes: str, default: str, fields: str = "", what: str = "picture", **how: Any
) -> None:
    """Declare inputs, outputs, their names, the report, and what happens to existing files."""
    add_inputs(parser, what, **how)
    add_output(parser, suffixes, default)
    text = (
        "names of results beside their inputs or in a folder, such as '{stem}-small.gif'; {stem}, {suffix} and "
        f"{{number}} are the input's{fields}"
    )
    parser.add_argument("--name", metavar="TEMPLATE", help=text)
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--force", action="store_true", help="let a result replace its own input")
    text = "leave files that are there, and skip what they would be made of"
    existing.add_argument("-n", "--no-clobber", action="store_true", help=text)
    add(parser, "json")


_BACKGROUND = "colour behind what is transparent; without it white, in results without alpha alone"
_BANDS = "of GeoTIFFs: the bands of red, green, blue (and alpha), or of gray, from 1 on; such as 4,3,2"
_CLUSTER = (
    "share the work out among Dask workers: local (one per device of this machine, or local:0,1 by their numbers), or "
    "a scheduler's address, such as tcp://host:8786, whose workers find the same files"
)
_DEVICE = "OpenCL device to use; its number, gpu, cpu, a part of its name (clquant devices), or all: every GPU"
_ICC = "colours of a file with an ICC profile: become sRGB, or stay with the profile (default: %(default)s)"
_PALETTE = "write the palette: .gpl .act .pal .hex .ase .txt .png"
_RANGE = "value of 16-bit files that is white: 4095 of 12 bits, 1023 of 10 (default: 65535)"
_SEED = "seed of what is random (default: 0)"
_SPACE = "where colours are compared (default: srgb)"
_TIFF = "TIFF: g4 of black and white alone (default: deflate)"
_USE = "take these colours instead of learning some; 'black,#f80' or a palette file"
# How options of several commands are declared.
_SHARED: dict[str, Callable[..., None]] = {
    "bands": partial(option, words="--bands BANDS", help=_BANDS, type=lambda text: band_numbers(text)),
    "background": partial(option, words="--background COLOR", help=_BACKGROUND, type=lambda text: background(text)),
    "cluster": partial(option, words="--cluster WHERE", help=_CLUSTER),
    "color_format": partial(option, words="--color-format", choices=tuple(DISPLAY_FORMATS)),
    "colors": partial(option, words="-k --colors --n-colors K", traits="everyday", type=int),
    "compression": partial(option, words="--compression", help=_TIFF, traits="whole", choices=tuple(_COMPRESSIONS)),
    "device": partial(option, words="--device NAME", help=_DEVICE, traits="everyday"),
    "icc": partial(option, words="--icc", help=_ICC, traits="whole", choices=("srgb", "keep"), default="srgb"),
    "json": partial(option, words="--json", help="print what was done as JSON, instead of a line per result"),
    "quiet": lambda parser: _add_loudness(parser),
    "range": partial(option, words="--range WHITE", help=_RANGE, type=int),
    "save_palette": partial(option, words="--save-palette FILE", help=_PALETTE, traits="everyday result joint"),
    "seed": partial(option, words="--seed --random-state SEED", help=_SEED, type=int, default=0),
    "space": partial(
        option, words="--space --color-space", help=_SPACE, traits="everyday", choices=spaces.NAMES, default="srgb"
    ),
    "use": partial(option, words="--use COLORS", help=_USE, traits="everyday file"),
}


def _add_loudness(parser: Any) -> None:
    option(parser, "-q --quiet", "print nothing but errors")
    option(parser, "-v --verbose", "say which metadata are dropped, too")


def add(parser: Any, *names: str, **changes: Any) -> None:
    """Declare options of several commands, with changes of their declaration."""
    for name in names:
        _SHARED[name](parser, **changes)


def add_dither(
    parser: Any,
    what: str,
    remark: str = "",
    names: Sequence[str] = (),
    const: str = DEFAULT,
    default: str | None = None,
) -> None:
    """Declare ``--dither``, of some names or of all; `remark` ends its help, and `const` is meant if none is named."""
    names = [*(names or dither_names()), NO_DITHER]
    remark = remark or f"(default: {default or NO_DITHER})"
    text = f"{what}; HOW is one of: {', '.join(names)}; {const} if none is named {remark}"
    option(parser, "--dither HOW", text, "everyday", nargs="?", const=const, choices=names, default=default)


def given_palette(name: str, text: str) -> Palette:
    """Return the palette that an option names: a file if there is one of that name, else colours between commas."""
    if os.path.exists(text):
        return Palette.read(text)
    colors = [color.strip() for color in text.split(",")]
    if all(css_color(color) is not None for color in colors):
        return Palette(colors)
    raise InvalidArgument(f"{name} is {text!r}, neither a file nor colours; allowed: a palette file, or {ALLOWED}")


def compression(args: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Return ``--compression`` as options of `IndexedImage.to_bytes` and of Pillow."""
    return {"compression": _COMPRESSIONS[args.compression]} if kind == "TIFF" and args.compression is not None else {}


def byte_count(text: str) -> int:
    """A number of bytes: ``"60000"``, ``"60k"``, ``"1.5M"``, ``"64Ki"``, ``"2 MB"``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, such as 60000, 60k or 1.5M")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " "))


def background(text: str) -> tuple[int, ...]:
    """An opaque colour: ``white``, ``#f80``."""
    try:
        return opaque_color("COLOR", text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def band_numbers(text: str) -> tuple[int, ...]:
    """One, three or four numbers from 1 on, such as ``4,3,2``."""
    words = text.split(",")
    if len(words) not in (1, 3, 4) or not all(re.fullmatch(r"[1-9]\d{0,4}", word.strip()) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not one, three or four numbers from 1 on, such as 4,3,2")
    return tuple(map(int, words))


def sides(text: str) -> tuple[int, int]:
    """Two whole numbers from 1 on, such as ``4x4``."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of whole numbers from 1 on, such as 4x4 or 800x480")
    return int(found[1]), int(found[2])


def open_queue(args: argparse.Namespace) -> Any:
    """Open a queue on the device that ``--device`` names, or several; else on the default device."""
    if args.device == "all":
        return runtime.device_queues()
    return runtime.default_queue(runtime.find_device(args.device) if args.device is not None else None)


def refuse(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Refuse options that were given in vain; `why` is the rest of the sentence after "--option is given"."""
    for name in names:
        if is_given(args, name):
            raise InvalidArgument(f"{typed(args, name)} is given {why}")


def counted(number: int, noun: str) -> str:
    """Name a number of things by their regular noun."""
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def decibels(psnr: float) -> str:
    """Describe a PSNR in messages."""
    return f"PSNR {psnr:.2f} dB" if math.isfinite(psnr) else "exact"


def refuse_both(args: argparse.Namespace, names: Sequence[str], other: str) -> None:
    """Refuse options beside another option."""
    for name in names:
        if is_given(args, name):
            raise InvalidArgument(f"{typed(args, name)} and --{other} are given; allowed: one of them")


def shown(target: str) -> str:
    """Name a place that results go to in messages."""
    return "standard output" if target == STDOUT else target


def say(args: argparse.Namespace, text: str, *, is_table: bool = False, **record: Any) -> None:
    """Print a line about the work to standard error, unless ``--quiet``; with ``--json`` keep its record instead."""
    if hasattr(args, "messages"):  # in a worker, whose messages the command prints
        args.messages.append((text, record))
    elif wants_json(args):
        _records(args)["results"].append({name: value for name, value in record.items() if value is not None})
    else:
        note(args, text, "\n" if is_table else "")


def note(args: argparse.Namespace, text: str, keep: str = "") -> None:
    """Print a remark to standard error, unless ``--quiet``; of control characters only those of `keep` as they are."""
    if hasattr(args, "messages"):
        args.messages.append((text, {}))
    elif not args.quiet:
        streams.complain(streams.printable(text, keep) + "\n")


class Loss(NamedTuple):
    """What results lack of their inputs, as a sentence; `is_minor` if no reader misses it."""

    text: str
    is_minor: bool = False


def note_lost(args: argparse.Namespace, name: str, losses: Iterable[Loss]) -> None:
    """Keep what an input's result lacks, for `print_losses`."""
    for loss in losses:
        if hasattr(args, "messages"):
            args.messages.append(("", {"lost": (name, loss)}))
        else:
            vars(args).setdefault("losses", {}).setdefault(loss, []).append(name)


def print_losses(args: argparse.Namespace) -> None:
    """Say once what results lack of their inputs, and of minor metadata with ``--verbose``."""
    losses: dict[Loss, list[str]] = getattr(args, "losses", {})
    for loss in sorted(losses, key=lambda loss: (loss.is_minor, loss.text)):
        names = sorted(losses[loss])  # which threads have found in no order
        more = [counted(len(names) - _MOST_NAMED, "more file")] if len(names) > _MOST_NAMED else []
        which = ", ".join([*names[:_MOST_NAMED], *more])
        if loss.is_minor and args.verbose:
            note(args, f"note: {loss.text} ({counted(len(names), 'file')})")
        elif not loss.is_minor:
            note(args, f"note: {loss.text} ({which})")


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
    records: dict[str, list[Any]] = vars(args).setdefault("records", {"results": [], "failed": []})
    return records


def print_records(args: argparse.Namespace) -> None:
    """Print what `say` and `record_failures` have kept, if ``--json`` was given."""
    if wants_json(args):
        # Infinite figures, as the PSNR of equal pictures, are null: JSON has no such numbers.
        all_finite = {name: [finite(record) for record in records] for name, records in _records(args).items()}
        streams.write_text(json.dumps(all_finite, indent=2, allow_nan=False) + "\n")


def finite(record: dict[str, Any]) -> dict[str, Any]:
    """Replace infinities and NaN in a record by None: JSON has neither."""
    return {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in record.items()}


@contextlib.contextmanager
def progress_bar(args: argparse.Namespace, label: str) -> Iterator[Callable[[int, int], None]]:
    """A ``progress=`` callback that shows a bar on a terminal's standard error once a second has passed."""
    is_quiet = getattr(args, "quiet", False) or hasattr(args, "messages")
    if is_quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with bar.about(label) as task:
        yield task.report
