"""Building OpenCL programs without what compilers say in passing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, cast

import pyopencl as cl

from clquant.runtime.driver_calls import driver_call


def build(program: cl.Program, device: cl.Device, options: Sequence[str] = ()) -> cl.Program:
    """Build a program, from source or from a binary, for one device.

    PyOpenCL warns wherever a compiler says anything, and some say something about every program; errors still carry the
    whole log.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        # PyOpenCL's own cache waits a minute for a lock it cannot make in a read-only folder.
        with driver_call():
            return cast(cl.Program, program.build(options=list(options), devices=[device], cache_dir=cast(Any, False)))
