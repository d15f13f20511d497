"""Devices that failed a golden job (`clquant devices --check`), by name and driver: none is used in silence."""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import warnings

import pyopencl as cl

from clquant.runtime.program.caches import read_regular, write_whole
from clquant.runtime.program.programs import cache_folder

FILE = "unfit.json"
_MOST_BYTES = 1 << 20

_warned: set[str] = set()


def _key(device: cl.Device) -> str:
    return f"{device.platform.name.strip()}: {device.name.strip()}, driver {device.driver_version.strip()}"


def _path() -> pathlib.Path | None:
    folder = cache_folder()
    return None if folder is None else folder / FILE


@functools.cache
def defects() -> dict[str, str]:
    """Read the stored defects by device, once in a process."""
    path = _path()
    with contextlib.suppress(OSError, ValueError, RecursionError):  # then nothing is known
        content = json.loads(b"{}" if path is None else read_regular(path, _MOST_BYTES))
        if isinstance(content, dict):
            return {str(name): str(what) for name, what in content.items()}
    return {}


def unfit(device: cl.Device) -> str:
    """Return the stored defect of a device with its workaround; empty if none is known."""
    found = defects()
    return found.get(_key(device), "") if found else ""


def warn_if_unfit(device: cl.Device) -> None:
    """Say once in a process that a device computes wrongly."""
    what = unfit(device)
    if what and _key(device) not in _warned:
        _warned.add(_key(device))
        warnings.warn(f"{_key(device)} is unfit: {what} (clquant devices --check)", RuntimeWarning, stacklevel=3)


def note(device: cl.Device, what: str) -> None:
    """Store what a check found wrong with a device and its driver; empty text if it is fit."""
    found, path = defects(), _path()
    if found.get(_key(device), "") == what:
        return
    found.pop(_key(device), None)
    if what:
        found[_key(device)] = what
    if path is not None:
        write_whole(path, json.dumps(found, indent=1, sort_keys=True).encode())


def forget() -> None:
    """Read the file anew when it is asked for next."""
    defects.cache_clear()
    _warned.clear()
