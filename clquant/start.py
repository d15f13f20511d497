# PYTHON_ARGCOMPLETE_OK
"""The command's first moments: Ctrl-C ends it at once, and without a word of Python's, until it has work under way.

Nothing is imported before that is so but what setting a signal takes.
"""

from __future__ import annotations

import signal


def main() -> int:
    """Run the command as a process of its own (see `clquant.cli.main`)."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the caller wants it ignored
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import gc
    import os

    # NumPy's linear algebra, of which the command has little, otherwise starts a thread per core at import: 60 to 90 ms
    # of processor time. Nor is anything imported that the collector could free.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    from clquant.cli import main as command  # imports NumPy and PyOpenCL, which an interrupt may break

    return command(running=_Working(interruptible=ours))


class _Working:
    """Within the block Ctrl-C, SIGTERM and SIGHUP raise `KeyboardInterrupt`, so that what is under way is undone.

    Garbage is collected there.
    """

    def __init__(self, interruptible: bool) -> None:
        self._interruptible = interruptible
        named = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]  # Windows has not all
        self._endings = [each for each in named if each is not None and signal.getsignal(each) is signal.SIG_DFL]

    def __enter__(self) -> None:
        import gc

        gc.freeze()
        gc.enable()
        if self._interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in self._endings:
            signal.signal(each, self._end)

    def _end(self, number: int, _: object) -> None:
        for each in self._endings:
            signal.signal(each, signal.SIG_IGN)  # until all is undone
        raise KeyboardInterrupt(number)

    def __exit__(self, *_: object) -> None:
        if self._interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        for each in self._endings:
            signal.signal(each, signal.SIG_DFL)
