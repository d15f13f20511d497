"""`KMeansPalette.fit` of 16-bit pictures: a palette of their 8-bit values, refined over all 16 bits.

Entries have 8 bits, so those that k-means finds for round(v / 257) are near to the best. From there, steps of Lloyd's
algorithm over the colours of 16 bits move what is not fixed. Their end is rounded to 8 bits. Of the two palettes
that of the lower inertia over the 16 bits is taken. Gray pictures have the best gray palettes instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clquant.color import spaces
from clquant.color.palette import Palette
from clquant.histogram.counting import count_colors
from clquant.histogram.counts import ColorCounts
from clquant.histogram.deep_counting import count_deep, deep_parts
from clquant.histogram.merging import HostCounts, colors_of, merged
from clquant.images import Picture, pieces
from clquant.kmeans.deep_lloyd import DeepLloyd
from clquant.kmeans.deep_points import DeepColors, Weights
from clquant.kmeans.exact import are_gray, best_grays
from clquant.kmeans.fit import Fit, Fitted
from clquant.kmeans.params import KMeansParams
from clquant.runtime import Array, Scope, Session

Parts = Callable[[], Iterator[HostCounts]]


def fit_pictures(fit: Fit, pictures: Sequence[Picture], weights: Sequence[Weights] | None) -> Fitted:
    """The palette of pictures, of which some have 16 bits a value; weights as `count_colors` takes them."""
    session = fit.session
    if all(picture.channels == 1 for picture in pictures):  # 65536 colours at most
        return fit_counts(fit, count_deep(session, pictures, weights))
    with session.scope() as scope:
        there = [_sent(session, scope, picture) for picture in pictures]
        narrow = [picture.narrowed() for picture in there]
        return _fitted(
            fit,
            lambda inner: count_colors(session, inner, narrow, weights),
            DeepColors(session, there, weights),
            lambda: deep_parts(session, pictures, weights),
        )


def _sent(session: Session, scope: Scope, picture: Picture) -> Picture:
    """A picture on the device, where its 16-bit values are narrowed and used again; as it is if it is too large."""
    limits, array = session.limits, picture.array
    if array is None or picture.bits == 8 or limits.unified_memory or 4 * array.nbytes > limits.max_alloc:
        return picture
    buffer = picture.upload(session, scope)
    device_array = Array(session.queue, array.shape, array.dtype, data=buffer)
    return dataclasses.replace(picture, array=None, sent=None, device_array=device_array)


def fit_counts(fit: Fit, counts: HostCounts) -> Fitted:
    """The palette of counted colours of 16 bits a value."""
    return _fitted(fit, counts.upload, DeepColors.of_counts(fit.session, counts), lambda: iter([counts]))


def fit_lazy(fit: Fit, pictures: Sequence[Picture], counts: HostCounts) -> Fitted:
    """The palette of lazy pictures, of which some have 16 bits a value; `counts` are those of their 8-bit values."""

    def parts() -> Iterator[HostCounts]:
        for picture in pictures:
            for piece in pieces(picture):
                yield from deep_parts(fit.session, [piece])

    return _fitted(fit, counts.upload, DeepColors(fit.session, pictures), parts)


def _fitted(fit: Fit, count: Callable[[Scope], ColorCounts], colors: DeepColors, counted: Parts) -> Fitted:
    """Return the palette of `colors`; `count` counts 8-bit values, `counted` (for grays) 16-bit values in parts."""
    start = fit.run(count)
    is_exact = start.inertia() == 0  # all 8-bit colours are entries
    with fit.session.scope() as scope:
        palette, inertia, steps = _refined(fit, scope, start.palette, is_exact, colors, counted)
    return Fitted(palette, lambda: inertia, start.steps + steps)


def _refined(
    fit: Fit, scope: Scope, start: Palette, is_exact: bool, colors: DeepColors, counted: Parts
) -> tuple[Palette, float, int]:
    """Refine a start on 16-bit colours; return the better of both, its inertia, and the number of steps."""
    params, rgba = fit.params, start.rgba()
    partial = colors.are_partial()
    with_alpha = partial or bool((params.solid[:, 3] < 255).any())
    space = spaces.space(params.color_space, with_alpha, 16)
    shown = np.flatnonzero((rgba[:, 3] > 0) | with_alpha)
    reserved = int(rgba[0, 3] == 0 and bool((params.fixed[:, 3] > 0).all()))
    moves = shown >= reserved + len(params.fixed)
    lloyd = DeepLloyd(fit.session, scope, colors, space)
    entries = rgba[shown]
    if lloyd.is_empty or not len(entries):
        return start, 0.0, 0
    unit = space.unit * space.unit * fit.weight_unit

    def measured(entries: npt.NDArray[np.uint8]) -> int:
        return lloyd.step(space.coordinates(entries).astype(np.int64)).inertia

    if is_exact and space.name == "srgb" and not with_alpha:  # so each colour has its nearest one of 8 bits
        return start, measured(entries) / unit, 0
    grays = None if is_exact else _grays(fit.params, counted, partial, entries, space)
    if grays is None:
        inertia, refined, steps = _steps(fit, lloyd, space, entries, moves)
    else:
        inertia, refined, steps = measured(entries), grays, 0
    better = measured(refined)
    if better < inertia:
        rgba = rgba.copy()
        rgba[shown], inertia = refined, better
    has_alpha = partial or bool((rgba[:, 3] < 255).any())
    return Palette(rgba if has_alpha else rgba[:, :3]), inertia / unit, steps


def _grays(
    params: KMeansParams, count: Parts, partial: bool, entries: npt.NDArray[np.uint8], space: spaces.Space
) -> npt.NDArray[np.uint8] | None:
    """The best gray entries in place of others, (k, 4), if all colours are opaque grays and no entry is given."""
    given = len(params.fixed) or not isinstance(params.init, str)
    if given or partial or len(entries) > 256 or not are_gray(entries):
        return None
    parts = []
    for part in count():
        levels = colors_of(part.codes)
        if (levels[:, :1] != levels[:, 1:3]).any():
            return None
        parts.append(part)
    counted = merged(parts)
    colors = colors_of(counted.codes)
    order = np.argsort(colors[:, 0])
    grays = best_grays(colors[order, 0], counted.counts[order], len(entries), space)
    return np.column_stack([grays, grays, grays, np.full(len(grays), 255, np.uint8)])


def _steps(
    fit: Fit, lloyd: DeepLloyd, space: spaces.Space, entries: npt.NDArray[np.uint8], moves: npt.NDArray[np.bool_]
) -> tuple[int, npt.NDArray[np.uint8], int]:
    """Step until the inertia hardly falls; returns the entries' inertia, the entries, and the number of steps."""
    # An entry whose center has not moved is as it was, however it is rounded.
    params, start = fit.params, space.coordinates(entries).astype(np.int64)
    centers, first, before = start, -1, -1
    tolerance, steps = int(params.tol * 2**64), 0
    while True:
        found = lloyd.step(centers)
        first = found.inertia if steps == 0 else first
        moved = np.where(moves[:, None], found.means(centers), centers)
        still = found.inertia == 0 or bool((moved == centers).all())
        slow = steps > 0 and before - found.inertia <= before * tolerance >> 64
        if still or slow or steps == params.max_iter:
            break
        centers, before, steps = moved, found.inertia, steps + 1
        fit.progress.report(params.max_iter, params.max_iter)
    colors = space.colors(centers)
    rounded = entries.copy()
    changed = (centers != start).any(axis=1)
    rounded[changed, : colors.shape[1]] = colors[changed]
    return first, rounded, steps
