"""Numbers that a device's owner may tune: work-group sizes, work a launch, thresholds between forms of equal results.

`NAMES` says what there is. A value is taken from the first of: `force_tuning`, the user's file, which
`python -m benchmarks.tune` writes for the devices it measured, and the values shipped for each family of devices. None
of them can change a result: every one only says how the same integers are added up.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import os
import pathlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyopencl as cl

from clquant.runtime.device.discovery import describe
from clquant.runtime.device.limits import Limits
from clquant.runtime.errors import FormatError, InvalidArgument
from clquant.runtime.program.caches import read_regular
from clquant.runtime.program.programs import cache_folder

TUNING_VARIABLE = "CLQUANT_TUNING"
OFF = "off"
FILE = "tuning.json"
FORMAT = "clquant tuning 1"
_MOST_BYTES = 1 << 20

Values = Mapping[str, int]


class Parameter(NamedTuple):
    """A number that engines read by name, with the values shipped for families of devices."""

    allowed: tuple[int, ...]  # ascending; what `benchmarks.tune` tries and what a file may say
    any: int
    cpu: int | None = None  # where it differs
    nvidia: int | None = None


def _powers(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    """2^first, 2^(first + step), ... up to 2^last."""
    return tuple(1 << exponent for exponent in range(first, last + 1, step))


# By the engine or module, a dot, and what it is.
NAMES = {
    "batch.group": Parameter(_powers(0, 6), 64),  # work-items that share a small picture in fit_many
    "batch.groups_a_unit": Parameter(_powers(0, 6), 16, cpu=4),  # groups a unit in fit_many
    "batch.pictures": Parameter(_powers(0, 14), 1024, nvidia=2048),  # small pictures a launch in fit_many
    "counting.group": Parameter(_powers(0, 8), 64, nvidia=256),  # group size where colours are counted
    "counting.groups_a_unit": Parameter(_powers(0, 5), 4),  # groups a unit where cells are counted (CPUs)
    "counting.table_pixels": Parameter((0, *_powers(12, 24, 2)), 1 << 18, nvidia=0),  # most pixels counted by a table
    "counting.work_items": Parameter(_powers(8, 22), 1 << 16),  # most work-items that count one picture's colours
    "halftone.group": Parameter(_powers(0, 8), 64, cpu=1),  # group size of the portable pinwheel
    "halftone.palette_group": Parameter(_powers(0, 8), 32, cpu=1),  # group size of the pinwheel to a palette
    "kmeans.box_group": Parameter(_powers(0, 10), 256, cpu=4, nvidia=1024),  # most items that cut a box of points
    "kmeans.grid_group": Parameter(_powers(5, 10), 512),  # group size where groups meet in one launch
    "kmeans.group": Parameter(_powers(0, 8), 64),  # group size of a Lloyd step's assignment
    "kmeans.groups_a_unit": Parameter(_powers(0, 7), 16, cpu=4),  # groups a unit of the assignment
    "kmeans.sketch_group": Parameter(_powers(0, 10), 64, cpu=1, nvidia=256),  # group size for a sketch's means
    "kmeans.steps_a_launch": Parameter(_powers(0, 8), 64),  # most Lloyd steps of a launch where groups meet
    "kmeans.steps_a_wait": Parameter(_powers(0, 6), 8),  # Lloyd steps queued before the host looks at them
    "kmeans.swap_group": Parameter(_powers(0, 10), 256, cpu=1),  # group size of a round of swaps in one launch
    "kmeans.update_group": Parameter(_powers(0, 10), 256, cpu=1),  # group size of a Lloyd step's update
    "mapping.grid_pays": Parameter((1, *_powers(16, 32, 2)), 1 << 24, nvidia=1 << 28),  # pixels x colours of a grid
    "mapping.group": Parameter(_powers(0, 8), 64),  # group size of the nearest-colour mapping
    "mapping.groups_a_unit": Parameter(_powers(0, 5), 2),  # runs of pixels per compute unit in the mapping (CPUs)
    "mapping.table_pays": Parameter(_powers(16, 32, 2), 1 << 24, nvidia=1 << 20),  # pixels of a table
    "neuquant.group": Parameter(_powers(0, 8), 256),  # group size of a step of the parallel map
    "quadtree.leaf_group": Parameter(_powers(0, 7), 32),  # group size that gathers leaves
    "quadtree.tile_group": Parameter(_powers(0, 7), 32),  # group size that reduces a tile
    "quadtree.upper_group": Parameter(_powers(0, 7), 64, cpu=1),  # group size of the levels above the tiles
    "transfer.bands": Parameter(_powers(0, 6), 8),  # bands of a picture whose transfers and kernels overlap
    "vq.decode_group": Parameter(_powers(0, 8), 256),  # group size of the VQ decoder
    "vq.group": Parameter(_powers(0, 8), 128),  # group size of the VQ search
    "vq.train_group": Parameter(_powers(0, 8), 128),  # group size of the kernels of VQ training
}

_forced: contextvars.ContextVar[Values | None] = contextvars.ContextVar("clquant_tuning", default=None)


def family(limits: Limits) -> str:
    """The family of devices that shipped values are listed by."""
    if limits.has_lanes():
        return "cpu"
    return "nvidia" if limits.is_nvidia else "any"


def shipped(name: str) -> dict[str, int]:
    """Return the values shipped for a family: ``"any"``, ``"cpu"`` or ``"nvidia"``."""
    own = {parameter: getattr(found, name) for parameter, found in NAMES.items()}
    return {parameter: NAMES[parameter].any if number is None else number for parameter, number in own.items()}


def user_file() -> pathlib.Path | None:
    """Return the file of `benchmarks.tune`: in the folder of compiled programs; None where that is off."""
    folder = cache_folder()
    return None if folder is None else folder / FILE


def checked(name: str, value: object) -> int:
    """Check a parameter's value."""
    if name not in NAMES:
        raise InvalidArgument(f"tuning has no parameter {name!r}; there are {', '.join(NAMES)}")
    allowed = NAMES[name].allowed
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise InvalidArgument(f"tuning {name} is {value!r}; allowed: {', '.join(map(str, allowed))}")
    return value


def parse(content: bytes) -> dict[str, dict[str, int]]:
    """Parse an untrusted tuning file into values by device."""
    try:
        tables: Any = json.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FormatError(f"it is no JSON: {error}") from error
    if not isinstance(tables, dict) or tables.get("format") != FORMAT or not isinstance(tables.get("devices"), dict):
        raise FormatError(f'it lacks "format": "{FORMAT}" and "devices"')
    found: dict[str, dict[str, int]] = {}
    for device, values in tables["devices"].items():
        if not isinstance(values, dict):
            raise FormatError(f"{device!r} has no table of values")
        try:
            found[device] = {name: checked(name, value) for name, value in values.items()}
        except InvalidArgument as error:
            raise FormatError(str(error)) from error
    return found


def unparse(tables: Mapping[str, Values]) -> bytes:
    """A tuning file's content; `parse` reads it."""
    return (json.dumps({"format": FORMAT, "devices": tables}, indent=1, sort_keys=True) + "\n").encode()


def read(path: pathlib.Path) -> dict[str, dict[str, int]]:
    """Read the values by device of a file; empty if there is none."""
    try:
        content = read_regular(path, _MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FormatError(f"it cannot be read: {error.strerror or error}") from error
    if len(content) > _MOST_BYTES:
        raise FormatError(f"it is longer than {_MOST_BYTES} bytes")
    return parse(content)


def value(device: cl.Device, limits: Limits, name: str) -> int:
    """Return a parameter's value on a device, whose limits may be lowered."""
    forced = _forced.get()
    if forced is not None and name in forced:
        return forced[name]
    return _values(device, family(limits), os.environ.get(TUNING_VARIABLE, ""))[name]


@functools.lru_cache(maxsize=64)
def _values(device: cl.Device, kind: str, switch: str) -> Values:
    """Shipped values under the user's own. The file is read once in a process, and a bad one warned of once."""
    if switch not in ("", OFF):
        raise InvalidArgument(f"{TUNING_VARIABLE}={switch!r}; allowed: {OFF!r}, or not set")
    own: Values = {}
    path = user_file()
    if path is not None and switch != OFF:
        try:
            own = read(path).get(describe(device), {})
        except FormatError as error:
            message = f"{str(path)!r} is passed over: {error}; remove it"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return {**shipped(kind), **own}


def forget() -> None:
    """Read the user's file anew at the next value that is asked for."""
    _values.cache_clear()


@contextlib.contextmanager
def force_tuning(forced: Values) -> Iterator[None]:
    """Within the block, this thread takes these values for the parameters named."""
    given = {name: checked(name, number) for name, number in forced.items()}
    token = _forced.set({**(_forced.get() or {}), **given})
    try:
        yield
    finally:
        _forced.reset(token)
