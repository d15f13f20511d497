"""One palette for a pyramid of tiles: counted together, mapped by place, written once where they are equal."""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import itertools
import numbers
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.color.indexed import IndexedImage
from clquant.color.palette import MOST_COLORS, Palette, as_palette
from clquant.dithering.ordered import OrderedDither
from clquant.dithering.registry import find_dither, for_learned
from clquant.flow.source import PORTIONS_IN_MEMORY
from clquant.histogram.color_histogram import ColorHistogram
from clquant.images import decode, files, memory_bytes, picture_files
from clquant.kmeans import KMeansPalette
from clquant.palette import engine
from clquant.params import shown
from clquant.runtime import CommandQueue, FileError, InvalidArgument, Progress, ProgressCallback
from clquant.targets.tiles import stores, writers
from clquant.targets.tiles.stores import Place, Tiles

MOST_INDEXED = 256
_USUAL_TILE_BYTES = 512 * 512 * 4  # assumed of a tile, to bound how many are in memory before the first one is read


class PyramidReport(NamedTuple):
    """Palette and numbers of tiles of a call of `quantize`.

    Attributes
    ----------
    palette : Palette
    tiles : int
        In the source.
    written : int
        In the result.
    empty : int
        Without a visible pixel, which are left out.
    distinct : int
        That were worked on: the others equal one of them.
    nbytes : int
        Of the distinct tiles' files.
    """

    palette: Palette
    tiles: int
    written: int
    empty: int
    distinct: int
    nbytes: int


class _Key(NamedTuple):
    """A tile's bytes and its place in the dither's mask, which decide its result."""

    digest: bytes
    row: int
    column: int


@dataclass(frozen=True)
class _Work:
    """Parameters by which tiles are mapped."""

    palette: Palette
    dither: Any
    mask: int
    color_space: str
    queue: CommandQueue | None


def histogram(
    source: Any,
    *,
    tms: bool = False,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
    memory: Any = None,
) -> ColorHistogram:
    """The colours of all tiles of a pyramid; equal tiles are read once, and count as often as they occur.

    Parameters
    ----------
    source : path-like
        A folder with files z/x/y.png, .jpg or .webp; an MBTiles file; or a PMTiles file (extra ``tiles``).
    tms : bool
        Whether rows of a folder are counted from the bottom.
    queue : pyopencl.CommandQueue, optional
    progress : callable, optional
        Called with (done, total) distinct tiles; returning False stops the job.
    memory : int or str, optional
        Host memory for tiles at work, such as ``"1 GiB"``; default 512 MiB.

    Returns
    -------
    ColorHistogram
        For `KMeansPalette.fit_histogram`; those of several pyramids add up.

    Raises
    ------
    InvalidType, InvalidArgument, FileError, StoppedError
        If an argument is not allowed, a tile cannot be read, or `progress` returned False.
    """
    report, bound = Progress(params.callback("progress", progress)), memory_bytes(memory)
    with stores.opened(source, tms) as tiles:
        return _counted(tiles, _listed(tiles), bound, queue, report)


def quantize(
    source: Any,
    out: Any,
    colors: Any = 256,
    *,
    dither: Any = None,
    color_space: str = "srgb",
    random_state: Any = 0,
    tms: bool = False,
    keep_empty: bool = False,
    queue: CommandQueue | None = None,
    progress: ProgressCallback | None = None,
    memory: Any = None,
) -> PyramidReport:
    """A pyramid of tiles in one palette, as indexed PNG tiles.

    A pixel's index depends on its colour and its place in the whole map of its zoom, so that no seams show between
    tiles. Tiles without a visible pixel are left out; equal ones are worked on, and stored, once.

    Parameters
    ----------
    source : path-like
        As `histogram`.
    out : path-like
        A folder that is new or empty (equal tiles are links to one file); or a file ending in ``.mbtiles`` or
        ``.pmtiles``, which is replaced. It is there when all is done.
    colors : int, Palette or array_like
        How many colours to learn by k-means of the tiles of all zooms, 2 to 256; or a palette.
    dither : None, str or OrderedDither
        None, ``"blue-noise"``, ``"bayer"``, ``"bayer2"`` to ``"bayer16"``, or an `OrderedDither`.
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where colours are compared.
    random_state : int
        Seed of the learning.
    tms : bool
        Whether rows of folders are counted from the bottom.
    keep_empty : bool
        Whether tiles without a visible pixel are written, too.
    queue, progress, memory
        As `histogram`; progress is called once more with (done, total) tiles that are mapped.

    Returns
    -------
    PyramidReport
        The same files on every device.

    Raises
    ------
    InvalidType, InvalidArgument, FileError, StoppedError
        If an argument is not allowed, a tile cannot be read or the result not be written, or `progress` returned False.
    """
    report, bound = Progress(params.callback("progress", progress)), memory_bytes(memory)
    mask, target = _mask_of(dither), files.path_of(out, "out")
    params.boolean("keep_empty", keep_empty)
    learner, palette = _checked_colors(colors, color_space, random_state, queue)
    with stores.opened(source, tms) as tiles:
        if os.path.realpath(os.fspath(source)) == os.path.realpath(target):
            raise InvalidArgument(f"out is {shown(str(out))}, the source itself; allowed: another path")
        with writers.writing(out, tiles.metadata, tms) as writer:
            listing = _listed(tiles, mask)
            if learner is not None:
                palette = learner.fit_histogram(_counted(tiles, listing, bound, queue, report)).palette_
                dither = for_learned(dither)
            elif listing.alpha:
                palette = _with_transparent(palette)
            work = _Work(palette, dither, mask, color_space, queue)
            return _written(tiles, listing, work, writer, bound, keep_empty, report)


def _mask_of(dither: Any) -> int:
    """Side of an ordered dither's mask; 1 without a dither."""
    ditherer = find_dither(dither)
    owner = getattr(ditherer, "__self__", None)
    if ditherer is None:
        return 1
    if isinstance(owner, OrderedDither):
        return len(owner.thresholds())
    raise InvalidArgument(
        f"dither is {shown(dither)}, which looks beyond a tile; allowed for pyramids: None, 'blue-noise', 'bayer', "
        "'bayer2' to 'bayer16', or an OrderedDither"
    )


def _checked_colors(
    colors: Any, color_space: str, random_state: Any, queue: CommandQueue | None
) -> tuple[KMeansPalette | None, Palette]:
    """Return the engine that learns the palette, or None and the palette."""
    if isinstance(colors, numbers.Integral):
        count = params.integer("colors", colors, 2, MOST_INDEXED)
        return KMeansPalette(count, color_space=color_space, random_state=random_state, queue=queue), Palette([[0] * 3])
    palette = as_palette(colors, "colors")
    if len(palette) > MOST_INDEXED:
        raise InvalidArgument(f"colors has {len(palette)} of up to {MOST_COLORS}; allowed for tiles: {MOST_INDEXED}")
    return None, palette


def _with_transparent(palette: Palette) -> Palette:
    made = palette.with_transparent()
    if len(made) > MOST_INDEXED:
        raise InvalidArgument(
            f"colors has {len(palette)} opaque ones, but tiles have alpha; allowed: {MOST_INDEXED - 1} opaque ones, or "
            "one of alpha 0 among them"
        )
    return made


@dataclass(frozen=True)
class _Listing:
    """Content of a pyramid: its distinct files by place."""

    keys: dict[Place, _Key]  # by zoom, column and row
    alpha: bool  # whether some file has alpha


def _listed(tiles: Tiles, mask: int = 1) -> _Listing:
    """All tiles, whose files are opened for their size and kind."""
    heads: dict[bytes, tuple[int, int, bool]] = {}
    keys = {}
    for place in tiles.places():
        data = tiles.read(place)
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if digest not in heads:
            with picture_files.opened(data, _name(place)) as (image, _):
                alpha = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
                heads[digest] = image.height, image.width, alpha
        height, width, _ = heads[digest]
        keys[place] = _Key(digest, place.y * height % mask, place.x * width % mask)
    if not keys:
        raise FileError("source has no tiles; allowed: files z/x/y.png, .jpg or .webp, or a table of tiles")
    return _Listing(keys, any(alpha for _, _, alpha in heads.values()))


def _name(place: Place) -> str:
    return f"tile {place.z}/{place.x}/{place.y}"


def _counted(
    tiles: Tiles, listing: _Listing, bound: int, queue: CommandQueue | None, report: Progress
) -> ColorHistogram:
    """The colours of all tiles: those that occur equally often together."""
    counts = collections.Counter(key.digest for key in listing.keys.values())
    firsts: dict[bytes, Place] = {}
    for place, key in listing.keys.items():
        firsts.setdefault(key.digest, place)
    groups = collections.defaultdict(list)
    for digest, place in firsts.items():
        groups[counts[digest]].append(place)
    total, done = ColorHistogram(np.zeros((0, 3), np.uint8), np.zeros(0, np.int64)), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for times, group in sorted(groups.items()):
            for batch in _batches(group, bound):
                batch_colors = ColorHistogram.of(_decoded(tiles, batch, pool), queue=queue)
                if times > 1:
                    colors, seen = batch_colors.to_arrays()
                    batch_colors = ColorHistogram(colors, seen * np.uint64(times))
                total, done = total + batch_colors, done + len(batch)
                report.report(done, len(firsts))
    return total


def _batches(places: Iterable[Place], bound: int) -> Iterator[list[Place]]:
    size = max(bound // (PORTIONS_IN_MEMORY * _USUAL_TILE_BYTES), 1)
    rest = iter(places)
    while batch := list(itertools.islice(rest, size)):
        yield batch


def _decoded(tiles: Tiles, places: list[Place], pool: concurrent.futures.Executor) -> list[npt.NDArray[np.uint8]]:
    """Tiles as (H, W, 3 or 4) uint8."""
    data = [tiles.read(place) for place in places]  # by one thread, as SQLite wants it
    return list(pool.map(_decode, places, data))


def _decode(place: Place, data: bytes) -> npt.NDArray[np.uint8]:
    pixels = decode.from_file(data, _name(place))
    return np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels


def _written(
    tiles: Tiles, listing: _Listing, work: _Work, writer: writers.Writer, bound: int, keep_empty: bool, report: Progress
) -> PyramidReport:
    """All tiles, in the writer's order; results that come again are kept until then."""
    left = collections.Counter(listing.keys.values())
    results: dict[_Key, bytes | None] = {}
    written = distinct = nbytes = done = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch in _batches(writer.order(list(listing.keys)), bound):
            new: dict[_Key, Place] = {}
            for place in batch:
                if listing.keys[place] not in results:
                    new.setdefault(listing.keys[place], place)
            made = _mapped(_decoded(tiles, list(new.values()), pool), list(new), work, keep_empty, pool)
            distinct += len(made)
            nbytes += sum(len(data) for data in made.values() if data is not None)
            results.update(made)
            for place in batch:
                key = listing.keys[place]
                data = results[key]
                if data is not None:
                    writer.add(place, data)
                    written += 1
                left[key] -= 1
                if not left[key]:
                    del results[key]
            done += len(batch)
            report.report(done, len(listing.keys))
    return PyramidReport(work.palette, done, written, done - written, distinct, nbytes)


def _mapped(
    pictures: list[npt.NDArray[np.uint8]],
    keys: list[_Key],
    work: _Work,
    keep_empty: bool,
    pool: concurrent.futures.Executor,
) -> dict[_Key, bytes | None]:
    """The files of tiles, or None for those that are left out; tiles of one shape are mapped as one tall picture."""
    made: dict[_Key, bytes | None] = {}
    groups: dict[tuple[int, ...], list[tuple[_Key, npt.NDArray[np.uint8]]]] = collections.defaultdict(list)
    for key, pixels in zip(keys, pictures, strict=True):
        if pixels.shape[2] == 4 and not keep_empty and not pixels[..., 3].any():
            made[key] = None
        else:
            height = -(-(key.row + pixels.shape[0]) // work.mask) * work.mask
            groups[height, key.column + pixels.shape[1], pixels.shape[2]].append((key, pixels))
    for (height, _, _), group in groups.items():
        tall = np.concatenate([_in_place(key, pixels, height) for key, pixels in group])
        chosen = engine.predict(
            tall, work.palette, color_space=work.color_space, dither=work.dither, queue=work.queue
        ).reshape(len(group), height, -1)
        pictures = [
            indices[key.row : key.row + pixels.shape[0], key.column :]
            for (key, pixels), indices in zip(group, chosen, strict=True)
        ]
        files = pool.map(lambda picture: IndexedImage(picture, work.palette).to_bytes("PNG"), pictures)
        made.update(zip((key for key, _ in group), files, strict=True))
    return made


def _in_place(key: _Key, pixels: npt.NDArray[np.uint8], height: int) -> npt.NDArray[np.uint8]:
    """A tile where it lies in the dither's mask, amid pixels that do not matter."""
    below = height - key.row - pixels.shape[0]
    return np.pad(pixels, ((key.row, below), (key.column, 0), (0, 0)), "edge")
