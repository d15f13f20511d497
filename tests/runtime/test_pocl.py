"""Programs for PoCL: its short header, and what is said where it cannot build."""

from __future__ import annotations

import pathlib

import numpy as np
import pyopencl as cl
import pytest

import clquant
from clquant import runtime
from clquant.palette import engine
from clquant.runtime.program import pocl, programs


def built(source: str) -> int:
    """What the kernel `answer` of a source writes, and how often PoCL's devices built it with their short header."""
    found = set()
    for device in runtime.list_devices():
        if device.platform.name != pocl.PLATFORM:
            continue
        session = runtime.open_session(runtime.default_queue(device))
        kernel = programs._compile(session.context, device, "answer.cl", source).kernel("answer")
        with session.scope() as scope:
            target = scope.zeros(4)
            session.launch(kernel, 1, 1, target)
            found.add(int(session.download(target, 1, np.int32)[0]))
    assert len(found) <= 1
    return found.pop() if found else -1


def test_short_header_says_what_the_long_one_says() -> None:
    conversions = """
        const float4 f = (float4)(-1.75f, 2.5f, 3.99f, -0.5f) * (float)get_global_size(0);
        const int4 i = convert_int4(f);
        const short4 s = convert_short4((int4)(70000, -70000, 5, -5));
        const ulong4 u = convert_ulong4((int4)(-1, 1, 2, 3)) >> 60;
        const uint4 w = convert_uint4((uchar4)(255, 1, 2, 3));
        answer[0] = i.x + 10 * i.y + 100 * i.z + 1000 * i.w + s.x + 3 * s.y + 7 * s.z + (int)u.x + (int)w.x
                    + (int)abs_diff(-3, 5) + (int)popcount(255u) + any(i < 0) + all(i < 9) + (int)upsample(1u, 2u)
                    + clamp(i.xyz, (int3)(0), (int3)(1)).z;
    """
    source = f"__kernel void answer(__global int *answer) {{ {conversions} }}"
    assert "convert_int4" in pocl.conversions()
    # A second text, as PoCL's long header is taken for what the short one lacks: exp here.
    long = source.replace("answer[0] =", "answer[0] = (int)exp(0.0f * get_global_size(0)) - 1 +")
    assert built(source) == built(long)


def test_512_bit_vectors_are_passed_to_no_library() -> None:
    """PoCL 3.0 compiles its library for AVX-512, and kernels without it on processors newer than its LLVM."""
    wide = """
        const float16 f = max(vload16(0, room) + (float)get_global_size(0), min((float16)(2.5f), vload16(0, room)));
        const int16 i = clamp(convert_int16(f), (int16)(-1), (int16)(7));
        vstore16(convert_float16(i), 0, room);
        answer[0] = (int)room[3] + 10 * any(i > 6) + 100 * (int)abs_diff(i, (int16)(9)).s5;
    """
    room = "__private float room[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};"
    assert built(f"__kernel void answer(__global int *answer) {{ {room} {wide} }}") in {314, -1}


def test_a_processor_that_the_compiler_does_not_know_is_told_with_a_way_out(queue: runtime.CommandQueue) -> None:
    with pytest.raises(runtime.BuildError, match=r"(?s)unknown target CPU 'generic'.*older than the processor"):
        programs._compile(queue.context, queue.device, "answer.cl", "#error unknown target CPU 'generic'\n")


def test_a_program_that_needs_more_gets_the_long_header() -> None:
    source = "__kernel void answer(__global int *x) { x[0] = (int)rint(exp2(4.0f * get_global_size(0))); }"
    assert built(source) in {16, -1}


@pytest.mark.full
def test_kernels_for_gpus_need_no_long_header(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """It takes ten times as long to read, and PoCL says on the standard error what the short one lacks."""
    monkeypatch.setenv("CLQUANT_LIMITS", "is_cpu=0,unified_memory=0")
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path))
    with_short, refused = programs._with_short_header, []

    def noted(*args: object) -> cl.Program | None:
        program = with_short(*args)  # type: ignore[arg-type]
        refused.extend([args[-1]] if program is None else [])
        return program

    monkeypatch.setattr(programs, "_with_short_header", noted)
    picture = rng.integers(0, 256, (70, 66, 3), dtype=np.uint8)
    palette = clquant.Palette(rng.integers(0, 256, (9, 3), dtype=np.uint8))
    for device in runtime.list_devices():
        if not pocl.takes_short_header(device):
            continue
        queue = cl.CommandQueue(cl.Context([device]))
        clquant.KMeansPalette(5, max_iter=1, swap_rounds=1, queue=queue).fit(picture)
        clquant.NeuQuantCL(5, refine_steps=1, queue=queue).fit(picture)
        clquant.VQCodec(5, max_iter=1, queue=queue).fit(picture).encode(picture)
        clquant.PinwheelHalftoner(32, queue=queue).transform(picture)
        clquant.QuadtreeBuilder(queue=queue).leaves(picture)
        for dither in (None, "blue-noise", "floyd-steinberg", "pinwheel"):
            engine.predict(picture, palette, dither=dither, queue=queue)
    assert not refused
