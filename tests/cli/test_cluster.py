"""The command with ``--cluster``: files and messages are those without it."""

from __future__ import annotations

import filecmp
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image
import pytest

import clquant
from clquant import cli
from clquant.dask import LocalOpenCLCluster

pytestmark = pytest.mark.filterwarnings("ignore")  # of asyncio, when clients go


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with LocalOpenCLCluster([0, 0], silence_logs=50) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for i, name in enumerate(("a.png", "b.png", "sub/c.png")):
        values = np.random.default_rng(i).integers(0, 9, (24 + i, 33, 3), np.uint8) * np.uint8(28)
        PIL.Image.fromarray(values).save(tmp_path / "in" / name)
    return tmp_path


def same(folder: pathlib.Path, one: str, other: str) -> bool:
    names = [sorted(str(p.relative_to(folder / top)) for p in (folder / top).rglob("*.*")) for top in (one, other)]
    assert names[0] == names[1] != []
    return filecmp.cmpfiles(folder / one, folder / other, names[0], shallow=False)[0] == names[0]


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        ("palette", "in", "-k", "5", "--dither", "bayer"),
        ("palette", "in", "-k", "6", "--shared"),
        ("halftone", "in", "--gray", "--block", "8"),
        ("vq", "encode", "in", "--gray", "-n", "8", "--refine", "2"),
    ],
)
def test_results_are_those_of_one_process(
    folder: pathlib.Path, address: str, command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command, "-o", "one", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert cli.main([*command, "-o", "other", "--cluster", address, "--json"]) == 0
    spread = json.loads(capsys.readouterr().out)
    assert same(folder, "one", "other")
    for one, other in zip(alone["results"], spread["results"], strict=True):
        assert one | {"seconds": 0, "output": ""} == other | {"seconds": 0, "output": ""}
        assert other["output"] == one["output"].replace("one/", "other/")


@pytest.mark.full
def test_codebooks_are_trained_and_pictures_decoded_by_workers(folder: pathlib.Path, address: str) -> None:
    learn = ("vq", "train", "in", "--gray", "-n", "8", "--refine", "2", "-q", "-o")
    assert cli.main([*learn, "one.clvq"]) == 0
    assert cli.main([*learn, "other.clvq", "--cluster", address]) == 0
    assert (folder / "one.clvq").read_bytes() == (folder / "other.clvq").read_bytes()
    coded = ("vq", "encode", "in", "--gray", "--codebook", "one.clvq", "-q", "-o", "coded")
    assert cli.main([*coded, "--cluster", address]) == 0
    for target, more in (("one", ()), ("other", ("--cluster", address))):
        assert cli.main(["vq", "decode", "coded", "--codebook", "one.clvq", "-q", "-o", target, *more]) == 0
    assert same(folder, "one", "other")


@pytest.mark.full
def test_large_files_are_decoded_by_bands(
    folder: pathlib.Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["vq", "encode", "in", "--gray", "-n", "8", "--refine", "2", "-q", "-o", "coded"]) == 0
    monkeypatch.setattr("clquant.cli.commands.vq.MOST_PIXELS_AT_ONCE", 8)
    monkeypatch.setattr("clquant.dask.codec.PIXELS_AT_ONCE", 1)
    capsys.readouterr()
    for target, more in (("one", ()), ("other", ("--cluster", address))):
        assert cli.main(["vq", "decode", "coded", "-o", target, *more]) == 0
    assert same(folder, "one", "other")
    one, other = (lines.replace("other/", "one/") for lines in _halves(capsys.readouterr().err))
    assert sorted(one.splitlines()) == sorted(other.splitlines())
    (folder / "coded" / "a.clvq").write_bytes((folder / "coded" / "a.clvq").read_bytes()[:-3])
    assert cli.main(["vq", "decode", "coded/a.clvq", "-o", "x.png", "--cluster", address]) == 2
    assert capsys.readouterr().err.count("ends too early") == 1
    assert not (folder / "x.png").exists()


def _halves(text: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    return "".join(lines[: len(lines) // 2]), "".join(lines[len(lines) // 2 :])


@pytest.mark.full
def test_what_is_read_in_parts_is_spread(folder: pathlib.Path, address: str) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    values = np.random.default_rng(5).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    zarr.create_array(folder / "big.zarr", shape=values.shape, chunks=(32, 32, 3), dtype="u1")[:] = values
    for target, more in (("one.zarr", ()), ("other.zarr", ("--cluster", address))):
        assert cli.main(["palette", "big.zarr", "-k", "7", "-q", "-o", target, *more]) == 0
    one, other = (zarr.open(name, mode="r") for name in ("one.zarr", "other.zarr"))
    assert np.array_equal(one[:], other[:])
    assert one.attrs["palette"] == other.attrs["palette"]


@pytest.mark.full
def test_halftones_and_codebooks_of_what_is_read_in_parts(
    folder: pathlib.Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    values = np.random.default_rng(5).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    zarr.create_array(folder / "big.zarr", shape=values.shape, chunks=(32, 32, 3), dtype="u1")[:] = values
    PIL.Image.fromarray(values).save(folder / "big.png")
    gray = np.asarray(PIL.Image.fromarray(values).convert("L"))
    halftoner = clquant.PinwheelHalftoner(8)
    for more, whole in ((("--gray",), halftoner.transform(gray)), ((), halftoner.transform(values))):
        for target, where in (("one.zarr", ()), ("other.zarr", ("--cluster", address))):
            assert cli.main(["halftone", "big.zarr", "--block", "8", *more, "-q", "-o", target, *where]) == 0
            assert np.array_equal(zarr.open(target, mode="r")[:], whole)
    assert cli.main(["halftone", "big.zarr", "in/a.png", "--block", "8", "-o", "x", "--cluster", address]) == 0
    assert np.array_equal(zarr.open("x/big-halftone.zarr", mode="r")[:], whole)
    assert (folder / "x" / "a-halftone.png").exists()
    assert cli.main(["halftone", "big.zarr", "--refine", "1", "-q", "-o", "x.zarr", "--cluster", address]) == 2
    learn = ("--gray", "-n", "8", "--refine", "2", "-q", "-o")
    assert cli.main(["vq", "train", "big.zarr", "in", *learn, "other.clvq", "--cluster", address]) == 0
    assert cli.main(["vq", "train", "big.png", "in", *learn, "one.clvq"]) == 0
    assert (folder / "one.clvq").read_bytes() == (folder / "other.clvq").read_bytes()
    near = ("-n", "8", "--refine", "2", "--side-match", "3", "--tolerance", "60")
    capsys.readouterr()
    for name, more in (("big.zarr", ("--cluster", address)), ("big.png", ())):
        assert cli.main(["vq", "encode", name, *near, "-o", f"{name}.clvq", *more]) == 0
    one, other = re.findall(r"PSNR \S+", capsys.readouterr().err)
    assert one == other
    assert (folder / "big.zarr.clvq").read_bytes() == (folder / "big.png.clvq").read_bytes()


@pytest.mark.full
def test_a_bad_file_does_not_end_the_rest(
    folder: pathlib.Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(15):  # so that a worker's task has several
        (folder / "in" / f"{number}.png").write_bytes(
            (folder / "in" / "a.png").read_bytes()[: 60 if number == 8 else None]
        )
    told = []
    for place, more in (("one", ("--jobs", "1")), ("other", ("--cluster", address))):
        assert cli.main(["palette", "in", "--psnr", "17", "-k", "9", "-o", place, "--json", *more]) == 1
        out, err = capsys.readouterr()
        told.append((re.sub('"seconds": .*', "", out).replace(f"{place}/", ""), err))
    assert told[0] == told[1]
    assert "1 of 18 inputs failed: 'in/8.png'" in told[1][1]
    assert same(folder, "one", "other")
    assert cli.main(["palette", "in", "-k", "5", "-o", "other", "--cluster", address]) == 1
    assert "sub/c.png -> other/sub/c-5.png: 33x26" in capsys.readouterr().err
    assert cli.main(["palette", "in", "-k", "0", "-o", "x", "--cluster", address]) == 2
    assert capsys.readouterr().err == "clquant: -k is 0; allowed: an integer from 1 to 65536\n"


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("palette", "in", "-o", "x", "--cluster", "nowhere"), "--cluster is 'nowhere'"),
        (("palette", "in", "-o", "x", "--cluster", "local", "--device", "0"), "--device and --cluster"),
        (("palette", "in/a.png", "--show", "-o", "x.png", "--cluster", "local"), "--show and --cluster"),
        (
            ("palette", "in", "--shared", "--method", "neuquant", "-o", "x", "--cluster", "local"),
            "--method is neuquant",
        ),
        (("halftone", "in/a.png", "-o", "-", "--cluster", "local"), "--cluster is given with a pipe"),
        (("palette", "in", "--animate", "90", "-o", "x.gif", "--cluster", "local"), "--animate and --cluster"),
    ],
)
def test_what_does_not_go_with_a_cluster_is_refused(
    folder: pathlib.Path, arguments: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(list(arguments)) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "x").exists()
