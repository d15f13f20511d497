"""Pictures of .clvq files, a chunk of bands at a time, and the codebooks that files hold or name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import files
from clquant.runtime import (
    Buffer,
    CommandQueue,
    FormatError,
    HostResult,
    InvalidArgument,
    InvalidType,
    NotFittedError,
    Progress,
    Session,
    bound,
    cached_job,
    open_session,
)
from clquant.training.blocks import Codebook
from clquant.training.search import MOST_KEPT, index_dtype
from clquant.vq.coder import BlockCoder
from clquant.vq.coding.bands import BandCoder, CodedBand
from clquant.vq.coding.codebook_coding import decode_codebook
from clquant.vq.coding.contexts import ContextTables, open_contexts
from clquant.vq.coding.learning import decode_model
from clquant.vq.coding.repeats import Repeater
from clquant.vq.container import clvq_format
from clquant.vq.container.pipes import opened
from clquant.vq.container.writing import chunks
from clquant.vq.decode import Decoder


def read_picture(
    reader: clvq_format.Reader, codebook: Codebook, session: Session, rows: tuple[int, int], progress: Progress
) -> npt.NDArray[np.uint8]:
    """Some rows of the picture of a file."""
    codebook = codebook.reshape(len(codebook), -1)
    header, layout, repeats = reader.header, reader.layout, reader.repeats
    block, width, height = header.block, header.shape[1], header.shape[0]
    wanted = repeats.coded_row(rows[0] // block.rows), repeats.coded_row((rows[1] - 1) // block.rows)
    first, end = wanted[0] // layout.rows, wanted[1] // layout.rows + 1

    def rows_before(band: int) -> int:
        return min(repeats.end_of(band * layout.rows) * block.rows, height)

    top, bottom = rows_before(first), rows_before(end)
    shape = (bottom - top, width) if block.channels == 1 else (bottom - top, width, block.channels)
    blocks = math.prod(repeats.table_shape)
    bands = reader.bands()
    pixels, own = header.coded_pixels(repeats), header.kind == clvq_format.PICTURE_OF_SHARED
    with session.scope() as scope, open_contexts(session, codebook, block, pixels, own) as contexts:
        pairs = (contexts.shape.groups + 1) ** 2
        found_anew = session.limits.is_cpu and math.prod(repeats.coded_shape) < pairs  # fewer than a table has
        tables = contexts.tables(scope, decode_model(session, header, reader.model), with_pairs=not found_anew)
        decoder = Decoder(session, scope, codebook[contexts.order], block, trusted=True)
        repeater = Repeater(session, scope, repeats, len(codebook)) if repeats.any else None
        decoding = _Decoding(session, reader, tables, decoder, repeater, top)
        for _ in range(first):
            next(bands)
            reader.check()
        whole = HostResult(session, shape, np.uint8)
        for begin, stop in chunks(session, layout, block, progress.wanted, first, end):
            decoding.run([next(bands) for _ in range(begin, stop)], begin, whole)
            progress.report(repeats.end_of(stop * layout.rows) * repeats.table_shape[1], blocks)
        for _ in bands:
            reader.check()
        if end < layout.count:
            progress.report(blocks, blocks)
        return whole.array()[rows[0] - top : rows[1] - top]


@dataclasses.dataclass(frozen=True)
class _Decoding:
    """Bands to pixels; `top` is the picture's row with which the result begins."""

    session: Session
    reader: clvq_format.Reader
    tables: ContextTables
    decoder: Decoder
    repeater: Repeater | None
    top: int

    def run(self, coded: Sequence[CodedBand], first: int, whole: HostResult) -> None:
        """Decode bands from the one numbered `first` on into rows of the result."""
        session, layout, repeats = self.session, self.reader.layout, self.reader.repeats
        begin, end = first * layout.rows, min((first + len(coded)) * layout.rows, layout.table_rows)
        wide = index_dtype(self.tables.shape.size).itemsize
        with session.scope() as scope:
            indices = scope.empty((end - begin) * layout.columns * wide)
            wrong = scope.zeros(4)
            BandCoder(session, self.tables, layout).decode(scope, coded, end - begin, indices, wrong)
            if self.repeater is None:
                self._to_pixels(indices, (begin, end), wrong, whole)
                return
            columns = repeats.table_shape[1]
            first_row, last = repeats.end_of(begin), repeats.end_of(end)
            step = max(1, min(bound("reading.blocks") // columns, last - first_row))
            table = scope.empty(step * columns * wide)
            for row in range(first_row, last, step):
                part = row, min(row + step, last)
                self.repeater.write(indices, begin, part, table)
                self._to_pixels(table, part, wrong, whole)

    def _to_pixels(self, indices: Buffer, rows: tuple[int, int], wrong: Buffer, whole: HostResult) -> None:
        """Decode block rows, whose bands have told in `wrong` whether they decode."""
        session, tall, (height, width) = self.session, self.decoder.block.rows, self.reader.header.shape
        place = rows[0] * tall - self.top, min(rows[1] * tall, height) - self.top
        with session.scope() as scope:
            image = whole.room(scope, *place)
            self.decoder.decode(indices, place[1] - place[0], width, image)
            self.reader.check()  # while the device decodes
            if session.download(wrong, 1, np.uint32)[0]:
                raise FormatError("a band of a .clvq file does not end where its words do")
            whole.store(scope, *place, image)


def check_rows(rows: Any, height: int) -> tuple[int, int]:
    """The pixel rows that a person wants, half-open."""
    if rows is None:
        return 0, height
    if not isinstance(rows, tuple | list) or len(rows) != 2:
        raise InvalidType(f"rows is {params.shown(rows)}; allowed: a pair (first, end)")
    first = params.integer("rows[0]", rows[0], 0, height - 1)
    return first, params.integer("rows[1]", rows[1], first + 1, height)


def read_codebook(path: files.PathLike, queue: CommandQueue | None) -> Codebook:
    """The codebook that a file holds, beside a picture or alone; the file is checked to its end."""
    with opened(path) as file:
        reader = clvq_format.Reader(file, max_pixels=None, max_codebook=None)
        codebook = _stored(reader, queue)
        if codebook is None:
            raise FormatError("this .clvq file names a shared codebook and does not hold it")
        reader.check_rest()
    return codebook


def codebook_of(reader: clvq_format.Reader, shared: Codebook | None, queue: CommandQueue | None) -> Codebook:
    """The codebook of a file's picture: the one that the file holds, else a codec's, if the file names that one."""
    stored, header = _stored(reader, queue), reader.header
    if stored is not None:
        return stored
    named = f"this .clvq file names the shared codebook {header.codebook_id.hex()}"
    if shared is None:
        raise NotFittedError(f"{named}; this codec holds none")
    coder = BlockCoder(shared, queue)
    held = clvq_format.codebook_id(coder.codebook)
    if held != header.codebook_id:
        raise InvalidArgument(f"{named}; this codec holds {held.hex()}")
    if (len(coder.rows), coder.shape) != (header.codebook_size, header.block):
        raise FormatError("the header of a .clvq file does not fit the codebook that it names")
    return np.ascontiguousarray(coder.codebook)


def _stored(reader: clvq_format.Reader, queue: CommandQueue | None) -> Codebook | None:
    """The codebook that a file holds; None if it names a shared one."""
    if reader.codebook is None:
        return None
    header = reader.header
    session, coded, size, block = open_session(queue), reader.codebook, header.codebook_size, header.block
    # Pictures with the same codebook often come one after another.
    key = ("codebook", coded, size, block) if size * block.components <= MOST_KEPT else None
    with cached_job(session, key, lambda _: decode_codebook(session, coded, size, block)) as rows:
        codebook: Codebook = rows.reshape(size, *block.codeword_shape()).copy()
    if clvq_format.codebook_id(codebook) != header.codebook_id:
        raise FormatError("the codebook of a .clvq file is not the one that its header names")
    return codebook
