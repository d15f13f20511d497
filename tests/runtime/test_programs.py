"""Building kernel files: constants, the disk cache, build errors, launches, memory."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import numpy as np
import pyopencl as cl
import pytest

import clquant
from clquant import runtime
from clquant.runtime.memory import scope as memory
from clquant.runtime.program import pocl, programs
from clquant.runtime.program.programs import ProgramCache

SOURCE = """
__kernel void add(__global uint *data, const uint amount, const uint n) {
    const uint i = get_global_id(0);
    if (i < n) data[i] += amount + EXTRA;
}
"""


@pytest.fixture
def kernels(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A kernel folder of the test's own, in a path with a space, and an empty program cache."""
    folder = tmp_path / "kernel files"
    folder.mkdir()
    (folder / "add.cl").write_text(SOURCE)
    (folder / pocl.SHORT_HEADER).parent.mkdir()
    shutil.copy(programs.kernel_folder() / pocl.SHORT_HEADER, folder / pocl.SHORT_HEADER)
    monkeypatch.setattr(programs, "kernel_folder", lambda: folder)
    monkeypatch.setattr("clquant.runtime.session.PROGRAMS", ProgramCache())
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(programs, "NOT_CACHED", ())
    return folder


def add(session: runtime.Session, extra: int) -> int:
    kernel = session.program("add.cl", EXTRA=extra).kernel("add")
    with session.scope() as scope:
        data = scope.zeros(40)
        session.launch(kernel, 10, session.work_group_size(kernel, 4), data, np.uint32(5), np.uint32(10))
        values = session.download(data, 10, np.uint32)
    assert (values == values[0]).all()
    return int(values[0])


def test_constants_are_compiled_in(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    session = runtime.open_session(queue)
    assert [add(session, extra) for extra in (0, 7, 0)] == [5, 12, 5]


def test_includes_are_put_in_place(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    (kernels / "amount.h").write_text("#define EXTRA 3\n")
    (kernels / "add.cl").write_text('#include "amount.h"\n' + SOURCE)
    session = runtime.open_session(queue)
    kernel = session.program("add.cl").kernel("add")
    with session.scope() as scope:
        data = scope.zeros(4)
        session.launch(kernel, 1, None, data, np.uint32(0), np.uint32(1))
        assert session.download(data, 1, np.uint32)[0] == 3


def test_a_build_error_shows_the_log(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    (kernels / "bad.cl").write_text("__kernel void bad(__global int *x) { x[0] = no_such_name; }")
    with pytest.raises(runtime.BuildError, match=r"(?s)bad\.cl does not build.*no_such_name"):
        runtime.open_session(queue).program("bad.cl")


def test_missing_file_and_kernel_are_named(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    session = runtime.open_session(queue)
    with pytest.raises(runtime.DeviceError, match=r"none\.cl"):
        session.program("none.cl")
    with pytest.raises(runtime.DeviceError, match="subtract"):
        session.program("add.cl", EXTRA=0).kernel("subtract")


def cached_files() -> list[pathlib.Path]:
    return sorted(pathlib.Path(os.environ["CLQUANT_CACHE_DIR"]).glob("*"))


def test_programs_come_back_from_the_disk(
    queue: runtime.CommandQueue, kernels: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = runtime.open_session(queue)
    assert add(session, 1) == 6
    assert len(cached_files()) == 1
    monkeypatch.setattr("clquant.runtime.session.PROGRAMS", ProgramCache())
    monkeypatch.setattr(cl.Program, "build", _only_from_binary(cl.Program.build))
    assert add(session, 1) == 6
    kernel = session.program("add.cl", EXTRA=1).kernel("add")
    assert [kernel.place(name) for name in ("n", "data", "amount")] == [2, 0, 1]


def _only_from_binary(build: object) -> object:
    def checked(self: cl.Program, *args: object, **kwargs: object) -> object:
        assert not kwargs["options"], "compiled from source although it was cached"
        return build(self, *args, **kwargs)  # type: ignore[operator]

    return checked


@pytest.mark.parametrize("damage", [b"", b"x" * 10, b"x" * 5000])
def test_a_damaged_cache_is_compiled_again(
    queue: runtime.CommandQueue, kernels: pathlib.Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = runtime.open_session(queue)
    assert add(session, 2) == 7
    cached_files()[0].write_bytes(damage)
    monkeypatch.setattr("clquant.runtime.session.PROGRAMS", ProgramCache())
    assert add(session, 2) == 7


def test_a_copied_entry_is_compiled_again(
    queue: runtime.CommandQueue, kernels: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = runtime.open_session(queue)
    assert add(session, 2) == 7
    first = cached_files()[0]
    assert add(session, 3) == 8
    second = next(path for path in cached_files() if path != first)
    second.write_bytes(first.read_bytes())
    monkeypatch.setattr("clquant.runtime.session.PROGRAMS", ProgramCache())
    assert add(session, 3) == 8


def test_an_unusable_cache_folder_is_no_error(
    queue: runtime.CommandQueue, kernels: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLQUANT_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert add(runtime.open_session(queue), 3) == 8


@pytest.mark.parametrize(
    ("binaries", "kept"), [([b"", b"two"], [b"two"]), ([b"one", b""], []), ([b"two"], [b"two"]), ([], [])]
)
def test_of_several_devices_the_binary_of_the_one_built_for_is_kept(
    tmp_path: pathlib.Path, binaries: list[bytes], kept: list[bytes]
) -> None:
    class Built:
        """A program of a context of two devices, without a kernel."""

        def get_info(self, wanted: int) -> list[object]:
            return {cl.program_info.DEVICES: ["first", "second"], cl.program_info.BINARIES: binaries}[wanted]

        def all_kernels(self) -> list[cl.Kernel]:
            return []

    programs._store_binary(Built(), "second", tmp_path / "add.bin")  # type: ignore[arg-type]
    assert [file.read_bytes()[32:] for file in tmp_path.iterdir()] == [b"{}\n" + binary for binary in kept]


def test_platforms_with_a_cache_of_their_own_use_that(
    device: cl.Device, queue: runtime.CommandQueue, kernels: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "NOT_CACHED", (device.platform.name,))
    assert add(runtime.open_session(queue), 4) == 9
    assert cached_files() == []


def test_an_empty_variable_turns_the_cache_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_CACHE_DIR", "")
    assert programs.cache_folder() is None


@pytest.mark.full
def test_two_processes_fill_one_cache(tmp_path: pathlib.Path) -> None:
    script = textwrap.dedent("""
        import numpy as np
        from clquant import runtime
        session = runtime.open_session()
        print(runtime.philox4x32([0, 0, 0, 0], [0, 0])[0], session.program("philox_check.cl").kernel("fill").name)
    """)
    (tmp_path / "kernels" / "common").mkdir(parents=True)
    shutil.copy(programs.kernel_folder() / pocl.SHORT_HEADER, tmp_path / "kernels" / pocl.SHORT_HEADER)
    (tmp_path / "kernels" / "philox_check.cl").write_text("__kernel void fill(__global int *x) { x[0] = 1; }")
    prefix = (
        "import pathlib; from clquant.runtime.program import programs; "
        f"programs.kernel_folder = lambda: pathlib.Path({str(tmp_path / 'kernels')!r}); programs.NOT_CACHED = ()\n"
    )
    environment = {**os.environ, "CLQUANT_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *sys.path])
    command = [sys.executable, "-c", prefix + script]
    pipes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [pipe.communicate(timeout=600)[0].split() for pipe in pipes] == [["1713891541", "fill"]] * 2
    assert not list((tmp_path / "cache").glob("*.part"))


def test_one_kernel_from_many_threads(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    kernel = runtime.open_session(queue).program("add.cl", EXTRA=0).kernel("add")
    wrong: list[int] = []

    def work(amount: int) -> None:
        session = runtime.open_session(queue)
        for _ in range(50):
            with session.scope() as scope:
                data = scope.zeros(256)
                session.launch(kernel, 64, 1, data, np.uint32(amount), np.uint32(64))
                if (session.download(data, 64, np.uint32) != amount).any():
                    wrong.append(amount)

    threads = [threading.Thread(target=work, args=(amount,)) for amount in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_out_of_order_queue_gives_ordered_results(
    device: cl.Device, new_queue: Callable[..., cl.CommandQueue], kernels: pathlib.Path
) -> None:
    if not device.queue_properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        properties = 0
    else:
        properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    session = runtime.open_session(new_queue(properties))
    kernel = session.program("add.cl", EXTRA=1).kernel("add")
    with session.scope() as scope:
        data = scope.zeros(4096)
        for _ in range(100):
            session.launch(kernel, 1024, 1, data, np.uint32(0), np.uint32(1024))
        assert (session.download(data, 1024, np.uint32) == 100).all()


def test_a_group_over_the_limit_is_refused(
    queue: runtime.CommandQueue, kernels: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "work_group=8")
    session = runtime.open_session(queue)
    kernel = session.program("add.cl", EXTRA=0).kernel("add")
    assert session.work_group_size(kernel, 256) == 8
    with session.scope() as scope, pytest.raises(runtime.DeviceError, match="over the limit of 8"):
        session.launch(kernel, 64, 64, scope.empty(256), np.uint32(0), np.uint32(64))


def test_local_memory_bounds_the_group(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    session = runtime.open_session(queue)
    kernel = session.program("add.cl", EXTRA=0).kernel("add")
    per_item = session.limits.local_memory // 3
    assert session.work_group_size(kernel, 256, local_bytes_per_item=per_item) == 2
    assert session.work_group_size(kernel, 256, local_bytes_per_item=1 << 40) == 1


def test_an_allocation_over_the_limit_is_refused(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=1000")
    with runtime.open_session(queue).scope() as scope:
        scope.empty(1000)
        with pytest.raises(runtime.DeviceMemoryError, match="1001 bytes is over the device's limit of 1000"):
            scope.empty(1001)


def test_a_failed_allocation_is_a_memory_error(queue: runtime.CommandQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> cl.Buffer:
        raise cl.MemoryError("create_buffer", cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE)

    runtime.release_memory()
    monkeypatch.setattr(memory.cl, "Buffer", refuse)
    with runtime.open_session(queue).scope() as scope, pytest.raises(MemoryError, match="allocating 256 bytes"):
        scope.empty(256)


def test_a_scope_releases_its_buffers_even_after_an_error(queue: runtime.CommandQueue) -> None:
    kept: list[cl.Buffer] = []
    with pytest.raises(ZeroDivisionError), runtime.open_session(queue).scope() as scope:
        kept.append(scope.empty(16))
        raise ZeroDivisionError
    with pytest.raises(cl.LogicError):
        kept[0].release()


@pytest.mark.small
def test_philox_is_its_twin(queue: runtime.CommandQueue, kernels: pathlib.Path) -> None:
    header = pathlib.Path(__file__).parents[2] / "cl" / "common/philox.h"
    (kernels / "common/philox.h").write_text(header.read_text())
    (kernels / "twin.cl").write_text(
        '#include "common/philox.h"\n__kernel void twin(__global uint4 *out, uint a, uint b) {\n'
        "uint i = get_global_id(0); out[i] = philox4x32((uint4)(i, 7u, ~i, 1u), (uint2)(a, b)); }"
    )
    session = runtime.open_session(queue)
    key = runtime.seed_key(2**63 + 12345)
    counters = np.zeros((33, 4), np.uint32)
    counters[:, 0] = np.arange(33)
    counters[:, 1], counters[:, 2], counters[:, 3] = 7, ~counters[:, 0], 1
    with session.scope() as scope:
        out = scope.empty(33 * 16)
        session.launch(session.program("twin.cl").kernel("twin"), 33, 1, out, key[0], key[1])
        assert np.array_equal(session.download(out, (33, 4), np.uint32), runtime.philox4x32(counters, key))


def test_philox_known_answers() -> None:
    """The published known-answer vectors of Philox4x32-10."""
    assert runtime.philox4x32([0] * 4, [0, 0]).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    full = [0xFFFFFFFF] * 4
    assert runtime.philox4x32(full, full[:2]).tolist() == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_variants_choose_by_predicate_and_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = runtime.open_session().limits
    table = [
        runtime.Variant("never", "x.cl", admits=lambda _: False),
        runtime.Variant("fast", "x.cl"),
        runtime.Variant("portable", "x.cl"),
    ]
    choose = runtime.program.variants.choose
    assert choose(table, limits).name == "fast"
    with runtime.force_variant("portable"):
        assert choose(table, limits).name == "portable"
    monkeypatch.setenv("CLQUANT_VARIANT", "portable")
    assert choose(table, limits).name == "portable"
    with runtime.force_variant("never"), pytest.raises(runtime.InvalidArgument, match="'never'"):
        choose(table, limits)
    with runtime.force_variant("unknown here"):
        assert choose(table, limits).name == "fast"
    monkeypatch.setenv("CLQUANT_VARIANT", "no such form")
    with pytest.raises(runtime.InvalidArgument, match=r"CLQUANT_VARIANT='no such form'; allowed: .*lanes, .*portable"):
        choose(table, limits)
    monkeypatch.setenv("CLQUANT_VARIANT", "")
    assert choose(table, limits).name == "fast"


def test_progress_can_stop_a_job() -> None:
    seen: list[tuple[int, int]] = []
    progress = runtime.Progress(lambda done, total: seen.append((done, total)) or done < 2)
    progress.report(1, 3)
    with pytest.raises(runtime.StoppedError, match="at 2 of 3"):
        progress.report(2, 3)
    assert seen == [(1, 3), (2, 3)]
    runtime.Progress(None).report(1, 1)


def test_profile_counts_kernels(device: cl.Device, kernels: pathlib.Path) -> None:
    session = runtime.open_session(runtime.profiling_queue(device))
    with runtime.profile() as profile:
        add(session, 0)
    assert profile.launches() == 1
    assert "add" in profile.by_name()


@pytest.mark.full
def test_compilers_have_nothing_to_say(tmp_path: pathlib.Path) -> None:
    folders = {name: str(tmp_path / name) for name in ("POCL_CACHE_DIR", "CLQUANT_CACHE_DIR")}
    code = "import clquant, numpy; clquant.QuadtreeBuilder(9.0).leaves(numpy.eye(70, dtype=bool))"
    root = pathlib.Path(clquant.__file__).parents[1]
    environment = {**os.environ, **folders}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    # Drivers made of Clang print "1 warning generated." into the terminal of whoever uses them.
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
