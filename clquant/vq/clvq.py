"""Whole pictures to .clvq files and back: the verbs of `VQCodec` that deal in bytes."""

from __future__ import annotations

import copy
import io

import numpy as np
import numpy.typing as npt

from clquant import files, images, params
from clquant.runtime import FormatError, InvalidArgument, InvalidType, NotFittedError, open_session
from clquant.vq import container
from clquant.vq.blocks import BlockShape
from clquant.vq.blockset import block_rows
from clquant.vq.coder import BlockCoder, bands
from clquant.vq.search import Search, index_dtype
from clquant.vq.sidematch import SideMatch


class ClvqCoder(BlockCoder):
    """Compressing, decompressing, saving and loading, on top of encoding and decoding."""

    state_size: int
    tolerance: float

    def compress(self, image: images.ImageLike, *, embed_codebook: bool = True) -> bytes:
        """Encode an image to the bytes of a .clvq file.

        Parameters
        ----------
        image : image
            Of the codebook's channels.
        embed_codebook : bool
            Whether the codebook goes along; without it the file names it, to be read by a codec that holds it.

        Returns
        -------
        bytes

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError
            As `encode`.
        """
        file = io.BytesIO()
        self.compress_to(file, image, embed_codebook=embed_codebook)
        return file.getvalue()

    def compress_to(self, file: container.Sink, image: images.ImageLike, *, embed_codebook: bool = True) -> None:
        """Encode an image to a binary file or pipe, band by band.

        Parameters
        ----------
        file : binary file
            Anything with `write`.
        image : image
        embed_codebook : bool
            As for `compress`.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError
            As `encode`.
        """
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
        most_rows = container.MAX_BAND_BLOCKS // header.table_shape[1] * shape.rows
        tolerance = int(mean_tolerance * shape.components) if state_size else 0
        with session.scope() as scope:
            search = Search(session, scope, self._rows(), shape)
            matcher = SideMatch(session, scope, self._rows(), shape, state_size) if state_size else None
            for top, bottom in bands(session, picture, shape):
                for row0 in range(top, bottom, most_rows):
                    row1 = min(row0 + most_rows, bottom)
                    table = np.empty(shape.table_shape(row1 - row0, picture.width), index_dtype(len(self.codebook_)))
                    with session.scope() as inner:
                        indices = inner.empty(table.nbytes)
                        search.run(picture.upload(session, inner, row0, row1), row1 - row0, picture.width, indices)
                        session.download_into(table, indices)
                    if matcher is None:
                        writer.write(table)
                        continue
                    with session.scope() as inner:
                        band = picture.upload(session, inner, row0, row1)
                        blocks = block_rows(session, inner, band, row1 - row0, picture.width, shape)
                        writer.write(*matcher.encode(blocks, table, tolerance))
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

    def decompress(self, data: bytes, *, max_pixels: int = container.MAX_PIXELS) -> npt.NDArray[np.uint8]:
        """The picture in the bytes of a .clvq file.

        Parameters
        ----------
        data : bytes
        max_pixels : int
            Files that claim more pixels are refused; default 2^28.

        Returns
        -------
        ndarray of uint8, shape (H, W) or (H, W, C)

        Raises
        ------
        FormatError
            If the bytes are damaged, truncated, or no .clvq picture.
        NotFittedError, InvalidArgument
            If the file names a shared codebook and this codec holds none, or another.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"data is {params.shown(data)}; allowed: bytes")
        return self.decompress_from(io.BytesIO(data), max_pixels=max_pixels)

    def decompress_from(
        self, file: container.Source, *, max_pixels: int = container.MAX_PIXELS
    ) -> npt.NDArray[np.uint8]:
        """The picture in a .clvq file or pipe, read band by band.

        Parameters
        ----------
        file : binary file
            Anything with `read`.
        max_pixels : int
            As for `decompress`.

        Returns
        -------
        ndarray of uint8, shape (H, W) or (H, W, C)

        Raises
        ------
        FormatError, NotFittedError, InvalidArgument
            As `decompress`.
        """
        if not hasattr(file, "read"):
            raise InvalidType(f"file is {params.shown(file)}; allowed: a binary file open for reading")
        reader = container.Reader(file, params.integer("max_pixels", max_pixels, 1))
        header = reader.header
        if header.kind == container.CODEBOOK:
            raise FormatError("this .clvq file holds a codebook and no picture; VQCodec.load reads it")
        codec = self._holding(header, reader.codebook)
        bands = list(reader.bands())
        if not header.state_size:
            tables = [table for table, _ in bands]
        else:
            session = open_session(self.queue)
            with session.scope() as scope:
                matcher = SideMatch(session, scope, codec._rows(), codec._shape(), header.state_size)
                tables = [matcher.decode(symbols, escapes) for symbols, escapes in bands if escapes is not None]
        return codec.decode(np.concatenate(tables), header.shape)

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
