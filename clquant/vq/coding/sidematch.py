"""Side-match vector quantization: likelier codewords for blocks where these cost little."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clquant.runtime import Buffer, LocalMemory, Session
from clquant.training.blocks import BlockShape
from clquant.training.search import Table, index_dtype, index_type
from clquant.vq.coding.contexts import ContextTables

_GROUP = 64
_LARGEST_ERROR = 255 * 255


@dataclass(frozen=True)
class SideMatch:
    """A codebook on the device with the contexts of its codewords."""

    session: Session
    codebook: Buffer
    shape: BlockShape
    tables: ContextTables
    state_size: int

    def choose(self, image: Buffer, size: tuple[int, int], nearest: Table, band_rows: int, tolerance: int) -> Table:
        """The codewords by which blocks are coded."""
        session, shape, contexts = self.session, self.shape, self.tables.shape
        rows, columns = nearest.shape
        constants = {**shape.constants(size[1]), **contexts.constants, "PAIRS": 0, "STATE": self.state_size}
        program = session.program("vq/coding/sidematch.cl", **constants, INDEX=index_type(contexts.size))
        kernel = program.kernel("vq_side_choose")
        group = 1 if session.limits.is_cpu else session.work_group_size(kernel, _GROUP, 12)
        dtype = index_dtype(contexts.size)
        bound = np.uint32(min(tolerance, _LARGEST_ERROR * shape.components + 1))
        with session.scope() as scope:
            chosen = scope.copy_of(np.ascontiguousarray(nearest, dtype))
            tall, bands = min(band_rows, rows), -(-rows // band_rows)
            sizes = {"height": size[0], "width": size[1], "rows": rows, "columns": columns, "band_rows": band_rows}
            sizes |= dict.fromkeys(("across", "first_row", "diagonal"), 0)
            given = {**self.tables.arguments, **{name: np.uint32(number) for name, number in sizes.items()}}
            given |= {"codebook": self.codebook, "image": image, "tolerance": bound, "chosen": chosen}
            given |= {name: LocalMemory(4 * group) for name in ("values", "errors", "places")}
            given["block"] = LocalMemory(shape.components)
            items = bands * min(tall, columns) * group
            launch = session.prepare(scope, kernel, items, group, **kernel.among(given))
            for diagonal in range(tall + columns - 1):
                first, last = max(0, diagonal - columns + 1), min(tall - 1, diagonal)
                across = last - first + 1
                launch.set(across=np.uint32(across), first_row=np.uint32(first), diagonal=np.uint32(diagonal))
                launch.queue(bands * across)
            return session.download(chosen, (rows, columns), dtype)
