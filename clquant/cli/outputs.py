"""The files that a command writes: where results go, which places are refused, and how they are written."""

from __future__ import annotations

import io
import os
import pathlib
import stat
from collections.abc import Callable, Collection, Sequence
from typing import Any

import PIL.Image

from clquant.cli import streams
from clquant.cli.inputs import Inputs, Source
from clquant.color.indexed import own_options
from clquant.images import files
from clquant.runtime import ClquantError, FileError, InvalidArgument

STDOUT = "-"


class Outputs:
    """The outputs of one call: none replaces a file that the call reads, and no two are one file.

    Folders below an output folder are made when something is written into them, so that a refused call leaves none.

    Parameters
    ----------
    inputs : Inputs
    also : sequence of str or None
        Other files that are read: a palette, a codebook. What is None or no file does not matter.
    """

    def __init__(self, inputs: Inputs, also: Sequence[str | None] = ()) -> None:
        self._inputs = inputs
        paths = [source.path for source in inputs if not source.piped]
        self._read = {_identity(path) for path in [*paths, *(path for path in also if path)]}
        self._taken: set[str] = set()
        self._folders: set[str] = set()

    def each(
        self,
        output: str | None,
        name: Callable[[Source], str],
        option: str = "-o",
        suffixes: Collection[str] | None = None,
    ) -> list[str]:
        """Where the result of every input goes.

        Parameters
        ----------
        output : str or None
            The option's argument.
        name : callable
            The file name used beside an input (without the option) and in an output folder.
        option : str
            Its name, for errors.
        suffixes : collection of str, optional
            Those that a file may have; default: any.

        Returns
        -------
        list of str
            A path each, or ``"-"``.

        Raises
        ------
        InvalidArgument
            If a result would replace an input or another result, or has another suffix.
        FileError
            If there is no such folder, and none can be made.
        """
        return [self._place(source, output, name(source), option, suffixes) for source in self._inputs]

    def one(self, output: str, option: str = "-o", suffixes: Collection[str] | None = None) -> str:
        """A file that an option names, checked as those of `each`.

        Parameters
        ----------
        output, option, suffixes
            As for `each`.

        Returns
        -------
        str
            Its path.

        Raises
        ------
        InvalidArgument
            As `each`.
        FileError
            If it is a folder, or its folder is not there.
        """
        target = files.path_of(output, option)
        if os.path.isdir(target):
            raise FileError(f"cannot write {output!r}: it is a folder")
        if not os.path.isdir(target.parent):
            raise FileError(f"cannot write {output!r}: there is no folder {str(target.parent)!r}")
        return self._checked(str(target), option, suffixes)

    def _place(
        self, source: Source, output: str | None, name: str, option: str, suffixes: Collection[str] | None
    ) -> str:
        several, why = self._inputs.several, self._inputs.why_several
        if output == STDOUT or (output is None and source.piped):
            if several:
                raise InvalidArgument(f"{why} cannot go to one standard output; name a folder with {option}")
            return STDOUT
        if output is None:
            beside = pathlib.Path(source.path).with_name(name)
            if not os.path.isfile(source.path) or beside.parts[:2] == ("/", "dev"):
                raise InvalidArgument(f"{source.shown} is no regular file; name an output with {option}")
            return self._checked(str(beside), option, suffixes)
        if not (several or os.path.isdir(output) or output.endswith(("/", os.sep))):
            return self.one(output, option, suffixes)
        if os.path.isfile(output):
            raise InvalidArgument(f"output {output!r} is a file, but {why} need a folder")
        if not os.path.isdir(output) and _names_a_file(output):
            raise InvalidArgument(f"output {output!r} names a file, but {why} need a folder (end it with /)")
        target = files.path_of(output, option) / source.relative.parent / name
        _check_can_make(target.parent)
        self._folders.add(str(target))
        return self._checked(str(target), option, suffixes)

    def _checked(self, target: str, option: str, suffixes: Collection[str] | None) -> str:
        if os.path.exists(target) and not os.path.isfile(target):
            return target  # a device or a pipe takes anything, and any number of times
        suffix = pathlib.PurePath(target).suffix.lower()
        if suffixes is not None and suffix not in suffixes:
            allowed = ", ".join(suffixes)
            raise InvalidArgument(f"{option} {target!r} has the suffix {suffix!r}; allowed: {allowed}")
        identity = _identity(target)
        if identity is not None and identity in self._read:
            which = "the input itself" if len(self._inputs) == 1 else "one of the inputs"
            raise InvalidArgument(f"{target!r} is {which}; name another output with {option}")
        place = os.path.normcase(os.path.realpath(target))
        if place in self._taken:
            raise InvalidArgument(f"two results would both be written to {target!r}; name folders apart, or rename one")
        self._taken.add(place)
        return target

    def write(self, target: str, data: bytes) -> None:
        """Write a result to a place that `each` or `one` gave: a file whole or not at all, or standard output.

        Raises
        ------
        FileError
            If it cannot be written.
        InvalidArgument
            If it would be printed into a terminal.
        """
        if target == STDOUT:
            streams.write(data)
            return
        if target in self._folders:
            _make(pathlib.Path(target).parent)
        files.write_bytes(target, data)


def shown(target: str) -> str:
    """What messages call a place that results go to."""
    return "standard output" if target == STDOUT else target


def picture_bytes(image: PIL.Image.Image, kind: str, target: str, **options: Any) -> bytes:
    """A picture in a file format.

    Parameters
    ----------
    image : PIL.Image.Image
    kind : str
        The format's name for Pillow.
    target : str
        Where it will go, for the error.
    **options
        Passed to Pillow.

    Raises
    ------
    InvalidArgument
        If the format cannot hold it.
    """
    data = io.BytesIO()
    try:
        image.save(data, kind, **{**own_options(image, kind), **options})
    except (MemoryError, ClquantError):
        raise
    except Exception as error:  # Pillow's encoders raise many kinds
        raise InvalidArgument(
            f"output {shown(target)!r}: {kind} cannot hold this picture of {image.width}x{image.height} "
            f"and mode {image.mode}: {error}"
        ) from error
    return data.getvalue()


def _identity(path: str) -> tuple[int, int] | None:
    """What two names of one regular file have in common; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _names_a_file(output: str) -> bool:
    """Whether a path that is not there looks like a file's: it ends in the suffix of what is read or written here."""
    suffix = os.path.splitext(output)[1].lower()
    if not suffix:  # as of a path that ends with a slash
        return False
    PIL.Image.init()
    return suffix in PIL.Image.registered_extensions() or suffix in (".six", ".sixel", ".clvq", ".clqt")


def _check_can_make(folder: pathlib.Path) -> None:
    """Refuse a folder that cannot be made before there is work: below a file, or where nothing may be written."""
    there = folder
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not os.path.isdir(there):
        raise FileError(f"cannot make the folder {str(folder)!r}: {str(there)!r} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FileError(f"cannot write into the folder {str(there)!r}: permission denied")


def _make(folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from error
