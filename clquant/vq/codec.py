"""The vector-quantization image codec: train a codebook, encode, decode, compress, decompress."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import ImageLike, device_arrays, files, read_many, several
from clquant.runtime import (
    CommandQueue,
    FormatError,
    InvalidArgument,
    Progress,
    ProgressCallback,
    open_session,
)
from clquant.vq import container, training
from clquant.vq.blocks import BlockShape, check_block_shape
from clquant.vq.clvq import ClvqCoder
from clquant.vq.encode import MAX_CODEBOOK


class VQCodec(ClvqCoder):
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
        Most Lloyd steps in a row, at least 1.
    refine : int
        Most rounds in which crowded codewords move to where the error is largest (after Fritzke's LBG-U and breathing
        k-means); a round that gains nothing is undone. 0 is plain LBG.
    state_size : int
        Codewords in a side-match state codebook (Kim 1992) for `compress`, 1..255 and at most N; 0 is plain VQ.
    tolerance : float
        With side match: how much mean squared error per component a block may gain for a shorter code. With 0.0 the
        picture is that of plain VQ, bit for bit.
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
            Of any sizes, all of the same number of channels.
        sample_weight : sequence, optional
            One entry a picture: a non-negative number, or an array (block rows, block columns) of them. Weights are
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
        pictures = read_many(several(images))
        channels = {p.channels for p in pictures}
        if len(channels) > 1:
            raise InvalidArgument(f"images have {sorted(channels)} channels; allowed: the same number in all")
        shape = BlockShape(*block, channels.pop())
        tables = [shape.table_shape(p.height, p.width) for p in pictures]
        weights = training.check_weights(sample_weight, tables)
        session = open_session(self.queue, device_arrays(pictures))
        reporter = Progress(params.callback("progress", progress))
        trained = training.train(session, pictures, weights, shape, plan, reporter)
        self.codebook_ = trained.codebook.reshape(size, *shape.codeword_shape())
        self.mse_, self.n_iter_ = trained.mse, trained.n_iter
        return self

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
            if reader.codebook is None:
                raise FormatError("this .clvq file names a shared codebook and does not hold it")
            reader.check_rest()
        except FormatError as error:
            raise FormatError(f"{params.shown(os.fspath(path))}: {error}") from error
        codec = cls(reader.header.codebook_size, reader.header.block_shape, queue=queue)
        codec.codebook_ = reader.codebook
        return codec
