"""The files that a command writes: where results go, which places are refused, and how they are written."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import re
import stat
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import PIL.Image

from clquant.cli import common, streams
from clquant.cli.common import STDOUT, shown
from clquant.cli.inputs import Inputs, Naming, Origin, Pair, Source, expand, without_own_results
from clquant.color.formats import palette_formats, png
from clquant.color.formats.embedded import identifier
from clquant.color.formats.picture_formats import OWN, SOURCES, WITHOUT_ALPHA, by_pillow, format_of, format_of_suffix
from clquant.color.values import WHITE, lay_over
from clquant.images import files, stores
from clquant.images.folders import PICTURE_SUFFIXES
from clquant.images.tiff import geo
from clquant.runtime import FileError, InvalidArgument

# Formats that Pillow writes with loss, always or by default.
LOSSY = frozenset({"AVIF", "JPEG", "JPEG2000", "MPO", "PDF"})
# Lossy formats that Pillow also reads.
READ_BACK = LOSSY - {"PDF"}
# Stands in a result's name for a number of colours that is found with it.
COUNT = "{colors}"


Write = Callable[[bytes], Any]


class Outputs:
    """The outputs of one call: none replaces a file that it reads, no two are one; `write` makes their folders."""

    def __init__(self, inputs: Inputs, also: Sequence[str | None] = (), *, force: bool = False) -> None:
        self.inputs = inputs
        self._force = force
        paths = [source.path for source in inputs if not source.piped]
        self._read = {_identity(path) for path in [*paths, *(path for path in also if path)]}
        self._taken: set[str] = set()

    def each(
        self, output: str | None, name: Naming, option: str = "-o", suffixes: Collection[str] | None = None
    ) -> list[str]:
        """Choose the place of every input's result."""
        return [self._place(source, output, name(source), option, suffixes) for source in self.inputs]

    def further(self, output: str | None, name: Naming, option: str, suffixes: tuple[str, ...]) -> dict[Source, str]:
        """Choose the place of a further file for every input; none if the option is not given."""
        if output is None:
            return {}
        targets = self.each(output, name, option, suffixes)
        if STDOUT in targets:
            raise InvalidArgument(f"{option} is '-'; allowed: a file whose name ends in {suffixes[0]}, or a folder")
        return dict(zip(self.inputs, targets, strict=True))

    def one(
        self, output: str, option: str = "-o", suffixes: Collection[str] | None = None, source: Source | None = None
    ) -> str:
        """Check the file that an option names, like those of `each`."""
        target = files.path_of(output, option)
        if os.path.isdir(target) and not output.lower().endswith(".zarr"):
            raise FileError(f"cannot write {output!r}: it is a folder")
        if not os.path.isdir(target.parent):
            raise FileError(f"cannot write {output!r}: there is no folder {str(target.parent)!r}")
        return self._checked(str(target), option, suffixes, source)

    def check_palette(self, output: str | None) -> None:
        """Check the file of ``--save-palette``, if it is given."""
        if output is not None:
            palette_formats.format_of(self.one(output, "--save-palette"))

    def _place(
        self, source: Source, output: str | None, name: str, option: str, suffixes: Collection[str] | None
    ) -> str:
        """Choose the place of one input's result."""
        several, why = self.inputs.several, "several inputs" if len(self.inputs) > 1 else "the pictures of a folder"
        if output == STDOUT or (output is None and source.piped):
            if several:
                raise InvalidArgument(f"{why} cannot go to one standard output; name a folder with {option}")
            return STDOUT
        if output is None:
            beside = pathlib.Path(source.path).with_name(name)
            if not (os.path.isfile(source.path) or stores.is_store(source.path)) or beside.parts[:2] == ("/", "dev"):
                raise InvalidArgument(f"{source.shown} is no regular file; name an output with {option}")
            return self._checked(str(beside), option, suffixes, source)
        is_folder = os.path.isdir(output) or output.endswith(("/", os.sep))
        if not several and (output.lower().endswith(".zarr") or not is_folder):
            return self.one(output, option, suffixes, source)
        if os.path.isfile(output):
            raise InvalidArgument(f"output {output!r} is a file, but {why} need a folder")
        suffix = os.path.splitext(output)[1].lower()  # none of a path that ends with a slash
        is_known = suffix in (".clvq", ".clqt", ".zarr") or format_of_suffix(suffix) is not None
        if not os.path.isdir(output) and suffix and is_known:
            raise InvalidArgument(f"output {output!r} names a file, but {why} need a folder (end it with /)")
        target = files.path_of(output, option) / source.relative.parent / name
        return self._checked(str(target), option, suffixes, source)

    def _checked(self, target: str, option: str, suffixes: Collection[str] | None, source: Source | None) -> str:
        if os.path.exists(target) and not os.path.isfile(target):
            return target  # a device or a pipe takes anything, and any number of times
        suffix = pathlib.PurePath(target).suffix.lower()
        if suffixes is not None and suffix not in suffixes:
            allowed = ", ".join(suffixes)
            raise InvalidArgument(f"{option} {target!r} has the suffix {suffix!r}; allowed: {allowed}")
        identity = _identity(target)
        own = self._force and source is not None and identity == _identity(source.path)
        if identity is not None and identity in self._read and not own:
            which = "the input itself" if len(self.inputs) == 1 else "one of the inputs"
            raise InvalidArgument(f"{target!r} is {which}; name another output with {option}")
        place = os.path.normcase(os.path.realpath(target))
        if place in self._taken:
            raise InvalidArgument(f"two results would both be written to {target!r}; name folders apart, or rename one")
        self._taken.add(place)
        _check_can_write(target)
        return target


def write(target: str, data: bytes) -> None:
    """Write a result to a place that `Outputs` gave: a file whole or not at all, or standard output."""
    if target == STDOUT:
        streams.write(data)
        return
    make_folder(target)
    files.write_bytes(target, data)


@contextlib.contextmanager
def opened(target: str) -> Iterator[Write]:
    """A function that writes to a place part by part: to a file, which appears when the block ends, as `write`."""
    if target == STDOUT:
        yield streams.write
        return
    make_folder(target)
    with files.atomic_write(target) as file:
        yield file.write


def make_folder(target: str) -> None:
    """Make the folder of a place that `Outputs` gave."""
    folder = pathlib.Path(target).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from error


def named(template: str | None, default: Naming, **fields: Any) -> Naming:
    """Return the function that names results, by ``--name`` or by default."""
    if template is None:
        return default
    numbers: dict[Source, int] = {}

    def name(source: Source) -> str:
        number = numbers.setdefault(source, len(numbers) + 1)
        suffix = pathlib.PurePath(source.relative.name).suffix
        known = {"stem": source.stem, "suffix": suffix, "number": number, **fields}
        try:
            _check_widths(template)
            made = template.format_map(known)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError, MemoryError) as error:
            allowed = ", ".join(f"{{{field}}}" for field in known)
            raise InvalidArgument(f"--name is {template!r}; allowed: the text of a file name with {allowed}") from error
        makes = f"--name is {template!r}, which makes {made!r}"
        if not made or made in (".", "..") or pathlib.PurePath(made).name != made:
            raise InvalidArgument(f"{makes}; allowed: names of files without folders")
        if template.endswith("{suffix}") and format_of_suffix(suffix) in LOSSY:
            wanted = f"{{stem}}.png, or {{stem}}{suffix} where they are wanted"
            raise InvalidArgument(f"{makes}, whose format has losses; allowed: {wanted}")
        return made

    return name


def _check_widths(template: str) -> None:
    """Refuse a template whose fields could be wider than any name."""
    for _, _, layout, _ in string.Formatter().parse(template):
        widths = re.findall(r"\d+", layout or "")
        if "{" in (layout or "") or any(len(width) > 3 for width in widths):
            raise ValueError(f"the layout {layout}")


def kind_of(target: str) -> str:
    """Return the format, for `IndexedImage.to_bytes`, of a result's place; PNG for standard output."""
    return "PNG" if target == STDOUT else format_of(target)


def source_name(args: argparse.Namespace, kind: str | None, target: str | None, source: Source) -> dict[str, str]:
    """Name the arrays of a C source after its file or input, as an option of `IndexedImage.to_bytes`.

    Results of one call that would share a name, or one in capitals, as guards are, get others.
    """
    if kind not in SOURCES:
        return {}
    stem = source.stem if target in (None, STDOUT) else pathlib.PurePath(str(target)).stem
    is_shared = args.guards[identifier(stem).upper()] > 1
    return {"name": identifier(stem, str(source.relative) if is_shared else "")}


def lossless_kind(target: str, spoils: str) -> str:
    """Return the format of a place, refusing formats with losses."""
    kind = kind_of(target)
    if kind in LOSSY:
        allowed = ".png, .gif, .tif, .webp and others without loss"
        raise InvalidArgument(f"output {target!r}: a lossy format would spoil {spoils}; allowed: {allowed}")
    return kind


def full_color_kind(target: str) -> str:
    """Return the format of a place, refusing formats of at most 256 colours."""
    kind = kind_of(target)
    _refuse_few_colors(kind, target)
    return kind


def _refuse_few_colors(kind: str, target: str) -> None:
    if kind in OWN:
        raise InvalidArgument(f"output {shown(target)!r}: it holds a palette of at most 256 colours; try .png")


def expected(
    args: argparse.Namespace,
    default: Naming,
    *,
    known: frozenset[str] = PICTURE_SUFFIXES,
    suffixes: Collection[str] | None = None,
    origin: Origin | None = None,
    writes: bool = True,
    **fields: Any,
) -> tuple[Outputs, list[Pair]]:
    """Find the inputs with suffixes in `known` and pair them with results' places, or with None if none are written."""
    sources = expand(args.inputs, known)
    if writes:
        name = named(args.name, default, **fields)
        sources = without_own_results(sources, name, args.output, origin if args.name is None else None)
    name = named(args.name, default, **fields)  # which counts what is left from 1 on
    places = Outputs(sources, common.files_read(args), force=args.force)
    if not writes:
        return places, [(source, None) for source in sources]
    targets = places.each(args.output, name, suffixes=suffixes)
    check_targets(args, targets)
    args.guards = collections.Counter(identifier(pathlib.PurePath(target).stem).upper() for target in targets)
    todo: list[Pair] = []
    for source, target in zip(sources, targets, strict=True):
        if args.no_clobber and is_there(target):
            note_existing(args, target, source)
        else:
            todo.append((source, target))
    return places, todo


def is_there(target: str) -> bool:
    """Whether a result is there already."""
    return target != STDOUT and (os.path.isfile(target) or stores.is_store(target))


def note_existing(args: argparse.Namespace, target: str, source: Source) -> None:
    """Say that ``--no-clobber`` leaves an input out."""
    common.note(args, f"{target} is there already: {source.relative} is left out")


def with_count(target: str | None, colors: int) -> str | None:
    """Put the number of colours that was found into a result's name."""
    if target is None or COUNT not in os.path.basename(target):
        return target
    folder, name = os.path.split(target)
    return os.path.join(folder, str(colors).join(name.rsplit(COUNT, 1)))


def refuse_counted_inputs(sources: Inputs, pairs: Sequence[Pair]) -> None:
    """Refuse results that could get the name of an input when their numbers of colours are found."""
    targets = {os.path.realpath(target): source for source, target in pairs if target is not None and COUNT in target}
    for source in sources if targets else ():
        folder, name = os.path.split(os.path.realpath(source.path))
        for number in re.finditer(r"\d+", name):
            of = targets.get(os.path.join(folder, name[: number.start()] + COUNT + name[number.end() :]))
            if of is not None:
                raise InvalidArgument(
                    f"{source.shown} could be replaced by the result of {of.shown}; name another output with -o"
                )


def check_targets(args: argparse.Namespace, targets: Sequence[str]) -> None:
    """Refuse options that do not go with where results are written."""
    if STDOUT in targets:
        streams.refuse_terminal()
        for name in ("json", "stats", "show"):
            if getattr(args, name, False):
                raise InvalidArgument(f"--{name} and -o - would both write to standard output; allowed: one of them")
    for target in targets if getattr(args, "compression", None) not in (None, "none") else ():
        if pathlib.PurePath(target).suffix.lower() not in geo.SUFFIXES:
            raise InvalidArgument(f"--compression goes with results that end in .tif, not {shown(target)!r}")


def picture_bytes(
    image: PIL.Image.Image, kind: str, target: str, background: tuple[int, ...] | None = None, **options: Any
) -> bytes:
    """Encode a picture in a file format; over a background if that is given, over white if the format has no alpha."""
    if image.mode == "RGBA" and (background or kind in WITHOUT_ALPHA):
        image = PIL.Image.fromarray(lay_over(np.asarray(image), background or WHITE))
    if kind == "PBM" and image.mode != "1":
        raise InvalidArgument(f"output {shown(target)!r}: a bitmap is black and white alone; try .pgm, .ppm or .png")
    _refuse_few_colors(kind, target)
    if kind == "PNG" and image.mode in ("L", "RGB", "RGBA") and not options:
        return png.picture(np.asarray(image))
    try:
        return by_pillow(image, kind, options)
    except InvalidArgument as error:
        picture = f"this picture of {image.width}x{image.height} and mode {image.mode}"
        raise InvalidArgument(f"output {shown(target)!r}: {kind} cannot hold {picture}: {error}") from error


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode of a regular file; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _check_can_write(target: str) -> None:
    """Refuse what cannot be written before there is work: a read-only file, or a folder that is so or below a file."""
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise FileError(f"cannot write {target!r}: it is read-only")
    folder = existing = pathlib.Path(os.path.realpath(target) if os.path.islink(target) else target).parent
    while not os.path.exists(existing) and existing != existing.parent:
        existing = existing.parent
    if not os.path.isdir(existing):
        raise FileError(f"cannot make the folder {str(folder)!r}: {str(existing)!r} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise FileError(f"cannot write into the folder {str(existing)!r}: permission denied")
