"""Kernel files to programs: sources found wherever the package lies, built once, cached on disk."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyopencl as cl

from clquant.runtime.driver_calls import driver_call
from clquant.runtime.errors import BuildError, DeviceError, device_error, is_out_of_memory
from clquant.runtime.program import pocl
from clquant.runtime.program.caches import read_regular, system_caches, with_any_cache, write_whole
from clquant.runtime.program.kernel import Kernel, argument_names

CACHE_VARIABLE = "CLQUANT_CACHE_DIR"
# Compilers made of Clang print into the user's terminal how many warnings they have, of loops not unrolled for one.
OPTIONS = ["-cl-std=CL1.2", "-w", "-cl-kernel-arg-info"]
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([\w./]+)"[ \t]*$', re.MULTILINE)
# PoCL keeps a cache of its own, of the kernels in use alone; asking it for a binary compiles every kernel of a file
# for any work-group size (measured: half of the time of a cold first picture). Oclgrind compiles nothing.
NOT_CACHED = (pocl.PLATFORM, "Oclgrind")
_CONTEXTS_KEPT = 16
_MOST_BYTES = 1 << 28  # of a compiled program

Constants = Mapping[str, int | str]
ArgumentNames = Mapping[str, Sequence[str]]  # by kernel


class Program:
    """A built kernel file. `kernel(name)` gives its kernels, one object a name."""

    def __init__(self, native: cl.Program, arguments: ArgumentNames | None = None) -> None:
        self._native = native
        self._arguments = arguments or {}
        self._kernels: dict[str, Kernel] = {}

    def kernel(self, name: str) -> Kernel:
        """Return the kernel of that name."""
        if name not in self._kernels:
            self._kernels[name] = Kernel(self._native, name, self._arguments.get(name))
        return self._kernels[name]


@functools.cache
def kernel_folder() -> pathlib.Path:
    """Return the folder of kernel files: inside an installed package, or `cl/` beside it in a checkout."""
    package = pathlib.Path(__file__).parents[2]
    installed = package / "kernels"
    return installed if installed.is_dir() else package.parent / "cl"


def kernel_source(file: str) -> str:
    """The text of a kernel file with its includes put in place.

    Includes are inlined here because `-I` with a space in the path breaks several drivers.
    """

    def read(name: str) -> str:
        path = kernel_folder() / name
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DeviceError(f"kernel file {name!r} cannot be read: {error}") from error
        return _INCLUDE.sub(lambda match: read(match.group(1)), text)

    return read(file)


def full_source(file: str, constants: Constants) -> str:
    """A kernel file's text behind the `#define`s of its compile-time constants, in the order of their names."""
    defines = "".join(f"#define {name} {value}\n" for name, value in sorted(constants.items()))
    return defines + f'#line 1 "{file}"\n' + kernel_source(file)


def cache_folder() -> pathlib.Path | None:
    """Return the folder of compiled programs: `CLQUANT_CACHE_DIR`, None if that is empty; else the system's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named is not None:
        return pathlib.Path(named) if named else None
    caches = system_caches()
    return None if caches is None else caches / "clquant"


def _cache_path(device: cl.Device, source: str) -> pathlib.Path | None:
    folder = cache_folder()
    if folder is None or device.platform.name in NOT_CACHED:
        return None
    platform = device.platform
    fields = [platform.name, platform.version, device.name, device.version, device.driver_version, *OPTIONS, source]
    return folder / (_sha256("\0".join(fields).encode()).hex() + ".bin")


def _seal(path: pathlib.Path, content: bytes) -> bytes:
    """Hash a program with its name, which stands for source and device: a copy under another name is refused."""
    return _sha256(path.stem.encode() + b"\0" + content)


def _sha256(data: bytes) -> bytes:
    import hashlib  # loads OpenSSL, which jobs through PoCL do without

    return hashlib.sha256(data).digest()


def _build(program: cl.Program, device: cl.Device, options: Sequence[str] = ()) -> cl.Program:
    """Build a program for one device without the warnings of what its compiler says; errors carry the whole log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        # PyOpenCL's own cache waits a minute for a lock it cannot make in a read-only folder.
        with driver_call():
            return cast(cl.Program, program.build(options=list(options), devices=[device], cache_dir=cast(Any, False)))


def _load_binary(context: cl.Context, device: cl.Device, path: pathlib.Path) -> Program | None:
    """The cached program, or None if there is none that is whole and this user's own; then it is compiled."""
    try:
        content = read_regular(path, _MOST_BYTES, own=True)
    except OSError:
        return None
    seal, content = content[:32], content[32:]
    if _seal(path, content) != seal:
        return None
    names, _, binary = content.partition(b"\n")
    try:
        return Program(_build(cl.Program(context, [device], [binary]), device), json.loads(names))
    except cl.Error:
        return None


def _binary_of(program: cl.Program, device: cl.Device) -> bytes:
    """Return a device's binary; those of other devices, for which the program was not built, are empty."""
    devices: list[cl.Device] = cast(Any, program.get_info(cl.program_info.DEVICES))
    binaries: list[bytes] = cast(Any, program.get_info(cl.program_info.BINARIES))
    # PoCL lists binaries of those devices only that it was built for.
    return binaries[devices.index(device)] if len(binaries) == len(devices) else b"".join(binaries[:1])


def _store_binary(program: cl.Program, device: cl.Device, path: pathlib.Path) -> None:
    """Write a compiled program whole or not at all; a cache that cannot be written is no error.

    The names of its kernels' arguments stand before it, as drivers need not tell them of a binary.
    """
    try:
        binary = _binary_of(program, device)
        kernels = with_any_cache(program.all_kernels) if binary else ()
        names = {kernel.function_name: argument_names(kernel) for kernel in kernels}
    except (cl.Error, DeviceError):
        return
    if binary:
        content = json.dumps(names).encode() + b"\n" + binary
        write_whole(path, _seal(path, content) + content)


def _with_short_header(context: cl.Context, device: cl.Device, source: str) -> cl.Program | None:
    """The program, built with a short header instead of PoCL's long one; None elsewhere, and where it needs more."""
    if not pocl.takes_short_header(device):
        return None
    try:
        program = cl.Program(context, kernel_source(pocl.SHORT_HEADER) + pocl.conversions() + source)
        return _build(program, device, [*OPTIONS, pocl.WITHOUT_LONG_HEADER])
    except cl.Error:
        return None


def _compile(context: cl.Context, device: cl.Device, file: str, source: str) -> Program:
    path = _cache_path(device, source)
    if path is not None:
        cached = _load_binary(context, device, path)
        if cached is not None:
            return cached
    program = _with_short_header(context, device, source)
    if program is None:
        try:
            program = cl.Program(context, source)
            _build(program, device, OPTIONS)
        except cl.Error as error:
            if is_out_of_memory(error):
                raise device_error(error, f"building {file}") from error
            raise BuildError(
                f"{file} does not build on {device.name.strip()}:\n{error}{pocl.build_advice(error)}"
            ) from error
    if path is not None:
        _store_binary(program, device, path)
    return Program(program)


class ProgramCache:
    """Built programs of the contexts last used; one build at a time for each context."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contexts: OrderedDict[int, tuple[cl.Context, threading.Lock, dict[object, Program]]] = OrderedDict()

    def get(self, context: cl.Context, device: cl.Device, file: str, constants: Constants) -> Program:
        """Return the program of a kernel file with these constants, built at the first call."""
        with self._lock:
            # The context is kept with its programs: its handle cannot be reused while it is a key here.
            handle = context.int_ptr
            if handle not in self._contexts:
                self._contexts[handle] = context, threading.Lock(), {}
                if len(self._contexts) > _CONTEXTS_KEPT:
                    self._contexts.popitem(last=False)
            self._contexts.move_to_end(handle)
            entry = self._contexts[handle]
        _, lock, programs = entry
        key = (device.int_ptr, file, tuple(sorted(constants.items())))
        if key not in programs:
            with lock:
                if key not in programs:
                    programs[key] = _compile(context, device, file, full_source(file, constants))
        return programs[key]


PROGRAMS = ProgramCache()
