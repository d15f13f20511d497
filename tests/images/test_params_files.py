"""Argument checks, whole-or-nothing files, and the estimator conventions."""

from __future__ import annotations

import copy
import errno
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import clquant
from clquant import params, runtime
from clquant.estimator import Estimator
from clquant.images import files


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: params.integer("n", 0, 1, 9), "n is 0; allowed: an integer from 1 to 9"),
        (lambda: params.integer("n", 10, 1, 9), "n is 10"),
        (lambda: params.integer("n", -1, 0), "n is -1; allowed: an integer of at least 0"),
        (lambda: params.integer("n", 2.0, 1, 9), r"n is 2\.0"),
        (lambda: params.integer("n", True, 0, 9), "n is True"),
        (lambda: params.integer("n", "3", 0, 9), "n is '3'"),
        (lambda: params.integer("n", None, 0, 9), "n is None"),
        (lambda: params.real("x", float("nan"), 0), "x is nan; allowed: a number of at least 0"),
        (lambda: params.real("x", float("inf"), 0), "x is inf"),
        (lambda: params.real("x", 1.5, 0, 1), r"x is 1\.5; allowed: a number from 0 to 1"),
        (lambda: params.real("x", "a", 0, 1), "x is 'a'"),
        (lambda: params.real("x", False, 0, 1), "x is False"),
        (lambda: params.choice("mode", "c", ["a", "b"]), "mode is 'c'; allowed: 'a', 'b'"),
        (lambda: params.choice("mode", np.zeros(3), ["a", None]), r"mode is array of shape \(3,\)"),
        (lambda: params.boolean("flag", 1), "flag is 1; allowed: True or False"),
        (lambda: params.seed("0"), "random_state is '0'; allowed: an integer from 0"),
        (lambda: params.seed(2**64), "random_state is 18446744073709551616"),
        (lambda: params.callback("progress", 3), "progress is 3; allowed: a callable or None"),
    ],
)
def test_wrong_values_are_named(check: object, message: str) -> None:
    with pytest.raises(runtime.ClquantError, match=message):
        check()  # type: ignore[operator]


def test_right_values_pass() -> None:
    assert params.integer("n", np.uint8(3), 0, 9) == 3
    assert params.real("x", np.float32(0.5), 0, 1) == 0.5
    assert params.real("x", 1, 0, 1) == 1.0
    assert params.choice("mode", None, ["a", None]) is None
    assert params.boolean("flag", np.True_) is True
    assert params.callback("progress", print) is print


def test_long_values_are_cut() -> None:
    assert len(params.shown("x" * 500)) == 80


def test_a_file_appears_whole(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.bin"
    with files.atomic_write(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_a_failed_job_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.bin"
    files.write_bytes(path, b"old")
    with pytest.raises(ZeroDivisionError), files.atomic_write(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_permissions_are_kept(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.bin"
    files.write_bytes(path, b"1")
    os.chmod(path, 0o640)
    files.write_bytes(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_is_never_more_readable_than_the_old_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.bin"
    files.write_bytes(path, b"secret")
    os.chmod(path, 0o600)
    with files.atomic_write(path) as file:
        assert os.fstat(file.fileno()).st_mode & 0o077 == 0
        file.write(b"2")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
def test_owner_and_group_are_kept(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.bin"
    files.write_bytes(path, b"1")
    os.chown(path, 1234, 4321)
    files.write_bytes(path, b"2")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)
    assert path.read_bytes() == b"2"


def test_a_group_that_cannot_be_kept_gets_no_rights(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.bin"
    files.write_bytes(path, b"1")
    os.chmod(path, 0o664)
    before = os.stat(path)
    other = os.stat_result((before.st_mode, 0, 0, 1, before.st_uid + 1, before.st_gid + 1, 1, 0, 0, 0))
    monkeypatch.setattr(files, "_replaced", lambda _: other)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    files.write_bytes(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_read_only_file_stays(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    os.chmod(path, 0o444)
    with pytest.raises(runtime.FileError, match=r"out.bin': it is read-only"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without names")
def test_a_killed_process_leaves_nothing(tmp_path: pathlib.Path) -> None:
    program = """
import os, signal, sys
from clquant.images import files
with files.atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
"""
    for name in ("SIGHUP", "SIGKILL"):
        ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "out.bin"), name], check=False)
        assert ended.returncode == -getattr(signal, name)
        assert os.listdir(tmp_path) == []


def test_file_systems_without_unnamed_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_OWN_HANDLES", str(tmp_path / "none"))
    path = tmp_path / "out.bin"
    for data in (b"1", b"2"):
        with files.atomic_write(path) as file:
            file.write(data)
            assert len([name for name in os.listdir(tmp_path) if name.endswith(".part")]) == 1
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["out.bin"]


def test_a_full_disk_is_one_clear_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(runtime.FileError, match="No space left on device"):
        files.write_bytes(tmp_path / "out.bin", b"x")
    assert os.listdir(tmp_path) == []


def test_unwritable_places_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(runtime.FileError, match="it is a folder"):
        files.write_bytes(tmp_path, b"x")
    with pytest.raises(runtime.FileError, match="No such file or directory"):
        files.write_bytes(tmp_path / "none" / "out.bin", b"x")
    with pytest.raises(runtime.InvalidType, match="path is 3"):
        files.write_bytes(3, b"x")  # type: ignore[arg-type]


def test_reading_is_bounded(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "in.bin"
    path.write_bytes(b"12345")
    assert files.read_bytes(path, limit=5) == b"12345"
    with pytest.raises(runtime.FileError, match="longer than 4 bytes"):
        files.read_bytes(path, limit=4)
    with pytest.raises(runtime.FileError, match="No such file"):
        files.read_bytes(tmp_path / "none")


class Example(Estimator):
    def __init__(self, size: int = 3, *, name: str = "a", weights: object = None) -> None:
        self.size = size
        self.name = name
        self.weights = weights


def test_parameters_are_stored_and_changed() -> None:
    weights = np.arange(3)
    example = Example(7, weights=weights)
    assert example.get_params() == {"size": 7, "name": "a", "weights": weights}
    assert example.set_params(name="b") is example
    assert repr(Example(7, name="b")) == "Example(size=7, name='b')"
    assert repr(Example()) == "Example()"


def test_unknown_parameters_change_nothing() -> None:
    example = Example()
    with pytest.raises(
        runtime.InvalidArgument, match="'sise' is no parameter of Example; allowed: name, size, weights"
    ):
        example.set_params(size=5, sise=4)
    assert example.size == 3


def test_asking_before_fit_says_so() -> None:
    with pytest.raises(runtime.NotFittedError, match="has no palette_ yet; call fit first"):
        Example()._check_fitted("palette_")


def test_a_pipe_stays_and_is_written_to(tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    files.write_bytes(path, b"abc")
    reader.join(600)
    assert read == [b"abc"]
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_copies_share_the_queue_and_pickles_leave_it_out(queue: runtime.CommandQueue) -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    learner = clquant.KMeansPalette(4, fixed_colors=[[0, 0, 0]], queue=queue).fit(image)
    for copied in (copy.copy(learner), copy.deepcopy(learner), learner.__sklearn_clone__()):
        assert copied.queue is queue
        assert copied.n_colors == 4
        assert np.array_equal(copied.fit(image).predict(image), learner.predict(image))
    assert copy.deepcopy(learner).fixed_colors is not learner.fixed_colors
    assert not hasattr(learner.__sklearn_clone__(), "palette_")
    loaded = pickle.loads(pickle.dumps(learner))
    assert loaded.queue is None
    assert loaded.palette_ == learner.palette_


def test_copied_palettes_do_not_change() -> None:
    learner = clquant.KMeansPalette(2).fit(np.array([[3, 9]], np.uint8))
    for made in (copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        copied = made(learner.palette_)
        assert copied == learner.palette_
        assert not copied.colors.flags.writeable
        assert not made(learner).palette_.colors.flags.writeable


def test_pickled_pictures_are_on_the_host(queue: runtime.CommandQueue) -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    session = runtime.open_session(queue)
    on_device = session.new_array(image.shape, np.uint8)
    on_device.set(image)
    result = clquant.KMeansPalette(4).fit(image).quantize(on_device)
    for copied in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert isinstance(copied.indices, np.ndarray)
        assert copied == result
