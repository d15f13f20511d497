"""The codec ``clquant.clvq`` of numcodecs: the compressor of arrays of zarr format 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs.abc import Codec

from clquant import params
from clquant.runtime import FormatError, InvalidArgument
from clquant.vq.codec import VQCodec
from clquant.vq.container.chunks import CODEC_NAME, ChunkCoder
from clquant.vq.container.clvq_format import MAX_PIXELS


class ClvqNumcodec(Codec):
    """Codes chunks of uint8 in C order as .clvq files.

    Parameters
    ----------
    codebook : VQCodec or str
        A codec that holds a codebook, which is registered; or the identity of one that is (`register_codebook`).
    embed : bool
        Whether every chunk holds the codebook; else the array names it and readers must know it.
    max_pixels : int
        Chunks that claim more pixels are refused; default 2^29. An array's metadata does not keep it.

    Raises
    ------
    NotFittedError, InvalidArgument, InvalidType
        If the codec holds no codebook, or an argument is not allowed.
    """

    codec_id = CODEC_NAME

    def __init__(self, codebook: VQCodec | str, embed: bool = False, max_pixels: int = MAX_PIXELS) -> None:
        self._coder, self._most = ChunkCoder(codebook, embed), params.integer("max_pixels", max_pixels, 1)
        # What an array's metadata says of the codec is its public attributes.
        self.codebook, self.embed = self._coder.codebook, embed

    def encode(self, buf: Any) -> bytes:
        """Code a chunk of uint8, in C order and of the chunk's shape, as a .clvq file."""
        chunk = np.asarray(buf)
        if not chunk.flags.c_contiguous:
            raise InvalidArgument("chunks are in Fortran order; allowed: C order")
        return self._coder.encode(chunk)

    def decode(self, buf: Any, out: Any = None) -> npt.NDArray[np.uint8]:
        """Decode a chunk; `out`, of as many elements, is filled and returned."""
        picture = self._coder.decode(bytes(memoryview(buf)), most=self._most)
        if out is None:
            return picture
        target = np.asarray(out)
        if target.size != picture.size or target.dtype != np.uint8:
            raise FormatError(f"a chunk holds {picture.size} pixels' components; {target.size} are wanted")
        target.reshape(-1)[:] = picture.reshape(-1)
        return target
