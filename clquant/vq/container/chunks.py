"""Chunks of arrays as .clvq files: what the codecs for zarr and numcodecs share, and the codebooks that they name."""

from __future__ import annotations

import math
import os
import pathlib
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import params
from clquant.images import files
from clquant.runtime import FormatError, InvalidArgument, InvalidType, NotFittedError
from clquant.vq.codec import VQCodec
from clquant.vq.container.clvq_format import MAX_PIXELS, codebook_id

CODEC_NAME = "clquant.clvq"
FOLDER_VARIABLE = "CLQUANT_CODEBOOKS"
"""Environment variable: a folder of codebooks, each in a file of `VQCodec.save` named by its identity and ``.clvq``."""

_registered: dict[str, VQCodec] = {}
_lock = threading.Lock()


def register_codebook(codebook: VQCodec | files.PathLike) -> str:
    """Let chunks that name a codebook be written and read in this process.

    Parameters
    ----------
    codebook : VQCodec or path-like
        A codec that holds one, whose `state_size` and `tolerance` are kept, or a .clvq file with one. Later changes of
        the codec have no effect.

    Returns
    -------
    str
        The codebook's identity, 32 hexadecimal digits.

    Raises
    ------
    NotFittedError
        If the codec holds none.
    FileError, FormatError
        If the file cannot be read or holds none.
    """
    codec = codebook if isinstance(codebook, VQCodec) else VQCodec.load(codebook)
    if not hasattr(codec, "codebook_"):
        raise NotFittedError("this VQCodec has no codebook_ yet; call fit first")
    own = VQCodec(state_size=codec.state_size, tolerance=codec.tolerance)
    own.codebook_ = np.array(codec.codebook_)
    identity = codebook_id(own.codebook_).hex()
    with _lock:
        _registered[identity] = own
    return identity


def registered_codebook(identity: str) -> VQCodec:
    """The codec of a codebook's identity."""
    with _lock:
        found = _registered.get(identity)
    folder = os.environ.get(FOLDER_VARIABLE)
    if found is None and folder:
        path = pathlib.Path(folder) / f"{identity}.clvq"
        if path.is_file():
            if register_codebook(path) != identity:
                raise FormatError(f"{params.shown(os.fspath(path))} holds another codebook than its name says")
            return registered_codebook(identity)
    if found is None:
        raise InvalidArgument(
            f"codebook is {params.shown(identity)}; allowed: the identity of one that register_codebook was given, or "
            f"that is in the folder {FOLDER_VARIABLE}"
        )
    return found


@dataclass(frozen=True)
class ChunkCoder:
    """Turns chunks into .clvq files and back, by a codebook that is registered if its codec is given."""

    # A chunk is a picture, (height, width) for a gray codebook and (height, width, channels) for others, or a stack of
    # pictures along axes before these, whose height is a multiple of the blocks'.

    codebook: Any  # its identity, 32 hexadecimal digits, also where it was given as a VQCodec
    embed: bool = False  # whether every chunk holds the codebook, so that reading needs no other

    def __post_init__(self) -> None:
        if isinstance(self.codebook, VQCodec):
            object.__setattr__(self, "codebook", register_codebook(self.codebook))
        if not isinstance(self.codebook, str):
            raise InvalidType(f"codebook is {params.shown(self.codebook)}; allowed: 32 hexadecimal digits")
        if len(self.codebook) != 32 or set(self.codebook) - set("0123456789abcdef"):
            raise InvalidArgument(f"codebook is {params.shown(self.codebook)}; allowed: 32 hexadecimal digits")
        params.boolean("embed", self.embed)

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """See that chunks can be coded."""
        if dtype != np.uint8:
            raise InvalidType(f"chunks are {dtype}; allowed: uint8")
        self._picture_shape(shape)

    def encode(self, chunk: npt.NDArray[np.uint8]) -> bytes:
        """The .clvq file of a chunk."""
        self.check(chunk.shape, chunk.dtype)
        codec = registered_codebook(self.codebook)
        picture = np.ascontiguousarray(chunk).reshape(self._picture_shape(chunk.shape))
        return codec.compress(np.atleast_3d(picture), embed_codebook=self.embed)  # tall ones are no rows of vectors

    def decode(
        self, data: bytes, shape: tuple[int, ...] | None = None, most: int = MAX_PIXELS
    ) -> npt.NDArray[np.uint8]:
        """The chunk of a .clvq file, of a shape if that is known, else of as many pixels at most."""
        codec = VQCodec() if self.embed else registered_codebook(self.codebook)
        picture = codec.decompress(data, max_pixels=most if shape is None else max(math.prod(shape), 1))
        if shape is not None and picture.shape != _stacked(shape, picture.ndim):
            raise FormatError(f"a chunk holds a picture of {picture.shape}, which is no chunk of {shape}")
        return picture if shape is None else picture.reshape(shape)

    def _picture_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the picture that a chunk is coded as."""
        codebook = registered_codebook(self.codebook).codebook_
        axes = codebook.ndim - 1
        fits = len(shape) >= axes and min(shape, default=0) > 0 and shape[len(shape) - axes + 2 :] == codebook.shape[3:]
        if not fits or (math.prod(shape[:-axes]) > 1 and shape[-axes] % codebook.shape[1]):
            allowed = "height, width" + (f", {codebook.shape[3]}" if axes == 3 else "")
            raise InvalidArgument(
                f"chunks are of {shape}; allowed with this codebook: ({allowed}), or stacks of these whose height is a "
                f"multiple of {codebook.shape[1]}"
            )
        return _stacked(shape, axes)


def _stacked(shape: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """The shape with all axes before the last ones, as many as a picture has, taken into the height."""
    picture = shape[len(shape) - axes :]
    return (math.prod(shape[: len(shape) - axes]) * picture[0], *picture[1:])
