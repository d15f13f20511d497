"""Whether jobs on a picture that is read in parts give the bits of the whole in memory: every verb, by hash."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import clquant
from benchmarks.harness import Options, Picture, Table
from clquant.dithering.registry import dither_names
from clquant.palette.verbs import predict, transform

MEMORY = "2 MiB"
COLUMNS = {"job": "job", "hash": "SHA-256 of the result in parts", "equal": "the whole's"}
Source = Any
Job = Callable[[Source, dict[str, Any]], Any]


def _jobs(queue: Any, palette: clquant.Palette, codec: clquant.VQCodec, other: Picture) -> Iterator[tuple[str, Job]]:
    """Names, and what each computes of a picture, `how` being options of the job that reads in parts."""
    yield "ColorHistogram.of", lambda given, how: clquant.ColorHistogram.of(given, queue=queue, **how).to_arrays()
    learners = {
        "KMeansPalette.fit": clquant.KMeansPalette(64, queue=queue),
        "NeuQuantCL.fit": clquant.NeuQuantCL(64, queue=queue),
        "NeuQuantCL.fit, sequential": clquant.NeuQuantCL(64, mode="sequential", sample_factor=5, queue=queue),
    }
    for name, learner in learners.items():
        yield name, lambda given, how, learner=learner: learner.fit(given, **how).palette_.rgba()
    for dither in (None, *dither_names()):
        yield (
            f"predict, {dither}",
            lambda given, how, dither=dither: predict(given, palette, dither=dither, queue=queue, **how),
        )
    yield "transform", lambda given, how: transform(given, palette, dither="blue-noise", queue=queue, **how)
    halftoner = clquant.PinwheelHalftoner(queue=queue)
    yield "PinwheelHalftoner.transform", lambda given, how: halftoner.transform(given, **how)
    learner = clquant.VQCodec(32, refine=5, max_iter=5, queue=queue)
    yield "VQCodec.fit", lambda given, how: learner.fit(given, **how).codebook_
    yield "VQCodec.encode", lambda given, how: codec.encode(given, **how)
    yield "VQCodec.compress", lambda given, how: np.frombuffer(codec.compress(given, **how), np.uint8)
    builder = clquant.QuadtreeBuilder(20, queue=queue)
    yield "QuadtreeBuilder.leaves", lambda given, how: builder.leaves(given, **how)
    names = ("mse", "psnr", "ssim", "visual_error", "color_difference", "blurred_color_difference")
    for figure in (getattr(clquant.quality, name) for name in names):
        yield (
            f"quality.{figure.__name__}",
            lambda given, how, figure=figure: np.float64(figure(given, other, queue=queue, **how)),
        )


def _hash(result: Any) -> str:
    digest = hashlib.sha256()
    for part in result if isinstance(result, tuple) else (result,):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]


def verbs(options: Options, photo: Picture, folder: pathlib.Path) -> Table:
    """Every verb on a zarr and on the same picture in memory.

    Raises
    ------
    DeviceError
        If one gives other bits.
    """
    import zarr

    note = f"A picture of {photo.shape[1]} x {photo.shape[0]} in a zarr, memory='{MEMORY}'."
    table = Table("Pictures in parts: the bits of the whole", COLUMNS, note=note)
    path, queue = folder / "hashes.zarr", options.queue()
    zarr.open(str(path), mode="w", shape=photo.shape, chunks=(100, 130, 3), dtype="u1")[:] = photo
    palette = clquant.KMeansPalette(16, queue=queue).fit(photo).palette_
    codec = clquant.VQCodec(32, refine=0, queue=queue).fit(photo)
    for name, job in _jobs(queue, palette, codec, np.roll(photo, 1, axis=0)):
        if options.is_over:
            table.note += " The time budget ended before the other jobs."
            break
        lazy, whole = _hash(job(str(path), {"memory": MEMORY})), _hash(job(photo, {}))
        table.add(job=name, hash=lazy, equal=str(lazy == whole))
        if lazy != whole:
            raise clquant.DeviceError(f"{name} of a picture in parts gives other bits than of the whole")
    return table
