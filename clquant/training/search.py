"""Codebooks on the device, fixed or moving, and their search: the forms of the encoder kernel and their operands."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant.runtime import Buffer, Kernel, Limits, LocalMemory, PreparedLaunch, Scope, Session, Variant, cached_job
from clquant.training.blocks import BlockShape, Rows

MAX_CODEBOOK = 65536
MOST_KEPT = 1 << 17  # bytes of a codebook that stays on the device after it was searched, for the next picture
_SQUARE = 255 * 255
_FLOAT_COMPONENTS = 258  # FLOATS in cl/training/scores.h
_REGISTER_COMPONENTS = 64  # REGISTER_WORDS in cl/training/search.cl
_WIDE_BLOCKS = 8
_WORD_BYTES = 16  # of four numbers
_SPAN = 4  # codewords at once on CPUs; codebooks are padded to a multiple
_LOCAL_BYTES = 32768
_WARP = 32
_LANES = 16  # LANES in cl/training/search_lanes.cl
MOST_CHANGES = 16  # steps that are told of between two readings
_ROWS, _WORDWISE, _FRAGMENTS = 0, 1, 2  # LAYOUT in cl/training/search_operands.cl
Table = npt.NDArray[np.integer[Any]]  # indices of a picture's blocks, (rows, columns)
_Launch = tuple[Kernel, int, int, dict[str, LocalMemory]]  # a kernel, work-items, those of a group, local memory


def _tensor_cores(limits: Limits) -> bool:
    return limits.is_nvidia and limits.compute_capability >= 80 and limits.work_group >= 128


VARIANTS = (
    Variant("mma", "training/search_mma.cl", _tensor_cores, gain=2.6),
    Variant("lanes", "training/search_lanes.cl", lambda x: x.is_cpu and sys.byteorder == "little", gain=12.7),
    Variant("portable", "training/search.cl"),
)


def index_dtype(size: int) -> np.dtype[Any]:
    """uint8 for codebooks of up to 256 codewords, else uint16."""
    return np.dtype(np.uint8 if size <= 256 else np.uint16)


def index_type(size: int) -> str:
    """The OpenCL C name of `index_dtype`."""
    return "uchar" if size <= 256 else "ushort"


def open_search(session: Session, codebook: Rows, shape: BlockShape) -> AbstractContextManager[Search]:
    """Open a `Search` whose buffers last as long as the block; a small codebook's is reused from an earlier job."""
    key = None
    if codebook.nbytes <= MOST_KEPT:
        key = "search", codebook.tobytes(), shape, session.choose(VARIANTS).name
    return cached_job(session, key, partial(Search, session, codebook=codebook, shape=shape))


class Search:
    """A codebook on the device, ready to be searched."""

    def __init__(self, session: Session, scope: Scope, codebook: Rows | int, shape: BlockShape) -> None:
        self._session = session
        self._scope = scope
        self._shape = shape
        self._capacity = codebook if isinstance(codebook, int) else len(codebook)
        self._variant = session.choose(VARIANTS)
        self._tensor = self._variant.name == "mma"
        self._score_bytes = 8 if shape.is_deep else 4
        self._limbs = 2 if self._tensor and shape.is_deep else 1  # bytes of a component that are operands of their own
        most_bits = 46 if shape.is_deep else 24 if shape.components <= _FLOAT_COMPONENTS else 31
        assert shape.largest**2 * shape.components < 1 << most_bits  # else scores were not exact
        assert 1 <= self._capacity <= MAX_CODEBOOK
        self._step = 8 if self._tensor else _SPAN
        most = -(-self._capacity // self._step) * self._step
        if self._tensor:
            self._set_tile(most)
        self._layout, self._width = self._operand_layout()
        self._operands = scope.empty(most * self._width * (self._limbs if self._tensor else 4))
        self._biases = scope.empty(self._score_bytes * most)
        self._padded = most
        if not isinstance(codebook, int):
            self._codebook = scope.copy_of(codebook)
            self.load(self._codebook, len(codebook))

    def _operand_layout(self) -> tuple[int, int]:
        """The order of the operands, and the components of a codeword in it."""
        words, components = self._shape.words, self._shape.components
        if self._tensor:
            return _FRAGMENTS, -(-components // 16) * 16
        if self._variant.name == "lanes":
            return _ROWS, components
        return (_WORDWISE if components > _REGISTER_COMPONENTS else _ROWS), 4 * words

    def load(self, codebook: Buffer, size: int, first: int = 0) -> None:
        """Queue loading a codebook, which is searched from then on."""
        self._padded = -(-size // self._step) * self._step
        self._session.launch(*self._loading(codebook, size, first))

    def prepare_load(self, scope: Scope, codebook: Buffer, kept: Buffer) -> PreparedLaunch:
        """`load` to be queued many times by `queue_load`; the codewords are copied to `kept` as well."""
        return self._session.prepare(scope, *self._loading(codebook, self._capacity, 0, kept))

    def queue_load(self, load: PreparedLaunch, size: int) -> None:
        """Queue a `prepare_load`."""
        self._padded = -(-size // self._step) * self._step
        load.set(size=np.uint32(size), padded=np.uint32(self._padded))
        load.queue()

    def queue_search(self, search: PreparedLaunch) -> None:
        """Queue a `prepare`, over the codewords that were loaded last."""
        search.set(padded=np.uint32(self._padded))
        search.queue()

    def _loading(self, codebook: Buffer, size: int, first: int, kept: Buffer | None = None) -> tuple[Any, ...]:
        """The kernel that makes operands, its sizes, and its arguments."""
        constants = {**self._shape.constants(), "LAYOUT": self._layout, "WIDTH": self._width}
        constants["KEEPS"] = int(kept is not None)
        if self._tensor:
            constants |= {"TILE": self._tile, "LOG_SCALE": self._log_scale}
        kernel = self._session.program("training/search_operands.cl", **constants).kernel("vq_operands")
        group = self._session.work_group_size(kernel, self._session.tuned("vq.train_group"))
        sizes = np.uint32(first), np.uint32(size), np.uint32(self._padded)
        given = codebook, *sizes, self._operands, self._biases, kept or codebook
        return kernel, self._padded * -(-self._width // 4), group, *given

    def run(
        self, image: Buffer, height: int, width: int, indices: Buffer, offset: int = 0, index: str | None = None
    ) -> None:
        """Queue the search for every block of a picture; `index` is the type of the indices, by default the least."""
        sizes, arguments = self.searching(image, height, width, indices, offset, index=index)
        self._session.launch(*sizes, **arguments)

    def prepare(
        self, scope: Scope, image: Buffer, height: int, width: int, indices: Buffer, own: Buffer | None = None
    ) -> PreparedLaunch:
        """`run` to be queued many times by `queue_search`; indices are uint16 whatever the codebook's size."""
        sizes, arguments = self.searching(image, height, width, indices, 0, own, "ushort")
        return self._session.prepare(scope, *sizes, **arguments)

    def searching(
        self,
        image: Buffer,
        height: int,
        width: int,
        indices: Buffer,
        offset: int = 0,
        own: Buffer | None = None,
        index: str | None = None,
    ) -> tuple[tuple[Kernel, int, int], dict[str, Any]]:
        """The kernel that searches, as by `run`, and its sizes; its arguments by name."""
        index = index or index_type(self._capacity)
        rows, columns = self._shape.table_shape(height, width)
        count = rows * columns
        arguments: dict[str, Any] = {
            "image": image,
            "height": np.uint32(height),
            "width": np.uint32(width),
            "columns": np.uint32(columns),
            "count": np.uint32(count),
            "codebook": self._operands,
            "bias": self._biases,
            "padded": np.uint32(self._padded),
            "indices": indices,
            "offset": np.uint32(offset),
            "own": own or indices,
        }
        constants: dict[str, Any] = {**self._shape.constants(width), "INDEX": index, "EXCLUDING": int(own is not None)}
        if self._tensor:
            kernel, size, group, local = self._in_tensors(count, constants)
        elif self._variant.name == "lanes":
            kernel, size, group, local = self._in_lanes(count, constants)
        elif self._shape.components > _REGISTER_COMPONENTS:
            kernel, size, group, local = self._in_groups(count, constants)
        else:
            kernel, size, group, local = self._in_registers(count, constants)
        return (kernel, size, group), {**arguments, **local}

    def _in_registers(self, count: int, constants: dict[str, Any]) -> _Launch:
        words = self._shape.words
        blocks = 1 if count < 1 << 17 else max(1, min(4, 16 // words))
        room = min(self._session.limits.local_memory, _LOCAL_BYTES) // (words * _WORD_BYTES + self._score_bytes)
        tile = 1 << (max(1, min(room, 128)).bit_length() - 1)
        program = self._session.program(self._variant.file, **constants, BLOCKS=blocks, TILE=tile)
        kernel = program.kernel("vq_encode")
        group = self._session.work_group_size(kernel, self._session.tuned("vq.group"))
        local = {"tile": LocalMemory(tile * words * _WORD_BYTES), "tile_bias": LocalMemory(tile * self._score_bytes)}
        return kernel, -(-count // blocks), group, local

    def _in_groups(self, count: int, constants: dict[str, Any]) -> _Launch:
        words = self._shape.words
        room = min(self._session.limits.local_memory, _LOCAL_BYTES) // 2 // (words * _WORD_BYTES)
        blocks = max(1, min(_WIDE_BLOCKS, room))
        held = blocks * words * _WORD_BYTES
        program = self._session.program(self._variant.file, **constants, BLOCKS=blocks, TILE=1)
        kernel = program.kernel("vq_encode_wide")
        group = self._session.work_group_size(kernel, self._session.tuned("vq.group"))
        scores = LocalMemory(self._score_bytes * group)
        local = {"held": LocalMemory(held), "scores": scores, "places": LocalMemory(4 * group)}
        return kernel, -(-count // blocks) * group, group, local

    def _in_lanes(self, count: int, constants: dict[str, Any]) -> _Launch:
        components = self._shape.components
        vectors = 4 if components <= 16 else 2 if components <= _REGISTER_COMPONENTS else 1
        program = self._session.program(self._variant.file, **constants, VECTORS=vectors, SPAN=_SPAN)
        kernel = program.kernel("vq_encode_lanes")
        return kernel, -(-count // (_LANES * vectors)), 1, {}

    def _set_tile(self, most: int) -> None:
        """Set the number of codewords in local memory at a time, and the scale by which keys are exact."""
        components = self._shape.components
        self._log_scale = ((2**31 - 1) // (_SQUARE * components + 1)).bit_length() - 1
        assert (_SQUARE * components + 1) << self._log_scale < 1 << 31  # else keys were not exact
        each = 16 * self._limbs * -(-components // 16) + self._score_bytes
        room = max(8, min(self._session.limits.local_memory, _LOCAL_BYTES) // each // 8 * 8)
        self._tile = min(room, most) if self._shape.is_deep else min(room, most, 1 << self._log_scale)

    def _in_tensors(self, count: int, constants: dict[str, Any]) -> _Launch:
        chunks = self._width // 16
        most = min(4, 8 // chunks) if self._shape.is_deep else min(8, 32 // chunks)
        tiles = 1 << (max(1, min(most, count >> 17)).bit_length() - 1)
        constants |= {"TILES": tiles, "TILE": self._tile, "LOG_SCALE": self._log_scale}
        constants["UNROLL"] = 1 if self._shape.is_deep else 4
        kernel = self._session.program(self._variant.file, **constants).kernel("vq_encode_mma")
        wanted = 256 if self._shape.is_deep or tiles == 1 else 128
        group = max(_WARP, self._session.work_group_size(kernel, wanted))
        groups = -(-count // (group // 2 * tiles))
        tile, biases = self._tile * self._limbs * chunks * 16, self._tile * self._score_bytes
        return kernel, groups * group, group, {"tile": LocalMemory(tile), "tile_bias": LocalMemory(biases)}


class Codewords:
    """A codebook on the device whose codewords move."""

    def __init__(self, session: Session, scope: Scope, shape: BlockShape, capacity: int) -> None:
        self._session = session
        self._shape = shape
        self.capacity = capacity
        self.size = 1
        self.codebook = scope.zeros(capacity * shape.nbytes)  # rows of K bytes
        self.moved = scope.empty(capacity * shape.nbytes)  # where a step puts them; `commit` makes them the codebook
        self.changes = scope.zeros(4 * MOST_CHANGES)  # a uint32 for each of the last steps: whether it moved anything
        self.search = Search(session, scope, capacity, shape)  # over the codebook
        self._load = self.search.prepare_load(scope, self.moved, self.codebook)

    def commit(self, size: int) -> None:
        """Make the first of the moved codewords the codebook."""
        self.size = size
        self.search.queue_load(self._load, size)

    def read(self) -> Rows:
        """The codebook, (size, K); waits for it."""
        return self._session.download(self.codebook, (self.size, self._shape.components), self._shape.dtype)
