"""The files that a command reads: which they are, and their pictures."""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from clquant import params
from clquant.cli import streams
from clquant.images import files, picture_files, stores
from clquant.images.folders import PICTURE_SUFFIXES, files_below
from clquant.runtime import ClquantError, FileError, FormatError, InvalidArgument, InvalidType

STDIN = "-"


@dataclass(frozen=True)
class Source:
    """One input."""

    path: str  # a file, or "-" for standard input
    relative: pathlib.PurePath  # its path below the folder it was found in, as its result's below an output folder
    found: bool = False  # in a folder, instead of named

    @property
    def piped(self) -> bool:
        """Whether it is standard input."""
        return self.path == STDIN

    @property
    def stem(self) -> str:
        """Its name without folders and suffix."""
        return pathlib.PurePath(self.relative.name).stem

    @property
    def shown(self) -> str:
        """Its name in errors."""
        return "standard input" if self.piped else params.shown(self.path)


@dataclass(frozen=True)
class Inputs:
    """All inputs of a call, in the order given."""

    sources: tuple[Source, ...]
    several: bool  # outputs need a folder: for more than one input, and for a folder however many files it has today

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)


Naming = Callable[[Source], str]  # from an input to its result's name
Pair = tuple[Source, str | None]  # an input, and the place of its result; None for no file


def expand(given: Sequence[str], suffixes: frozenset[str] = PICTURE_SUFFIXES) -> Inputs:
    """Find all inputs, in the order given; a folder stands for the files below it that have one of the suffixes."""
    if STDIN in given and len(given) > 1:
        raise InvalidArgument("- (standard input) cannot be mixed with other inputs")
    sources: list[Source] = []
    for path in given:
        if not path:
            raise InvalidArgument("an input is ''; allowed: a file, a folder, or - for standard input")
        if path == STDIN:
            sources.append(Source(STDIN, pathlib.PurePath("stdin")))
        elif is_folder(path):
            sources += [
                Source(str(found), found.relative_to(path), found=True) for found in files_below(path, suffixes)
            ]
        elif os.path.exists(path):
            sources.append(Source(path, pathlib.PurePath(pathlib.Path(path).name)))
        else:
            raise FileError(f"{path!r}: there is no such file or folder")
    return Inputs(tuple(sources), len(given) > 1 or any(map(is_folder, given)))


def is_folder(path: str) -> bool:
    """Whether a path is that of a folder of pictures, and not of a zarr."""
    return os.path.isdir(path) and not stores.is_store(path)  # `Path.is_dir` raises where a name is too long


def read_bytes(source: Source) -> bytes:
    """Read all bytes of an input."""
    return streams.read() if source.piped else files.read_bytes(source.path)


@contextlib.contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """Open an input for reading; of a pipe without an end no more is read than is asked for."""
    if source.piped:
        yield streams.source()
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(source.path, "rb"))
        except OSError as error:
            raise FileError(f"cannot read {params.shown(source.path)}: {error.strerror or error}") from error
        yield file


# Maps a result's stem to its input's stem and the most colours of the result, if known; None for other files.
Origin = Callable[[str], tuple[str, int | None] | None]


def without_own_results(sources: Inputs, name: Naming, output: str | None, origin: Origin | None = None) -> Inputs:
    """Leave out results of earlier calls: in the output folder, or of an input's size and its result's name."""
    found = [source for source in sources if source.found]
    if not found:
        return sources
    inside = "" if output in (None, STDIN) else os.path.realpath(str(output))
    results, originals = {}, collections.defaultdict(list)
    suffixes = {os.path.splitext(name(source))[1].lower() for source in found}
    if output is None:
        for source in found:
            originals[os.path.dirname(source.path), source.stem].append(source)
        results = {os.path.realpath(os.path.join(os.path.dirname(s.path), name(s))): s for s in found}

    def is_result(source: Source) -> bool:
        place, folder = os.path.realpath(source.path), os.path.dirname(source.path)
        if os.path.splitext(place)[1].lower() not in suffixes:
            return False
        if inside and os.path.commonpath([inside, place]) == inside:
            return True
        if output is not None:
            return False
        made_of = results.get(place, source)
        if made_of is not source and _about(made_of)[0] == _about(source)[0]:
            return True
        parsed = None if origin is None else origin(source.stem)
        if parsed is None:
            return False
        size, entries = _about(source)
        most = entries if parsed[1] is None else 1 << max(parsed[1] - 1, 1).bit_length()  # as a GIF may be filled up
        return 0 < entries <= most and any(_about(other)[0] == size for other in originals[folder, parsed[0]])

    kept = tuple(source for source in sources if not (source.found and is_result(source)))
    return Inputs(kept, sources.several) if kept else sources


def _about(source: Source) -> tuple[tuple[int, ...], int]:
    """A picture file's sides in pixels, ascending, and the colours of its palette; nothing if it is no picture."""
    try:
        with picture_files.opened(source.path, source.shown) as (image, _):
            entries = len(image.getpalette() or ()) // 3 if image.mode == "P" else 0
            return tuple(sorted(image.size)), entries
    except ClquantError:
        return (), 0


@contextlib.contextmanager
def named(source: Source) -> Iterator[None]:
    """Name the input in errors about a file's bytes or about an engine's argument `image` or `images`."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{source.shown}: {error}") from error
    except (FileError, InvalidArgument, InvalidType) as error:
        message = re.sub(r"^images?(\[0\])?: ", "", re.sub(r"^images(\[0\])? ", "image ", str(error)))
        if message == str(error) and not message.startswith(("image ", "this .clvq file ")):
            raise
        raise type(error)(message if source.shown in message else f"{source.shown}: {message}") from error
