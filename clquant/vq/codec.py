"""The vector-quantization image codec: train a codebook, encode, decode, compress, decompress."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.estimator import Estimator
from clquant.images import HostImage, ImageLike, device_arrays, files, lazy, materialize, read_many
from clquant.images.collections import verbs_of
from clquant.images.file_sinks import About, digest_of
from clquant.images.result_files import writing
from clquant.runtime import (
    Array,
    CommandQueue,
    FormatError,
    InvalidArgument,
    InvalidType,
    NotFittedError,
    Progress,
    ProgressCallback,
    open_session,
)
from clquant.vq import container, training
from clquant.vq.blocks import BlockShape, check_block_shape
from clquant.vq.clvq import Compressor, check_rows, read_picture, stored_codebook
from clquant.vq.codebook_coding import encode_codebook
from clquant.vq.coder import BlockCoder, Image, Pixels, Table
from clquant.vq.encode import MAX_CODEBOOK
from clquant.vq.pipes import Sink, Source


class VQCodec(Estimator):
    """A vector-quantization image codec (Gray 1984) with LBG codebooks (Linde, Buzo and Gray 1980).

    A picture is cut into blocks; each is replaced by the index of the nearest codeword of a codebook that was trained
    on pictures. Edge blocks are completed by repeating the last row and column. Alpha is a channel like the others: a
    pixel of alpha 0 may come back with some. All arithmetic is exact in integers, so codebooks, indices and decoded
    pictures are the same bits on every device.

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
        Most Lloyd steps after the rounds, at least 1.
    refine : int
        Rounds of five annealed steps between the start and the last Lloyd steps: noise on the codewords that fades
        away, while a quarter more codewords than wanted merge; of ten on all blocks where these are more than 256 a
        codeword. 0 is plain LBG.
    state_size : int
        For `compress`: codewords in a side-match state codebook (Kim 1992), those that are likeliest between the blocks
        above and to the left, 1..255 and at most N. 0 is plain VQ.
    tolerance : float
        With side match: how much mean squared error per component a block may gain for a shorter code, by a codeword of
        its state codebook. With 0.0 the file is that of plain VQ, whose codes depend on the neighbours too.
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

    stream_method = "encode"
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
        refine: int = 20,
        state_size: int = 0,
        tolerance: float = 0.0,
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.block_shape = block_shape
        self.init = init
        self.max_iter = max_iter
        self.refine = refine
        self.state_size = state_size
        self.tolerance = tolerance
        self.random_state = random_state
        self.queue = queue

    def fit(
        self,
        images: ImageLike | Sequence[ImageLike],
        sample_weight: Sequence[Any] | npt.NDArray[Any] | None = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> VQCodec:
        """Train the codebook.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Of any sizes, all of the same number of channels. Of Dask arrays the workers of a cluster find the sums.
        sample_weight : sequence, optional
            One entry per picture: a non-negative number, or an array (block rows, block columns) of them. Weights are
            rounded to 1/4095 of the largest.
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
        for them. Codewords without blocks move to the worst-coded blocks of other codewords. The rounds are stochastic
        relaxation (Zeger, Vaisey and Gersho 1992) with merges of nearest pairs (Equitz 1989); all but the last of them
        are trained on samples of 64 and 256 blocks per codeword. The codebook is sorted by brightness.
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
        given, reporter = materialize(images), Progress(params.callback("progress", progress))
        listed = given if isinstance(given, list | tuple) else [given]
        for collection in filter(None, map(verbs_of, listed)):
            trained, shape = collection.fit_codec(self, listed, sample_weight, plan, reporter)
            return self._keep(trained, shape)
        pictures = read_many(given)
        channels = {p.channels for p in pictures}
        if len(channels) > 1:
            raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
        shape = BlockShape(*block, channels.pop())
        tables = [shape.table_shape(p.height, p.width) for p in pictures]
        weights = training.check_weights(sample_weight, tables)
        session = open_session(self.queue, device_arrays(pictures))
        return self._keep(training.train(session, pictures, weights, shape, plan, reporter), shape)

    def _keep(self, trained: training.Trained, shape: BlockShape) -> VQCodec:
        self.codebook_ = trained.codebook.reshape(len(trained.codebook), *shape.codeword_shape())
        self.mse_, self.n_iter_ = trained.mse, trained.n_iter
        return self

    @overload
    def encode(self, image: Array, *, progress: ProgressCallback | None = None) -> Array: ...
    @overload
    def encode(
        self,
        image: HostImage,
        *,
        progress: ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> npt.NDArray[np.integer[Any]]: ...
    def encode(
        self,
        image: ImageLike,
        *,
        progress: ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> Table:
        """The index of the nearest codeword of every block, by Euclidean distance, the lowest index on ties.

        Parameters
        ----------
        image : image
            Of the codebook's channels; a Dask array gives a lazy one. Lazy images (zarr, h5py, `numpy.memmap`, a TIFF
            in tiles; see `clquant.images.lazy`) are read in parts.
        progress : callable, optional
            Called with (blocks done, blocks); returning False stops the job.
        out : object or path-like, optional
            Gets the table, of an image that is not on the device: with ``shape`` and ``__setitem__`` of rows, or a path
            that ends in ``.zarr`` or ``.tif``.
        memory : int or str, optional
            Host memory that a lazy image may take, such as ``"1 GiB"``; default 512 MiB.
        resume : bool
            With a ``.zarr`` path as `out`: keep what a job that is stopped has done, and go on with what an earlier one
            of the same image and codebook has kept.

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
        StoppedError
            If `progress` returned False.
        """
        report = Progress(params.callback("progress", progress))
        coder = self._coder()
        collection = verbs_of(image)
        if collection is not None:
            return collection.encode(image, self)  # type: ignore[no-any-return]
        with writing(out, self._about("encode", resume)) as sink:
            return coder.encode(coder.read(image, sink, memory), report)

    @overload
    def decode(
        self,
        indices: Array,
        shape: tuple[int, ...] | list[int] | None = None,
        *,
        progress: ProgressCallback | None = None,
    ) -> Array: ...
    @overload
    def decode(
        self,
        indices: npt.NDArray[np.integer[Any]] | str | os.PathLike[str],
        shape: tuple[int, ...] | list[int] | None = None,
        *,
        progress: ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> Image: ...
    def decode(
        self,
        indices: Table | str | os.PathLike[str],
        shape: tuple[int, ...] | list[int] | None = None,
        *,
        progress: ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> Pixels:
        """The picture of an index table.

        Parameters
        ----------
        indices : ndarray of integers or device array, shape (rows, columns)
            Each below N. On the device of the dtype that `encode` gives; a Dask array gives a lazy picture. Tables
            elsewhere (zarr, h5py, `numpy.memmap`, the path of a zarr or of a TIFF in tiles) are read in parts.
        shape : sequence of int, optional
            True (height, width), or an image's whole (height, width, channels); default: all of every block.
        progress : callable, optional
            Called with (blocks done, blocks); returning False stops the job.
        out : object or path-like, optional
            Gets the picture of a table that is not on the device, as for `encode`.
        memory : int or str, optional
            Host memory for parts, if the table is elsewhere or `out` is given; default 512 MiB.
        resume : bool
            As for `encode`.

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
        StoppedError
            If `progress` returned False.
        """
        report, coder = Progress(params.callback("progress", progress)), self._coder()
        collection = verbs_of(indices)
        if collection is not None:
            return collection.decode(indices, self, shape)  # type: ignore[no-any-return]
        bound = lazy.memory_bytes(memory)
        if isinstance(indices, Array) and out is not None:
            raise InvalidArgument("out is given with a device array; allowed: without, the result stays on the device")
        if isinstance(indices, str | os.PathLike):
            found = lazy.opened(os.fsdecode(indices))
            if found is None:
                raise InvalidType(
                    f"indices is {params.shown(indices)}; allowed: the path of a zarr or of a TIFF in tiles"
                )
            indices = found
        with writing(out, self._about("decode", resume)) as sink:
            return coder.decode(indices, shape, report, sink, bound)

    def compress(
        self,
        image: ImageLike,
        *,
        embed_codebook: bool = True,
        progress: ProgressCallback | None = None,
        memory: Any = None,
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
        memory : int or str, optional
            Host memory for the parts of a lazy image, beside its table of indices; default 512 MiB.

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
        self.compress_to(file, image, embed_codebook=embed_codebook, progress=progress, memory=memory)
        return file.getvalue()

    def compress_to(
        self,
        file: Sink,
        image: ImageLike,
        *,
        embed_codebook: bool = True,
        progress: ProgressCallback | None = None,
        memory: Any = None,
    ) -> None:
        """Encode an image to a binary file or pipe, a chunk of bands at a time.

        Parameters
        ----------
        file : binary file
            Anything with `write`; raw files that take a part of what they are given are given the rest again.
        image : image
        embed_codebook, progress, memory
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
        coder = self._coder()
        picture = coder.read(image, memory=memory)
        state_size = params.integer("state_size", self.state_size, 0, min(container.MAX_STATE_SIZE, len(coder.rows)))
        tolerance = params.real("tolerance", self.tolerance, 0, 65025)
        compressor = Compressor(coder, state_size, int(tolerance * coder.shape.components))
        compressor.write(file, picture, embed, report)

    def decompress(
        self,
        data: bytes,
        *,
        max_pixels: int = container.MAX_PIXELS,
        rows: tuple[int, int] | None = None,
        progress: ProgressCallback | None = None,
    ) -> npt.NDArray[np.uint8]:
        """The picture in the bytes of a .clvq file.

        Parameters
        ----------
        data : bytes
        max_pixels : int
            Files that claim more pixels are refused; default 2^29.
        rows : pair of int, optional
            (first, end), the pixel rows to decode, half-open; default all. Only bands that have
            some of them are decoded.
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
            If the file names a shared codebook and this codec holds none, or another; if `rows` are not in the picture.
        StoppedError
            If `progress` returned False.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"data is {params.shown(data)}; allowed: bytes")
        whole = data if isinstance(data, bytes) else bytes(data)  # of views that are not contiguous too
        return self.decompress_from(io.BytesIO(whole), max_pixels=max_pixels, rows=rows, progress=progress)

    def decompress_from(
        self,
        file: Source,
        *,
        max_pixels: int = container.MAX_PIXELS,
        rows: tuple[int, int] | None = None,
        progress: ProgressCallback | None = None,
    ) -> npt.NDArray[np.uint8]:
        """The picture in a .clvq file or pipe, read a chunk of bands at a time.

        Parameters
        ----------
        file : binary file
            Anything with `read`.
        max_pixels, rows, progress
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
        wanted = check_rows(rows, header.shape[0])
        codebook = stored_codebook(reader, self.queue)
        if codebook is None:
            codebook = self._shared_codebook(header)
        return read_picture(reader, codebook.reshape(len(codebook), -1), self.queue, wanted, report)

    def _shared_codebook(self, header: container.Header) -> npt.NDArray[np.uint8]:
        """This codec's codebook, where it is the one that a file names."""
        named = f"this .clvq file names the shared codebook {header.codebook_id.hex()}"
        if not hasattr(self, "codebook_"):
            raise NotFittedError(f"{named}; this codec holds none")
        coder = self._coder()
        held = container.codebook_id(coder.codebook)
        if held != header.codebook_id:
            raise InvalidArgument(f"{named}; this codec holds {held.hex()}")
        if (len(coder.rows), coder.shape) != (header.codebook_size, header.block):
            raise FormatError("the header of a .clvq file does not fit the codebook that it names")
        return np.ascontiguousarray(coder.codebook)

    def _about(self, verb: str, resume: bool) -> About:
        """What a job that would go on must have in common with the one before."""
        return About(
            resume=resume, settings={"verb": verb, "codebook": digest_of(np.ascontiguousarray(self.codebook_))}
        )

    def _coder(self) -> BlockCoder:
        self._check_fitted("codebook_")
        return BlockCoder(self.codebook_, self.queue)

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
        coder = self._coder()
        shape = coder.shape
        header = container.Header(
            kind=container.CODEBOOK,
            channels=shape.channels,
            block_shape=(shape.rows, shape.columns),
            codebook_size=len(coder.rows),
            shape=(0, 0),
            state_size=0,
            codebook_id=container.codebook_id(coder.codebook),
        )
        coded = encode_codebook(open_session(self.queue), coder.rows, shape)
        with files.atomic_write(path) as file:
            container.Writer(file, header, coded)

    @classmethod
    def load(cls, path: files.PathLike, *, queue: CommandQueue | None = None) -> VQCodec:
        """A codec with the codebook of a .clvq file: of one that `save` wrote, or of a picture that carries it.

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
            If it is damaged, truncated or goes on after its end, or holds no codebook. A picture of any size is checked
            by its check sums, to the file's end, but not unpacked.
        """
        data = files.read_bytes(path)
        try:
            reader = container.Reader(io.BytesIO(data), max_pixels=None)
            codebook = stored_codebook(reader, queue)
            if codebook is None:
                raise FormatError("this .clvq file names a shared codebook and does not hold it")
            reader.check_rest()
        except FormatError as error:
            raise FormatError(f"{params.shown(os.fspath(path))}: {error}") from error
        codec = cls(reader.header.codebook_size, reader.header.block_shape, queue=queue)
        codec.codebook_ = codebook
        return codec
