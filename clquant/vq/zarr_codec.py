"""The array-to-bytes codec ``clquant.clvq`` of zarr format 3, which zarr finds by its entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec

from clquant.runtime import InvalidArgument
from clquant.vq.codec import VQCodec
from clquant.vq.container.chunks import CODEC_NAME, ChunkCoder


@dataclass(frozen=True, kw_only=True)
class ClvqCodec(ArrayBytesCodec):
    """Codes chunks of uint8 as .clvq files: the ``serializer`` of an array of pictures.

    Parameters
    ----------
    codebook : VQCodec or str
        A codec that holds a codebook, which is registered; or the identity of one that is (`register_codebook`).
    embed : bool
        Whether every chunk holds the codebook; else the array names it and readers must know it.

    Attributes
    ----------
    coder : ChunkCoder

    Raises
    ------
    NotFittedError, InvalidArgument, InvalidType
        If the codec holds no codebook, or an argument is not allowed.
    """

    is_fixed_size = False
    codebook: VQCodec | str
    embed: bool = False
    coder: ChunkCoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coder", ChunkCoder(self.codebook, self.embed))
        object.__setattr__(self, "codebook", self.coder.codebook)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ClvqCodec:
        """Make the codec of an array's metadata, as `to_dict` gives them."""
        configuration = data.get("configuration")
        if data.get("name") != CODEC_NAME or not isinstance(configuration, Mapping):
            raise InvalidArgument(f"codec is {dict(data)}; allowed: the name {CODEC_NAME} and a configuration")
        unknown = set(configuration) - {"codebook", "embed"}
        if unknown or "codebook" not in configuration:
            raise InvalidArgument(f"configuration has {sorted(configuration)}; allowed: codebook, embed")
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """Name and configuration, for an array's metadata."""
        return {"name": CODEC_NAME, "configuration": {"codebook": self.codebook, "embed": self.embed}}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Refuse arrays whose chunks cannot be coded, where the codebook is known."""
        self.coder.check(tuple(getattr(chunk_grid, "chunk_shape", shape)), dtype.to_native_dtype())

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Refuse to say: sizes are not known beforehand."""
        raise NotImplementedError

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        data = await asyncio.to_thread(self.coder.encode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(data)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        chunk = await asyncio.to_thread(self.coder.decode, chunk_data.to_bytes(), tuple(chunk_spec.shape))
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(np.asarray(chunk))
