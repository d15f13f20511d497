"""Every engine gives the golden bits on every device here, in every form and under hostile limits."""

from __future__ import annotations

import pyopencl as cl
import pytest

from clquant import runtime
from clquant.runtime.program import pocl, programs
from portability.compilers import intel_figures
from portability.hashes import golden
from portability.jobs import JOBS, Job, digest
from portability.matrix import HOSTILE
from portability.programs import GPU_LIKE

# Quick on a simulator in forms that it does not take by itself, which have kernel files of their own.
QUICK = ("kmeans many", "halftone 8", "halftone 16", "serial palette small", "map 7", "blue noise 16")

# The quick suite runs the first and the last: this one's programs serve other tests too.
SMALL = sorted((job for job in JOBS if job.small), key=lambda job: job.name == "map 7")


@pytest.fixture(autouse=True)
def short_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program needs more of PoCL's built-ins than `cl/common/pocl.h` has."""
    attempt = programs._with_short_header

    def checked(context: cl.Context, device: cl.Device, source: str) -> cl.Program | None:
        program = attempt(context, device, source)
        assert program is not None or not pocl.takes_short_header(device), source
        return program

    monkeypatch.setattr(programs, "_with_short_header", checked)


@pytest.mark.full
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_bits_are_golden(queue: runtime.CommandQueue, job: Job) -> None:
    assert digest(job.run(queue)) == golden()[job.name]


@pytest.mark.parametrize("limits", HOSTILE)
@pytest.mark.parametrize("job", SMALL, ids=lambda job: job.name)
def test_hostile_limits_change_no_bit(
    queue: runtime.CommandQueue, job: Job, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    if job.table_bytes > runtime.open_session(queue).limits.max_alloc:
        with pytest.raises(runtime.DeviceMemoryError, match="over the device's limit"):
            job.run(queue)
    else:
        assert digest(job.run(queue)) == golden()[job.name]


@pytest.mark.full
@pytest.mark.small
@pytest.mark.parametrize("limits", ["is_simulator=0", GPU_LIKE], ids=["as a CPU", "as a GPU"])
@pytest.mark.parametrize("job", [job for job in JOBS if job.name in QUICK], ids=lambda job: job.name)
def test_forms_that_a_simulator_is_not_given(
    queue: runtime.CommandQueue, job: Job, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", limits)
    assert digest(job.run(queue)) == golden()[job.name]


def test_the_golden_file_holds_exactly_the_jobs() -> None:
    assert sorted(golden()) == sorted(job.name for job in JOBS)


def test_registers_and_memory_are_read_from_the_intel_disassembly() -> None:
    words = ["0"] * 24
    words[3], words[20] = "10", "80"
    execution = " ".join(f"{word} 0 0 0" for word in words)
    text = (
        "ProgramBinaryHeader:\n\t4 Magic 1\nKernel #0\nKernelBinaryHeader:\n\tKernelName first\n"
        f"Unidentified PatchToken:\n\t4 Token 23\n\t4 Size 104\n\tHex {execution}\n"
        "Unidentified PatchToken:\n\t4 Token 15\n\t4 Size 16\n\tHex 0 0 0 0 a0 1 0 0\n"
        "Kernel #1\nKernelBinaryHeader:\n\tKernelName second\n"
    )
    assert intel_figures(text) == {
        "first": {"SIMD": "16", "GRF": "128", "local bytes": "416"},
        "second": {},
    }
