"""clquant bench: every engine has a row, and wrong numbers one sentence."""

from __future__ import annotations

import json
import pathlib

import pytest

from clquant.cli import main


def test_every_engine_is_timed(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    assert main(["bench", "--side", "64", "--repeat", "1", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert "Device limits" in text
    limits, engines = json.loads(path.read_text())["tables"]
    assert all(row["value"] > 0 for row in limits["rows"])
    assert [row["job"].split(",")[0].split(":")[0] for row in engines["rows"]] == [
        "k-means palette of 16",
        "palette of 16",
        "k-means palette of 256",
        "palette of 256",
        "NeuQuant palette of 256",
        "VQ of 256",
        "VQ of 256",
        "pinwheel halftone",
        "quadtree",
    ]
    assert all(row["ms"] > 0 and row["kernels"] > 0 for row in engines["rows"])


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--side", "1"], "--side is 1"), (["--repeat", "0"], "--repeat is 0")]
)
def test_wrong_numbers(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err
