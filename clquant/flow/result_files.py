"""Which sink a job's `out` is: an array, or a file of results by its suffix."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

from clquant.flow.file_sinks import About, FileSink
from clquant.flow.sink import ArraySink, Sink
from clquant.images import files
from clquant.images.tiff import geo, geo_files
from clquant.params import shown
from clquant.runtime import InvalidArgument


@contextlib.contextmanager
def writing(out: Any, about: About) -> Iterator[Sink | None]:
    """Open a job's `out`; a file gets its name when the block ends, and none if the block raises."""
    if not isinstance(out, str | os.PathLike):
        if about.resume:
            raise InvalidArgument("resume is given without a path as out; allowed: with out='….zarr'")
        yield None if out is None else out if isinstance(out, Sink) else ArraySink(out)
        return
    sink = _file_sink(out, about)
    try:
        yield sink
        sink.finish()
    except BaseException:
        sink.discard()
        raise


def _file_sink(out: str | os.PathLike[str], about: About) -> FileSink:
    target = files.path_of(out, "out")
    suffix = target.suffix.lower()
    if isinstance(about.source, str | os.PathLike):
        source = files.path_of(about.source, "image")
        if os.path.realpath(target) == os.path.realpath(source):
            raise InvalidArgument(f"out is {shown(str(target))}, the image itself; allowed: another path")
    has_layout = isinstance(out, geo_files.GeoTiff)
    # Few jobs write in parts; the others start without what does.
    if suffix == ".zarr" and not has_layout:
        if isinstance(about.source, str | os.PathLike) and geo.place_tags(about.source):
            warnings.warn(f"{shown(str(target))} does not keep where {str(source)!r} lies: .tif does", stacklevel=2)
        from clquant.flow.zarr_sink import ZarrSink

        return ZarrSink(out, about)
    if suffix not in geo.SUFFIXES:
        raise InvalidArgument(f"out is {shown(str(target))}; allowed: an array, or a path that ends in .zarr or .tif")
    if about.resume:
        raise InvalidArgument(f"resume is given with {shown(str(target))}; allowed: with a path that ends in .zarr")
    from clquant.flow.tiff_sinks import GeoTiffSink, TiffSink

    place = geo_files.place_of(about.source) or (geo_files.NOWHERE if has_layout else None)
    return TiffSink(out, about) if place is None else GeoTiffSink(out, about, place)
