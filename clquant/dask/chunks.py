"""Chunks of a Dask array as parts of one picture: what around a part decides it, and where parts may begin."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import delayed

from clquant import images
from clquant.dask.work import named
from clquant.dithering.error_diffusion import ErrorDiffusion
from clquant.dithering.ordered import OrderedDither
from clquant.dithering.phase_planes import PHASES, SIDE
from clquant.dithering.registry import find_dither
from clquant.dithering.search import REACH, SearchDither
from clquant.images import Picture
from clquant.params import shown
from clquant.runtime import InvalidArgument

# Masks of ordered dithering repeat after so many pixels, or a part of them.
MASK = 64
# Pixels outside a tile of error diffusion from which it is scanned, at most.
TILE_REACH = 8
# Side of the blocks of ``dither="pinwheel"``.
PINWHEEL_BLOCK = 32


Work = Callable[[Picture], npt.NDArray[Any]]


@dataclass(frozen=True)
class Tiling:
    """How a picture may be cut.

    Attributes
    ----------
    halo : int
        Pixels around a part that decide it.
    grid : int
        The part and its halo must begin at multiples of so many pixels, or at the picture's edge.
    """

    halo: int
    grid: int


def tiling_of(dither: Any) -> Tiling:
    """How a picture may be cut for a way to dither.

    Parameters
    ----------
    dither : None, bool, str or object
        As the engines take it.

    Raises
    ------
    InvalidArgument
        If each pixel needs those above it, so that no part stands alone.
    """
    found = find_dither(dither)
    if found is None:
        return Tiling(0, 1)
    owner = getattr(found, "__self__", None)
    if isinstance(owner, OrderedDither):
        return Tiling(0, MASK)
    if isinstance(owner, ErrorDiffusion) and owner.tile_size is not None:
        return Tiling(TILE_REACH, int(owner.tile_size))
    if isinstance(owner, SearchDither):
        return Tiling(int(owner.passes) * PHASES * REACH, SIDE)
    if dither == "pinwheel":
        return blocks_tiling(PINWHEEL_BLOCK)
    raise InvalidArgument(
        f"dither is {shown(dither)}, which needs all rows above a pixel; allowed with Dask arrays: None, True, "
        "'leaky', 'search', 'pinwheel', 'blue-noise', 'bayer2' to 'bayer16', or an object of theirs"
    )


def blocks_tiling(block: int) -> Tiling:
    """How a picture may be cut for the pinwheel: a block depends on the blocks beside it, and each phase has every
    other one. The blocks at a part's edge take the edge for the picture's, so that those beside them come out wrong.

    Parameters
    ----------
    block : int
        Pixels of a block's side.
    """
    return Tiling(2 * block, 2 * block)


def checked(image: Any) -> Any:
    """A Dask array of a picture, its channels in one chunk.

    Raises
    ------
    InvalidArgument
        If its shape is no picture's or not known.
    """
    if image.ndim not in (2, 3) or any(np.isnan(side) for side in image.shape):
        raise InvalidArgument(f"image is a Dask array of shape {image.shape}; allowed: known (H, W) or (H, W, C)")
    return image.rechunk({2: -1}) if image.ndim == 3 and len(image.chunks[2]) > 1 else image


def spans(chunks: tuple[int, ...], tiling: Tiling) -> Iterator[tuple[int, int, int, int]]:
    """Along one axis: where each chunk begins and ends, and where what decides it does.

    Parameters
    ----------
    chunks : tuple of int
        Their lengths.
    tiling : Tiling
    """
    ends = list(itertools.accumulate(chunks))
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        first = max(begin // tiling.grid * tiling.grid - -(-tiling.halo // tiling.grid) * tiling.grid, 0)
        last = -(-end // tiling.grid) * tiling.grid + -(-tiling.halo // tiling.grid) * tiling.grid
        yield begin, end, first, min(last, ends[-1])


def as_argument(part: Any) -> Any:
    """A part of an array for a task: of one chunk that chunk, as Dask would copy it from the array.

    Parameters
    ----------
    part : dask.array.Array
    """
    return part.to_delayed().item() if part.npartitions == 1 else part


def on_grid(chunks: tuple[int, ...], grid: int) -> tuple[int, ...]:
    """Lengths of about as many chunks, each but the last a multiple of `grid`.

    Parameters
    ----------
    chunks : tuple of int
    grid : int
    """
    total = sum(chunks)
    step = max(round(total / len(chunks) / grid), 1) * grid
    return tuple(min(step, total - begin) for begin in range(0, total, step))


def mapped(
    image: Any,
    work: Work,
    tiling: Tiling,
    dtype: npt.DTypeLike,
    channels: int | None,
) -> Any:
    """The array of `work` over the chunks of an image, each with what decides it.

    Parameters
    ----------
    image : dask.array.Array
        (H, W) or (H, W, C).
    work : callable
        From a part of the image, a `Picture` that knows its origin, to its results, of the same height and width.
    tiling : Tiling
    dtype : dtype_like
    channels : int or None
        Of the results; None: (H, W).

    Returns
    -------
    dask.array.Array
        With the image's chunks.
    """
    whole = checked(image)
    rows, columns = (list(spans(whole.chunks[axis], tiling)) for axis in (0, 1))
    made = [
        da.concatenate([_block(whole, work, down, across, dtype, channels) for across in columns], axis=1)
        for down in rows
    ]
    return da.concatenate(made, axis=0)


def _block(
    image: Any,
    work: Work,
    down: tuple[int, int, int, int],
    across: tuple[int, int, int, int],
    dtype: npt.DTypeLike,
    channels: int | None,
) -> Any:
    (top, bottom, first, last), (left, right, begin, end) = down, across
    inner = (slice(top - first, bottom - first), slice(left - begin, right - begin))
    made = delayed(_cropped, pure=True)(work, as_argument(image[first:last, begin:end]), inner, (first, begin))
    shape = (bottom - top, right - left) if channels is None else (bottom - top, right - left, channels)
    return da.from_delayed(made, shape, dtype, meta=np.empty((0,) * len(shape), dtype))


def _cropped(
    work: Work,
    part: npt.NDArray[Any],
    inner: tuple[slice, slice],
    origin: tuple[int, int],
) -> npt.NDArray[Any]:
    """What a worker does: the part's results without what is around it. Errors say where the part lies."""
    try:
        picture = dataclasses.replace(images.read(np.asarray(part), max_bits=16), origin=origin)
        return np.ascontiguousarray(np.asarray(named(work)(picture))[inner])
    except Exception as error:
        error.args = (f"chunk at row {origin[0]}, column {origin[1]}: {error}", *error.args[1:])
        raise
