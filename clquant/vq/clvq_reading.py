"""Pictures from .clvq files, a chunk of bands at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.runtime import CommandQueue, FormatError, HostResult, InvalidType, Progress, Session, open_session
from clquant.vq import container
from clquant.vq.bands import BandCoder, BandLayout, CodedBand
from clquant.vq.clvq import chunks
from clquant.vq.contexts import ContextTables, open_contexts
from clquant.vq.decode import Decoder
from clquant.vq.encode import index_dtype
from clquant.vq.model_coding import decode_model


def read_picture(
    reader: container.Reader,
    codebook: npt.NDArray[np.uint8],
    queue: CommandQueue | None,
    rows: tuple[int, int],
    progress: Progress,
) -> npt.NDArray[np.uint8]:
    """Some rows of the picture of a file.

    Parameters
    ----------
    reader : Reader
        Just opened, of a picture.
    codebook : ndarray of uint8, shape (N, K)
    queue : pyopencl.CommandQueue or None
    rows : tuple of int
        Half-open range in pixels; only bands that have some of them are decoded.
    progress : Progress
        Told of blocks, also of those that are skipped.

    Returns
    -------
    ndarray of uint8, shape (rows, W) or (rows, W, C)

    Raises
    ------
    FormatError
        If the bytes are damaged or truncated.
    """
    header, session = reader.header, open_session(queue)
    layout, block = header.layout, header.block
    height, width = header.shape
    band_pixels = layout.rows * block.rows
    first, end = rows[0] // band_pixels, -(-rows[1] // band_pixels)
    top, bottom = first * band_pixels, min(end * band_pixels, height)
    shape = (bottom - top, width) if block.channels == 1 else (bottom - top, width, block.channels)
    blocks = layout.table_rows * layout.columns
    bands = reader.bands()
    own = header.kind == container.PICTURE_OF_SHARED
    with session.scope() as scope, open_contexts(session, codebook, block, height * width, own) as contexts:
        model = decode_model(session, header, reader.model)
        tables = contexts.tables(scope, model)
        decoder = Decoder(session, scope, codebook[contexts.order], block, trusted=True)
        decoding = _Decoding(session, tables, layout, decoder)
        for _ in range(first):
            next(bands)
        whole = HostResult(session, shape, np.uint8)
        for begin, stop in chunks(session, layout, block, progress.wanted, first, end):
            coded = [next(bands) for _ in range(begin, stop)]
            place = begin * band_pixels - top, min(stop * band_pixels, height) - top
            decoding.run(coded, stop, whole, place, width)
            progress.report(min(stop * layout.rows, layout.table_rows) * layout.columns, blocks)
        for _ in bands:
            pass
        if end < layout.count:
            progress.report(blocks, blocks)
        return whole.array()[rows[0] - top : rows[1] - top]


@dataclasses.dataclass(frozen=True)
class _Decoding:
    """Bands to pixels."""

    session: Session
    tables: ContextTables
    layout: BandLayout
    decoder: Decoder

    def run(self, coded: Sequence[CodedBand], stop: int, whole: HostResult, place: tuple[int, int], width: int) -> None:
        """Decode the bands before `stop` into rows of the result.

        Raises
        ------
        FormatError
            If they do not decode.
        """
        session, layout = self.session, self.layout
        rows = min(stop * layout.rows, layout.table_rows) - (stop - len(coded)) * layout.rows
        with session.scope() as scope:
            indices = scope.empty(rows * layout.columns * index_dtype(self.tables.shape.size).itemsize)
            wrong = scope.zeros(4)
            BandCoder(session, self.tables, layout).decode(scope, coded, rows, indices, wrong)
            image = whole.room(scope, *place)
            self.decoder.decode(indices, place[1] - place[0], width, image)
            if session.download(wrong, 1, np.uint32)[0]:
                raise FormatError("a band of a .clvq file does not end where its words do")
            whole.store(scope, *place, image)


def check_rows(rows: Any, height: int) -> tuple[int, int]:
    """The pixel rows that a person wants, half-open.

    Parameters
    ----------
    rows : pair of int or None
        None for all.
    height : int
        Of the picture.

    Raises
    ------
    InvalidArgument, InvalidType
        If they are no rows of the picture.
    """
    if rows is None:
        return 0, height
    if not isinstance(rows, tuple | list) or len(rows) != 2:
        raise InvalidType(f"rows is {params.shown(rows)}; allowed: a pair (first, end)")
    first = params.integer("rows[0]", rows[0], 0, height - 1)
    return first, params.integer("rows[1]", rows[1], first + 1, height)
