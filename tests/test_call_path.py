"""The way from a public call to its first kernel: frames and files on the stack, and calls of the package before it."""

from __future__ import annotations

import pathlib
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import clquant
from clquant import runtime

PACKAGE = str(pathlib.Path(clquant.__file__).parent)
LAUNCHES = {("session.py", "launch"), ("launch.py", "queue")}
# The most frames, files and calls, on a CPU and with all caches warm.
BOUNDS = {
    "KMeansPalette.fit": (7, 5, 150),
    "KMeansPalette.predict": (7, 6, 160),
    "VQCodec.compress": (6, 6, 150),
    "VectorQuantizer.fit": (10, 6, 310),
    "animate": (6, 5, 300),  # of its own thread; this one reads frames
    "PinwheelHalftoner.transform": (7, 5, 160),
}


def first_launch(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Frames of the package on the stack of a call's first launch, the files they are of, and the calls before it."""
    calls, found = 0, list[tuple[int, int, int]]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        name = frame.f_code.co_filename
        if event != "call" or found or not name.startswith(PACKAGE):
            return
        calls += 1
        if (pathlib.PurePath(name).name, frame.f_code.co_name) in LAUNCHES:
            stack, above = list[str](), list[FrameType | None]([frame])
            while (one := above.pop()) is not None:
                stack += [one.f_code.co_filename] * one.f_code.co_filename.startswith(PACKAGE)
                above.append(one.f_back)
            found.append((len(stack), len(set(stack)), calls))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found[0]


@pytest.mark.full
def test_a_call_reaches_its_first_kernel_soon(queue: runtime.CommandQueue) -> None:
    if not runtime.Limits.of(queue.device).is_pocl:
        pytest.skip("needs PoCL: other devices take other forms")
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 256, (400, 600, 3), dtype=np.uint8)
    rows, frames = rng.integers(0, 256, (2000, 5), dtype=np.uint8), [picture[:60, i : i + 80] for i in range(3)]
    engine = clquant.KMeansPalette(16, max_iter=3, queue=queue).fit(picture)
    codec = clquant.VQCodec(16, max_iter=2, refine=0, queue=queue).fit(picture)
    given: dict[str, Callable[[], Any]] = {
        "KMeansPalette.fit": lambda: engine.fit(picture),
        "KMeansPalette.predict": lambda: engine.predict(picture),
        "VQCodec.compress": lambda: codec.compress(picture),
        "VectorQuantizer.fit": lambda: clquant.VectorQuantizer(16, max_iter=2, refine=0, queue=queue).fit(rows),
        "animate": lambda: clquant.animate(frames, 16, queue=queue),
        "PinwheelHalftoner.transform": lambda: clquant.PinwheelHalftoner(8, queue=queue).transform(picture),
    }
    found: dict[str, tuple[int, ...]] = {}
    for name, call in given.items():
        call()
        found[name] = first_launch(call)
    assert found.keys() == BOUNDS.keys()
    assert {name: f for name, f in found.items() if any(a > b for a, b in zip(f, BOUNDS[name], strict=True))} == {}
