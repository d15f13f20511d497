"""Every error a person can cause: each derives from `ClquantError` and from the built-in it refines."""

from __future__ import annotations

from types import TracebackType

import pyopencl as cl

from clquant.runtime.driver_calls import begin, driver_call, under_way


class ClquantError(Exception):
    """Base of every error that clquant raises on purpose."""


class InvalidArgument(ClquantError, ValueError):  # noqa: N818 - the name says what is wrong
    """An argument has a value that is not allowed; the message names it and what is allowed."""


class PictureError(InvalidArgument):
    """A picture does not allow what is asked of it, though others may."""


class InvalidType(ClquantError, TypeError):  # noqa: N818
    """An argument is of a type or dtype that is not allowed."""


class FormatError(ClquantError, ValueError):
    """Bytes are not what they claim to be: damaged, truncated, or of another format."""


class FileError(ClquantError, OSError):
    """A file cannot be found, read or written."""


class NotFittedError(ClquantError, ValueError, AttributeError):
    """A result was asked of an engine before `fit` gave it one."""


class DeviceError(ClquantError, RuntimeError):
    """An OpenCL device refused a job, or failed in it."""


class NoDeviceError(DeviceError):
    """No OpenCL device fits what was asked for; the message says how to get one."""


class BuildError(DeviceError):
    """A kernel did not compile; the message holds the driver's whole build log."""


# `MemoryError` stands first, as else `__new__` refuses the class, which libraries call that send errors on (tblib).
class DeviceMemoryError(MemoryError, ClquantError):
    """The device has not the memory that a job needs."""


class StoppedError(ClquantError, RuntimeError):
    """A progress callback returned False; what was learned before the call still stands."""


_OUT_OF_MEMORY = {
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
}


class device_errors(driver_call):  # noqa: N801 - read as a function; a generator's context would take a launch's third
    """Turn PyOpenCL's errors inside the block into `DeviceMemoryError` or `DeviceError`, saying what was done."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    __enter__ = begin

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        under_way.discard(self)
        if error is not None and isinstance(error, cl.Error):
            raise device_error(error, self._doing) from error


def device_error(error: cl.Error, doing: str) -> DeviceError | DeviceMemoryError:
    """Return the error to raise for one of PyOpenCL's (see `device_errors`)."""
    if is_out_of_memory(error):
        return DeviceMemoryError(f"the device ran out of memory in {doing}: {error}")
    return DeviceError(f"the device failed in {doing}: {error}")


def is_out_of_memory(error: cl.Error) -> bool:
    """Whether memory is what an error of PyOpenCL's is about."""
    return isinstance(error, cl.MemoryError) or error.code in _OUT_OF_MEMORY


def text_of(value: object) -> str:
    """A value's `repr` in one line, or its type if it has none; a long one loses its middle, not a path's end."""
    try:
        text = " ".join(repr(value).split("\n"))
    except Exception:  # an integer of over 4300 digits, or an object of the caller's that cannot say what it is
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:30]}...{text[-47:]}"
