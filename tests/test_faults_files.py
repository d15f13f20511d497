"""Files appear whole or not at all: full disks, killed processes, many threads."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

import clquant
from clquant import runtime
from clquant.images import files
from portability.inputs import photo


def _writers() -> dict[str, Callable[[pathlib.Path], None]]:
    picture = photo(64, 80)
    palette = clquant.Palette(photo(200, 1, 3, seed=4).reshape(-1, 3))
    indexed = clquant.IndexedImage(picture[..., 0] % 200, palette)
    tree = clquant.QuadtreeBuilder(2.0).build(picture)
    # Compressed before the disk is full: PoCL writes a program's file when it builds it.
    coded = clquant.VQCodec(64, max_iter=1).fit(picture).compress(picture)
    return {
        "palette.gpl": palette.write,
        "indexed.png": indexed.save,
        "indexed.gif": indexed.save,
        "tree.cqt": tree.save,
        "picture.clvq": lambda path: files.write_bytes(path, coded),
    }


@pytest.mark.full
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: pathlib.Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for name, write in _writers().items():
        path = tmp_path / name
        path.write_bytes(b"old")
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
            with pytest.raises(runtime.FileError, match=name):
                write(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == b"old"
        write(path)
        assert len(path.read_bytes()) > 100
    signal.signal(signal.SIGXFSZ, before)
    assert sorted(os.listdir(tmp_path)) == sorted(_writers())


@pytest.mark.full
def test_a_killed_process_leaves_a_whole_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    program = f"""
        from clquant.images import files
        print("writing", flush=True)
        while True:
            for byte in (b"a", b"b"):
                files.write_bytes({str(path)!r}, byte * (1 << 20))
    """
    for pause in (0.0, 0.013, 0.031):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        while not path.exists():
            assert child.poll() is None
            time.sleep(0.001)
        time.sleep(pause)
        child.kill()
        child.wait()
        child.stdout.close()
        content = path.read_bytes()
        assert len(content) == 1 << 20
        assert len(set(content)) == 1


def test_new_files_have_the_permissions_of_the_process_from_any_thread(tmp_path: pathlib.Path) -> None:
    before = os.umask(0o027)
    try:
        names = [tmp_path / str(i) for i in range(40)]
        threads = [threading.Thread(target=files.write_bytes, args=(name, b"x")) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {stat.S_IMODE(name.stat().st_mode) for name in names} == {0o640}
        names[0].chmod(0o604)
        files.write_bytes(names[0], b"y")
        assert stat.S_IMODE(names[0].stat().st_mode) == 0o604
    finally:
        assert os.umask(before) == 0o027
