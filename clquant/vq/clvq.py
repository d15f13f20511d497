"""Whole pictures to .clvq files and back: the verbs of `VQCodec` that deal in bytes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import images, params
from clquant.images import files
from clquant.runtime import (
    Buffer,
    FormatError,
    InvalidArgument,
    InvalidType,
    NotFittedError,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
)
from clquant.vq import container
from clquant.vq.blocks import BlockShape
from clquant.vq.blockset import block_rows
from clquant.vq.coder import BlockCoder, band_bytes
from clquant.vq.encode import Search, index_dtype
from clquant.vq.pipes import Sink, Source
from clquant.vq.sidematch import SideMatch


@dataclasses.dataclass(frozen=True)
class _BandCoder:
    """Codes bands of a .clvq file, which are cut once more into what the device takes.

    Attributes
    ----------
    session : Session
    picture : Picture
    shape : BlockShape
    search : Search
    matcher : SideMatch or None
    tolerance : int
        For the matcher.
    size : int
        Codewords.
    progress : Progress
        Told of blocks, but not of the last of a band, which are done when they are written.
    """

    session: Session
    picture: images.Picture
    shape: BlockShape
    search: Search
    matcher: SideMatch | None
    tolerance: int
    size: int
    progress: Progress

    def code(self, first: int, end: int) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.uint16] | None]:
        """The table of block rows ``first..end`` and its escapes, as `container.Writer.write` takes them."""
        rows, columns = self.shape.table_shape(self.picture.height, self.picture.width)
        row_bytes = self.shape.rows * band_bytes(self.picture, self.shape)
        over = 0 if self.matcher is None else 1  # a part begins with the last row of the one above, which is known
        most = max(self.session.limits.max_alloc // row_bytes, 1 + over)
        chosen: npt.NDArray[np.integer[Any]] = np.empty((end - first, columns), index_dtype(self.size))
        symbols = np.empty(chosen.shape, np.uint8)
        for top in range(0, max(end - first - over, 1), most - over):
            part = slice(top, min(top + most, end - first))
            known = over if top else 0
            if top:
                self.progress.report((first + top + known) * columns, rows * columns)
            with self.session.scope() as scope:
                pixels, height = self._upload(scope, first + part.start, first + part.stop)
                nearest = np.empty_like(chosen[part])
                indices = scope.empty(nearest.nbytes)
                self.search.run(pixels, height, self.picture.width, indices)
                self.session.download_into(nearest, indices)
                if self.matcher is not None:
                    nearest[:known] = chosen[top : top + known]
                    blocks = block_rows(self.session, scope, pixels, height, self.picture.width, self.shape)
                    told = self.progress.part((first + top + known) * columns, rows * columns)
                    ranks, nearest = self.matcher.encode(blocks, nearest, self.tolerance, told)
                    symbols[top + known : part.stop] = ranks[known:]
            chosen[part] = nearest
        return (chosen, None) if self.matcher is None else (symbols, chosen[symbols == container.ESCAPE])

    def _upload(self, scope: Scope, first: int, end: int) -> tuple[Buffer, int]:
        """Pixels of block rows, and how many pixel rows they are."""
        row0, row1 = first * self.shape.rows, min(end * self.shape.rows, self.picture.height)
        return self.picture.upload(self.session, scope, row0, row1), row1 - row0


class ClvqCoder(BlockCoder):
    """Compressing, decompressing, saving and loading, on top of encoding and decoding."""

    state_size: int
    tolerance: float

    def compress(
        self, image: images.ImageLike, *, embed_codebook: bool = True, progress: ProgressCallback | None = None
    ) -> bytes:
        """Encode an image to the bytes of a .clvq file.

        Parameters
        ----------
        image : image
            Of the codebook's channels.
        embed_codebook : bool
            Whether the codebook goes along; without it the file names it, to be read by a codec that holds it.
        progress : callable, optional
            Called with (blocks done, blocks); returning False stops the job.

        Returns
        -------
        bytes

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError
            As `encode`.
        StoppedError
            If `progress` returned False.
        """
        file = io.BytesIO()
        self.compress_to(file, image, embed_codebook=embed_codebook, progress=progress)
        return file.getvalue()

    def compress_to(
        self,
        file: Sink,
        image: images.ImageLike,
        *,
        embed_codebook: bool = True,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Encode an image to a binary file or pipe, band by band.

        Parameters
        ----------
        file : binary file
            Anything with `write`; raw files that take a part of what they are given are given the rest again.
        image : image
        embed_codebook, progress
            As for `compress`.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError
            As `encode`; also if `file` takes no bytes, or cannot be written.
        StoppedError
            If `progress` returned False; what was written by then is no whole file.
        """
        report = Progress(params.callback("progress", progress))
        embed = params.boolean("embed_codebook", embed_codebook)
        if not hasattr(file, "write"):
            raise InvalidType(f"file is {params.shown(file)}; allowed: a binary file open for writing")
        shape = self._shape()
        picture = self._read(image, shape)
        state_size, mean_tolerance = self._check_compression(picture, shape)
        header = container.Header(
            kind=container.PICTURE if embed else container.PICTURE_OF_SHARED,
            channels=shape.channels,
            block_shape=(shape.rows, shape.columns),
            codebook_size=len(self.codebook_),
            shape=(picture.height, picture.width),
            state_size=state_size,
            codebook_id=container.codebook_id(self.codebook_),
        )
        writer = container.Writer(file, header, self.codebook_ if embed else None)
        session = open_session(self.queue, images.device_arrays([picture]))
        tolerance = int(mean_tolerance * shape.components) if state_size else 0
        with session.scope() as scope:
            search = Search(session, scope, self._rows(), shape)
            matcher = SideMatch(session, scope, self._rows(), shape, state_size) if state_size else None
            coder = _BandCoder(session, picture, shape, search, matcher, tolerance, len(self.codebook_), report)
            # The file's bands are the picture's alone: what side match may choose depends on where they begin.
            table_rows, columns = header.table_shape
            rows = container.MAX_BAND_BLOCKS // columns
            for first in range(0, table_rows, rows):
                end = min(first + rows, table_rows)
                writer.write(*coder.code(first, end))
                report.report(end * columns, table_rows * columns)
        writer.close()

    def _check_compression(self, picture: images.Picture, shape: BlockShape) -> tuple[int, float]:
        """State size and tolerance, where this picture may be compressed with them."""
        size = len(self.codebook_)
        state_size = params.integer("state_size", self.state_size, 0, min(container.MAX_STATE_SIZE, size))
        tolerance = params.real("tolerance", self.tolerance, 0, 65025)
        if max(picture.height, picture.width) > container.MAX_SIDE:
            raise InvalidArgument(
                f"image is {picture.height} x {picture.width} pixels; allowed: {container.MAX_SIDE} a side"
            )
        rows, columns = shape.table_shape(picture.height, picture.width)
        if state_size and rows * columns * size > container.MAX_SIDE_MATCHES:
            raise InvalidArgument(
                f"state_size is {state_size}; allowed: 0 where blocks times codewords ({rows * columns} x {size}) are "
                f"over {container.MAX_SIDE_MATCHES}"
            )
        return state_size, tolerance

    def decompress(
        self, data: bytes, *, max_pixels: int = container.MAX_PIXELS, progress: ProgressCallback | None = None
    ) -> npt.NDArray[np.uint8]:
        """The picture in the bytes of a .clvq file.

        Parameters
        ----------
        data : bytes
        max_pixels : int
            Files that claim more pixels are refused; default 2^29.
        progress : callable, optional
            Called with (blocks done, blocks); returning False stops the job.

        Returns
        -------
        ndarray of uint8, shape (H, W) or (H, W, C)

        Raises
        ------
        FormatError
            If the bytes are damaged, truncated, or no .clvq picture, claim more than `max_pixels`, or do not fit the
            shared codebook that they name.
        NotFittedError, InvalidArgument
            If the file names a shared codebook and this codec holds none, or another.
        StoppedError
            If `progress` returned False.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"data is {params.shown(data)}; allowed: bytes")
        whole = data if isinstance(data, bytes) else bytes(data)  # of views that are not contiguous too
        return self.decompress_from(io.BytesIO(whole), max_pixels=max_pixels, progress=progress)

    def decompress_from(
        self, file: Source, *, max_pixels: int = container.MAX_PIXELS, progress: ProgressCallback | None = None
    ) -> npt.NDArray[np.uint8]:
        """The picture in a .clvq file or pipe, read band by band.

        Parameters
        ----------
        file : binary file
            Anything with `read`.
        max_pixels, progress
            As for `decompress`.

        Returns
        -------
        ndarray of uint8, shape (H, W) or (H, W, C)

        Raises
        ------
        FormatError, NotFittedError, InvalidArgument, StoppedError
            As `decompress`.
        InvalidType, FileError
            If `file` gives no bytes, or cannot be read.
        """
        if not hasattr(file, "read"):
            raise InvalidType(f"file is {params.shown(file)}; allowed: a binary file open for reading")
        report = Progress(params.callback("progress", progress))
        reader = container.Reader(file, params.integer("max_pixels", max_pixels, 1))
        header = reader.header
        if header.kind == container.CODEBOOK:
            raise FormatError("this .clvq file holds a codebook and no picture; VQCodec.load reads it")
        codec = self._holding(header, reader.codebook)
        total = header.table_shape[0] * header.table_shape[1]
        tables: list[npt.NDArray[np.uint16]] = []
        with contextlib.ExitStack() as stack:
            matcher = codec._matcher(stack, header.state_size) if header.state_size else None
            done = 0
            for symbols, escapes in reader.bands():
                if done:
                    report.report(done, total)
                table = symbols
                if matcher is not None and escapes is not None:
                    table = matcher.decode(symbols, escapes, report.part(done, total))
                tables.append(table)
                done += table.size
        picture = codec.decode(np.concatenate(tables), header.shape)
        report.report(total, total)
        return picture

    def _matcher(self, stack: contextlib.ExitStack, state_size: int) -> SideMatch:
        """A side matcher of this codec's codebook for as long as the stack holds it."""
        session = open_session(self.queue)
        return SideMatch(session, stack.enter_context(session.scope()), self._rows(), self._shape(), state_size)

    def _holding(self, header: container.Header, codebook: npt.NDArray[np.uint8] | None) -> ClvqCoder:
        """A codec with the codebook of a file: the file's own, else this codec's where it is the one that is named."""
        if codebook is None:
            named = f"this .clvq file names the shared codebook {header.codebook_id.hex()}"
            if not hasattr(self, "codebook_"):
                raise NotFittedError(f"{named}; this codec holds none")
            held = container.codebook_id(self.codebook_)
            if held != header.codebook_id:
                raise InvalidArgument(f"{named}; this codec holds {held.hex()}")
            codebook = self.codebook_
            shape = self._shape()
            ours = len(codebook), (shape.rows, shape.columns), shape.channels
            if ours != (header.codebook_size, header.block_shape, header.channels):
                raise FormatError("the header of a .clvq file does not fit the codebook that it names")
        codec = copy.copy(self)
        codec.codebook_ = codebook
        return codec

    def save(self, path: files.PathLike) -> None:
        """Write the codebook to a .clvq file of its own.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        NotFittedError
            Before `fit`.
        FileError
            If the file cannot be written; then nothing is left of it.
        """
        shape = self._shape()
        header = container.Header(
            kind=container.CODEBOOK,
            channels=shape.channels,
            block_shape=(shape.rows, shape.columns),
            codebook_size=len(self.codebook_),
            shape=(0, 0),
            state_size=0,
            codebook_id=container.codebook_id(self.codebook_),
        )
        with files.atomic_write(path) as file:
            container.Writer(file, header, self.codebook_).close()
