"""The end of the process at any moment: threads in calls, Ctrl-C while it starts."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from clquant import runtime
from clquant.runtime.device import ending

ROOT = pathlib.Path(__file__).parents[2]

DAEMON = """
import sys, threading, time
import clquant
from tests.portability.inputs import photo

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


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[8:15])
def test_daemon_threads_in_a_call_do_not_abort_the_process(call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DAEMON.format(call=call)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("daemon", [False, True])
def test_calls_are_refused_when_the_process_is_ending(daemon: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_ending", True)
    runtime.open_session()  # the thread that ends the process may go on, in functions called at exit
    raised: list[BaseException] = []

    def call() -> None:
        try:
            runtime.open_session()
        except (runtime.DeviceError, SystemExit) as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=daemon)
    thread.start()
    thread.join()
    if daemon:
        assert isinstance(raised[0], SystemExit)
    else:
        assert "the process is ending" in str(raised[0])


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
