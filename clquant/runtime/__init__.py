"""The only place that knows OpenCL's mechanics: devices, programs and their variants, memory, limits, errors."""

from pyopencl import Buffer, CommandQueue, Event
from pyopencl.array import Array

from clquant.runtime.devices import (
    default_device,
    default_queue,
    describe,
    find_device,
    list_devices,
    profiling_queue,
    sibling_queue,
)
from clquant.runtime.errors import (
    BuildError,
    ClquantError,
    DeviceError,
    DeviceMemoryError,
    FileError,
    FormatError,
    InvalidArgument,
    InvalidType,
    NoDeviceError,
    NotFittedError,
    StoppedError,
)
from clquant.runtime.gathering import gather_ahead
from clquant.runtime.keeping import kept, release_memory
from clquant.runtime.launching import PreparedLaunch, admitted
from clquant.runtime.limits import Limits
from clquant.runtime.memory import Scope
from clquant.runtime.opening import open_session
from clquant.runtime.overlapping import overlap_bands
from clquant.runtime.pages import PAGES
from clquant.runtime.philox import philox4x32, seed_key
from clquant.runtime.pinned import is_page_locked
from clquant.runtime.profiling import Profile, profile
from clquant.runtime.programs import Kernel, Program, full_source
from clquant.runtime.progress import Progress, ProgressCallback
from clquant.runtime.readings import Reading
from clquant.runtime.results import HostResult, array_to_send, empty_pinned
from clquant.runtime.session import LocalMemory, Session
from clquant.runtime.siblings import Siblings
from clquant.runtime.transfers import Upload
from clquant.runtime.tuning import force_tuning
from clquant.runtime.variants import NVIDIA_FENCE, Variant, force_variant

__all__ = [
    "NVIDIA_FENCE",
    "PAGES",
    "Array",
    "Buffer",
    "BuildError",
    "ClquantError",
    "CommandQueue",
    "DeviceError",
    "DeviceMemoryError",
    "Event",
    "FileError",
    "FormatError",
    "HostResult",
    "InvalidArgument",
    "InvalidType",
    "Kernel",
    "Limits",
    "LocalMemory",
    "NoDeviceError",
    "NotFittedError",
    "PreparedLaunch",
    "Profile",
    "Program",
    "Progress",
    "ProgressCallback",
    "Reading",
    "Scope",
    "Session",
    "Siblings",
    "StoppedError",
    "Upload",
    "Variant",
    "admitted",
    "array_to_send",
    "default_device",
    "default_queue",
    "describe",
    "empty_pinned",
    "find_device",
    "force_tuning",
    "force_variant",
    "full_source",
    "gather_ahead",
    "is_page_locked",
    "kept",
    "list_devices",
    "open_session",
    "overlap_bands",
    "philox4x32",
    "profile",
    "profiling_queue",
    "release_memory",
    "seed_key",
    "sibling_queue",
]
