"""Codebooks in .clvq files: written alone, read from files that hold them, known again in files that name them."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import files
from clquant.runtime import CommandQueue, FormatError, InvalidArgument, NotFittedError, cached_job, open_session
from clquant.training.search import MOST_KEPT
from clquant.vq.coder import BlockCoder
from clquant.vq.coding.codebook_coding import decode_codebook, encode_codebook
from clquant.vq.container import clvq_format

if TYPE_CHECKING:
    from clquant.vq.codec import VQCodec


def write_codebook(path: files.PathLike, coder: BlockCoder) -> None:
    """Write a codebook to a file of its own."""
    coded = encode_codebook(open_session(coder.queue), coder.rows, coder.shape)
    with files.atomic_write(path) as file:
        clvq_format.Writer(file, clvq_format.Header.of(clvq_format.CODEBOOK, coder.codebook), coded)


def read_codebook(path: files.PathLike, queue: CommandQueue | None) -> npt.NDArray[np.uint8]:
    """The codebook that a file holds, beside a picture or alone; the file is checked to its end."""
    data = files.read_bytes(path)
    try:
        reader = clvq_format.Reader(io.BytesIO(data), max_pixels=None, max_codebook=None)
        codebook = _stored(reader, queue)
        if codebook is None:
            raise FormatError("this .clvq file names a shared codebook and does not hold it")
        reader.check_rest()
    except FormatError as error:
        raise FormatError(f"{params.shown(os.fspath(path))}: {error}") from error
    return codebook


def codebook_of(reader: clvq_format.Reader, codec: VQCodec) -> npt.NDArray[np.uint8]:
    """The codebook of a file's picture: the one that the file holds, else a codec's, if the file names that one."""
    stored = _stored(reader, codec.queue)
    return _shared(reader.header, codec) if stored is None else stored


def _stored(reader: clvq_format.Reader, queue: CommandQueue | None) -> npt.NDArray[np.uint8] | None:
    """The codebook that a file holds; None if it names a shared one."""
    if reader.codebook is None:
        return None
    header = reader.header
    session, coded, size, block = open_session(queue), reader.codebook, header.codebook_size, header.block
    # Pictures with the same codebook often come one after another.
    key = ("codebook", coded, size, block) if size * block.components <= MOST_KEPT else None
    with cached_job(session, key, lambda _: decode_codebook(session, coded, size, block)) as rows:
        codebook: npt.NDArray[np.uint8] = rows.reshape(size, *block.codeword_shape()).copy()
    if clvq_format.codebook_id(codebook) != header.codebook_id:
        raise FormatError("the codebook of a .clvq file is not the one that its header names")
    return codebook


def _shared(header: clvq_format.Header, codec: VQCodec) -> npt.NDArray[np.uint8]:
    """A codec's codebook, where it is the one that a file names."""
    named = f"this .clvq file names the shared codebook {header.codebook_id.hex()}"
    if not hasattr(codec, "codebook_"):
        raise NotFittedError(f"{named}; this codec holds none")
    coder = BlockCoder(codec.codebook_, codec.queue)
    held = clvq_format.codebook_id(coder.codebook)
    if held != header.codebook_id:
        raise InvalidArgument(f"{named}; this codec holds {held.hex()}")
    if (len(coder.rows), coder.shape) != (header.codebook_size, header.block):
        raise FormatError("the header of a .clvq file does not fit the codebook that it names")
    return np.ascontiguousarray(coder.codebook)
