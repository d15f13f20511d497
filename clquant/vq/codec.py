"""The vector-quantization image codec: train a codebook, encode, decode, compress, decompress."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from clquant import files, images, params
from clquant.estimator import Estimator
from clquant.runtime import (
    Array,
    Buffer,
    CommandQueue,
    FormatError,
    InvalidArgument,
    InvalidType,
    Progress,
    ProgressCallback,
    Scope,
    Session,
    open_session,
)
from clquant.vq import container, decoder, training
from clquant.vq.blocks import BlockShape, check_block_shape
from clquant.vq.search import MAX_CODEBOOK, Search, index_dtype

Table = npt.NDArray[np.integer[Any]] | Array
Pixels = npt.NDArray[np.uint8] | Array
_BAND_BLOCKS = 1 << 20


class VQCodec(Estimator):
    """A vector-quantization image codec (Gray 1984) with LBG codebooks (Linde, Buzo and Gray 1980).

    A picture is cut into blocks; each is replaced by the index of the nearest codeword of a codebook that was trained
    on pictures. Edge blocks are completed by repeating the last row and column. All arithmetic is exact in integers, so
    codebooks, indices and files are the same bits on every device.

    Parameters
    ----------
    codebook_size : int
        N, 2..65536.
    block_shape : pair of int
        (rows, columns) of a block in pixels, 1..32 each and 256 pixels at most.
    init : {"k-means++", "splitting"}
        The start of the training: D^2 sampling (Arthur and Vassilvitskii 2007), or LBG's own splitting of one
        codeword into N.
    max_iter : int
        Most Lloyd steps in a row, at least 1.
    refine : int
        Most rounds in which crowded codewords move to where the error is largest (after Fritzke's LBG-U and breathing
        k-means); a round that gains nothing is undone. 0 is plain LBG.
    random_state : int
        Seed, 0..2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the device arrays' own queue, else the best device.

    Attributes
    ----------
    codebook_ : ndarray of uint8, shape (N, p, q) or (N, p, q, C)
        C is 3 or 4.
    mse_ : float
        Mean squared error per component over the training blocks, weighted.
    n_iter_ : int
        Lloyd steps that were run.
    """

    codebook_: npt.NDArray[np.uint8]
    mse_: float
    n_iter_: int

    def __init__(
        self,
        codebook_size: int = 256,
        block_shape: tuple[int, int] = (4, 4),
        *,
        init: str = "k-means++",
        max_iter: int = 100,
        refine: int = 30,
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.block_shape = block_shape
        self.init = init
        self.max_iter = max_iter
        self.refine = refine
        self.random_state = random_state
        self.queue = queue

    def fit(
        self,
        images_: images.ImageLike | Sequence[images.ImageLike],
        sample_weight: Sequence[Any] | npt.NDArray[Any] | None = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> VQCodec:
        """Train the codebook.

        Parameters
        ----------
        images_ : image or list of images
            Of any sizes, all of the same number of channels.
        sample_weight : sequence, optional
            One entry a picture (a single picture: the entry itself or a list of it): a non-negative number, or an array
            (block rows, block columns) of them. Weights are rounded to 1/65535 of the largest.
        progress : callable, optional
            Called with (done, total); returning False stops the training and leaves the codec as it was.

        Returns
        -------
        VQCodec
            Itself.

        Raises
        ------
        InvalidArgument, InvalidType
            If a parameter or picture is not allowed.
        StoppedError
            If `progress` returned False.

        Notes
        -----
        Codewords are whole numbers throughout: a Lloyd step assigns each block to its nearest codeword, lowest index
        on ties, and moves each codeword to the rounded mean (halves up) of its blocks, which is the best uint8 codeword
        for them. A codeword without blocks moves to the worst-coded block. The codebook is sorted by brightness.
        """
        size = params.integer("codebook_size", self.codebook_size, 2, MAX_CODEBOOK)
        block = check_block_shape(self.block_shape)
        plan = training.Plan(
            size=size,
            init=params.choice("init", self.init, ("k-means++", "splitting")),
            max_iter=params.integer("max_iter", self.max_iter, 1),
            refine=params.integer("refine", self.refine, 0),
            seed=params.seed(self.random_state),
        )
        pictures = images.read_many(images_)
        channels = {p.channels for p in pictures}
        if len(channels) > 1:
            raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
        shape = BlockShape(*block, channels.pop())
        tables = [shape.table_shape(p.height, p.width) for p in pictures]
        weights = training.check_weights(sample_weight, tables)
        session = open_session(self.queue, images.device_arrays(pictures))
        reporter = Progress(params.callback("progress", progress))
        trained = training.train(session, pictures, weights, shape, plan, reporter)
        self.codebook_ = trained.codebook.reshape(size, *shape.codeword_shape())
        self.mse_, self.n_iter_ = trained.mse, trained.n_iter
        return self

    def _shape(self) -> BlockShape:
        self._check_fitted("codebook_")
        codebook = self.codebook_
        good = isinstance(codebook, np.ndarray) and codebook.dtype == np.uint8 and codebook.ndim in (3, 4)
        if not good or not 2 <= len(codebook) <= MAX_CODEBOOK:
            raise InvalidType("codebook_ is no uint8 array of shape (N, p, q) or (N, p, q, C) with N from 2 to 65536")
        check_block_shape(codebook.shape[1:3])
        channels = codebook.shape[3] if codebook.ndim == 4 else 1
        if channels not in (1, 3, 4):
            raise InvalidArgument(f"codebook_ has {channels} channels; allowed: 1, 3 or 4")
        return BlockShape(codebook.shape[1], codebook.shape[2], channels)

    def _rows(self) -> npt.NDArray[np.uint8]:
        return np.ascontiguousarray(self.codebook_).reshape(len(self.codebook_), -1)

    def _read(self, image: images.ImageLike, shape: BlockShape) -> images.Picture:
        picture = images.read(image)
        if picture.channels != shape.channels:
            raise InvalidArgument(f"image has {picture.channels} channels; this codebook is for {shape.channels}")
        return picture

    def encode(self, image: images.ImageLike) -> Table:
        """The index of the nearest codeword of every block, by Euclidean distance, the lowest index on ties.

        Parameters
        ----------
        image : image
            Of the codebook's channels.

        Returns
        -------
        ndarray or device array, shape (ceil(H / p), ceil(W / q))
            uint8 for N up to 256, else uint16. On the device, on the same queue, if `image` is there.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType, FileError
            If the image is not allowed or cannot be read.
        """
        shape = self._shape()
        picture = self._read(image, shape)
        session = open_session(self.queue, images.device_arrays([picture]))
        table = shape.table_shape(picture.height, picture.width)
        dtype = index_dtype(len(self.codebook_))
        with session.scope() as scope:
            search = Search(session, scope, self._rows(), shape)
            if picture.on_device:
                result = session.new_array(table, dtype)
                for row0, row1 in picture.bands(session, multiple_of=shape.rows):
                    with session.scope() as inner:
                        band = picture.upload(session, inner, row0, row1)
                        offset = row0 // shape.rows * table[1]
                        search.run(band, row1 - row0, picture.width, images.buffer_of(result), offset)
                return result
            bands = picture.bands(session, multiple_of=shape.rows)
            parts = [self._encode_band(session, search, picture, row0, row1) for row0, row1 in bands]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _encode_band(
        self, session: Session, search: Search, picture: images.Picture, row0: int, row1: int
    ) -> npt.NDArray[np.integer[Any]]:
        shape = self._shape()
        table = shape.table_shape(row1 - row0, picture.width)
        dtype = index_dtype(len(self.codebook_))
        with session.scope() as scope:
            indices = scope.empty(table[0] * table[1] * dtype.itemsize)
            search.run(picture.upload(session, scope, row0, row1), row1 - row0, picture.width, indices)
            return session.download(indices, table, dtype)

    def decode(self, indices: Table, shape: tuple[int, int] | None = None) -> Pixels:
        """The picture of an index table.

        Parameters
        ----------
        indices : ndarray of integers or device array, shape (rows, columns)
            Each below N. On the device of the dtype that `encode` gives.
        shape : pair of int, optional
            True (height, width); default: all of every block.

        Returns
        -------
        ndarray or device array of uint8, shape (H, W) or (H, W, C)
            On the device, on the same queue, if `indices` is there.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument, InvalidType
            If an index names no codeword, or `shape` does not fit the table.
        """
        block = self._shape()
        size = len(self.codebook_)
        table = self._check_table(indices)
        height, width = self._check_size(shape, table, block)
        session = open_session(self.queue, [indices] if isinstance(indices, Array) else [])
        out = (height, width) if block.channels == 1 else (height, width, block.channels)
        with session.scope() as scope:
            codebook = scope.copy_of(self._rows())
            if isinstance(indices, Array):
                source = _packed(session, scope, indices)
                decoder.check_indices(session, source, table[0] * table[1], size, "indices")
                result = session.new_array(out, np.uint8)
                decoder.decode(session, source, codebook, size, block, height, width, images.buffer_of(result))
                return result
            narrow = np.ascontiguousarray(indices).astype(index_dtype(size))
            parts = []
            for row0, row1 in images.row_bands(height, width * block.channels, session, block.rows):
                rows = narrow[row0 // block.rows : -(-row1 // block.rows)]
                with session.scope() as inner:
                    image = inner.empty((row1 - row0) * width * block.channels)
                    decoder.decode(session, inner.copy_of(rows), codebook, size, block, row1 - row0, width, image)
                    parts.append(session.download(image, (row1 - row0, *out[1:]), np.uint8))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check_table(self, indices: Any) -> tuple[int, int]:
        size = len(self.codebook_)
        if not isinstance(indices, np.ndarray | Array):
            raise InvalidType(f"indices is {params.shown(indices)}; allowed: a NumPy array or a device array")
        if len(indices.shape) != 2 or 0 in indices.shape:
            raise InvalidArgument(f"indices has the shape {indices.shape}; allowed: (rows, columns), at least one each")
        if isinstance(indices, Array):
            if indices.dtype != index_dtype(size) or not indices.flags.c_contiguous:
                raise InvalidType(
                    f"indices is a device array of {indices.dtype}; allowed: C-contiguous {index_dtype(size)}"
                )
        elif not np.issubdtype(indices.dtype, np.integer):
            raise InvalidType(f"indices is {params.shown(indices)}; allowed: integers")
        elif int(indices.min()) < 0 or int(indices.max()) >= size:
            raise InvalidArgument(
                f"indices holds values from {int(indices.min())} to {int(indices.max())}; allowed: 0 to {size - 1}"
            )
        return indices.shape[0], indices.shape[1]

    @staticmethod
    def _check_size(shape: Any, table: tuple[int, int], block: BlockShape) -> tuple[int, int]:
        whole = table[0] * block.rows, table[1] * block.columns
        if shape is None:
            return whole
        if not isinstance(shape, tuple | list) or len(shape) != 2:
            raise InvalidType(f"shape is {params.shown(shape)}; allowed: a pair (height, width)")
        height, width = (params.integer(f"shape[{i}]", side, 1) for i, side in enumerate(shape))
        if block.table_shape(height, width) != table:
            raise InvalidArgument(
                f"shape is ({height}, {width}); allowed: what a table of {table} covers, up to {whole}"
            )
        return height, width

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
        header = container.Header(
            kind=container.PICTURE if embed else container.PICTURE_OF_SHARED,
            channels=shape.channels,
            block_shape=(shape.rows, shape.columns),
            codebook_size=len(self.codebook_),
            shape=(picture.height, picture.width),
            state_size=0,
            codebook_id=container.codebook_id(self.codebook_),
        )
        writer = container.Writer(file, header, self.codebook_ if embed else None)
        session = open_session(self.queue, images.device_arrays([picture]))
        most_rows = max(1, _BAND_BLOCKS // header.table_shape[1]) * shape.rows
        with session.scope() as scope:
            search = Search(session, scope, self._rows(), shape)
            for top, bottom in picture.bands(session, shape.channels, shape.rows):
                for row0 in range(top, bottom, most_rows):
                    writer.write(self._encode_band(session, search, picture, row0, min(row0 + most_rows, bottom)))
        writer.close()

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
        tables = [table for table, _ in reader.bands()]
        return cast(npt.NDArray[np.uint8], codec.decode(np.concatenate(tables), header.shape))

    def _holding(self, header: container.Header, codebook: npt.NDArray[np.uint8] | None) -> VQCodec:
        """A codec with the codebook of a file: the file's own, else this codec's where it is the one that is named."""
        if codebook is None:
            self._check_fitted("codebook_")
            if container.codebook_id(self.codebook_) != header.codebook_id:
                raise InvalidArgument(
                    f"this .clvq file names the shared codebook {header.codebook_id.hex()}; this codec holds "
                    f"{container.codebook_id(self.codebook_).hex()}"
                )
            codebook = self.codebook_
        codec = VQCodec(header.codebook_size, header.block_shape, queue=self.queue)
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

    @classmethod
    def load(cls, path: files.PathLike, *, queue: CommandQueue | None = None) -> VQCodec:
        """A codec with the codebook of a .clvq file: one that `save` wrote, or a picture that carries its codebook.

        Parameters
        ----------
        path : path-like
        queue : pyopencl.CommandQueue, optional

        Returns
        -------
        VQCodec

        Raises
        ------
        FileError
            If the file cannot be read.
        FormatError
            If it is damaged or holds no codebook.
        """
        reader = container.Reader(io.BytesIO(files.read_bytes(path)))
        if reader.codebook is None:
            raise FormatError("this .clvq file names a shared codebook and does not hold it")
        if reader.header.kind == container.CODEBOOK:
            reader.check_end()
        codec = cls(reader.header.codebook_size, reader.header.block_shape, queue=queue)
        codec.codebook_ = reader.codebook
        return codec


def _packed(session: Session, scope: Scope, array: Array) -> Buffer:
    """A device array's own buffer, or a copy where the array begins inside it."""
    if array.offset == 0:
        return images.buffer_of(array)
    buffer = scope.empty(array.nbytes)
    session.copy(buffer, images.buffer_of(array), array.nbytes, array.offset)
    return buffer
