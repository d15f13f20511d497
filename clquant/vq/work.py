"""What decoding costs at most, and with it how short .clvq files may be (docs/clvq-format.md, "The least length").

Work is in nanoseconds of processor time, as measured on a CPU through PoCL. It follows from a file's header and its
repeats alone, so that a reader knows it before any of it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clquant.vq.blocks import BlockShape
from clquant.vq.coding_order import compared_components
from clquant.vq.contexts import ContextShape
from clquant.vq.repeats import Repeats

if TYPE_CHECKING:
    from clquant.vq.container import Header

WORK_PER_BYTE = 2000
FREE_BYTES = 2048  # what short files need not have
FREE_BYTES_PER_CODEWORD = 5  # the same, of a codebook that a file names
_COMPONENT = 36  # of a codebook, from its code
_BLOCK, _TWO_SYMBOLS = 14, 5  # a block, and a codeword of its bucket and a bucket
_REPEATED_BLOCK = 2
_TWO_BYTES, _TWO_BYTES_APART = 1, 2  # of pixels in lines of blocks of four bytes, and in others
_PAIR, _THREE_CODEWORDS = 40, 1  # the ranges of buckets for a pair of neighbours
_VALUES = 3  # an entry of both tables of values
_FIVE_DISTANCES, _FIVE_COMPONENTS = 3, 1  # an entry of both tables of distances, and each component of its sides
_ORDERED, _ORDERED_COMPONENT = 40, 12  # a codeword at a level of the coding order, and each component that is looked at


def least_bytes(header: Header, repeats: Repeats | None) -> int:
    """Bytes that a file has at least.

    Parameters
    ----------
    header : Header
    repeats : Repeats or None
        None for a codebook.
    """
    work = 0 if header.is_shared else codebook_work(header.codebook_size, header.block)
    if repeats is not None:
        contexts, pixels = header.contexts(repeats), header.shape[0] * header.shape[1]
        shapes = repeats.table_shape, repeats.coded_shape
        work += picture_work(contexts, header.block, pixels, *shapes, embedded=not header.is_shared)
    free = FREE_BYTES + (FREE_BYTES_PER_CODEWORD * header.codebook_size if header.is_shared else 0)
    return max(0, -(-work // WORK_PER_BYTE) - free)


def codebook_work(size: int, block: BlockShape) -> int:
    """Of reading a codebook.

    Parameters
    ----------
    size : int
        Codewords.
    block : BlockShape
    """
    return _COMPONENT * size * (block.components + 1)


def picture_work(
    contexts: ContextShape,
    block: BlockShape,
    pixels: int,
    table_shape: tuple[int, int],
    coded_shape: tuple[int, int],
    embedded: bool,
) -> int:
    """Of decoding a picture by a codebook that was read.

    Parameters
    ----------
    contexts : ContextShape
    block : BlockShape
    pixels : int
    table_shape, coded_shape : tuple of int
        (rows, columns) of blocks, and without repeats.
    embedded : bool
        Whether the codebook is the file's own, so that nothing is known of it yet.
    """
    table, blocks = table_shape[0] * table_shape[1], coded_shape[0] * coded_shape[1]
    entries = contexts.groups * contexts.size
    two_bytes = _TWO_BYTES_APART if block.columns * block.channels % 4 else _TWO_BYTES
    work = pixels * block.channels * two_bytes // 2
    work += 0 if blocks == table else _REPEATED_BLOCK * table
    work += blocks * (_BLOCK + _TWO_SYMBOLS * (contexts.bucket + contexts.buckets) // 2)
    work += _VALUES * entries
    if contexts.by_pairs:
        pairs = min((contexts.groups + 1) ** 2, blocks)
        work += pairs * (_PAIR + _THREE_CODEWORDS * contexts.size // 3)
    if embedded:
        sides = (block.rows + block.columns) * block.channels
        work += entries * (_FIVE_DISTANCES + _FIVE_COMPONENTS * sides) // 5
        if not contexts.by_pairs:
            looked_at = _ORDERED + _ORDERED_COMPONENT * compared_components(block)
            work += contexts.levels * contexts.size * looked_at
    return work
