"""Animations of indexed frames: GIF, PNG and WebP."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette
from clquant.images import ImageLike, materialize
from clquant.palette import engine
from clquant.runtime import InvalidArgument, InvalidType, Progress, ProgressCallback
from clquant.video.shown import About, Shown
from clquant.video.writing import (
    Made,
    Packing,
    animated_format_of,
    checked_comment,
    checked_plays,
    format_named,
    made_of,
    sought,
    write_any,
    write_frames,
    write_list,
)

# Writes a maker's frames into a file; gives its figures.
Write = Callable[["Maker", BinaryIO], dict[str, Any]]


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
        How long each stands, 10 to 65,535,000 (18 hours).
    plays : int
        How often they are shown, up to 65535; 0 for ever.

    Raises
    ------
    InvalidType, InvalidArgument
        If an argument is not allowed.

    Attributes
    ----------
    plays : int
    figures : dict
        Of the file that `save` or `to_bytes` wrote last of an animation of `clquant.animate`: its ``frames``,
        ``width``, ``height``, ``colors`` and ``bytes``.
    """

    def __init__(self, frames: list[IndexedImage], delays_ms: list[int], plays: int = 0) -> None:
        if not isinstance(frames, list | tuple):
            raise InvalidType(f"frames is {params.shown(frames)}; allowed: a list of IndexedImage")
        self.plays = checked_plays(plays)
        self.figures: dict[str, Any] = {}
        self._kept: list[Made] | None = made_of(frames, delays_ms, "delays_ms")
        self._maker: Maker | None = None

    @classmethod
    def _of_maker(cls, maker: Maker) -> Animation:
        """An animation whose frames are made when they are asked for."""
        made = cls.__new__(cls)
        made.plays, made.figures, made._kept, made._maker = maker.about().plays, {}, None, maker
        return made

    @property
    def frames(self) -> list[IndexedImage]:
        """List of IndexedImage: the frames, each whole; `clquant.animate` makes them when this is first asked for."""
        return [made.image for made in self._held()]

    @property
    def delays_ms(self) -> list[int]:
        """Milliseconds that each frame is shown."""
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
        with sought(path) as file:
            self._write(file, name, comment)

    def _write(self, file: BinaryIO, format: str, comment: str) -> None:
        name = format_named(format)
        if self._maker is None:
            write_list(file, name, self._held(), self.plays, comment)
            return

        def write(maker: Maker, to: BinaryIO) -> dict[str, Any]:
            about, begin = maker.about()._replace(comment=checked_comment(comment)), to.tell()
            figures = {"frames": 0, "width": about.width, "height": about.height, "colors": 0}

            def shown() -> Iterator[Shown]:
                for made in maker.frames():
                    figures["frames"] += 1
                    figures["colors"] = max(figures["colors"], len(made.image.palette))
                    yield made.shown()

            write_frames(to, name, about, shown(), maker.packing())
            return {**figures, "bytes": to.tell() - begin}

        self._maker, self.figures = self._maker.fitted(write, file)


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
        How long each frame stands, 10 to 65,535,000 ms; one for all, or as many as frames. Longer than a file's
        frame can stand (GIF 655,350 ms, WebP 16,777,215) are written as several that change nothing.
    plays : int
        How often they are shown, 0 to 65535; 0 for ever.
    comment : str
        A text in the file; not of WebP.
    """
    out = io.BytesIO()
    write_any(out, format_named(format), frames, delay_ms, plays, comment)
    return out.getvalue()


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
        How long each frame stands, 10 to 65,535,000 ms; one for all, or as many as frames. Longer than a file's
        frame can stand (GIF 655,350 ms, WebP 16,777,215) are written as several that change nothing.
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
    with sought(path) as file:
        write_any(file, format_named(name), frames, delay_ms, plays, comment)


def gif_bytes(frames: Iterable[IndexedImage], *, delay_ms: int | Sequence[int] = 40, loop: bool = True) -> bytes:
    """An animated GIF that shows every frame as it is, and as many of them: equal ones are not merged.

    Parameters
    ----------
    frames : sequence or iterator of IndexedImage
        At least one, all of one size, at most 65535 pixels wide and high, each of at most 256 colours; if palettes
        differ, each frame carries its own. Entries of alpha below 128 become one transparent entry.
    delay_ms : int or sequence of int
        How long each frame stands, 10 to 65,535,000 ms; one for all, or as many as frames. GIF counts in 10 ms, so
        it is rounded to that, half up, so that the sum is right.
    loop : bool
        Whether it runs for ever, or once.
    """
    return animation_bytes(frames, "GIF", delay_ms=delay_ms, plays=0 if params.boolean("loop", loop) else 1)


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
        How long each frame stands, 10 to 65,535,000 ms, rounded half up to 10 ms; one for all, or as many as frames.
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
    given: Any = materialize(frames, "frames")
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | Iterator):
        raise InvalidType(f"frames is {params.shown(given)}; allowed: a sequence or an iterator")
    pictures = list(given)
    if not pictures:
        raise InvalidArgument("frames are none; allowed: at least one")
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
