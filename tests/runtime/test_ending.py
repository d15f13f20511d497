"""The end of the process at any moment: threads in calls, Ctrl-C while it starts."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]

DAEMON = """
import sys, threading, time
import clquant
from portability.inputs import photo

def work():
    while True:
        {call}

picture = photo(60, 80)
{call}
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
CALLS = [
    "clquant.KMeansPalette(8).fit_predict(picture)",
    "clquant.NeuQuantCL(8).fit(picture)",
    "clquant.VQCodec(8).fit(picture)",
    "clquant.PinwheelHalftoner(8).transform(picture[:, :, 0])",
    "clquant.QuadtreeBuilder().build(picture)",
]


PATIENT = "import clquant\nfrom clquant.runtime import driver_calls\ndriver_calls.PATIENCE_SECONDS = 3600\n"
PIPE = """
import os, select, threading, time

def read():
    clquant.quantize(os.fdopen(reading, "rb"), 4)

reading, writing = os.pipe()
os.write(writing, b"the beginning")
threading.Thread(target=read, daemon=True).start()
while select.select([reading], [], [], 0)[0]:
    time.sleep(0.01)
"""
CALLBACK = """
import threading
from portability.inputs import photo

def wait(done, total):
    told.set()
    threading.Event().wait()

def fit():
    clquant.KMeansPalette(8).fit(photo(60, 80), progress=wait)

told = threading.Event()
threading.Thread(target=fit, daemon=True).start()
told.wait()
"""
OTHERS = """
import atexit, threading
import numpy as np
import pyopencl as cl

def work():
    while not stop.is_set():
        cl.enqueue_copy(queue, np.empty(1 << 16, np.uint8), buffer)
        begun.set()
    print("whole")

def end():
    stop.set()
    thread.join()

atexit.register(end)  # before the library registers anything: so it is called later
import clquant.runtime

queue = clquant.runtime.default_queue()
buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 1 << 16)
begun, stop = threading.Event(), threading.Event()
thread = threading.Thread(target=work, daemon=True)
thread.start()
begun.wait()
"""

LATE = """
import atexit, threading
from portability.inputs import photo

def end():
    thread = threading.Thread(target=lambda: print(clquant.KMeansPalette(8).fit_predict(photo(9, 9)).shape))
    thread.start()
    thread.join()

atexit.register(end)
import clquant
from clquant.runtime import driver_calls
clquant.KMeansPalette(8).fit_predict(photo(9, 9))
driver_calls.PATIENCE_SECONDS = 0.01
"""

FORKED = """
import os, threading

def call():
    with driver_calls.driver_call():
        begun.set()
        go.wait()

begun, go = threading.Event(), threading.Event()
threading.Thread(target=call).start()
begun.wait()
child = os.fork()
if child:
    print(os.waitpid(child, 0)[1])
    go.set()
"""


def ended(program: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[8:15])
def test_daemon_threads_in_a_call_do_not_abort_the_process(call: str) -> None:
    assert ended(DAEMON.format(call=call)) == (0, "", "")


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="pipes cannot be looked at")
@pytest.mark.parametrize("program", [PIPE, CALLBACK], ids=["pipe", "callback"])
def test_a_daemon_thread_that_waits_for_its_caller_does_not_hold_up_the_end(program: str) -> None:
    assert ended(PATIENT + program) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_wait_for_its_parents_calls() -> None:
    assert ended(PATIENT + FORKED) == (0, "0\n", "")


@pytest.mark.full
def test_a_daemon_thread_of_others_is_left_alone() -> None:
    assert ended(OTHERS) == (0, "whole\n", "")


@pytest.mark.full
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="no thread can be started then")
def test_a_thread_that_is_waited_for_at_the_end_goes_on() -> None:
    assert ended(LATE) == (0, "(9, 9)\n", "")


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("at", range(4))
def test_ctrl_c_while_the_command_starts(at: int) -> None:
    """It ends at once and says nothing of Python's; the interpreter's own start is left out."""
    program = """
import signal, sys
from clquant.start import main

def announced(*args):
    set_signal(*args)
    print("begun", flush=True)
    signal.signal = set_signal

set_signal, signal.signal = signal.signal, announced
sys.argv = ["clquant", "devices"]
sys.exit(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        time.sleep(0.06 * at)
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        child.wait(60)
    assert child.returncode in (-signal.SIGINT, 130, 0)
    assert said in ("", "clquant: interrupted\n")
