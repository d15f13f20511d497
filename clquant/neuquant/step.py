"""The step of the mini-batch map as a device takes it: variant, work-group size, what local memory holds."""

from __future__ import annotations

from dataclasses import dataclass

from clquant.runtime import Kernel, LocalMemory, Session, Variant

# Words per colour of a slab (cl/neuquant/map.h), and of the part that the map's own steps need.
SLAB_WORDS = 14
STEP_WORDS = 6
# Shapes of the portable step, in the map and in the refinement: work-items that share a point, points that a work-item
# has at once, most groups per compute unit. If a group's totals do not fit local memory, more work-items share
# a point's additions to global memory. The best of those measured on an NVIDIA H200; they change no bit.
MAP_SHAPE = (8, 2, 2)
REFINE_SHAPE = (1, 4, 2)
REFINE_SHAPE_OF_MANY = (2, 2, 2)

STEP_VARIANTS = (
    Variant(
        "lanes", "neuquant/step_lanes.cl", lambda limits: limits.is_cpu and limits.local_memory >= 1 << 17, gain=10.9
    ),
    Variant("portable", "neuquant/step.cl"),
)


@dataclass(frozen=True)
class StepForm:
    """`neuquant_step` as a device takes it."""

    kernel: Kernel
    local: int
    at_once: int  # points that a group searches for at once
    most_groups: int
    memory: dict[str, LocalMemory]  # local memory by name


@dataclass(frozen=True)
class StepForms:
    """`neuquant_step` for one map on one device."""

    session: Session
    n_colors: int
    constants: dict[str, int]  # those of `cl/neuquant/map.h` but `STAGED`

    def map_step(self, city_block: bool, conscience: bool) -> StepForm:
        """`neuquant_step` for the map's own steps; `city_block` is the metric's."""
        return self._step(MAP_SHAPE, CITY_BLOCK=int(city_block), CONSCIENCE=int(conscience), SQUARES=0, WEIGHTED=0)

    def refine_step(self, weighted: bool) -> StepForm:
        """`neuquant_step` for the assignment of the refinement, with weighted points or not."""
        many = 2 * 4 * SLAB_WORDS * self.n_colors > self.session.limits.local_memory
        shape = REFINE_SHAPE_OF_MANY if many else REFINE_SHAPE
        return self._step(shape, CITY_BLOCK=0, CONSCIENCE=0, SQUARES=1, WEIGHTED=int(weighted))

    def _step(self, shape: tuple[int, int, int], **kind: int) -> StepForm:
        session, options = self.session, {**kind, **self.constants}
        units = session.limits.compute_units
        variant = session.choose(STEP_VARIANTS)
        won = 4 * (1 + options["DIMS"]) * self.n_colors
        if variant.name == "lanes" and not options["CITY_BLOCK"] and not options["CONSCIENCE"]:
            kernel = session.program(variant.file, STAGED=1, **options).kernel("neuquant_step")
            planes = 4 * (2 * options["DIMS"] + 4) * (-(-self.n_colors // 16) * 16)
            memory = _local(network=planes, present=16 * self.n_colors, totals=4 * SLAB_WORDS * self.n_colors)
            return StepForm(kernel, 1, 16, units, memory)
        most_lanes, tile, groups_per_unit = shape
        plan: dict[str, int] = {}

        def build(local: int) -> Kernel:
            free = session.limits.local_memory - 8 * local * tile * (1 + options["CONSCIENCE"])
            lanes = min(most_lanes, local)
            short = int(not options["CONSCIENCE"] and self.n_colors <= 256 * lanes)
            plan.update(LOCAL=local, LANES=lanes, SHORT_KEYS=short, **self._memory_plan(free, options))
            return session.program(STEP_VARIANTS[-1].file, TILE=tile, **plan, **options).kernel("neuquant_step")

        kernel, local = session.kernel_for_group(session.tuned("neuquant.group"), build)
        padded = -(-self.n_colors // plan["LANES"]) * plan["LANES"]
        sizes = {"network": (8 if plan["PACKED"] else 16) * padded}
        if plan["STAGED"]:
            words = SLAB_WORDS if options["SQUARES"] else STEP_WORDS
            sizes["staged"] = 4 * words * self.n_colors if plan["TOTALS"] else won
        if options["CONSCIENCE"]:
            sizes["bias"] = 4 * padded
        return StepForm(kernel, local, local // plan["LANES"] * tile, units * groups_per_unit, _local(**sizes))

    def _memory_plan(self, free: int, options: dict[str, int]) -> dict[str, int]:
        """Constants of the portable step's local memory: the fastest plan that fits `free` bytes, or the smallest."""
        plans = [{"PACKED": 0, "STAGED": 1, "TOTALS": 1}, {"PACKED": 0, "STAGED": 1, "TOTALS": 0}]
        for plan in plans:
            words = SLAB_WORDS if plan["TOTALS"] and options["SQUARES"] else STEP_WORDS
            if (16 + 4 * options["CONSCIENCE"] + 4 * words) * (self.n_colors + MAP_SHAPE[0]) <= free:
                return plan
        return {"PACKED": 1, "STAGED": 0, "TOTALS": 0}


def _local(**sizes: int) -> dict[str, LocalMemory]:
    """Local memory of so many bytes, rounded up to vectors."""
    return {name: LocalMemory(-(-size // 16) * 16) for name, size in sizes.items()}
