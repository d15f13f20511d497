# PYTHON_ARGCOMPLETE_OK
"""Where the command begins: Ctrl-C ends it at once, and without a word of Python's, until it has work under way."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


def main() -> int:
    """Run the command as a process of its own (see `clquant.cli.main`)."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the caller wants it ignored
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from clquant.cli import main as command  # imports NumPy and PyOpenCL, which an interrupt may break

    return command(running=_interruptible() if ours else contextlib.nullcontext())


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Within the block Ctrl-C raises `KeyboardInterrupt`, so that what is under way is undone."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
