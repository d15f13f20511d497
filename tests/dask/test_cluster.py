"""A cluster of one worker per device: results of one process, also when workers die."""

from __future__ import annotations

import os
import pathlib
import signal
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, get_worker

import clquant
from clquant import runtime
from clquant.dask import LocalOpenCLCluster, preload
from clquant.palette.engine import predict


def _device() -> tuple[int, str]:
    return os.getpid(), runtime.describe(runtime.default_device())


def _dies_once(block: Any, mark: str) -> Any:
    path = pathlib.Path(mark)
    if not path.exists():
        path.write_text(get_worker().name)
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.filterwarnings("ignore")  # of asyncio, at the end of processes that were killed
def test_workers_have_devices_and_may_die(tmp_path: pathlib.Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (120, 90, 3), dtype=np.uint8)
    palette = clquant.KMeansPalette(8).fit(picture).palette_
    with LocalOpenCLCluster([0, 0], silence_logs=50) as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        found = client.run(_device)
        assert {name for _, name in found.values()} == {runtime.describe(runtime.list_devices()[0])}
        assert os.getpid() not in {pid for pid, _ in found.values()}
        assert len({pid for pid, _ in found.values()}) == 2
        given = da.from_array(picture, (40, 45, 3)).map_blocks(_dies_once, str(tmp_path / "died"), dtype=np.uint8)
        assert clquant.KMeansPalette(8).fit(given).palette_ == palette
        assert (tmp_path / "died").exists()
        assert np.array_equal(predict(given, palette).compute(), predict(picture, palette))


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


def test_workers_of_a_host_take_its_devices_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Worker:
        name = "tcp-3"

    monkeypatch.delenv("CLQUANT_DEVICE", raising=False)
    preload.dask_setup(Worker())
    assert os.environ["CLQUANT_DEVICE"] == str(3 % len(runtime.list_devices()))
    monkeypatch.setenv("CLQUANT_DEVICE", "cpu")
    preload.dask_setup(Worker())
    assert os.environ["CLQUANT_DEVICE"] == "cpu"
