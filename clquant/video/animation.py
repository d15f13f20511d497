"""Animations of indexed frames: GIF, PNG and WebP."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.formats import apng, gif, gif_frames, webp
from clquant.color.formats.shown import About, Shown
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.images import ImageLike, files, materialize
from clquant.palette import engine
from clquant.runtime import InvalidArgument, InvalidType, Progress, ProgressCallback

DELAYS_MS = 10, 10 * gif.MAX_DELAY
ANIMATED = ("GIF", "PNG", "WEBP")
_SUFFIXES = {".gif": "GIF", ".png": "PNG", ".apng": "PNG", ".webp": "WEBP"}
_SPOOLED = 1 << 24  # bytes of a file for a pipe that are kept in memory

# Pixels of GIF frames packed: Pillow's way, or with loss.
Packing = Callable[[Iterable[gif_frames.Drawn]], Iterator[tuple[gif.Frame, bytes]]]


# Writes a maker's frames into a file; gives its figures.
Write = Callable[["Maker", BinaryIO], dict[str, Any]]


class Made(NamedTuple):
    """A frame in few colours with its time; `kept` pixels keep the colour of the frame before."""

    image: IndexedImage
    delay_ms: int
    kept: npt.NDArray[np.bool_] | None = None

    def shown(self) -> Shown:
        """The frame as writers of files take it."""
        return Shown(self.image.host_indices(), self.image.palette.rgba(), self.delay_ms, self.kept)


class Maker(Protocol):
    """Makes an animation's frames, any number of times."""

    def about(self) -> About: ...

    def frames(self) -> Iterator[Made]: ...

    def packing(self) -> Packing: ...

    def fitted(self, write: Write, file: BinaryIO) -> tuple[Maker, dict[str, Any]]:
        """Write a file within the bytes asked for; the maker that made it, and its figures."""


class Animation:
    """Frames in few colours with their times.

    Parameters
    ----------
    frames : list of IndexedImage
        At least one, all of one size.
    delays_ms : list of int
        How long each stands.
    plays : int
        How often they are shown; 0 for ever.

    Attributes
    ----------
    frames : list of IndexedImage
        What is shown. Those of `clquant.animate` are made one at a time while a file is written, or all together when
        this attribute is asked for, and then kept.
    delays_ms : list of int
    plays : int
    figures : dict
        Of the file that `save` or `to_bytes` wrote last of an animation of `clquant.animate`: its ``frames``,
        ``width``, ``height``, ``colors`` and ``bytes``.
    """

    def __init__(self, frames: list[IndexedImage], delays_ms: list[int], plays: int = 0) -> None:
        self.plays = plays
        self.figures: dict[str, Any] = {}
        self._kept: list[Made] | None = [Made(*one) for one in zip(frames, delays_ms, strict=True)]
        self._maker: Maker | None = None

    @classmethod
    def _of_maker(cls, maker: Maker) -> Animation:
        """An animation whose frames are made when they are asked for."""
        made = cls([], [], maker.about().plays)
        made._kept, made._maker = None, maker
        return made

    @property
    def frames(self) -> list[IndexedImage]:
        """The frames as images, each whole."""
        return [made.image for made in self._held()]

    @property
    def delays_ms(self) -> list[int]:
        """How long each stands."""
        return [made.delay_ms for made in self._held()]

    def _held(self) -> list[Made]:
        if self._kept is None:
            assert self._maker is not None
            self._kept = list(_whole(self._maker.frames()))
        return self._kept

    @property
    def palette(self) -> Palette:
        """The palette of the first frame, which all have unless each or each scene has its own."""
        return next(iter(self._held() if self._maker is None else self._maker.frames())).image.palette

    def __len__(self) -> int:
        return len(self._held())

    def to_bytes(self, format: str, comment: str = "") -> bytes:
        """The animation in a file format: see `animation_bytes`.

        Parameters
        ----------
        format : str
        comment : str

        Returns
        -------
        bytes

        Raises
        ------
        InvalidArgument, InvalidType
            As `animation_bytes`.
        """
        out = io.BytesIO()
        self._write(out, format, comment)
        return out.getvalue()

    def save(self, path: str | os.PathLike[str], format: str | None = None, comment: str = "") -> None:
        """Write the animation, whole or not at all: see `save_animation`.

        Parameters
        ----------
        path : path_like
        format : str, optional
        comment : str

        Raises
        ------
        InvalidArgument, InvalidType, FileError
            As `save_animation`.
        """
        name = animated_format_of(path) if format is None else format
        with _sought(path) as file:
            self._write(file, name, comment)

    def _write(self, file: BinaryIO, format: str, comment: str) -> None:
        name = _format(format)
        if self._maker is None:
            held = self._held()
            _write_list(
                file, name, [made.image for made in held], [made.delay_ms for made in held], self.plays, comment
            )
            return

        def write(maker: Maker, to: BinaryIO) -> dict[str, Any]:
            about, begin = maker.about()._replace(comment=_comment(comment)), to.tell()
            figures = {"frames": 0, "width": about.width, "height": about.height, "colors": 0}

            def shown() -> Iterator[Shown]:
                for made in maker.frames():
                    figures["frames"] += 1
                    figures["colors"] = max(figures["colors"], len(made.image.palette))
                    yield made.shown()

            write_frames(to, name, about, shown(), maker.packing())
            return {**figures, "bytes": to.tell() - begin}

        self._maker, self.figures = self._maker.fitted(write, file)


def write_frames(
    file: BinaryIO, format: str, about: About, frames: Iterable[Shown], packing: Packing = gif_frames.packed
) -> None:
    """Write frames as they come to a file that can be sought in."""
    if format == "PNG":
        apng.write(file, about, frames)
    elif format == "WEBP":
        webp.write(file, about, frames)
    else:
        gif.write(file, about, packing(gif_frames.drawn(frames, about)))


def _whole(frames: Iterable[Made]) -> Iterator[Made]:
    """Yield frames with the pixels that they keep of those before, in a palette of both."""
    before: npt.NDArray[np.uint8] | None = None
    for made in frames:
        if made.kept is not None and made.kept.any() and before is not None:
            shown = made.image.to_array()
            shown[made.kept] = before[made.kept]
            codes = shown.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
            found, indices = np.unique(codes, return_inverse=True)
            colors = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.uint8)
            made = Made(IndexedImage(indices.reshape(codes.shape), colors), made.delay_ms)
        before = made.image.to_array() if made.image.palette.colors.shape[1] == 3 else None
        yield made


@contextlib.contextmanager
def _sought(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that can be sought in, for a pipe too; whole or not at all."""
    with files.atomic_write(path) as file:
        if file.seekable():
            yield file
            return
        with tempfile.SpooledTemporaryFile(_SPOOLED) as spool:
            yield cast(BinaryIO, spool)
            spool.seek(0)
            shutil.copyfileobj(spool, file)


def animation_bytes(
    frames: Iterable[IndexedImage],
    format: str,
    *,
    delay_ms: int | Sequence[int] = 40,
    plays: int = 0,
    comment: str = "",
) -> bytes:
    """An animation that shows every frame as it is.

    Parameters
    ----------
    frames : sequence or iterator of IndexedImage
        At least one, all of one size.
    format : str
        ``"GIF"`` (as `gif_bytes`), ``"PNG"`` (indexed if all frames have one palette of at most 256 colours, else in
        full colour; all alpha is kept) or ``"WEBP"`` (without loss).
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames.
    plays : int
        How often they are shown, 0 to 65535; 0 for ever.
    comment : str
        A text in the file; not of WebP.
    """
    out = io.BytesIO()
    _write_any(out, _format(format), frames, delay_ms, plays, comment)
    return out.getvalue()


def _format(format: Any) -> str:
    return params.choice("format", format.upper() if isinstance(format, str) else format, ANIMATED)


def _comment(comment: Any) -> str:
    if not isinstance(comment, str) or "\0" in comment:
        raise InvalidArgument(f"comment is {params.shown(comment)}; allowed: a text without NUL")
    return comment


def _write_any(file: BinaryIO, format: str, frames: Any, delay_ms: Any, plays: Any, comment: Any) -> None:
    """Write what a person gave: a list, of which all is known, or an iterator as it gives frames."""
    params.integer("plays", plays, 0, gif.MAX_PLAYS)
    if isinstance(frames, str | bytes) or not isinstance(frames, Sequence | Iterator):
        raise InvalidType(f"frames is {params.shown(frames)}; allowed: a sequence or an iterator")
    if isinstance(frames, Sequence):
        for frame in frames:
            _checked(frame)
        _write_list(file, format, frames, _delays(delay_ms, len(frames)), plays, comment)
        return
    first = next(frames, None)
    if first is None:
        raise InvalidArgument("frames are none; allowed: at least one")
    palette = _checked(first).palette
    alpha = palette.rgba()[:, 3]
    indexed = format == "PNG" and len(palette) <= gif.MAX_COLORS
    height, width = first.shape
    about = About(
        width,
        height,
        plays,
        palette.rgba() if indexed else None,
        bool((alpha < gif.OPAQUE_ALPHA).any()),
        bool((alpha == 255).all()),
        _comment(comment),
    )
    write_frames(file, format, about, _streamed(first, frames, delay_ms, about.opaque))


def _streamed(first: IndexedImage, frames: Iterator[Any], delay_ms: Any, opaque: bool) -> Iterator[Shown]:
    """Yield an iterator's frames as writers take them."""
    delays = iter(_each_delay(delay_ms)) if _is_list(delay_ms) else itertools.repeat(_delays(delay_ms, 1)[0])
    count = 0
    for number, frame in enumerate(itertools.chain([first], frames)):
        delay = next(delays, None)
        if delay is None:
            raise InvalidArgument(f"delay_ms has {number}; allowed: one for each of the frames, or one number")
        if _checked(frame).shape != first.shape:
            raise _sizes_differ({first.shape, frame.shape})
        if opaque and frame.palette != first.palette and (frame.palette.rgba()[:, 3] < 255).any():
            raise InvalidArgument(
                f"frames[{number}] has colours of alpha below 255, the first has none; allowed for frames that are "
                "written as they come: a first frame whose palette has such a colour, or the frames in a list"
            )
        yield Made(frame, delay).shown()
        count = number + 1
    if _is_list(delay_ms) and next(delays, None) is not None:
        raise InvalidArgument(
            f"delay_ms has {len(delay_ms)}; allowed: one for each of the {count} frames, or one number"
        )


def _write_list(
    file: BinaryIO, format: str, given: Sequence[IndexedImage], delays: list[int], plays: int, comment: Any
) -> None:
    """Write frames of which all is known."""
    if not given:
        raise InvalidArgument("frames are none; allowed: at least one")
    shapes = {frame.shape for frame in given}
    if len(shapes) > 1:
        raise _sizes_differ(shapes)
    palettes = [frame.palette.rgba() for frame in given]
    alike = all(np.array_equal(rgba, palettes[0]) for rgba in palettes)
    holes = any((rgba[:, 3] < gif.OPAQUE_ALPHA).any() for rgba in palettes)
    opaque = all((rgba[:, 3] == 255).all() for rgba in palettes)
    height, width = given[0].shape
    about = About(width, height, plays, palettes[0] if alike else None, holes, opaque, _comment(comment))
    write_frames(file, format, about, (Made(*one).shown() for one in zip(given, delays, strict=True)))


def _checked(frame: Any) -> IndexedImage:
    if not isinstance(frame, IndexedImage):
        raise InvalidType(
            f"frames holds {params.shown(frame)}; allowed: IndexedImage (quantize_frames makes them of pictures)"
        )
    return frame


def _sizes_differ(shapes: set[tuple[int, int]]) -> InvalidArgument:
    return InvalidArgument(f"frames have the sizes {sorted(shapes)} (height, width); allowed: one size for all")


def animated_format_of(path: str | os.PathLike[str]) -> str:
    """The name, for `animation_bytes`, of the format that a path's suffix stands for."""
    suffix = files.path_of(path).suffix.lower()
    if suffix not in _SUFFIXES:
        allowed = ", ".join(_SUFFIXES)
        raise InvalidArgument(f"{os.fspath(path)!r}: no animation has the suffix {suffix!r}; allowed: {allowed}")
    return _SUFFIXES[suffix]


def save_animation(
    path: str | os.PathLike[str],
    frames: Iterable[IndexedImage],
    *,
    delay_ms: int | Sequence[int] = 40,
    plays: int = 0,
    format: str | None = None,
    comment: str = "",
) -> None:
    """Write an animation, whole or not at all; of an iterator's frames a few are held at a time.

    Parameters
    ----------
    path : path_like
        .gif, .png, .apng or .webp.
    frames : sequence or iterator of IndexedImage
        At least one, all of one size.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames.
    plays : int
        How often they are shown, 0 to 65535; 0 for ever.
    format : str, optional
        ``"GIF"`` (see `save_gif`), ``"PNG"`` (indexed if all frames have one palette of at most 256 colours, else in
        full colour; all alpha is kept) or ``"WEBP"`` (without loss); by default that of the path's suffix. A PNG of an
        iterator's frames is indexed; they need one palette.
    comment : str
        A text in the file; not of WebP.

    Raises
    ------
    InvalidArgument
        If there is no frame, or their sizes differ, or the format cannot hold them, or there are not as many delays as
        frames, or no format has the suffix.
    InvalidType
        If a frame is no `IndexedImage`.
    FileError
        If the file cannot be written.
    """
    name = animated_format_of(path) if format is None else format
    with _sought(path) as file:
        _write_any(file, _format(name), frames, delay_ms, plays, comment)


def gif_bytes(frames: Iterable[IndexedImage], *, delay_ms: int | Sequence[int] = 40, loop: bool = True) -> bytes:
    """An animated GIF that shows every frame as it is, and as many of them: equal ones are not merged.

    Parameters
    ----------
    frames : sequence or iterator of IndexedImage
        At least one, all of one size, at most 65535 pixels wide and high, each of at most 256 colours; if palettes
        differ, each frame carries its own. Entries of alpha below 128 become one transparent entry.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms; one for all, or as many as frames. GIF counts in 10 ms, so it is
        rounded to that, half up, so that the sum is right.
    loop : bool
        Whether it runs for ever, or once.
    """
    return animation_bytes(frames, "GIF", delay_ms=delay_ms, plays=0 if params.boolean("loop", loop) else 1)


def _is_list(delay_ms: Any) -> bool:
    one = isinstance(delay_ms, str | bytes) or (isinstance(delay_ms, np.ndarray) and not delay_ms.ndim)
    return isinstance(delay_ms, Sequence | np.ndarray) and not one


def _each_delay(delay_ms: Any) -> list[int]:
    return [params.integer(f"delay_ms[{i}]", delay, *DELAYS_MS) for i, delay in enumerate(delay_ms)]


def _delays(delay_ms: Any, count: int) -> list[int]:
    """Milliseconds for each of `count` frames."""
    if not _is_list(delay_ms):
        return [params.integer("delay_ms", delay_ms, *DELAYS_MS)] * count
    each = _each_delay(delay_ms)
    if len(each) != count:
        raise InvalidArgument(f"delay_ms has {len(each)}; allowed: one for each of the {count} frames, or one number")
    return each


def _listed(frames: Any) -> list[Any]:
    """Frames as a list; those of a sequence or an iterator are taken out once."""
    if isinstance(frames, str | bytes) or not isinstance(frames, Sequence | Iterator):
        raise InvalidType(f"frames is {params.shown(frames)}; allowed: a sequence or an iterator")
    listed = list(frames)
    if not listed:
        raise InvalidArgument("frames are none; allowed: at least one")
    return listed


def save_gif(
    path: str | os.PathLike[str],
    frames: Iterable[IndexedImage],
    *,
    delay_ms: int | Sequence[int] = 40,
    loop: bool = True,
) -> None:
    """Write an animated GIF, whole or not at all.

    Parameters
    ----------
    path : path_like
    frames : sequence or iterator of IndexedImage
        At least one, all of one size, at most 65535 pixels wide and high, each of at most 256 colours; if palettes
        differ, each frame carries its own. Entries of alpha below 128 become one transparent entry.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 655350 ms, rounded half up to 10 ms; one for all, or as many as frames.
    loop : bool
        Whether it runs for ever, or once.

    Raises
    ------
    InvalidArgument
        If there is no frame, or their sizes differ, or a palette or a frame is too large, or there are not as many
        delays as frames, or a frame of 256 opaque colours, all in use, comes before one with holes in it.
    InvalidType
        If a frame is no `IndexedImage`.
    FileError
        If the file cannot be written.
    """
    plays = 0 if params.boolean("loop", loop) else 1
    save_animation(path, frames, delay_ms=delay_ms, plays=plays, format="GIF")


def quantize_frames(
    learner: engine.PaletteEngine,
    frames: Iterable[ImageLike],
    *,
    shared: bool = True,
    dither: Any = None,
    progress: ProgressCallback | None = None,
) -> list[IndexedImage]:
    """Frames in few colours.

    Parameters
    ----------
    learner : PaletteEngine
        Fitted to all frames where they share a palette (it keeps that one), else to each.
    frames : sequence or iterator of images
        All are held until the last is done. The pictures of an animated file: ``PIL.ImageSequence.Iterator(image)``.
    shared : bool
        One palette for all: smaller files, and colours that do not change from frame to frame.
    dither : optional
        As `PaletteEngine.predict`. Ordered dithering does not flicker: a pixel that does not change keeps its colour
        as long as the palette does.
    progress : callable, optional
        Called with (done, total) frames.

    Returns
    -------
    list of IndexedImage
        One a frame, in order.

    Raises
    ------
    InvalidArgument
        If there is no frame.
    StoppedError
        If `progress` returned False.
    """
    pictures = _listed(materialize(frames, "frames"))
    if not isinstance(learner, engine.PaletteEngine):
        raise InvalidType(f"learner is {params.shown(learner)}; allowed: an engine that learns palettes")
    params.boolean("shared", shared)
    report = Progress(params.callback("progress", progress))
    if shared:
        learner.fit(pictures)
    results: list[IndexedImage] = []
    for number, frame in enumerate(pictures, 1):
        if not shared:
            learner.fit(frame)
        results.append(learner.quantize(frame, dither))
        report.report(number, len(pictures))
    return results
