"""A cluster of one worker per device: results of one process, also when workers die."""

from __future__ import annotations

import copy
import os
import pathlib
import signal
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, WorkerPlugin, get_worker

import clquant
from clquant import runtime
from clquant.dask import LocalOpenCLCluster, cluster, preload
from clquant.palette.engine import predict
from clquant.runtime.transfer import staging
from clquant.training import shares
from tests.dask import random_kills


def _device() -> tuple[int, str, int]:
    return os.getpid(), runtime.describe(runtime.default_device()), staging.CHUNK_BYTES


def _dies_once(block: Any, mark: str) -> Any:
    path = pathlib.Path(mark)
    if not path.exists():
        path.write_text(get_worker().name)
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # of asyncio, at the end of processes that were killed
def test_workers_have_devices_and_may_die(tmp_path: pathlib.Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (120, 90, 3), dtype=np.uint8)
    palette = clquant.KMeansPalette(8).fit(picture).palette_
    with LocalOpenCLCluster([0, 0], silence_logs=50) as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        found = client.run(_device)
        assert len({pid for pid, *_ in found.values()} - {os.getpid()}) == 2
        device = runtime.describe(runtime.list_devices()[0])
        assert {(name, chunk) for _, name, chunk in found.values()} == {(device, preload.CHUNK_BYTES)}
        given = da.from_array(picture, (40, 45, 3)).map_blocks(_dies_once, str(tmp_path / "died"), dtype=np.uint8)
        assert clquant.KMeansPalette(8).fit(given).palette_ == palette
        assert (tmp_path / "died").exists()
        assert np.array_equal(predict(given, palette).compute(), predict(picture, palette))


class _DiesInTraining(WorkerPlugin):  # type: ignore[misc]
    """One worker dies as it is asked for the fourth time for the sums of its share.

    Parameters
    ----------
    mark : str
        A file that the death leaves.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def setup(self, worker: Any) -> None:
        shares.Share.sums = _dying(shares.Share.sums, pathlib.Path(self._mark), worker)  # type: ignore[method-assign]


def _dying(method: Any, mark: pathlib.Path, worker: Any) -> Any:
    left = [4]

    def dies(*args: Any) -> Any:
        left[0] -= 1
        if not left[0] and not mark.exists():
            mark.write_text(str(worker.name))
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*args)

    return dies


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["codec", "rows"])
def test_workers_may_die_in_training(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, engine: str) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "training.sample=24")
    given = np.random.default_rng(1).integers(0, 256, (90, 120), dtype=np.uint8)
    made: Any = clquant.VQCodec(20, refine=8, max_iter=9)
    if engine == "rows":
        given, made = given.reshape(-1, 8), clquant.VectorQuantizer(20, refine=8, max_iter=9)
    expected: list[Any] = []
    steps: list[Any] = []
    one = copy.copy(made).fit(given, progress=lambda *step: expected.append(step))
    lazy = da.from_array(given, (40, 60) if engine == "codec" else (600, 8))
    with LocalOpenCLCluster([0, 0], silence_logs=50) as cluster, Client(cluster) as client:
        client.register_plugin(_DiesInTraining(str(tmp_path / "died")))
        client.wait_for_workers(2, timeout=120)
        other = copy.copy(made).fit(lazy, progress=lambda *step: steps.append(step))
    assert np.array_equal(one.codebook_, other.codebook_)
    assert one.n_iter_ == other.n_iter_
    assert steps == expected
    assert (tmp_path / "died").exists()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_workers_may_be_killed_at_random() -> None:
    done, kills, wrong = random_kills.run(0.5, 1)
    assert not wrong
    assert kills
    assert set(done) == {"fit", "predict", "halftone", "VQ training"}


def test_wrong_devices_are_named() -> None:
    for devices, kind, words in (
        ([], clquant.InvalidArgument, "devices is empty"),
        ("gpu", clquant.InvalidType, "devices is 'gpu'; allowed: a sequence"),
        (["no such"], clquant.NoDeviceError, "'no such'"),
    ):
        with pytest.raises(kind, match=words):
            LocalOpenCLCluster(devices)
    with pytest.raises(clquant.InvalidArgument, match="threads_per_worker is 0"):
        LocalOpenCLCluster([0], threads_per_worker=0)


def test_a_cluster_takes_real_gpus_first_and_else_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu, simulator = (
        SimpleNamespace(type=kind, name=name) for kind, name in ((2, "cpu"), (4, "gpu"), (4, "oclgrind"))
    )
    monkeypatch.setattr(cluster, "describe", lambda device: device.name)
    for there, best in (([gpu, cpu, simulator], [0]), ([cpu, simulator], [0]), ([simulator, gpu, gpu], [1, 2])):
        monkeypatch.setattr(cluster, "list_devices", lambda there=there: there)
        assert cluster._numbers(None) == best
    monkeypatch.setattr(cluster, "list_devices", lambda: [simulator])
    with pytest.raises(clquant.NoDeviceError, match="no OpenCL device for a worker"):
        cluster._numbers(None)


def test_workers_of_a_host_take_its_devices_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Worker:
        name = "tcp-3"

    monkeypatch.delenv("CLQUANT_DEVICE", raising=False)
    monkeypatch.setattr(staging, "CHUNK_BYTES", 1)
    preload.dask_setup(Worker())
    assert os.environ["CLQUANT_DEVICE"] == str(3 % len(runtime.list_devices()))
    assert staging.CHUNK_BYTES == preload.CHUNK_BYTES
    monkeypatch.setenv("CLQUANT_DEVICE", "cpu")
    preload.dask_setup(Worker())
    assert os.environ["CLQUANT_DEVICE"] == "cpu"
