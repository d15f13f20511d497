"""NeuQuant's mini-batch map for many small pictures at once, one work-group per picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clquant.color import spaces
from clquant.color.spaces import Space
from clquant.histogram.distinct import MAX_DISTINCT
from clquant.images import Picture
from clquant.neuquant import schedule as schedules
from clquant.neuquant.minibatch import FEW_COLORS_STEPS, MAX_NODES_OF_STARTS
from clquant.neuquant.nodes import NODE_BITS, as_vectors, gray_axis, map_constants, other_starts, whole_nodes
from clquant.neuquant.params import NeuQuantParams
from clquant.runtime import Buffer, Kernel, Limits, LocalMemory, Progress, Scope, Session, Variant, kernel_for_group

# The bounds that keep sums within 32 bits are proved in the kernel file for pictures up to this size.
MAX_PIXELS = 1 << 16
MAX_COLORS = 256
# Pixels of all pictures of a launch, per compute unit.
PIXELS_PER_UNIT = 1 << 18
# Bytes of the scratch memory of all work-groups.
MAX_SCRATCH = 1 << 28
# Points beyond a picture's own that a search reads, and passes over.
PADDING = 16
# Bytes of scratch memory of a work-group, per pixel of the largest picture.
SCRATCH_BYTES = 20
LANES_SCRATCH_BYTES = 28
TRANSPARENT, PARTIAL = 1, 2

VARIANTS = (
    # On CPUs a work-group is one thread: a single work-item with explicit lanes.
    Variant("lanes", "neuquant/small_images_lanes.cl", Limits.has_lanes, gain=18.7),
    Variant("portable", "neuquant/small_images.cl", constants={"TILE": 4}),
)


@dataclass(frozen=True)
class LearnedColors:
    """The colours of one picture's palette."""

    colors: npt.NDArray[np.uint8]  # (n, 4) uint8, n from 0, without an entry of alpha 0
    transparent: bool  # whether an alpha is 0
    partial: bool  # whether an alpha is between 0 and 255


def is_small(picture: Picture) -> bool:
    """Whether a picture may take part: on the host, at most 2^16 pixels."""
    return picture.array is not None and picture.pixels <= MAX_PIXELS


def is_worthwhile(session: Session, params: NeuQuantParams, pictures: int) -> bool:
    """Whether so many pictures are learned sooner at once: many colours need more of them to fill a device."""
    if params.n_colors > MAX_COLORS or pictures < max(2, params.n_colors // 32):
        return False
    lanes = session.choose(VARIANTS).name == "lanes"
    largest = _memory(spaces.space(params.color_space, True), params.n_colors, params.conscience, lanes)
    return largest + 64 <= session.limits.local_memory


def learn_many(
    session: Session, pictures: Sequence[Picture], params: NeuQuantParams, progress: Progress
) -> list[LearnedColors]:
    """Learn the colours that each picture's own map learns; fixed colours are not for this."""
    learned: dict[int, LearnedColors] = {}
    for chunk in _chunks(session, pictures):
        found = _Batch(session, [pictures[i] for i in chunk], params).run()
        learned.update(zip(chunk, found, strict=True))
        progress.report(len(learned), len(pictures))
    return [learned[i] for i in range(len(pictures))]


def _chunks(session: Session, pictures: Sequence[Picture]) -> Iterator[list[int]]:
    """Pictures of the same number of channels, as many as one launch and its buffers take."""
    limits, most = session.limits, session.tuned("batch.pictures")
    room = min(limits.compute_units * PIXELS_PER_UNIT, limits.max_alloc // 8, limits.global_memory // 64)
    for channels in (1, 3, 4):
        chunk: list[int] = []
        pixels = 0
        for i, picture in enumerate(pictures):
            if picture.channels != channels:
                continue
            if chunk and (len(chunk) == most or pixels + picture.pixels > room):
                yield chunk
                chunk, pixels = [], 0
            chunk.append(i)
            pixels += picture.pixels
        if chunk:
            yield chunk


class _Batch:
    """The launches for one chunk of pictures."""

    def __init__(self, session: Session, pictures: Sequence[Picture], params: NeuQuantParams) -> None:
        self._session = session
        self._pictures = pictures
        self._params = params
        self._variant = session.choose(VARIANTS)
        self._lanes = self._variant.name == "lanes"
        self._group = 1 if self._lanes else session.tuned("batch.group")

    def run(self) -> list[LearnedColors]:
        """Learn each picture's colours."""
        session, params, count = self._session, self._params, len(self._pictures)
        offsets = np.concatenate([[0], np.cumsum([p.pixels for p in self._pictures])]).astype(np.uint32)
        pixels = np.concatenate([p.array.reshape(-1) for p in self._pictures if p.array is not None])
        with session.scope() as scope:
            sizes = {"listed": 8 * int(offsets[-1]), "found": 8 * count}
            if self._lanes:
                sizes["places"] = 2 * int(offsets[-1])
            # As `cl/neuquant/small_images_colors.cl` leaves them.
            colors = {name: scope.empty(nbytes) for name, nbytes in sizes.items()}
            colors["offsets"], packed = scope.copy_of(offsets), scope.empty(4 * int(offsets[-1]))
            firsts = scope.empty(4 * count * params.n_colors)
            self._count_colors(scope, scope.copy_of(pixels), packed, colors, firsts)
            found = session.download(colors["found"], (count, 2), np.uint32)
            listed = session.download(firsts, (count, params.n_colors), np.uint32)
            distinct, alphas = found[:, 0].astype(np.int64), found[:, 1]
            exact = (distinct <= params.n_colors - (alphas & TRANSPARENT)) & params.keep_exact
            own = {int(i): _sorted(listed[i, : distinct[i]]) for i in np.flatnonzero(exact)}
            for key in np.unique(alphas[~exact]):
                which = np.flatnonzero(~exact & (alphas == key)).astype(np.uint32)
                # The largest first: they take longest.
                which = which[np.argsort(-np.diff(offsets.astype(np.int64))[which], kind="stable")]
                space = spaces.space(params.color_space, bool(key & PARTIAL))
                nodes = self._train(scope, packed, colors, which, space, params.n_colors - int(key & TRANSPARENT))
                own.update(zip(which.tolist(), _rgba(space, nodes), strict=True))
        return [LearnedColors(own[i], bool(alphas[i] & TRANSPARENT), bool(alphas[i] & PARTIAL)) for i in range(count)]

    def _groups(self, pictures: int, scratch: int) -> int:
        """Number of work-groups for so many pictures, each with so many bytes of scratch memory."""
        limits = self._session.limits
        most = min(MAX_SCRATCH, limits.max_alloc, limits.global_memory // 16) // scratch
        return max(min(pictures, self._session.tuned("batch.groups_a_unit") * limits.compute_units, most), 1)

    def _count_colors(
        self, scope: Scope, pixels: Buffer, packed: Buffer, colors: dict[str, Buffer], firsts: Buffer
    ) -> None:
        """Queue the counting of each picture's colours."""
        session, count = self._session, len(self._pictures)
        constants = {"CHANNELS": self._pictures[0].channels, "PLACES": int(self._lanes)}

        def build(local: int) -> Kernel:
            return session.program("neuquant/small_images_colors.cl", LOCAL=local, **constants).kernel(
                "neuquant_many_colors"
            )

        kernel, local = kernel_for_group(session, self._group, build)
        largest = max(p.pixels for p in self._pictures)
        slots = 1 << (2 * min(largest, MAX_DISTINCT + local) - 1).bit_length()
        groups = self._groups(count, 8 * slots)
        sizes = np.array([count, slots, MAX_DISTINCT, self._params.n_colors], np.uint32)
        session.launch(
            kernel,
            groups * local,
            local,
            pixels=pixels,
            tables=scope.zeros(groups * 8 * slots),
            colors=packed,
            firsts=firsts,
            sizes=sizes,
            **colors,
        )

    def _train(
        self,
        scope: Scope,
        packed: Buffer,
        colors: dict[str, Buffer],
        which: npt.NDArray[np.uint32],
        space: Space,
        n_colors: int,
    ) -> npt.NDArray[np.int64]:
        """(pictures, n_colors, dims): the nodes of some pictures' maps, rounded to whole coordinates."""
        session, params, variant = self._session, self._params, self._variant
        constants = {
            "STEPS": schedules.STEPS,
            "STAGED": 1,
            "CITY_BLOCK": int(params.metric == "l1"),
            "CONSCIENCE": int(params.conscience),
            "WIDE": int(_is_wide(space)),
            **map_constants(space),
            **space.constants(),
        }

        def build(local: int) -> Kernel:
            program = session.program(variant.file, LOCAL=local, **variant.constants, **constants)
            return program.kernel("neuquant_many")

        kernel, local = kernel_for_group(session, self._group, build)
        schedule = schedules.schedule(n_colors, params.sample_factor)
        steps = np.array([(s.first, s.batch, s.offset, s.reach) for s in schedule.steps], np.uint32)
        networks = gray_axis(space, n_colors, NODE_BITS)[None]
        if params.refine_steps and n_colors <= MAX_NODES_OF_STARTS:
            networks = np.concatenate([networks, other_starts(space, n_colors)])
        plane = (max(self._pictures[i].pixels for i in which) + PADDING + 1) // 2 * 2
        scratch = (LANES_SCRATCH_BYTES if self._lanes else SCRATCH_BYTES) * plane
        groups = self._groups(len(which), scratch)
        refined = params.refine_steps * FEW_COLORS_STEPS, params.refine_steps, schedule.refined, MAX_DISTINCT
        nodes = scope.empty(16 * n_colors * len(which))
        session.launch(
            kernel,
            groups * local,
            local,
            pixels=packed,
            which=scope.copy_of(which),
            steps=scope.copy_of(steps),
            pulls=scope.copy_of(schedule.pulls),
            decay=scope.copy_of(schedules.decay()),
            tables=scope.copy_of(space.tables()),
            nodes_in=scope.copy_of(as_vectors(networks)),
            scratch=scope.empty(groups * scratch),
            nodes_out=nodes,
            sizes=np.array([len(which), plane, params.start, n_colors], np.uint32),
            refined=np.array(refined, np.uint32),
            starts=np.uint32(len(networks)),
            extent=np.array((*space.extent, 0)[:4], np.int32),
            memory=LocalMemory(_memory(space, n_colors, params.conscience, self._lanes)),
            **colors,
        )
        return whole_nodes(session.download(nodes, (len(which), n_colors, 4), np.int32), space)


def _is_wide(space: Space) -> bool:
    """Whether a sum of squares may not fit 32 bits."""
    return MAX_PIXELS * max(space.extent) ** 2 >= 2**32


def _memory(space: Space, n_colors: int, conscience: bool, lanes: bool) -> int:
    """Bytes of local memory of a group that learns; see the kernel files."""
    fourth, quarters = space.dims == 4, -(-n_colors // 4)
    totals = (2 + _is_wide(space)) * n_colors + fourth * quarters
    searched = (2 * space.dims + 4) * (-(-n_colors // 16) * 4) if lanes else n_colors + fourth * quarters
    rest = 2 * n_colors + searched + (2 * conscience + 6) * quarters
    return 16 * (totals * (1 + lanes) + rest)


def _rgba(space: Space, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """(pictures, K, 4) colours of (pictures, K, dims) nodes."""
    colors = space.colors(nodes.reshape(-1, space.dims))
    rgba = np.full((len(colors), 4), 255, np.uint8)
    rgba[:, : colors.shape[1]] = colors
    return rgba.reshape(len(nodes), -1, 4)


def _sorted(packed: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """(n, 4) colours of alpha above 0, in the order of R, G, B, alpha."""
    return np.asarray(np.sort(packed.byteswap()).byteswap()).view(np.uint8).reshape(-1, 4)
