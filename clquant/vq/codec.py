"""The vector-quantization image codec: train a codebook, encode, decode, compress, decompress."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from clquant import flow, params
from clquant.estimator import Estimator
from clquant.images import HostImage, ImageLike, files
from clquant.runtime import Array, CommandQueue, FormatError, InvalidType, Progress, open_session
from clquant.vq.coder import BlockCoder, HostTable, Image, Pixels, Report, Size, Table
from clquant.vq.container import clvq_format
from clquant.vq.container.pipes import Sink, Source
from clquant.vq.container.reading import check_rows, codebook_of, read_codebook, read_picture
from clquant.vq.container.writing import Compressor, write_codebook
from clquant.vq.fit import fit_codebook


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
        Rounds of annealed steps between the start and the last Lloyd steps: noise on the codewords that fades away,
        while surplus codewords merge. A round has four or five steps, the late ones more where blocks are many.
        0 (plain LBG) to 1000.
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
        progress: Report = None,
        memory: Any = None,
    ) -> VQCodec:
        """Train the codebook.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
            Of any sizes, all of the same number of channels. Of Dask arrays the workers of a cluster find the sums.
            Lazy ones (see `clquant.images.storage`) that do not fit `memory` are read in parts, once per step on all
            blocks, of which there are some hundred: the codebook is the same.
        sample_weight : sequence, optional
            One entry per picture: a non-negative number, or an array (block rows, block columns) of them. Weights are
            kept down to 2^-30 of the largest.
        progress : callable, optional
            Called with (done, total); returning False stops the training and leaves the codec as it was.
        memory : int or str, optional
            Host memory for lazy images, such as ``"1 GiB"``; default 512 MiB.

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
        are trained on samples, of 64, 256 and 1024 blocks per codeword. The codebook is sorted by brightness.
        """
        trained, shape = fit_codebook(vars(self), images, sample_weight, progress, memory)
        codebook = trained.codebook.astype(np.uint8, copy=False)
        self.codebook_ = codebook.reshape(len(codebook), *shape.codeword_shape())
        self.mse_, self.n_iter_ = trained.mse, trained.n_iter
        return self

    @overload
    def encode(self, image: Array, *, progress: Report = None) -> Array: ...
    @overload
    def encode(
        self, image: HostImage, *, progress: Report = None, out: Any = None, memory: Any = None, resume: bool = False
    ) -> npt.NDArray[np.integer[Any]]: ...
    def encode(
        self, image: ImageLike, *, progress: Report = None, out: Any = None, memory: Any = None, resume: bool = False
    ) -> Table:
        """The index of the nearest codeword of every block, by Euclidean distance, the lowest index on ties.

        Parameters
        ----------
        image : image
            Of the codebook's channels; a Dask array gives a lazy one. Lazy images (zarr, h5py, `numpy.memmap`, a TIFF
            in tiles; see `clquant.images.storage`) are read in parts.
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
        coder = self._coder()
        given = {"queue": self.queue, "progress": progress, "out": out, "memory": memory}
        about = coder.about("encode", out, resume)
        return flow.run(coder.encoding, image, **given, about=about)  # type: ignore[no-any-return]

    @overload
    def decode(self, indices: Array, shape: Size = None, *, progress: Report = None) -> Array: ...
    @overload
    def decode(
        self,
        indices: HostTable,
        shape: Size = None,
        *,
        progress: Report = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> Image: ...
    def decode(
        self,
        indices: Table | HostTable,
        shape: Size = None,
        *,
        progress: Report = None,
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
        progress, out, memory, resume
            As for `encode`; memory is for parts of a table that is elsewhere, and of a picture that goes to `out`.

        Returns
        -------
        ndarray or device array of uint8, shape (H, W) or (H, W, C)
            On the device, on the same queue, if `indices` is there.

        Raises
        ------
        InvalidArgument, InvalidType
            If an index names no codeword, or `shape` does not fit the table.
        NotFittedError, FileError, StoppedError
            As `encode`.
        """
        return self._coder().decode(indices, shape, progress, out, memory, resume)

    def compress(
        self, image: ImageLike, *, embed_codebook: bool = True, progress: Report = None, memory: Any = None
    ) -> bytes:
        """Encode an image to the bytes of a .clvq file.

        Parameters
        ----------
        image : image
            Of the codebook's channels; a Dask array is encoded by its workers.
        embed_codebook : bool
            Whether the codebook goes along; without it the file names it, to be read by a codec that holds it.
        progress, memory
            As for `encode`; the table of indices takes memory too.

        Returns
        -------
        bytes

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, StoppedError
            As `encode`.
        """
        file, embed = io.BytesIO(), params.boolean("embed_codebook", embed_codebook)
        self._compressor().write(file, image, embed, Progress(params.callback("progress", progress)), memory)
        return file.getvalue()

    def compress_to(
        self, file: Sink, image: ImageLike, *, embed_codebook: bool = True, progress: Report = None, memory: Any = None
    ) -> None:
        """Encode an image to a binary file or pipe.

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
        compressor, report = self._compressor(), Progress(params.callback("progress", progress))
        embed = params.boolean("embed_codebook", embed_codebook)
        if not hasattr(file, "write"):
            raise InvalidType(f"file is {params.shown(file)}; allowed: a binary file open for writing")
        compressor.write(file, image, embed, report, memory)

    def decompress(
        self,
        data: bytes,
        *,
        max_pixels: int = clvq_format.MAX_PIXELS,
        max_codebook: int = clvq_format.MAX_CODEBOOK,
        rows: tuple[int, int] | None = None,
        progress: Report = None,
    ) -> npt.NDArray[np.uint8]:
        """The picture in the bytes of a .clvq file.

        Parameters
        ----------
        data : bytes
        max_pixels : int
            Files that claim more pixels are refused; default 2^29.
        max_codebook : int
            Files that claim a codebook of more bytes are refused; default 2^24.
        rows : pair of int, optional
            (first, end), the pixel rows to decode, half-open; default all. Only bands with some of them are decoded.
        progress
            As for `encode`.

        Returns
        -------
        ndarray of uint8, shape (H, W) or (H, W, C)

        Raises
        ------
        FormatError
            If the bytes are damaged, truncated, or no .clvq picture, claim more than `max_pixels` or `max_codebook`,
            or do not fit the shared codebook that they name.
        NotFittedError, InvalidArgument
            If the file names a shared codebook and this codec holds none, or another; if `rows` are not in the picture.
        StoppedError
            If `progress` returned False.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidType(f"data is {params.shown(data)}; allowed: bytes")
        file = io.BytesIO(bytes(data))  # of views that are not contiguous too
        limits = {"max_pixels": max_pixels, "max_codebook": max_codebook}
        return self.decompress_from(file, **limits, rows=rows, progress=progress)

    def decompress_from(
        self,
        file: Source,
        *,
        max_pixels: int = clvq_format.MAX_PIXELS,
        max_codebook: int = clvq_format.MAX_CODEBOOK,
        rows: tuple[int, int] | None = None,
        progress: Report = None,
    ) -> npt.NDArray[np.uint8]:
        """The picture in a .clvq file or pipe, read a chunk of bands at a time.

        Parameters
        ----------
        file : binary file
            Anything with `read`.
        max_pixels, max_codebook, rows, progress
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
        most = params.integer("max_pixels", max_pixels, 1), params.integer("max_codebook", max_codebook, 1)
        reader = clvq_format.Reader(file, *most)
        if reader.header.kind == clvq_format.CODEBOOK:
            raise FormatError("this .clvq file holds a codebook and no picture; VQCodec.load reads it")
        wanted = check_rows(rows, reader.header.shape[0])
        codebook = codebook_of(reader, getattr(self, "codebook_", None), self.queue)
        return read_picture(reader, codebook, open_session(self.queue), wanted, report)

    def _compressor(self) -> Compressor:
        coder = self._coder()
        most_states = min(clvq_format.MAX_STATE_SIZE, len(coder.rows))
        states = params.integer("state_size", self.state_size, 0, most_states)
        return Compressor(
            coder, states, int(params.real("tolerance", self.tolerance, 0, 65025) * coder.shape.components)
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
        write_codebook(path, self._coder())

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
            If it is damaged, truncated, has bytes after its end, or holds no codebook. A picture of any size is checked
            by its check sums, to the file's end, but not unpacked.
        """
        codebook = read_codebook(path, queue)
        codec = cls(len(codebook), (codebook.shape[1], codebook.shape[2]), queue=queue)
        codec.codebook_ = codebook
        return codec
