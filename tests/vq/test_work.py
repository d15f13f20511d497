"""What a `.clvq` file makes its reader do is paid for by its bytes: counted in what kernels are launched over."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import VQCodec, runtime
from clquant.runtime import FormatError, Session
from clquant.vq import container, work
from clquant.vq.bands import BandLayout, CodedBand
from clquant.vq.blocks import BlockShape
from clquant.vq.codebook_coding import encode_codebook
from clquant.vq.coding_order import compared_components
from clquant.vq.contexts import ContextShape, pack_curves, unpack_curves
from clquant.vq.repeats import Repeats

FLAT_CURVES = pack_curves(unpack_curves(b"\x66" * 32))


class Counted(Counter[str]):
    """Blocks, entries of tables, pairs, components and pixels that launches were for."""

    def add(self, name: str, size: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        items = int(np.prod(size))
        numbers = [int(n) for n in arguments if isinstance(n, np.uint32)]
        if name == "vq_side_bins":
            self["bins"] += items
        elif name == "vq_side_bins_lanes":
            self["bins"] += 16 * (size[0] - 1) * numbers[1]  # the last of 16 may be few
        elif name in ("vq_side_values", "vq_side_values_lanes"):
            self["values"] += numbers[0] * numbers[1]
        elif name == "vq_pair_buckets":
            self["pairs"] += items
        elif name == "vq_bands_decode":
            self["blocks"] += int(named["rows"]) * int(named["columns"])
        elif name == "vq_repeat":
            self["repeated"] += numbers[3] * numbers[4]
        elif name == "vq_decode":
            self["bytes"] += numbers[0] * numbers[1]
        elif name == "vq_codebook_decode":
            self["codewords"] += int(named["size"])
        else:
            raise AssertionError(f"nobody counts {name}")

    def cost(self, contexts: ContextShape, block: BlockShape) -> int:
        """Nanoseconds by the prices of clquant/vq/work.py, of what was counted."""
        two_bytes = work._TWO_BYTES_APART if block.columns * block.channels % 4 else work._TWO_BYTES
        looked_at = work._ORDERED + work._ORDERED_COMPONENT * compared_components(block)
        order = 0 if contexts.by_pairs or not self["bins"] else contexts.levels * contexts.size * looked_at
        pairs = min(self["blocks"], self["pairs"] or self["blocks"]) if contexts.by_pairs else 0
        distances = work._FIVE_DISTANCES + work._FIVE_COMPONENTS * (block.rows + block.columns) * block.channels
        return (
            order
            + self["bytes"] * two_bytes // 2
            + self["repeated"] * work._REPEATED_BLOCK
            + self["blocks"] * (work._BLOCK + work._TWO_SYMBOLS * (contexts.bucket + contexts.buckets) // 2)
            + self["values"] * work._VALUES // 2
            + pairs * (work._PAIR + work._THREE_CODEWORDS * contexts.size // 3)
            + self["bins"] * distances // 10
            + self["codewords"] * work._COMPONENT * block.components
        )


def counted(decompress: Callable[[], Any]) -> tuple[Counted, Any]:
    """What a call launches its kernels over, with nothing kept from calls before, and its result or error."""
    found, launch = Counted(), Session.launch

    def counting(self: Session, kernel: Any, size: Any, group: Any, /, *arguments: Any, **named: Any) -> Any:
        found.add(kernel.name, size, arguments, named)
        return launch(self, kernel, size, group, *arguments, **named)

    runtime.release_memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "launch", counting)
        try:
            return found, decompress()
        except FormatError as error:
            return found, str(error)


def hostile(codebook: npt.NDArray[np.uint8], shape: tuple[int, int], model: int, queue: Any) -> bytes:
    """A file with as few bytes as the format admits: bands of no words, a codebook that is coded."""
    size, p, q = codebook.shape[:3]
    channels = codebook.shape[3] if codebook.ndim == 4 else 1
    header = container.Header(
        container.PICTURE, channels, (p, q), size, shape, 0, container.codebook_id(codebook), model
    )
    layout, file = BandLayout(*header.table_shape), io.BytesIO()
    coded = encode_codebook(runtime.open_session(queue), codebook.reshape(size, -1), header.block)
    writer = container.Writer(file, header, coded, FLAT_CURVES if model else b"")
    for _ in range(layout.count):
        writer.write(CodedBand(np.full(layout.lanes, 1 << 16, np.uint32), np.zeros(0, np.uint16)))
    return file.getvalue()


def allowed(data: bytes) -> int:
    return work.WORK_PER_BYTE * (len(data) + work.FREE_BYTES)


@pytest.mark.full
@pytest.mark.parametrize("block", [(2, 2), (4, 4), (3, 5), (16, 16)])
@pytest.mark.parametrize(("size", "channels"), [(2, 1), (30, 3), (256, 1), (600, 3), (4096, 1)])
def test_hostile_files_do_no_more_than_their_bytes_pay_for(
    queue: Any, block: tuple[int, int], size: int, channels: int
) -> None:
    codebook = np.zeros((size, *block) + ((channels,) if channels > 1 else ()), np.uint8)
    codebook[1::2] = 255
    blocks = BlockShape(*block, channels)
    for sides, model in itertools.product(((40, 50), (512, 700)), (0, 1)):
        shape = sides if size < 4096 else (min(sides[0], 128), min(sides[1], 130))
        data = hostile(codebook, shape, model, queue)
        found, told = counted(partial(VQCodec(queue=queue).decompress, data))
        assert not isinstance(told, str) or "does not end where its words do" in told
        header = container.Header.from_bytes(data[: container.HEADER_BYTES])
        contexts = header.contexts(Repeats.none(header.table_shape))
        assert found["blocks"] == header.table_shape[0] * header.table_shape[1]
        assert found.cost(contexts, blocks) <= allowed(data)
        # GPUs make the ranges of all pairs beforehand, as that takes them next to no time.
        assert found["pairs"] <= found["blocks"] or not runtime.open_session(queue).limits.is_cpu
        if work.least_bytes(header, Repeats.none(header.table_shape)) == len(data):
            for wrong, message in ((data[:-1], "ends too early"), (data[:-1] + b"\x01", "does not end in zeros")):
                found, told = counted(partial(VQCodec(queue=queue).decompress, wrong))
                assert not found  # nothing is done before the bytes are there
                assert message in told


@pytest.mark.full
@pytest.mark.parametrize("block", [(1, 1), (2, 2), (4, 4), (5, 3), (16, 16)])
@pytest.mark.parametrize(("size", "channels"), [(2, 1), (2, 3), (200, 4), (700, 1)])
@pytest.mark.parametrize("kind", ["blank", "dotted", "matched"])
def test_valid_files_pay_for_their_work(
    queue: Any, block: tuple[int, int], size: int, channels: int, kind: str
) -> None:
    rng = np.random.default_rng(1)
    codec = VQCodec(size, block, state_size=2 if kind == "matched" else 0, queue=queue)
    codec.codebook_ = rng.integers(0, 256, (size, *block) + ((channels,) if channels > 1 else ()), np.uint8)
    table = np.ones((150 // block[0], 190 // block[1]), np.uint16 if size > 256 else np.uint8)
    if kind != "blank":
        np.fill_diagonal(table, 0)
    image = codec.decode(table)
    data = codec.compress(image)
    found, decoded = counted(partial(VQCodec(queue=queue).decompress, data))
    if kind != "matched":
        np.testing.assert_array_equal(decoded, image)
    header = container.Header.from_bytes(data[: container.HEADER_BYTES])
    reader = container.Reader(io.BytesIO(data))
    assert found.cost(header.contexts(reader.repeats), BlockShape(*block, channels)) <= allowed(data)
    if kind == "blank":
        assert found["blocks"] <= table.size


def test_the_largest_claim_is_refused_at_once(queue: Any) -> None:
    header = container.Header(container.PICTURE, 4, (1, 1), 65536, (1 << 14, 1 << 15), 0, bytes(16))
    file = header.to_bytes() + b"\x01\x00\x00\x00\x01"
    found, told = counted(partial(VQCodec(queue=queue).decompress, file))
    assert not found
    assert "ends too early" in told
