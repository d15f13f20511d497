"""What a process of ``--jobs`` does: it takes jobs from its input and gives their results to its output."""

from __future__ import annotations

import os
import pickle
import sys

from clquant.cli import relay


def serve() -> None:
    """Do what `clquant.cli.processes` asks for, until it asks for nothing more."""
    # Whatever else prints must not come between the results.
    results = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            pickle.dump(relay.one(*job), results)
            results.flush()
        except BrokenPipeError:
            os._exit(1)  # nobody reads any more, so closing the output would fail as well
