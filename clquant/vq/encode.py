"""Nearest codewords on the device: the forms of the encoder kernel, their operands and their launches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Limits, LocalMemory, Scope, Session, Variant, kept
from clquant.vq.blocks import BlockShape

FLOATS, INTEGERS, DP4A, INTEGER_DOT = 0, 1, 2, 3  # ARITHMETIC in cl/vq/encode.cl
MAX_CODEBOOK = 65536
MOST_KEPT = 1 << 17  # bytes of a codebook that stays on the device after it was searched, for the next picture
_SQUARE = 255 * 255
_FLOAT_COMPONENTS = 258
_REGISTER_COMPONENTS = 64  # REGISTER_WORDS in cl/vq/encode.cl
_WIDE_BLOCKS = 8
_SPAN = 4  # codewords at once on CPUs; codebooks are padded to a multiple
_LOCAL_BYTES = 32768
_WARP = 32
_LANES = 16  # LANES in cl/vq/encode_lanes.cl


def _tensor_cores(limits: Limits) -> bool:
    return limits.is_nvidia and limits.compute_capability >= 80 and limits.work_group >= 128


VARIANTS = (
    Variant("mma", "vq/encode_mma.cl", _tensor_cores),
    Variant("dp4a", "vq/encode.cl", lambda x: x.is_nvidia and x.compute_capability >= 61, {"ARITHMETIC": DP4A}),
    Variant("integer-dot", "vq/encode.cl", lambda x: x.integer_dot_product, {"ARITHMETIC": INTEGER_DOT}),
    Variant("lanes", "vq/encode_lanes.cl", lambda x: x.is_cpu and sys.byteorder == "little"),
    Variant("portable", "vq/encode.cl"),
)

EXCLUDING_VARIANTS = tuple(variant for variant in VARIANTS if variant.name != "mma")


def index_dtype(size: int) -> np.dtype[Any]:
    """uint8 for codebooks of up to 256 codewords, else uint16."""
    return np.dtype(np.uint8 if size <= 256 else np.uint16)


def index_type(size: int) -> str:
    """The OpenCL C name of `index_dtype`."""
    return "uchar" if size <= 256 else "ushort"


@contextlib.contextmanager
def open_search(session: Session, codebook: npt.NDArray[np.uint8], shape: BlockShape) -> Iterator[Search]:
    """A `Search` whose buffers last as long as the block: that of an earlier job with the codebook, if it is small.

    Parameters
    ----------
    session, codebook, shape
        As `Search` takes them.
    """
    key = None
    if codebook.nbytes <= MOST_KEPT:
        key = "search", codebook.tobytes(), shape, session.choose(VARIANTS).name
    with kept(
        session, key, lambda scope: Search(session, scope, codebook if key is None else codebook.copy(), shape)
    ) as search:
        yield search


class Search:
    """A codebook on the device, ready to be searched.

    Parameters
    ----------
    session : Session
    scope : Scope
        Holds the codebook's buffers.
    codebook : ndarray of uint8, shape (N, K)
    shape : BlockShape
    excluding : bool
        Whether `run` passes over a codeword of each block's own.
    """

    def __init__(
        self,
        session: Session,
        scope: Scope,
        codebook: npt.NDArray[np.uint8],
        shape: BlockShape,
        *,
        excluding: bool = False,
    ) -> None:
        self._session = session
        self._scope = scope
        self._shape = shape
        self._codebook = codebook
        self._size = len(codebook)
        self._norms = (codebook.astype(np.int64) ** 2).sum(1)
        self._excluding = excluding
        self._variant = session.choose(EXCLUDING_VARIANTS if excluding else VARIANTS)
        self._arithmetic = int(self._variant.constants.get("ARITHMETIC", FLOATS))
        if self._arithmetic == FLOATS and shape.components > _FLOAT_COMPONENTS:
            self._arithmetic = INTEGERS
        self._check_bounds()
        self._operands = self._tensor_operands() if self._variant.name == "mma" else self._operands_of_rows()

    def _check_bounds(self) -> None:
        """The bounds that cl/vq/encode.cl proves exactness from."""
        largest = _SQUARE * self._shape.components
        assert largest < (1 << 24 if self._arithmetic == FLOATS else 1 << 31)
        assert 2 <= self._size <= MAX_CODEBOOK
        assert int(self._norms.max()) <= largest

    def run(
        self,
        image: Buffer,
        height: int,
        width: int,
        indices: Buffer,
        offset: int = 0,
        own: Buffer | None = None,
    ) -> None:
        """Queue the search for every block of a picture.

        Parameters
        ----------
        image : pyopencl.Buffer
            height x width x C bytes.
        height, width : int
        indices : pyopencl.Buffer
            Of `index_dtype`; written from element `offset` in raster order.
        offset : int
        own : pyopencl.Buffer, optional
            When `excluding`: per block, the index that is passed over.
        """
        rows, columns = self._shape.table_shape(height, width)
        count = rows * columns
        arguments: tuple[Any, ...] = (
            image,
            np.uint32(height),
            np.uint32(width),
            np.uint32(columns),
            np.uint32(count),
            *self._operands,
            indices,
            np.uint32(offset),
        )
        constants: dict[str, Any] = {**self._shape.constants(width), "INDEX": index_type(self._size)}
        if self._variant.name != "mma":
            arguments = (*arguments, own or indices)
            constants["EXCLUDING"] = int(self._excluding)
        if self._variant.name == "mma":
            self._run_tensor(count, constants, arguments)
        elif self._variant.name == "lanes":
            self._run_lanes(count, constants, arguments)
        elif self._shape.components > _REGISTER_COMPONENTS:
            self._run_wide(count, constants, arguments)
        else:
            self._run_registers(count, constants, arguments)

    def _operands_of_rows(self) -> tuple[Buffer, Buffer, np.uint32]:
        """The codebook row by row, padded with codewords that never win, as numbers or as packed bytes."""
        padded = -(-self._size // _SPAN) * _SPAN
        width = self._shape.components if self._variant.name == "lanes" else 4 * self._shape.words
        rows = np.zeros((padded, width), np.uint8)
        rows[: self._size, : self._shape.components] = self._codebook
        bias = np.full(padded, -(1 << 24) if self._arithmetic == FLOATS else -(1 << 30))
        bias[: self._size] = -self._norms
        number = np.float32 if self._arithmetic == FLOATS else np.int32
        operand = rows if self._arithmetic in (DP4A, INTEGER_DOT) else rows.astype(number)
        if self._variant.name != "lanes" and self._shape.components > _REGISTER_COMPONENTS:
            operand = np.ascontiguousarray(operand.reshape(padded, self._shape.words, 4).transpose(1, 0, 2))
        return self._scope.copy_of(operand), self._scope.copy_of(bias.astype(number)), np.uint32(padded)

    def _run_registers(self, count: int, constants: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        words = self._shape.words
        blocks = 1 if count < 1 << 17 else max(1, min(4, 16 // words))
        word_bytes = 4 if self._arithmetic in (DP4A, INTEGER_DOT) else 16
        room = min(self._session.limits.local_memory, _LOCAL_BYTES) // (words * word_bytes + 4)
        tile = 1 << (max(1, min(room, 1024 if word_bytes == 4 else 128)).bit_length() - 1)
        program = self._program(constants, BLOCKS=blocks, TILE=tile)
        kernel = program.kernel("vq_encode")
        group = self._session.work_group_size(kernel, self._session.tuned("vq.group"))
        local = LocalMemory(tile * words * word_bytes), LocalMemory(tile * 4)
        self._session.launch(kernel, -(-count // blocks), group, *arguments, *local)

    def _run_wide(self, count: int, constants: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        words = self._shape.words
        word_bytes = 4 if self._arithmetic in (DP4A, INTEGER_DOT) else 16
        room = min(self._session.limits.local_memory, _LOCAL_BYTES) // 2 // (words * word_bytes)
        blocks = max(1, min(_WIDE_BLOCKS, room))
        held = blocks * words * word_bytes
        kernel = self._program(constants, BLOCKS=blocks, TILE=1).kernel("vq_encode_wide")
        group = self._session.work_group_size(kernel, self._session.tuned("vq.group"))
        local = LocalMemory(held), LocalMemory(4 * group), LocalMemory(4 * group)
        self._session.launch(kernel, -(-count // blocks) * group, group, *arguments, *local)

    def _run_lanes(self, count: int, constants: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        components = self._shape.components
        vectors = 4 if components <= 16 else 2 if components <= _REGISTER_COMPONENTS else 1
        kernel = self._program(constants, VECTORS=vectors, SPAN=_SPAN).kernel("vq_encode_lanes")
        self._session.launch(kernel, -(-count // (_LANES * vectors)), 1, *arguments)

    def _program(self, constants: dict[str, Any], **more: int) -> Any:
        every = {**constants, **more, "ARITHMETIC": self._arithmetic}
        return self._session.program(self._variant.file, **every)

    def _tensor_operands(self) -> tuple[Buffer, Buffer, np.uint32]:
        """The codebook in the order in which a warp reads it, and the keys' constant parts."""
        components = self._shape.components
        chunks = -(-components // 16)
        padded = -(-self._size // 8) * 8
        self._log_scale = ((2**31 - 1) // (_SQUARE * components + 1)).bit_length() - 1
        scale = 1 << self._log_scale
        assert (_SQUARE * components + 1) * scale < 1 << 31
        room = min(self._session.limits.local_memory, _LOCAL_BYTES) // (16 * chunks + 4) // 8 * 8
        self._tile = min(scale, padded, room)
        rows = np.zeros((padded, chunks * 16), np.uint8)
        rows[: self._size, :components] = self._codebook
        fragments = np.ascontiguousarray(rows.reshape(padded // 8, 8, chunks, 16).transpose(0, 2, 1, 3))
        bias = np.full(padded, -(1 << 31))
        positions = np.arange(self._size) % self._tile
        bias[: self._size] = -self._norms * scale + scale - 1 - positions
        return self._scope.copy_of(fragments), self._scope.copy_of(bias.astype(np.int32)), np.uint32(padded)

    def _run_tensor(self, count: int, constants: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        chunks = -(-self._shape.components // 16)
        tiles = 1 << (max(1, min(8, 16 // chunks, count >> 17)).bit_length() - 1)
        program = self._session.program(
            self._variant.file, **constants, TILES=tiles, TILE=self._tile, LOG_SCALE=self._log_scale
        )
        kernel = program.kernel("vq_encode_mma")
        group = max(_WARP, self._session.work_group_size(kernel, 256 if tiles == 1 else 128))
        groups = -(-count // (group // 2 * tiles))
        local = LocalMemory(self._tile * chunks * 16), LocalMemory(self._tile * 4)
        self._session.launch(kernel, groups * group, group, *arguments, *local)
