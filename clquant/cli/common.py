"""What the subcommands share: inputs, outputs, devices, progress."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import PIL.Image

from clquant import files, runtime
from clquant.runtime import FileError, InvalidArgument

STDIN = "-"
PICTURE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp"}
)


@dataclass(frozen=True)
class Source:
    """One input.

    Attributes
    ----------
    path : str
        A file, or ``"-"`` for standard input.
    relative : pathlib.PurePath
        Where its output goes below an output folder: its path below the folder it was found in.
    """

    path: str
    relative: pathlib.PurePath

    @property
    def piped(self) -> bool:
        """Whether it is standard input."""
        return self.path == STDIN


def add_inputs(parser: argparse.ArgumentParser, what: str = "picture") -> None:
    """Declare ``inputs``: one or more files and folders, or ``-``."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="IN",
        help=f"{what} files, folders (searched with their subfolders), or - for standard input",
    )


def add_output(parser: argparse.ArgumentParser, suffixes: str, default: str) -> None:
    """Declare ``-o``.

    Parameters
    ----------
    parser : ArgumentParser
    suffixes : str
        What suffixes mean, for the help.
    default : str
        What happens without it, for the help.
    """
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help=f"file to write ({suffixes}), folder for several inputs, or - for standard output; default: {default}",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare ``--device`` and ``--quiet``."""
    parser.add_argument(
        "--device", metavar="NAME", help="OpenCL device: its number, gpu, cpu, or a part of its name (clquant devices)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def open_queue(args: argparse.Namespace) -> runtime.CommandQueue:
    """The queue of the device that ``--device`` names, else of the default device.

    Raises
    ------
    NoDeviceError
        If there is no such device.
    """
    return runtime.default_queue(runtime.find_device(args.device) if args.device else None)


def expand_inputs(inputs: Sequence[str], suffixes: frozenset[str] = PICTURE_SUFFIXES) -> list[Source]:
    """Files, in the order given; a folder stands for the files in it and below that have one of the suffixes.

    Raises
    ------
    FileError
        If a path is not there, or a folder has no such file.
    InvalidArgument
        If ``-`` comes with other inputs.
    """
    if STDIN in inputs and len(inputs) > 1:
        raise InvalidArgument("- (standard input) cannot be mixed with other inputs")
    sources: list[Source] = []
    for given in inputs:
        path = pathlib.Path(given)
        if given == STDIN:
            sources.append(Source(STDIN, pathlib.PurePath("stdin")))
        elif os.path.isdir(path):  # `Path.is_dir` raises where a name is too long
            found = sorted(p for p in path.rglob("*") if p.suffix.lower() in suffixes and p.is_file())
            if not found:
                raise FileError(f"folder {given!r} has no files of the kinds {', '.join(sorted(suffixes))}")
            sources += [Source(str(p), p.relative_to(path)) for p in found]
        elif os.path.exists(path):
            sources.append(Source(given, pathlib.PurePath(path.name)))
        else:
            raise FileError(f"{given!r}: there is no such file or folder")
    return sources


def _names_a_file(output: str) -> bool:
    """Whether a path that is not there looks like a file's: it ends in the suffix of what is read or written here."""
    PIL.Image.init()
    suffix = os.path.splitext(output)[1].lower()  # empty where the path ends with a slash
    return suffix in PIL.Image.registered_extensions() or suffix in (".six", ".sixel", ".clvq", ".clqt")


def output_path(source: Source, output: str | None, several: bool, default_name: str) -> str:
    """Where the result of one input goes.

    Parameters
    ----------
    source : Source
    output : str or None
        The ``-o`` argument.
    several : bool
        Whether there are several inputs, so that `output` must be a folder.
    default_name : str
        File name used beside the input (without ``-o``) and in an output folder.

    Returns
    -------
    str
        A path, or ``"-"``. Folders below an output folder are made.

    Raises
    ------
    InvalidArgument
        If several inputs would go to one file, or an output would replace its own input.
    FileError
        If a folder cannot be made.
    """
    if output == STDIN or (output is None and source.piped):
        if several:
            raise InvalidArgument("several inputs cannot go to one standard output; name a folder with -o")
        return STDIN
    if output is None:
        target = pathlib.Path(source.path).with_name(default_name)
    elif several or os.path.isdir(output) or output.endswith(("/", os.sep)):
        if os.path.isfile(output):
            raise InvalidArgument(f"output {output!r} is a file, but several inputs need a folder")
        if not os.path.isdir(output) and _names_a_file(output):
            raise InvalidArgument(f"output {output!r} names a file, but several inputs need a folder (end it with /)")
        target = files.path_of(output, "output") / source.relative.parent / default_name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {str(target.parent)!r}: {error.strerror}") from error
    else:
        target = files.path_of(output, "output")
    if not source.piped and os.path.exists(target) and os.path.samefile(target, source.path):
        raise InvalidArgument(f"{str(target)!r} is the input itself; name another output with -o")
    return str(target)


def check_distinct(targets: Sequence[str]) -> None:
    """Refuse two results for one file.

    Raises
    ------
    InvalidArgument
        Naming the file.
    """
    seen: set[str] = set()
    for target in targets:
        if target in seen and target != STDIN:
            raise InvalidArgument(f"two inputs would both be written to {target!r}; name folders apart, or rename one")
        seen.add(target)


def read_bytes(source: Source) -> bytes:
    """All bytes of an input.

    Raises
    ------
    FileError
        If it cannot be read, or standard input is empty.
    """
    if not source.piped:
        return files.read_bytes(source.path)
    data = sys.stdin.buffer.read()
    if not data:
        raise FileError("standard input is empty")
    return data


def read_input(source: Source) -> Any:
    """What `clquant.images.read` takes, for one input: its path, or the picture from standard input.

    Raises
    ------
    FileError
        If standard input holds no picture.
    """
    if not source.piped:
        return source.path
    try:
        image = PIL.Image.open(io.BytesIO(read_bytes(source)))
        image.load()
    except FileError:
        raise
    except Exception as error:  # decoders raise many kinds on damaged data
        raise FileError(f"standard input is no picture that can be read: {error}") from error
    return image


def read_frames(source: Source) -> list[Any]:
    """Every frame of one input, as PIL images; one where it is no animation.

    Raises
    ------
    FileError
        If it holds no picture.
    """
    try:
        with PIL.Image.open(io.BytesIO(read_bytes(source))) as image:
            frames = []
            for number in range(getattr(image, "n_frames", 1)):
                image.seek(number)
                frames.append(image.convert("RGBA" if image.has_transparency_data else "RGB"))
            return frames
    except FileError:
        raise
    except Exception as error:  # decoders raise many kinds on damaged data
        raise FileError(f"{source.path!r} is no picture that can be read: {error}") from error


def write_output(target: str, data: bytes) -> None:
    """Write a result to a file, whole or not at all, or to standard output.

    Raises
    ------
    FileError
        If the file cannot be written.
    InvalidArgument
        If it would be printed into a terminal.
    """
    if target != STDIN:
        files.write_bytes(target, data)
        return
    if sys.stdout.isatty():
        raise InvalidArgument("the result is binary and standard output is a terminal; name a file with -o")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(args: argparse.Namespace, text: str) -> None:
    """Print a line about the work to standard error, unless ``--quiet``."""
    if not args.quiet:
        sys.stderr.write(text + "\n")


@contextlib.contextmanager
def progress_bar(args: argparse.Namespace, label: str) -> Iterator[Callable[[int, int], None]]:
    """A ``progress=`` callback that shows a bar on a terminal's standard error once a second has passed.

    Uses tqdm where it is installed (extra ``cli``), else a plain percentage.

    Parameters
    ----------
    args : Namespace
        Its `quiet` silences the bar.
    label : str
    """
    if args.quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    bar = _Bar(label)
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

    def update(self, done: int, total: int) -> None:
        if time.monotonic() - self._begin < self.DELAY_SECONDS:
            return
        self._shown = True
        try:
            from tqdm import tqdm
        except ImportError:
            sys.stderr.write(f"\r{self._label}: {100 * done // max(total, 1)} %")
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
            sys.stderr.write("\r" + " " * (len(self._label) + 8) + "\r")
