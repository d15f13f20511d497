# PYTHON_ARGCOMPLETE_OK
"""Where the command begins: Ctrl-C ends it at once, and without a word of Python's, until it has work under way."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator


def main() -> int:
    """Run the command as a process of its own (see `clquant.cli.main`)."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the caller wants it ignored
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # NumPy's linear algebra, of which the command has little, otherwise starts a thread per core at import: 60 to 90 ms
    # of processor time. Nor is anything imported that the collector could free.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    from clquant.cli import main as command  # imports NumPy and PyOpenCL, which an interrupt may break

    return command(running=_working(interruptible=ours))


@contextlib.contextmanager
def _working(interruptible: bool) -> Iterator[None]:
    """Within the block Ctrl-C raises `KeyboardInterrupt`, so that what is under way is undone; garbage is collected."""
    gc.freeze()
    gc.enable()
    if not interruptible:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
