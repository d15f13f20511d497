"""zarr stores in folders that may come from anybody: nothing else is read, no chunk unpacks to more than it has.

zarr gets the files as a mapping, so that no path is taken for an address. In the metadata that it reads each codec that
unpacks is one of `guards.bounded_codecs`; codecs that are not listed here are refused: numcodecs' `pickle` runs what it
reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from clquant.params import import_package, shown
from clquant.runtime import FileError

_METADATA = ("zarr.json", ".zarray")
_SHARDS = "sharding_indexed"
_PICTURES = "clquant.clvq"
_PLAIN = frozenset({
    "adler32", "astype", "bitround", "bytes", "cast_value", _PICTURES, "crc32", "crc32c", "delta", "fixedscaleoffset",
    "fletcher32", "jenkins_lookup3", "packbits", "quantize", "scale_offset", "shuffle", "transpose",
})  # fmt: skip
_RESIZING = frozenset({"astype", "cast_value", "fixedscaleoffset", "packbits", "quantize", "scale_offset"})
_MOST_ITEM = 16  # bytes of the largest number
_FREE_BYTES = 4096  # of what packers and checks add to a chunk


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder with a zarr array or group."""
    return any(os.path.exists(os.path.join(path, name)) for name in ("zarr.json", ".zarray", ".zgroup"))


def zarr_module(job: str) -> Any:
    """Import the package zarr, which is an extra."""
    return import_package("zarr", job, "pip install zarr")


@contextlib.contextmanager
def whole_calls() -> Iterator[None]:
    """If a call of zarr in the block fails, wait for its other chunks, which go on and would be told of at the end."""
    try:
        yield
    except BaseException:
        run = getattr(sys.modules.get("zarr.core.sync"), "sync", None)  # zarr 2 has no tasks
        if run is not None:
            with contextlib.suppress(Exception):
                run(_other_tasks())
        raise


async def _other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def open_store(folder: str, zarr: Any) -> Any:
    """Open the zarr array or group of a folder, to be read alone."""
    from clquant.images.guards import bounded_codecs  # imports numcodecs, of the same extra

    bounded_codecs.register()
    files: Any = _Files(folder, bounded_codecs.PACKERS, bounded_codecs.NAME)
    if zarr.__version__.startswith("2."):
        return zarr.open(files, mode="r")
    return zarr.open(zarr.storage.MemoryStore(files, read_only=True), mode="r", use_consolidated=False)


class _Files(dict[str, Any]):
    """The files of a folder by their paths in it, read when they are asked for."""

    def __init__(self, folder: str, packers: frozenset[str], bounded: str) -> None:
        super().__init__()
        self._folder, self._root = folder, os.path.realpath(folder)
        self._packers, self._bounded = packers, bounded

    def __contains__(self, key: object) -> bool:
        return self._place(str(key)) is not None

    def __missing__(self, key: str) -> Any:
        place = self._place(key)
        if place is None:
            raise KeyError(key)
        if os.path.basename(key) in _METADATA:
            with open(place, "rb") as file:
                content: Any = json.dumps(self._guarded(json.load(file))).encode()
        else:
            content = np.memmap(place, np.uint8, "r") if os.path.getsize(place) else b""
        return _buffer(content)

    def _place(self, key: str) -> str | None:
        """The path of a regular file; None if there is none."""
        place = os.path.join(self._folder, key)
        if not os.path.isfile(place):
            return None
        found = os.path.realpath(place)
        if os.path.commonpath([self._root, found]) != self._root:
            raise FileError(f"{place!r} is a link to {found!r}; allowed: files of the same zarr")
        return found

    def _guarded(self, document: dict[str, Any]) -> dict[str, Any]:
        """Metadata with bounded codecs, and without copies of those of other files."""
        document.pop("consolidated_metadata", None)
        if "codecs" in document:  # format 3
            count = math.prod(document["chunk_grid"]["configuration"]["chunk_shape"])
            document["codecs"] = self._guarded_codecs(document["codecs"], count, document["data_type"])
        elif "chunks" in document:
            filters = [*(document.get("filters") or []), *filter(None, [document.get("compressor")])]
            made = self._guarded_codecs(filters, math.prod(document["chunks"]), document["dtype"])
            document["compressor"] = made.pop() if document.get("compressor") else None
            document["filters"] = made or None
        return document

    def _guarded_codecs(self, codecs: list[Any], count: int, dtype: Any) -> list[Any]:
        """Codecs, in the order of encoding, of chunks of so many numbers."""
        named = {_name_of(codec): codec for codec in codecs}
        if len(named) < len(codecs):
            raise FileError("its chunks are coded by one codec twice; allowed: each once")
        item = max(_item_bytes(dtype), _MOST_ITEM if _RESIZING & named.keys() else 1)
        most = count * item + count * item // 8 + _FREE_BYTES
        made = []
        for name, codec in named.items():
            if name == _SHARDS and codec is codecs[-1]:
                inner = dict(codec["configuration"])
                inner["codecs"] = self._guarded_codecs(inner["codecs"], math.prod(inner["chunk_shape"]), dtype)
                _check_names(map(_name_of, inner["index_codecs"]), _PLAIN)
                made.append({**codec, "configuration": inner})
                continue
            _check_names([name], self._packers | _PLAIN)
            settings = {"codec": name, "most": most}
            is_format2 = isinstance(codec, dict) and "id" in codec
            if name in self._packers:
                codec = (
                    {"id": self._bounded, **settings}
                    if is_format2
                    else {"name": self._bounded, "configuration": settings}
                )
            elif name == _PICTURES and is_format2:  # in format 3 it is told the chunk's shape
                codec = {**codec, "max_pixels": max(count, 1)}
            made.append(codec)
        return made


def _name_of(codec: Any) -> str:
    name = codec if isinstance(codec, str) else str(codec["id"] if "id" in codec else codec["name"])
    return name.removeprefix("numcodecs.")


def _check_names(names: Iterable[str], allowed: frozenset[str]) -> None:
    for name in names:
        if name not in allowed:
            raise FileError(f"its chunks are coded by {shown(name)}; allowed: {', '.join(sorted(allowed))}")


def _item_bytes(dtype: Any) -> int:
    found = np.dtype(str(dtype))
    if found.kind not in "biufc":
        raise FileError(f"its dtype is {shown(dtype)}; allowed: numbers")
    return found.itemsize


def _buffer(content: Any) -> Any:
    """Bytes as the mappings of zarr 3 hold them; those of zarr 2 hold bytes."""
    try:
        from zarr.core.buffer import default_buffer_prototype
    except ImportError:
        return bytes(content)
    buffer = default_buffer_prototype().buffer
    return buffer.from_array_like(content) if isinstance(content, np.ndarray) else buffer.from_bytes(content)
