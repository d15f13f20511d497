"""The training program runs, betters what it begins with, and writes tables that the halftoner takes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clquant import PinwheelHalftoner, WeightTables
from clquant.halftone import tables
from training import halftone_train


@pytest.mark.full
def test_training_writes_usable_tables(tmp_path, capsys):
    path = tmp_path / "tables.npz"
    options = ["--block", "4", "--stages", "63:2", "--size", "32", "--start", "20"]
    assert halftone_train.main([*options, "-o", str(path)]) == 0
    assert "spiral_4: seen error" in capsys.readouterr().out
    with np.load(path) as archive:
        told = json.loads(str(archive["provenance"]))["spiral_4"]
        spread = np.zeros((3, 256), np.int16)
        arrays = archive["spiral_4_threshold"], spread, archive["spiral_4_weights"]
        tables = WeightTables(*arrays, int(archive["spiral_4_start"]))
    assert told["arguments"]["stages"] == ["63:2"]
    assert tables.start == 20
    flat = np.full((32, 32), 90, np.uint8)
    assert abs(float(PinwheelHalftoner(4, weights=tables).transform(flat).mean()) - 90) < 20


def test_the_seen_error_of_equal_patches_is_nothing():
    patches = np.stack([halftone_train.patch(tone, 16) for tone in (1, 64, 127)])
    assert np.array_equal(halftone_train.seen_errors(patches, patches), np.zeros(3))


def test_knots_keep_their_entries():
    state = halftone_train.start()
    knots = halftone_train.TONES[::7]
    assert np.array_equal(halftone_train.between_knots(state, knots)[knots], state[knots])


def test_the_shipped_tables_say_how_they_were_made():
    assert set(tables.provenance()) >= {"spiral_16", "spiral_32"}
