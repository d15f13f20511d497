"""Encoding pictures to index tables and decoding these, with a given codebook: on the host or staying on the device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, images, params
from clquant.flow.file_sinks import About, digest_of
from clquant.flow.result_files import writing
from clquant.flow.sink import Sink
from clquant.flow.source import StoredRows
from clquant.images import memory_bytes, storage
from clquant.runtime import (
    Array,
    CommandQueue,
    InvalidArgument,
    InvalidType,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
)
from clquant.training.blocks import BlockShape, Codebook, check_block_shape
from clquant.training.search import MAX_CODEBOOK, index_dtype, open_search
from clquant.vq.decode import Decoder

# Indices that the host has looked at sooner than a device with memory of its own has told what it found.
CHECKED_ON_HOST = 1 << 16
MOST_SIDE = 2**31 - 1  # of a picture that may be asked for; larger ones are refused before their digits are written

Table = npt.NDArray[np.integer[Any]] | Array
Image = npt.NDArray[np.uint8]
Pixels = Image | Array
Report = ProgressCallback | None
Size = tuple[int, ...] | list[int] | None
HostTable = npt.NDArray[np.integer[Any]] | str | os.PathLike[str]


class BlockCoder:
    """A codebook with which pictures are encoded and decoded."""

    def __init__(self, codebook: Codebook, queue: CommandQueue | None) -> None:
        good = isinstance(codebook, np.ndarray) and codebook.dtype == np.uint8 and codebook.ndim in (3, 4)
        if not good or not 2 <= len(codebook) <= MAX_CODEBOOK:
            raise InvalidType("codebook_ is no uint8 array of shape (N, p, q) or (N, p, q, C) with N from 2 to 65536")
        check_block_shape(codebook.shape[1:3])
        _, p, q, channels = (*codebook.shape, 1)[:4]
        if channels not in (1, 3, 4):
            raise InvalidArgument(f"codebook_ has {channels} channels; allowed: 1, 3 or 4")
        self.codebook = codebook
        self.queue = queue
        self.shape = BlockShape(p, q, channels)
        self.rows = np.ascontiguousarray(codebook).reshape(len(codebook), -1)  # (N, K)

    def about(self, verb: str, out: Any, resume: bool) -> About:
        """Return the verb and the codebook, which a resumed job must share with the one before."""
        settings = {} if out is None else {"verb": verb, "codebook": digest_of(np.ascontiguousarray(self.codebook))}
        return About(resume=resume, settings=settings)

    @property
    def encoding(self) -> Encoded:
        """The job that makes index tables."""
        return Encoded(self.rows, self.shape)

    @flow.verb
    def decode(
        self, indices: Table | HostTable, shape: Size, progress: Report, out: Any, memory: Any, resume: bool
    ) -> Pixels:
        """Decode as `VQCodec.decode` does."""
        report = Progress(params.callback("progress", progress))
        memory_bytes(memory)
        table = opened_table(indices)
        with writing(out, self.about("decode", out, resume)) as sink:
            return self.decoded(table, shape, report, sink, memory)

    def decoded(
        self, indices: Any, shape: Size, progress: Progress, sink: Sink | None = None, memory: Any = None
    ) -> Pixels:
        """The picture of an index table; on the device if the table is there."""
        table, count = self._check_table(indices), len(self.rows)
        size = check_size(shape, table, self.shape)
        session = open_session(self.queue, [indices] if isinstance(indices, Array) else [])
        trusted = False
        if isinstance(indices, Array):
            picture = images.Picture(*table, 1, True, device_array=indices)
        elif sink is None and isinstance(indices, np.ndarray) and not isinstance(indices, np.memmap):
            near = indices.size <= CHECKED_ON_HOST or session.limits.unified_memory
            trusted = near or indices.dtype != index_dtype(count)
            rows = checked_indices(indices, count) if trusted else np.ascontiguousarray(indices)
            picture = images.Picture(*table, 1, True, rows[..., None])
        else:
            trusted, picture = (
                True,
                images.Picture(*table, 1, True, store=TableRows(indices, count, memory_bytes(memory))),
            )
        job = Decoded(self.rows, self.shape, size, trusted)
        made: Pixels = flow.in_bands(session, picture, job, progress, sink=sink)
        return made

    def _check_table(self, indices: Any) -> tuple[int, int]:
        size = len(self.rows)
        if not isinstance(indices, np.ndarray | Array) and not storage.is_in_store(indices):
            raise InvalidType(
                f"indices is {params.shown(indices)}; allowed: a NumPy array, a device array, or anything with shape, "
                "dtype, ndim and __getitem__ of rows"
            )
        if len(indices.shape) != 2 or 0 in indices.shape:
            raise InvalidArgument(f"indices has the shape {indices.shape}; allowed: (rows, columns), at least one each")
        if isinstance(indices, Array):
            if indices.dtype != index_dtype(size) or not indices.flags.c_contiguous:
                raise InvalidType(
                    f"indices is a device array of {indices.dtype}; allowed: C-contiguous {index_dtype(size)}"
                )
        elif np.dtype(indices.dtype).kind not in "iu":
            raise InvalidType(f"indices is {params.shown(indices)}; allowed: integers")
        return indices.shape[0], indices.shape[1]


def checked_indices(part: npt.NDArray[np.integer[Any]], size: int) -> npt.NDArray[np.integer[Any]]:
    """Indices on the host, C-contiguous and of `index_dtype`, which has room for all that pass."""
    if int(part.min()) < 0 or int(part.max()) >= size:
        raise InvalidArgument(
            f"indices holds values from {int(part.min())} to {int(part.max())}; allowed: 0 to {size - 1}"
        )
    return np.ascontiguousarray(part).astype(index_dtype(size), copy=False)


class TableRows(StoredRows):
    """Rows of an index table that is elsewhere, checked as they are read."""

    def __init__(self, source: Any, size: int, memory: int) -> None:
        super().__init__(source, "indices", memory)
        self._size, self.bits = size, 8 * index_dtype(size).itemsize

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> npt.NDArray[Any]:  # noqa: ARG002
        return checked_indices(storage.values_of(self._source, slice(*rows), "indices"), self._size)[..., None]


def of_blocks(report: Progress, table: Any, share: int = 1) -> Progress:
    """A progress of a table's rows that reports `1 / share` of its blocks to another one."""
    if not report.wanted:
        return report
    return Progress(lambda row, rows: report.report(row * table.size // rows // share, table.size))


def opened_table(indices: Any) -> Any:
    """An index table as a person hands it in; that of a path is opened."""
    if not isinstance(indices, str | os.PathLike):
        return indices
    found = storage.open_path(os.fsdecode(indices))
    if found is None:
        raise InvalidType(f"indices is {params.shown(indices)}; allowed: the path of a zarr or of a TIFF in tiles")
    return found


def check_size(shape: Any, table: tuple[int, int], block: BlockShape) -> tuple[int, int]:
    """The true (height, width) of the picture of an index table."""
    whole = table[0] * block.rows, table[1] * block.columns
    if shape is None:
        return whole
    if not isinstance(shape, tuple | list) or len(shape) not in (2, 3):
        raise InvalidType(f"shape is {params.shown(shape)}; allowed: (height, width), or an image's whole shape")
    height, width = (params.integer(f"shape[{i}]", shape[i], 1, MOST_SIDE) for i in range(2))
    if len(shape) == 3:
        params.integer("shape[2]", shape[2], block.channels, block.channels)
    if block.table_shape(height, width) != table:
        raise InvalidArgument(f"shape is ({height}, {width}); allowed: what a table of {table} covers, up to {whole}")
    return height, width


@dataclass(frozen=True, eq=False)
class Encoded(flow.Map):
    """The index of the nearest codeword of every block."""

    rows: Codebook  # (N, K)
    shape: BlockShape

    max_bits = 8

    @property
    def block(self) -> tuple[int, int]:
        """The codewords'."""
        return self.shape.rows, self.shape.columns

    def result(self, picture: images.Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:
        """A table of indices."""
        if picture.channels != self.shape.channels:
            raise InvalidArgument(f"image has {picture.channels} channels; this codebook is for {self.shape.channels}")
        return self.shape.table_shape(picture.height, picture.width), index_dtype(len(self.rows))

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: images.Picture) -> Iterator[flow.Steps]:  # noqa: ARG002
        """Bring the codewords to the device, or find them there."""
        with open_search(session, self.rows, self.shape) as search:

            def step(session: Session, scope: Scope, portion: flow.Portion) -> None:  # noqa: ARG001
                height = portion.row1 - portion.row0
                sizes, arguments = search.searching(portion.pixels, height, picture.width, portion.out)
                session.launch(*sizes, **arguments)

            columns = self.shape.table_shape(1, picture.width)[1]
            # A row of pixels as whole blocks, or of indices.
            row_bytes = columns * max(self.shape.columns * self.shape.channels, 2)
            yield flow.Steps(step, rows=self.shape.rows, row_bytes=row_bytes, unit=columns)


@dataclass(frozen=True, eq=False)
class Decoded(flow.Map):
    """The pixels of a picture of indices."""

    rows: Codebook  # (N, K)
    shape: BlockShape
    size: tuple[int, int]  # of the result
    trusted: bool  # whether all indices are known to be codewords'

    @property
    def scale(self) -> int:
        """Rows of a codeword."""
        return self.shape.rows

    def result(self, picture: images.Picture) -> tuple[tuple[int, ...], npt.DTypeLike]:  # noqa: ARG002
        """Pixels (H, W) or (H, W, C)."""
        return self.size if self.shape.channels == 1 else (*self.size, self.shape.channels), np.uint8

    @contextlib.contextmanager
    def open(self, session: Session, scope: Scope, picture: images.Picture) -> Iterator[flow.Steps]:
        """Bring the codewords to the device; see at the end that all indices were codewords'."""
        decoder, (height, width) = Decoder(session, scope, self.rows, self.shape, self.trusted), self.size

        def step(session: Session, scope: Scope, portion: flow.Portion) -> None:  # noqa: ARG001
            row0, row1 = portion.row0 * self.scale, min(portion.row1 * self.scale, height)
            decoder.decode(portion.pixels, row1 - row0, width, portion.out)

        yield flow.Steps(step, unit=picture.width)
        if not decoder.all_right():
            most = len(self.rows) - 1
            raise InvalidArgument(f"indices holds an index of {most + 1} or more; allowed: 0 to {most}")
