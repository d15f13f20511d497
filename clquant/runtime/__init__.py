"""The only place that knows OpenCL's mechanics: devices, programs and their variants, memory, limits, errors."""

from pyopencl import Buffer, CommandQueue, LocalMemory
from pyopencl.array import Array

from clquant.runtime.device.bounds import bound
from clquant.runtime.device.discovery import (
    default_device,
    default_queue,
    describe,
    find_device,
    list_devices,
    profiling_queue,
    sibling_queue,
    thread_queue,
)
from clquant.runtime.device.limits import Limits, host_memory
from clquant.runtime.device.several import QueueLike, device_queues, first_queue, is_several, queues_of
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
    PictureError,
    StoppedError,
)
from clquant.runtime.launch import PreparedLaunch
from clquant.runtime.memory.job_cache import cached_job, release_memory
from clquant.runtime.memory.pinned import is_page_locked
from clquant.runtime.memory.scope import Scope
from clquant.runtime.open_session import open_session
from clquant.runtime.philox import philox4x32, seed_key
from clquant.runtime.profiling import profile
from clquant.runtime.program.kernel import Kernel
from clquant.runtime.program.programs import Program, full_source
from clquant.runtime.program.tuning import force_tuning
from clquant.runtime.program.variants import NVIDIA_FENCE, Variant, force_variant
from clquant.runtime.progress import Progress, ProgressCallback
from clquant.runtime.session import Session
from clquant.runtime.total import Total
from clquant.runtime.transfer.copy import Upload
from clquant.runtime.transfer.host_result import HostResult, empty_pinned
from clquant.runtime.transfer.readback import Readback
from clquant.runtime.transfer.rows import Rows, copy_rows
from clquant.runtime.transfer.staging import SMALLEST as STAGED_BYTES

__all__ = [
    "NVIDIA_FENCE",
    "STAGED_BYTES",
    "Array",
    "Buffer",
    "BuildError",
    "ClquantError",
    "CommandQueue",
    "DeviceError",
    "DeviceMemoryError",
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
    "PictureError",
    "PreparedLaunch",
    "Program",
    "Progress",
    "ProgressCallback",
    "QueueLike",
    "Readback",
    "Rows",
    "Scope",
    "Session",
    "StoppedError",
    "Total",
    "Upload",
    "Variant",
    "bound",
    "cached_job",
    "copy_rows",
    "default_device",
    "default_queue",
    "describe",
    "device_queues",
    "empty_pinned",
    "find_device",
    "first_queue",
    "force_tuning",
    "force_variant",
    "full_source",
    "host_memory",
    "is_page_locked",
    "is_several",
    "list_devices",
    "open_session",
    "philox4x32",
    "profile",
    "profiling_queue",
    "queues_of",
    "release_memory",
    "seed_key",
    "sibling_queue",
    "thread_queue",
]
