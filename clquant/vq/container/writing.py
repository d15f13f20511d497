"""Whole pictures to .clvq files, a chunk of bands at a time; codebooks to files of their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, images
from clquant.runtime import InvalidArgument, Progress, Session, bound, open_session
from clquant.training.blocks import BlockShape
from clquant.training.search import Table
from clquant.vq.coder import BlockCoder
from clquant.vq.coding.bands import BandCoder, BandLayout, CodedBand
from clquant.vq.coding.codebook_coding import encode_codebook
from clquant.vq.coding.contexts import PRESET, Contexts, Model, open_contexts
from clquant.vq.coding.learning import encode_model, learn
from clquant.vq.coding.repeats import Repeats
from clquant.vq.coding.sidematch import SideMatch
from clquant.vq.container import clvq_format
from clquant.vq.container.pipes import Sink, write_all

_CHUNK_BLOCKS = 1 << 22  # that are coded at once
_CHUNK_BYTES = 8  # a block, of the largest buffer beside its pixels
_TRIED_PICTURE = 1 << 20  # up to this many blocks, repeats are tried against coding all

# From a model and a table of indices to the table with likelier codewords.
Match = Callable[[Contexts, Model, Table], Table]


@dataclasses.dataclass(frozen=True)
class Compressor:
    """Writes pictures by one codebook."""

    coder: BlockCoder
    state_size: int  # codewords of a state codebook, 0..255; 0 leaves every block its nearest codeword
    tolerance: int  # how much a block's squared error, summed over its components, may grow for a shorter code

    @flow.verb
    def write(self, file: Sink, image: images.ImageLike, embed: bool, progress: Progress, memory: Any) -> None:
        """Write a picture to a binary file."""
        halves = Progress((lambda n, total: progress.report(n // 2, total)) if progress.wanted else None)
        pictures = [flow.open_picture(image, memory=memory)]
        with images.all_sent(pictures, self.coder.queue) as (session, (picture,)):
            table: Any = flow.in_bands(session, picture, self.coder.encoding, halves)
            if not isinstance(table, np.ndarray):
                table = session.download(images.buffer_of(table), table.shape, table.dtype)
            match = partial(self._matched, session, picture, BandLayout(*table.shape))
            self.write_encoded(file, (picture.height, picture.width), embed, session, table, match, progress)

    def matched(self, model: Model, table: Table, layout: BandLayout, total: int, pixels: npt.NDArray[Any]) -> Table:
        """Some bands of a table with blocks by likelier codewords; `total` are the pixels of the whole picture."""
        session = open_session(self.coder.queue)
        with open_contexts(session, self.coder.rows, self.coder.shape, total, True) as contexts:
            return self._matched(session, images.read(np.atleast_3d(pixels)), layout, contexts, model, table)

    def _matched(
        self,
        session: Session,
        picture: images.Picture,
        layout: BandLayout,
        contexts: Contexts,
        model: Model,
        table: Table,
    ) -> Table:
        """Bands of a table with blocks by likelier codewords, where the tolerance allows."""
        shape, matched = self.coder.shape, np.empty_like(table)
        with session.scope() as scope:
            tables = contexts.tables(scope, model, with_pairs=False)
            codebook = scope.copy_of(self.coder.rows[contexts.order])
            matcher = SideMatch(session, codebook, shape, tables, self.state_size)
            for first, end in chunks(session, layout, shape, False, 0, -(-len(table) // layout.rows)):
                part = slice(first * layout.rows, min(end * layout.rows, len(table)))
                rows = part.start * shape.rows, min(part.stop * shape.rows, picture.height)
                with session.scope() as inner:
                    pixels = picture.upload(session, inner, *rows)
                    size = rows[1] - rows[0], picture.width
                    matched[part] = matcher.choose(pixels, size, table[part], layout.rows, self.tolerance)
        return matched

    def write_encoded(
        self,
        file: Sink,
        size: tuple[int, int],
        embed: bool,
        session: Session,
        table: Table,
        match: Match,
        progress: Progress,
    ) -> None:
        """Write the table of a picture, first with likelier codewords by `match` where blocks may have them."""
        if max(size) > clvq_format.MAX_SIDE:
            raise InvalidArgument(f"image is {size[0]} x {size[1]} pixels; allowed: {clvq_format.MAX_SIDE} per side")
        kind = clvq_format.PICTURE if embed else clvq_format.PICTURE_OF_SHARED
        header = clvq_format.Header.of(kind, self.coder.codebook, size, self.state_size)
        if self.state_size > 0 and self.tolerance > 0:
            with open_contexts(session, self.coder.rows, self.coder.shape, math.prod(size), True) as contexts:
                places = table if contexts.ranks is None else contexts.ranks[table]
                table = contexts.order[match(contexts, learn(session, contexts, table), places)]
        repeats = Repeats.of(table)
        few = table.size - math.prod(repeats.coded_shape) < table.size // 2
        codebook = encode_codebook(session, self.coder.rows, self.coder.shape) if embed else None
        tried, report = [repeats], progress
        if repeats.any and (few or table.size <= _TRIED_PICTURE):
            tried, report = [repeats, Repeats.none(repeats.table_shape)], Progress(None)
        write_all(file, min((self._coded(header, session, codebook, each, table, report) for each in tried), key=len))
        progress.report(table.size, table.size)

    def _coded(
        self,
        header: clvq_format.Header,
        session: Session,
        codebook: bytes | None,
        repeats: Repeats,
        whole: Table,
        progress: Progress,
    ) -> bytes:
        """The file of a picture coded with these repeats, by the better model if it is small."""
        table, header = repeats.coded(whole), dataclasses.replace(header, repeating=int(repeats.any))
        layout, pixels, tried = BandLayout(*table.shape), header.coded_pixels(repeats), []
        with open_contexts(session, self.coder.rows, self.coder.shape, pixels, True) as contexts:
            models = [learn(session, contexts, table)]
            if table.size <= bound("writing.small"):
                models.append(Model(PRESET, np.zeros_like(models[0].rarity)))
            for model in models:
                mode, data = encode_model(session, model)
                bands: list[CodedBand] = []
                with session.scope() as scope:
                    coder = BandCoder(session, contexts.tables(scope, model), layout)
                    for first, end in chunks(session, layout, self.coder.shape, progress.wanted):
                        bands += coder.encode(table[first * layout.rows : end * layout.rows], contexts.ranks)
                        if end < layout.count:
                            done = repeats.end_of(end * layout.rows) * repeats.table_shape[1]
                            progress.report((whole.size + done) // 2, whole.size)
                own = dataclasses.replace(header, model=mode)
                tried.append(clvq_format.whole_file(own, codebook, data, repeats, bands))
        return min(tried, key=len)


def chunks(
    session: Session, layout: BandLayout, block: BlockShape, reported: bool, first: int = 0, end: int | None = None
) -> Iterator[tuple[int, int]]:
    """Half-open ranges of bands that are coded at once."""
    stop, limits = layout.count if end is None else end, session.limits
    own = layout.rows * layout.columns
    wanted = bound("writing.reported") if reported or limits.is_cpu else _CHUNK_BLOCKS
    if limits.is_cpu and not reported:  # whose cores each take a band at a time
        wanted = min(max(wanted, 2 * limits.compute_units * own), _CHUNK_BLOCKS)
    count = max(1, min(wanted, limits.max_alloc // max(_CHUNK_BYTES, block.components)) // own)
    for begin in range(first, stop, count):
        yield begin, min(begin + count, stop)


def write_codebook(path: images.files.PathLike, coder: BlockCoder) -> None:
    """Write a codebook to a file of its own."""
    coded = encode_codebook(open_session(coder.queue), coder.rows, coder.shape)
    header = clvq_format.Header.of(clvq_format.CODEBOOK, coder.codebook)
    with images.files.atomic_write(path) as file:
        file.write(clvq_format.whole_file(header, coded))
