"""Where the user's cache folder cannot be written, PoCL and PyOpenCL work without it."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys

import pytest

import clquant
from clquant.runtime.program import caches

JOB = """
import os
import numpy as np
import pyopencl as cl
from clquant.runtime.program import caches
caches._can_write = lambda folder: False
import clquant
image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
clquant.KMeansPalette(4).fit(image)
import pyopencl.invoker
assert not hasattr(pyopencl.invoker, "invoker_cache")
assert os.path.isdir(os.environ["POCL_CACHE_DIR"])
print(os.environ["POCL_CACHE_DIR"])
"""


def run(environment: dict[str, str]) -> str:
    root = pathlib.Path(clquant.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", JOB], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.full
def test_jobs_run_and_leave_nothing_behind(tmp_path: pathlib.Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != caches.POCL_VARIABLE}
    used = run({**environment, "TMPDIR": str(tmp_path)})
    assert pathlib.Path(used).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_folder_that_was_named_is_kept(tmp_path: pathlib.Path) -> None:
    assert run({**os.environ, caches.POCL_VARIABLE: str(tmp_path)}) == str(tmp_path)
    assert tmp_path.is_dir()


def full() -> object:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        caches.read_regular(tmp_path / "pipe", 10)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such owners")
def test_files_that_others_may_have_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    path.chmod(0o600)
    assert caches.read_regular(path, 4, own=True) == b"cont"
    path.chmod(0o620)
    assert caches.read_regular(path, 10) == b"content"
    with pytest.raises(OSError, match="others may write"):
        caches.read_regular(path, 10, own=True)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 4321, 4321)
        with pytest.raises(OSError, match="others may write"):
            caches.read_regular(path, 10, own=True)


def test_what_can_be_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    assert caches._can_write(tmp_path)
    assert caches._can_write(tmp_path / "not" / "there")
    assert not caches._can_write(tmp_path / "file" / "below")
    with monkeypatch.context() as patch:
        patch.setattr(caches.tempfile, "TemporaryFile", lambda **_: full())
        assert not caches._can_write(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not caches._can_write(tmp_path / "not" / "there")


PLAIN_JOB = """
import numpy as np
import clquant
image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
try:
    print(clquant.KMeansPalette(4).fit(image).palette_.hex())
except clquant.ClquantError as error:
    print(error)
"""


@pytest.mark.full
def test_damaged_caches_of_others(tmp_path: pathlib.Path) -> None:
    """PyOpenCL's is gone without; PoCL's is named by the error."""

    def said() -> str:
        environment = {k: v for k, v in os.environ.items() if k not in (caches.POCL_VARIABLE, "PYOPENCL_NO_CACHE")}
        done = subprocess.run(
            [sys.executable, "-c", PLAIN_JOB],
            cwd=pathlib.Path(clquant.__file__).parents[1],
            env={**environment, "XDG_CACHE_HOME": str(tmp_path), "CLQUANT_CACHE_DIR": str(tmp_path / "own")},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    expected = said()
    for path in tmp_path.rglob("*.sqlite"):
        path.write_bytes(b"no database" * 500)
    assert said() == expected
    programs = list(tmp_path.rglob("program.bc"))
    for path in programs:
        path.write_bytes(b"")
    assert not programs or f"is damaged: remove '{tmp_path}/pocl', or set POCL_CACHE_DIR" in said()
