"""Numbers that a device's owner may tune: work-group sizes, work a launch, thresholds between forms of equal results.

`PARAMETERS` says what there is. A value is taken from the first of: `force_tuning`, the user's file, which
`python -m benchmarks.tune` writes for the devices it measured, and `tuning.json` beside this module, the values shipped
for each family of devices. None of them can change a result: every one only says how the same integers are added up.
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
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Parameter:
    """A number that engines read by name."""

    name: str  # the engine or module, a dot, and what it is
    allowed: tuple[int, ...]  # ascending; what `benchmarks.tune` tries and what a file may say
    purpose: str  # what it says, for tables and documentation


def _powers(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    """2^first, 2^(first + step), ... up to 2^last."""
    return tuple(1 << exponent for exponent in range(first, last + 1, step))


PARAMETERS = (
    Parameter("batch.group", _powers(0, 6), "work-items that share a small picture in fit_many"),
    Parameter("batch.groups_a_unit", _powers(0, 6), "work-groups per compute unit in fit_many"),
    Parameter("batch.pictures", _powers(0, 14), "small pictures a launch in fit_many"),
    Parameter("counting.group", _powers(0, 8), "work-group size where colours are counted"),
    Parameter("counting.groups_a_unit", _powers(0, 5), "work-groups per compute unit where cells are counted (CPUs)"),
    Parameter("counting.table_pixels", (0, *_powers(12, 24, 2)), "most pixels counted by a table, not a histogram"),
    Parameter("counting.work_items", _powers(8, 22), "most work-items that count one picture's colours"),
    Parameter("halftone.group", _powers(0, 8), "work-group size of the portable pinwheel"),
    Parameter("halftone.palette_group", _powers(0, 8), "work-group size of the pinwheel to a palette"),
    Parameter("kmeans.box_group", _powers(0, 10), "most work-items that cut a box of points across an axis"),
    Parameter("kmeans.grid_group", _powers(5, 10), "work-group size where groups meet in a launch of many Lloyd steps"),
    Parameter("kmeans.group", _powers(0, 8), "work-group size of a Lloyd step's assignment"),
    Parameter("kmeans.groups_a_unit", _powers(0, 7), "work-groups per compute unit of the assignment"),
    Parameter("kmeans.sketch_group", _powers(0, 10), "work-group size where a sketch's means are made"),
    Parameter("kmeans.steps_a_launch", _powers(0, 8), "most Lloyd steps of a launch where groups meet"),
    Parameter("kmeans.steps_a_wait", _powers(0, 6), "Lloyd steps queued before the host looks whether they are done"),
    Parameter("kmeans.swap_group", _powers(0, 10), "work-group size of a round of swaps in one launch"),
    Parameter("kmeans.update_group", _powers(0, 10), "work-group size of a Lloyd step's update"),
    Parameter(
        "mapping.grid_pays", (1, *_powers(16, 32, 2)), "pixels times colours from which a candidate grid is made"
    ),
    Parameter("mapping.group", _powers(0, 8), "work-group size of the nearest-colour mapping"),
    Parameter("mapping.groups_a_unit", _powers(0, 5), "runs of pixels per compute unit in the mapping (CPUs)"),
    Parameter("mapping.table_pays", _powers(16, 32, 2), "pixels from which scans make a table of all colours"),
    Parameter("neuquant.group", _powers(0, 8), "work-group size of a step of the parallel map"),
    Parameter("quadtree.leaf_group", _powers(0, 7), "work-group size that gathers leaves"),
    Parameter("quadtree.tile_group", _powers(0, 7), "work-group size that reduces a tile"),
    Parameter("quadtree.upper_group", _powers(0, 7), "work-group size that reduces the levels above the tiles"),
    Parameter("transfer.bands", _powers(0, 6), "bands of a picture whose transfers and kernels overlap"),
    Parameter("vq.decode_group", _powers(0, 8), "work-group size of the VQ decoder"),
    Parameter("vq.group", _powers(0, 8), "work-group size of the VQ search"),
    Parameter("vq.train_group", _powers(0, 8), "work-group size of the kernels of VQ training"),
)
NAMES = {parameter.name: parameter for parameter in PARAMETERS}

_forced: contextvars.ContextVar[Values | None] = contextvars.ContextVar("clquant_tuning", default=None)
_noted: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("clquant_tuning_noted", default=None)


def family(limits: Limits) -> str:
    """The family of devices that shipped values are listed by."""
    if limits.is_cpu and not limits.is_simulator:
        return "cpu"
    return "nvidia" if limits.is_nvidia else "any"


def shipped(name: str) -> dict[str, int]:
    """Return the values shipped for a family: ``"any"``, ``"cpu"`` or ``"nvidia"``."""
    families = json.loads((pathlib.Path(__file__).with_name(FILE)).read_text(encoding="utf-8"))
    return {**families["any"], **families[name]}


def user_file() -> pathlib.Path | None:
    """Where `benchmarks.tune` keeps what it measured: in the folder of compiled programs; None where that is off."""
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
    names = _noted.get()
    if names is not None:
        names.add(name)
    forced = _forced.get()
    if forced is not None and name in forced:
        return forced[name]
    return _values(device, family(limits), os.environ.get(TUNING_VARIABLE, ""))[name]


def values(device: cl.Device, limits: Limits) -> dict[str, int]:
    """All parameters' values on a device, as engines would read them now."""
    return {name: value(device, limits, name) for name in NAMES}


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


@contextlib.contextmanager
def noted() -> Iterator[set[str]]:
    """A set that receives the names of the parameters that are read inside the block, in this thread and its lanes."""
    names: set[str] = set()
    token = _noted.set(names)
    try:
        yield names
    finally:
        _noted.reset(token)


def forget() -> None:
    """Read the user's file anew at the next value that is asked for."""
    _values.cache_clear()


@contextlib.contextmanager
def force_tuning(forced: Values) -> Iterator[None]:
    """Within the block, this thread takes these values for the parameters named.

    Parameters
    ----------
    forced : mapping of str to int
        Others are as ever.

    Raises
    ------
    InvalidArgument
        If a name or value is not allowed.
    """
    given = {name: checked(name, number) for name, number in forced.items()}
    token = _forced.set({**(_forced.get() or {}), **given})
    try:
        yield
    finally:
        _forced.reset(token)
